//! What is counted about received packets of tunnels, beside those that are dropped for it.

use netdev::coverage::Counter;

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident $static:ident $counter:literal,)*) => {
        /// See the [module](self).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Event {
            $($(#[$doc])* $name,)*
        }

        $(static $static: Counter = Counter::new($counter);)*

        /// The counters of all events, in their order.
        pub(crate) static COUNTERS: &[&Counter] = &[$(&$static,)*];
    };
}

events! {
    /// The checksum of an outer IPv4 header was computed, as no device had checked it.
    IpChecked IP_CHECKED "native_tnl_l3csum_checked",
    /// An outer IPv4 header has a wrong checksum.
    IpWrong IP_WRONG "native_tnl_l3csum_err",
    /// The checksum of an outer UDP packet was computed, as no device had checked it.
    UdpChecked UDP_CHECKED "native_tnl_l4csum_checked",
    /// An outer UDP packet has a wrong checksum.
    UdpWrong UDP_WRONG "native_tnl_l4csum_err",
    /// A GRE packet has a wrong checksum.
    GreWrong GRE_WRONG "native_tnl_gre_csum_err",
    /// A header is cut short, or says that it is longer than the packet.
    Truncated TRUNCATED "native_tnl_truncated",
    /// An outer packet is a fragment.
    Fragment FRAGMENT "native_tnl_fragment",
    /// An outer IPv4 header has options.
    IpOptions IP_OPTIONS "native_tnl_ip_options",
    /// A header is not of the protocol of the port.
    WrongProtocol WRONG_PROTOCOL "native_tnl_wrong_protocol",
    /// Bits of a header are set that must not be, or its fields contradict each other.
    BadHeader BAD_HEADER "native_tnl_bad_header",
    /// Geneve options do not add up to their length.
    BadOptions BAD_OPTIONS "native_tnl_bad_options",
    /// What is inside is of no kind that the switch knows.
    BadPayload BAD_PAYLOAD "native_tnl_bad_payload",
}

/// Events that one thread counted since it last published them.
#[derive(Debug, Default)]
pub(crate) struct Events {
    counts: [u64; COUNTERS.len()],
    is_dirty: bool,
}

impl Events {
    pub(crate) fn add(&mut self, event: Event) {
        self.counts[event as usize % COUNTERS.len()] += 1;
        self.is_dirty = true;
    }

    /// How often an event happened since the last [`Self::publish`].
    #[cfg(test)]
    pub(crate) fn count(&self, event: Event) -> u64 {
        self.counts[event as usize]
    }

    /// Adds the counts to the counters that operators see.
    pub(crate) fn publish(&mut self) {
        if !std::mem::take(&mut self.is_dirty) {
            return;
        }
        for (count, counter) in self.counts.iter_mut().zip(COUNTERS) {
            if *count > 0 {
                counter.add(std::mem::take(count));
            }
        }
    }
}
