//! Actions that choose by a hash: multipath and bundle.

use super::context::Context;
use super::hash::{hash_fields, hash_pair, note_hash_fields};
use super::output::Output;
use crate::openflow::action::{Bundle, BundleAlgorithm, HashFields, Multipath, MultipathAlgorithm};
use crate::openflow::message::state;
use crate::openflow::port::PortNo;
use crate::openflow::value::Value;
use crate::port::PortNumber;

/// Links beyond which the highest random weight costs too much.
const MAX_WEIGHED_LINKS: u32 = 64;

impl Context<'_> {
    /// Whether a port is fit to carry packets.
    pub(super) fn is_live(&self, port: PortNo) -> bool {
        let port = self.switch.ports.get(&PortNumber(port.0));
        port.is_some_and(|port| port.state & state::LIVE != 0)
    }

    fn hash(&mut self, fields: HashFields, basis: u16) -> u32 {
        hash_fields(&self.flow.packet, fields, basis)
    }

    fn note_hash(&mut self, fields: HashFields) {
        note_hash_fields(&mut self.read.packet, &self.flow.packet, fields);
    }

    /// Does a multipath action.
    pub(super) fn do_multipath(&mut self, multipath: &Multipath) {
        self.note_hash(multipath.fields);
        let hash = self.hash(multipath.fields, multipath.basis);
        let links = u32::from(multipath.max_link) + 1;
        let link = match multipath.algorithm {
            MultipathAlgorithm::ModuloN => hash % links,
            MultipathAlgorithm::HashThreshold if links == 1 => 0,
            MultipathAlgorithm::HashThreshold => hash / (u32::MAX / links + 1),
            MultipathAlgorithm::Hrw if links <= MAX_WEIGHED_LINKS => heaviest(hash, links),
            MultipathAlgorithm::Hrw => rehashed(hash, links, 0),
            MultipathAlgorithm::IterHash => rehashed(hash, links, multipath.arg),
        };
        self.load(&multipath.dst, &Value::from(u128::from(link)));
        self.report_subfield(&multipath.dst);
    }

    /// Does a bundle or bundle_load action.
    pub(super) fn do_bundle(&mut self, bundle: &Bundle, output: Output) {
        let port = self.choose(bundle);
        match &bundle.dst {
            Some(dst) => {
                self.load(dst, &Value::from(u128::from(port.0)));
                self.report_subfield(dst);
            }
            None => self.output(port, 0, output),
        }
    }

    fn choose(&mut self, bundle: &Bundle) -> PortNo {
        let is_enabled = |context: &Self, port: PortNo| match port {
            PortNo::IN_PORT
            | PortNo::TABLE
            | PortNo::NORMAL
            | PortNo::FLOOD
            | PortNo::ALL
            | PortNo::NONE => true,
            PortNo::CONTROLLER => false,
            port => context.is_live(port),
        };
        let members = bundle.members.iter().copied();
        let chosen = match bundle.algorithm {
            BundleAlgorithm::ActiveBackup => {
                let mut members = members;
                members.find(|member| is_enabled(self, *member))
            }
            BundleAlgorithm::Hrw => {
                if bundle.members.len() > 1 {
                    self.note_hash(bundle.fields);
                }
                let hash = self.hash(bundle.fields, bundle.basis);
                let mut best = None;
                for (index, member) in (0..).zip(members) {
                    let weight = hash_pair(index, hash);
                    if is_enabled(self, member) && best.is_none_or(|(other, _)| weight > other) {
                        best = Some((weight, member));
                    }
                }
                best.map(|(_, member)| member)
            }
        };
        chosen.unwrap_or(PortNo::NONE)
    }
}

/// The link with the highest random weight.
fn heaviest(hash: u32, links: u32) -> u32 {
    let (mut best, mut most) = (0, hash_pair(hash, 0));
    for link in 1..links {
        let weight = hash_pair(hash, link);
        if weight > most {
            (best, most) = (link, weight);
        }
    }
    best
}

/// The first link that hashing again and again modulo `modulo` yields; that is at least the number
/// of links and at most twice that, or chosen here.
fn rehashed(hash: u32, links: u32, modulo: u32) -> u32 {
    let modulo = match modulo {
        modulo if modulo < links || modulo / 2 > links => links.next_power_of_two(),
        modulo => modulo,
    };
    let mut hashes = (0..).map(|round| (hash_pair(hash, round) % modulo) & 0xffff);
    hashes.find(|link| *link < links).unwrap_or(0)
}
