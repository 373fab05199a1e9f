//! Neighbours: the Ethernet addresses of the stations next to bridges, to which packets of tunnels
//! are sent.
//!
//! They are learned from ARP and neighbour discovery. One that is not known is asked for, and an
//! entry without address keeps it from being asked for again too soon.

mod request;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use netdev::ethernet_address::EthernetAddress;
use thiserror::Error;

pub use request::NeighbourRequest;

/// Longest time for which an entry may live.
const MAX_AGING: Duration = Duration::from_secs(3600);
/// Time for which an entry lives unless something else is said.
const AGING: Duration = Duration::from_secs(15 * 60);
/// Time before a neighbour that does not answer is asked for again.
const RETRANSMISSION: Duration = Duration::from_secs(1);
/// Width of the column for IP addresses.
const ADDRESS_WIDTH: usize = 46;

/// Why a time cannot be set. The messages are those of OVS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadTime {
    /// No time, or more than an hour.
    #[error("bad aging value")]
    Aging,
    /// Entries would be gone before their neighbours are asked for again.
    #[error("aging value cannot be less than retrans_time")]
    AgingTooShort,
    /// The same from the other side.
    #[error("retrans_time value cannot be greater than aging")]
    RetransmissionTooLong,
}

/// What is known of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Its address.
    Address(EthernetAddress),
    /// It was asked for a short time ago.
    Asked,
    /// Nothing.
    Nothing,
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The bridge that it is next to.
    pub bridge: String,
    /// Its IP address.
    pub address: IpAddr,
    /// Its Ethernet address, unless it has not answered yet.
    pub ethernet: Option<EthernetAddress>,
    /// Whether its time is over.
    pub is_stale: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    ethernet: Option<EthernetAddress>,
    expires: Duration,
}

/// See the [module](self). Times are those of the switch's clock.
#[derive(Debug)]
pub struct Neighbours {
    entries: BTreeMap<(IpAddr, String), Entry>,
    aging: Duration,
    retransmission: Duration,
}

impl Default for Neighbours {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), aging: AGING, retransmission: RETRANSMISSION }
    }
}

impl Neighbours {
    /// What is known of a neighbour of `bridge`. To be looked up makes an entry live on.
    pub fn lookup(&mut self, bridge: &str, address: IpAddr, now: Duration) -> Known {
        let entry = self.entries.get_mut(&(address, bridge.to_owned()));
        match entry.filter(|entry| entry.expires > now) {
            None => Known::Nothing,
            Some(Entry { ethernet: None, .. }) => Known::Asked,
            Some(Entry { ethernet: Some(ethernet), expires }) => {
                *expires = now + self.aging;
                Known::Address(*ethernet)
            }
        }
    }

    /// Takes note that a neighbour is asked for. Returns whether there is an entry for that now.
    pub fn ask(&mut self, bridge: &str, address: IpAddr, now: Duration) -> bool {
        if self.retransmission.is_zero() {
            return false;
        }
        let entry = Entry { ethernet: None, expires: now + self.retransmission };
        self.entries.insert((address, bridge.to_owned()), entry);
        true
    }

    /// Sets the address of a neighbour. Returns whether that is news.
    pub fn set(
        &mut self,
        bridge: &str,
        address: IpAddr,
        ethernet: EthernetAddress,
        now: Duration,
    ) -> bool {
        let entry = Entry { ethernet: Some(ethernet), expires: now + self.aging };
        let old = self.entries.insert((address, bridge.to_owned()), entry);
        old.is_none_or(|old| old.expires <= now || old.ethernet != Some(ethernet))
    }

    /// Removes entries whose time is over. Returns whether there were any.
    pub fn expire(&mut self, now: Duration) -> bool {
        self.remove(|_, entry| entry.expires <= now)
    }

    /// When the next entry is to go.
    pub fn next_expiry(&self) -> Option<Duration> {
        self.entries.values().map(|entry| entry.expires).min()
    }

    /// Removes all entries. Returns whether there were any.
    pub fn flush(&mut self) -> bool {
        self.remove(|_, _| true)
    }

    /// Removes the entries of a bridge. Returns whether there were any.
    pub fn flush_bridge(&mut self, bridge: &str) -> bool {
        self.remove(|own, _| own == bridge)
    }

    fn remove(&mut self, goes: impl Fn(&str, &Entry) -> bool) -> bool {
        let before = self.entries.len();
        self.entries.retain(|(_, bridge), entry| !goes(bridge, entry));
        self.entries.len() < before
    }

    /// Time for which an entry lives that nobody uses.
    pub fn aging(&self) -> Duration {
        self.aging
    }

    /// Sets it. Entries live no longer than that from now on.
    ///
    /// # Errors
    /// When it is zero, longer than an hour, or shorter than the time between requests.
    pub fn set_aging(&mut self, aging: Duration, now: Duration) -> Result<(), BadTime> {
        if aging.is_zero() || aging > MAX_AGING {
            return Err(BadTime::Aging);
        }
        if aging < self.retransmission {
            return Err(BadTime::AgingTooShort);
        }
        self.aging = aging;
        let limit = now + aging;
        self.entries.values_mut().for_each(|entry| entry.expires = entry.expires.min(limit));
        Ok(())
    }

    /// Time before a neighbour that does not answer is asked for again.
    pub fn retransmission(&self) -> Duration {
        self.retransmission
    }

    /// Sets it. If it is zero, a neighbour is asked for each time that it is needed.
    ///
    /// # Errors
    /// When it is longer than entries live.
    pub fn set_retransmission(&mut self, time: Duration, now: Duration) -> Result<(), BadTime> {
        if time > self.aging {
            return Err(BadTime::RetransmissionTooLong);
        }
        self.retransmission = time;
        let limit = now + time;
        let asked = self.entries.values_mut().filter(|entry| entry.ethernet.is_none());
        asked.for_each(|entry| entry.expires = entry.expires.min(limit));
        Ok(())
    }

    /// The entries, sorted by address.
    pub fn entries(&self, now: Duration) -> impl Iterator<Item = Neighbour> {
        self.entries.iter().map(move |((address, bridge), entry)| Neighbour {
            bridge: bridge.clone(),
            address: *address,
            ethernet: entry.ethernet,
            is_stale: entry.expires <= now,
        })
    }

    /// Text of `tnl/neigh/show`.
    pub fn show(&self, now: Duration) -> String {
        let mut text = format!(
            "{:ADDRESS_WIDTH$}MAC                 Bridge\n{}\n",
            "IP",
            "=".repeat(ADDRESS_WIDTH + 28)
        );
        for Neighbour { bridge, address, ethernet, is_stale } in self.entries(now) {
            let ethernet = ethernet.map(|ethernet| format!("{ethernet}   "));
            let incomplete = if ethernet.is_none() { " INCOMPLETE" } else { "" };
            let stale = if is_stale { " STALE" } else { "" };
            let _ = writeln!(
                text,
                "{:ADDRESS_WIDTH$}{:20}{bridge}{incomplete}{stale}",
                address.to_string(),
                ethernet.unwrap_or_default()
            );
        }
        text
    }
}
