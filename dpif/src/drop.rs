//! Why packets are dropped. Every reason has a counter that `coverage/show` prints.

use netdev::coverage::Counter;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident $static:ident $counter:literal,)*) => {
        /// Why a packet was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum DropReason {
            $($(#[$doc])* $name,)*
        }

        $(static $static: Counter = Counter::new($counter);)*

        /// The counters of all reasons, in their order.
        pub(crate) static COUNTERS: &[&Counter] = &[$(&$static,)*];
    };
}

reasons! {
    /// A received frame is too short to be one.
    InvalidPacket RX_INVALID_PACKET "datapath_drop_rx_invalid_packet",
    /// Hardware stopped half way, and what it left of the packet cannot be put right.
    HardwareMiss HARDWARE_MISS "datapath_drop_hw_post_process",
    /// No answer to an upcall.
    UpcallError UPCALL_ERROR "datapath_drop_upcall_error",
    /// An action `userspace` failed.
    UserspaceError USERSPACE_ERROR "datapath_drop_userspace_action_error",
    /// Output to a port that the datapath does not have.
    InvalidPort INVALID_PORT "datapath_drop_invalid_port",
    /// Too many recirculations.
    RecirculationError RECIRC_ERROR "datapath_drop_recirc_error",
    /// A meter ran over.
    Meter METER "datapath_drop_meter",
    /// An action `sample` has no room for a copy.
    SampleError SAMPLE_ERROR "datapath_drop_sample_error",
    /// A network service header cannot be taken off.
    NshDecapError NSH_DECAP_ERROR "datapath_drop_nsh_decap_error",
    /// A tunnel's headers cannot be put in front of a packet.
    TunnelPushError TUNNEL_PUSH_ERROR "datapath_drop_tunnel_push_error",
    /// A tunnel's headers are not as they must be.
    TunnelPopError TUNNEL_POP_ERROR "datapath_drop_tunnel_pop_error",
    /// A packet was given to a tunnel port that the datapath does not have.
    InvalidTunnelPort INVALID_TUNNEL_PORT "datapath_drop_invalid_tnl_port",
    /// An action needs the connection tracker, which this datapath does not have.
    UnsupportedAction UNSUPPORTED_ACTION "datapath_drop_unsupported_action",
    /// An action cannot be applied to the packet, such as popping a header that is not there.
    MalformedPacket MALFORMED_PACKET "datapath_drop_malformed_packet",
    /// No frame was free for a copy of the packet.
    NoFrame NO_FRAME "datapath_drop_no_frame",
    /// A transmit queue took no more.
    TransmitFull TRANSMIT_FULL "datapath_drop_tx_full",
    /// Longer than the MTU of the port it was to leave by.
    MtuExceeded MTU_EXCEEDED "datapath_drop_mtu_exceeded",
    /// A header that a port was to finish is malformed.
    TransmitInvalid TRANSMIT_INVALID "datapath_drop_tx_invalid",
    /// The device that was to send is down or gone.
    TransmitError TRANSMIT_ERROR "datapath_drop_tx_error",
    /// The OpenFlow pipeline ended without an output.
    Pipeline PIPELINE "drop_action_of_pipeline",
    /// Translation found no bridge.
    BridgeNotFound BRIDGE_NOT_FOUND "drop_action_bridge_not_found",
    /// Translation recursed too deep.
    RecursionTooDeep RECURSION_TOO_DEEP "drop_action_recursion_too_deep",
    /// Translation resubmitted too often.
    TooManyResubmits TOO_MANY_RESUBMITS "drop_action_too_many_resubmit",
    /// The stack of translation ran over.
    StackTooDeep STACK_TOO_DEEP "drop_action_stack_too_deep",
    /// A recirculation that translation does not know.
    NoRecirculationContext NO_RECIRCULATION_CONTEXT "drop_action_no_recirculation_context",
    /// Two reasons to recirculate at once.
    RecirculationConflict RECIRCULATION_CONFLICT "drop_action_recirculation_conflict",
    /// More MPLS labels than fit.
    TooManyMplsLabels TOO_MANY_MPLS_LABELS "drop_action_too_many_mpls_labels",
    /// Tunnel metadata that cannot be sent.
    InvalidTunnelMetadata INVALID_TUNNEL_METADATA "drop_action_invalid_tunnel_metadata",
    /// A kind of packet that translation does not do.
    UnsupportedPacketType UNSUPPORTED_PACKET_TYPE "drop_action_unsupported_packet_type",
    /// Congestion inside a tunnel that its payload cannot signal.
    Congestion CONGESTION "drop_action_congestion",
    /// The port does not forward (spanning tree, bond).
    ForwardingDisabled FORWARDING_DISABLED "drop_action_forwarding_disabled",
    /// No route to the other end of a tunnel.
    TunnelRoutingFailed TUNNEL_ROUTING_FAILED "drop_action_tunnel_routing_failed",
    /// A tunnel whose port has no Ethernet address.
    TunnelNoEthernet TUNNEL_NO_ETHERNET "drop_action_tunnel_output_no_ethernet",
    /// The neighbour towards the other end of a tunnel is not known yet.
    TunnelNeighbourMiss TUNNEL_NEIGHBOUR_MISS "drop_action_tunnel_neigh_cache_miss",
    /// A tunnel header that cannot be built.
    TunnelHeaderFailed TUNNEL_HEADER_FAILED "drop_action_tunnel_header_build_failed",
}

impl DropReason {
    /// The reason that an action `drop` gives by number: `enum xlate_error` of OVS, in its order.
    pub fn of_action(number: u32) -> Self {
        let known = [
            Self::Pipeline,
            Self::BridgeNotFound,
            Self::RecursionTooDeep,
            Self::TooManyResubmits,
            Self::StackTooDeep,
            Self::NoRecirculationContext,
            Self::RecirculationConflict,
            Self::TooManyMplsLabels,
            Self::InvalidTunnelMetadata,
            Self::UnsupportedPacketType,
            Self::Congestion,
            Self::ForwardingDisabled,
            Self::TunnelRoutingFailed,
            Self::TunnelNoEthernet,
            Self::TunnelNeighbourMiss,
            Self::TunnelHeaderFailed,
        ];
        known.get(number as usize).copied().unwrap_or(Self::Pipeline)
    }
}

/// Number of reasons.
const REASONS: usize = COUNTERS.len();

/// Drops that one thread counted since it last published them.
#[derive(Debug)]
pub(crate) struct Drops {
    counts: [u64; REASONS],
    is_dirty: bool,
}

impl Drops {
    pub(crate) fn new() -> Self {
        Self { counts: [0; REASONS], is_dirty: false }
    }

    /// Packets counted since the last [`Self::publish`].
    #[cfg(test)]
    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Counts `packets` dropped ones.
    pub(crate) fn add(&mut self, reason: DropReason, packets: u64) {
        self.counts[reason as usize % REASONS] += packets;
        self.is_dirty = true;
    }

    /// Adds the counts to the counters that operators see.
    pub(crate) fn publish(&mut self) {
        if !self.is_dirty {
            return;
        }
        for (count, counter) in self.counts.iter_mut().zip(COUNTERS) {
            if *count > 0 {
                counter.add(std::mem::take(count));
            }
        }
        self.is_dirty = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_counter() {
        assert_eq!(DropReason::of_action(15) as usize, REASONS - 1);
        assert_eq!(DropReason::of_action(99), DropReason::Pipeline);
        let before: Vec<u64> = COUNTERS.iter().map(|counter| counter.get()).collect();
        let mut drops = Drops::new();
        drops.add(DropReason::Meter, 2);
        drops.add(DropReason::TransmitError, 1);
        drops.publish();
        drops.publish();
        let after = COUNTERS.iter().zip(before).filter(|(counter, old)| counter.get() != *old);
        let changed: Vec<_> =
            after.map(|(counter, old)| (counter.name(), counter.get() - old)).collect();
        assert_eq!(changed, [("datapath_drop_meter", 2), ("datapath_drop_tx_error", 1)]);
    }
}
