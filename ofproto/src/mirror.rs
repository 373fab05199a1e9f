//! Mirrors: copies of packets for somebody who listens (`Mirror` table of the configuration
//! database).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::warn;

use crate::flow::Flow;
use crate::openflow::slot::Slot;
use crate::openflow::text::{Names, parse_packet_fields};
use crate::openflow::tlv_map::TlvMap;
use crate::port::PortNumber;
use crate::port_settings::VlanSet;

/// Most mirrors of a switch: a packet says in 32 bits which have it.
pub const MAX_MIRRORS: usize = 32;

/// Where a mirror sends its copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorOutput {
    /// Out of a port, which is for nothing else.
    Port(PortNumber),
    /// To all ports of a VLAN, tagged with that.
    Vlan(u16),
}

/// What a mirror copies, and to where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorSettings {
    /// Identifies it among those of the switch.
    pub key: [u8; 16],
    /// Its name.
    pub name: String,
    /// Packets that come in on these ports.
    pub sources: BTreeSet<PortNumber>,
    /// Packets that leave by these ports.
    pub destinations: BTreeSet<PortNumber>,
    /// Of these VLANs; all when `None`.
    pub vlans: Option<VlanSet>,
    /// Of those, packets that have these fields, as `ofproto/trace` takes them.
    pub filter: Option<String>,
    /// Where they go.
    pub output: MirrorOutput,
    /// Most bytes of a packet; 0 and 65535 stand for any number.
    pub snap_length: u16,
}

/// What a mirror counts.
#[derive(Debug, Default)]
pub struct MirrorStatistics {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl MirrorStatistics {
    /// Counts packets that were copied.
    pub fn add(&self, packets: u64, bytes: u64) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Packets and bytes.
    pub fn counts(&self) -> (u64, u64) {
        (self.packets.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// A mirror.
#[derive(Clone, Debug)]
pub struct Mirror {
    /// What it does.
    pub settings: MirrorSettings,
    /// Value and mask of the packets that its filter lets through.
    pub filter: Option<Arc<(Flow, Flow)>>,
    /// What it counted.
    pub statistics: Arc<MirrorStatistics>,
}

/// The mirrors of a switch, each in a place that stays the same as long as it is there.
#[derive(Clone, Debug, Default)]
pub struct Mirrors {
    places: Vec<Option<Mirror>>,
}

impl Mirrors {
    /// Makes these the mirrors. Returns the names of those whose settings are not possible, which
    /// there are not then. `names` are of the ports of the switch.
    pub fn set(&mut self, wanted: Vec<MirrorSettings>, names: &dyn Names) -> Vec<String> {
        for place in &mut self.places {
            let is_wanted = |old: &Mirror| wanted.iter().any(|new| new.key == old.settings.key);
            if !place.as_ref().is_some_and(is_wanted) {
                *place = None;
            }
        }
        let mut impossible = Vec::new();
        for settings in wanted {
            let name = settings.name.clone();
            let place = self.place_of(&settings.key);
            let Some(place) = place else {
                warn!(
                    target: "ofproto_dpif_mirror",
                    "maximum of {MAX_MIRRORS} port mirrors reached, cannot create {name}"
                );
                impossible.push(name);
                continue;
            };
            match parse_filter(settings.filter.as_deref(), names) {
                Ok(filter) => {
                    let old = place.take().map(|old| old.statistics);
                    let statistics = old.unwrap_or_default();
                    *place = Some(Mirror { settings, filter, statistics });
                }
                Err(why) => {
                    warn!(target: "ofproto_dpif_mirror", "filter is invalid{why}");
                    *place = None;
                    impossible.push(name);
                }
            }
        }
        impossible
    }

    /// The place that a mirror has, or the first that is free.
    fn place_of(&mut self, key: &[u8; 16]) -> Option<&mut Option<Mirror>> {
        let has_key =
            |place: &Option<Mirror>| place.as_ref().is_some_and(|old| old.settings.key == *key);
        let own = self.places.iter().position(has_key);
        let free = || self.places.iter().position(Option::is_none);
        let index = own.or_else(free).unwrap_or(self.places.len());
        if index == self.places.len() && index < MAX_MIRRORS {
            self.places.push(None);
        }
        self.places.get_mut(index)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.places.iter().all(Option::is_none)
    }

    /// The mirrors, each with its bit.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Mirror)> {
        let places = self.places.iter().enumerate();
        places.filter_map(|(index, place)| Some((1 << index, place.as_ref()?)))
    }

    /// The bits of those mirrors for which `which` holds.
    fn bits(&self, which: impl Fn(&MirrorSettings) -> bool) -> u32 {
        let chosen = self.iter().filter(|(_, mirror)| which(&mirror.settings));
        chosen.fold(0, |bits, (bit, _)| bits | bit)
    }

    /// The bits of the mirrors of packets that come in on a port.
    pub fn of_source(&self, port: PortNumber) -> u32 {
        self.bits(|settings| settings.sources.contains(&port))
    }

    /// The bits of the mirrors of packets that leave by a port.
    pub fn of_destination(&self, port: PortNumber) -> u32 {
        self.bits(|settings| settings.destinations.contains(&port))
    }

    /// The bits of the mirrors that send their copies to the same place.
    pub fn with_output(&self, output: MirrorOutput) -> u32 {
        self.bits(|settings| settings.output == output)
    }

    /// Whether a port is for the copies of a mirror alone.
    pub fn is_output(&self, port: PortNumber) -> bool {
        self.with_output(MirrorOutput::Port(port)) != 0
    }
}

/// Value and mask of the packets that a filter lets through.
///
/// # Errors
/// What is wrong, as the end of a sentence.
fn parse_filter(
    filter: Option<&str>,
    names: &dyn Names,
) -> Result<Option<Arc<(Flow, Flow)>>, String> {
    let Some(filter) = filter.filter(|filter| !filter.is_empty()) else { return Ok(None) };
    let fields = parse_packet_fields(filter, names).map_err(|error| format!(": {error}"))?;
    if fields.mask(Slot::IN_PORT) != 0 {
        // Ports are chosen otherwise.
        return Err(" due to in_port field.".to_owned());
    }
    Ok(Some(Arc::new(Flow::of_match(&fields, &TlvMap::default()))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openflow::text::NoNames;

    fn settings(key: u8, output: MirrorOutput, filter: &str) -> MirrorSettings {
        MirrorSettings {
            key: [key; 16],
            name: format!("m{key}"),
            sources: BTreeSet::from([PortNumber(1)]),
            destinations: BTreeSet::from([PortNumber(u16::from(key))]),
            vlans: None,
            filter: Some(filter.to_owned()),
            output,
            snap_length: 0,
        }
    }

    #[test]
    fn mirrors_keep_their_places() {
        let mut mirrors = Mirrors::default();
        let to = |number| MirrorOutput::Port(PortNumber(number));
        let wanted = (1..=3).map(|key| settings(key, to(9), "")).collect();
        assert_eq!(mirrors.set(wanted, &NoNames), Vec::<String>::new());
        assert_eq!((mirrors.of_source(PortNumber(1)), mirrors.with_output(to(9))), (7, 7));
        mirrors.iter().for_each(|(bit, mirror)| mirror.statistics.add(bit.into(), 100));
        let wanted = vec![settings(4, to(8), ""), settings(3, to(9), "icmp")];
        assert_eq!(mirrors.set(wanted, &NoNames), Vec::<String>::new());
        let counts: Vec<_> = mirrors
            .iter()
            .map(|(bit, mirror)| (bit, mirror.settings.key[0], mirror.statistics.counts()))
            .collect();
        assert_eq!(counts, [(1, 4, (0, 0)), (4, 3, (4, 100))]);
        assert_eq!(mirrors.of_destination(PortNumber(3)), 4);
        assert!(mirrors.is_output(PortNumber(8)) && !mirrors.is_output(PortNumber(1)));
        let wanted = (0..33).map(|key| settings(key, to(9), "")).collect();
        assert_eq!(mirrors.set(wanted, &NoNames).len(), 1);
        assert_eq!(mirrors.iter().count(), MAX_MIRRORS);
    }

    #[test]
    fn bad_filters_leave_no_mirror() {
        let mut mirrors = Mirrors::default();
        let vlan = MirrorOutput::Vlan(5);
        for bad in ["invalid", "in_port=1"] {
            assert_eq!(mirrors.set(vec![settings(1, vlan, bad)], &NoNames), ["m1"]);
            assert!(mirrors.is_empty());
        }
        assert_eq!(mirrors.set(vec![settings(1, vlan, "tcp,tcp_dst=80")], &NoNames).len(), 0);
        let filter = mirrors.iter().next().and_then(|(_, mirror)| mirror.filter.clone()).unwrap();
        assert_eq!((filter.0.packet.tp_dst.get(), filter.1.packet.tp_src.get()), (80, 0));
    }
}
