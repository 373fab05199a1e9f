//! Turning what rules changed in a packet into actions of the datapath that change it likewise.
//!
//! Rules change the flow at once. The datapath is told just before an action for which the packet
//! itself matters: then the fields in which the flow differs from what the packet is by then (the
//! base) become actions, and the base becomes equal to the flow.

use dpif::action::{Action, MaskedField, NshMetadata, PushNsh, SetFields, slow_path};
use dpif::flow::{Attribute, Field, FlowKey, VlanKey};
use netdev::wire::ethernet::{MacAddress, ether_type};
use netdev::wire::{ip_protocol, mpls, nsh, vlan};

use crate::flow::Flow;

/// An encapsulation or decapsulation that rules asked for and the datapath does not know of yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Pending {
    /// None.
    #[default]
    None,
    /// The header that the packet type of the flow says goes in front.
    Encap {
        /// Options of a network service header of metadata type 2, as on the wire.
        nsh_options: Vec<u8>,
    },
    /// The outermost header goes.
    Decap,
}

/// What the datapath can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommitOptions {
    /// Set some bits of a field and leave the others.
    pub(super) masked_set: bool,
}

/// Bits of the type of service that say nothing of the class but tell of congestion.
const ECN_MASK: u128 = 3;

const ETHERNET: u32 = 0;
const NSH: u32 = 1 << 16 | ether_type::NSH as u32;
const MPLS: u32 = 1 << 16 | ether_type::MPLS as u32;
const MPLS_MULTICAST: u32 = 1 << 16 | ether_type::MPLS_MULTICAST as u32;

/// Name space and type of a packet in one number.
fn packet_type(key: &FlowKey) -> u32 {
    u32::from(key.packet_namespace.get()) << 16 | u32::from(key.packet_type.get())
}

fn set_packet_type(base: &mut FlowKey, key: &FlowKey) {
    base.packet_namespace = key.packet_namespace;
    base.packet_type = key.packet_type;
}

/// Appends to `actions` what turns packets that are like `base` into ones like `flow`, and makes
/// `base` so. Tunnels are apart.
///
/// `read` has the bits of the packet that were looked at or written so far: those of a field that
/// are in it are set. Where more has to be set, they are added.
///
/// Returns the reasons for the slow path (see [`slow_path`]) if only that can make the change.
pub(super) fn commit(
    base: &mut Flow,
    flow: &Flow,
    pending: &Pending,
    actions: &mut Vec<Action>,
    read: &mut Flow,
    options: CommitOptions,
) -> Option<u32> {
    let mut commit = Commit {
        base: &mut base.packet,
        flow: &flow.packet,
        read: &mut read.packet,
        actions,
        masked_set: options.masked_set,
    };
    commit.encapsulation(pending);
    commit.ethernet();
    // Fields of the network and transport layer would not be there before that.
    let loses_labels =
        mpls::is_mpls(commit.base.eth_type.get()) && !mpls::is_mpls(commit.flow.eth_type.get());
    if loses_labels {
        commit.mpls(false);
    }
    commit.nsh();
    let mut is_slow = commit.network();
    commit.ports();
    is_slow |= commit.icmp();
    if !loses_labels {
        commit.mpls(false);
    }
    commit.vlans();
    commit.set(Attribute::SkbPriority, &[Field::SkbPriority]);
    commit.set(Attribute::SkbMark, &[Field::SkbMark]);
    is_slow.then_some(slow_path::ACTION)
}

struct Commit<'a> {
    base: &'a mut FlowKey,
    flow: &'a FlowKey,
    read: &'a mut FlowKey,
    actions: &'a mut Vec<Action>,
    masked_set: bool,
}

/// A field of an attribute, the bits that it has there, and those that are to be set.
#[derive(Clone, Copy)]
struct FieldMask {
    field: Field,
    bits: u128,
    mask: u128,
}

impl Commit<'_> {
    /// The fields of an attribute with the bits that were looked at.
    fn masks(&self, fields: &[Field]) -> Vec<FieldMask> {
        let mask = |&field: &Field| {
            let bits = field.bits();
            FieldMask { field, bits, mask: self.read.get(field) & bits }
        };
        fields.iter().map(mask).collect()
    }

    /// Sets an attribute; returns whether it differed.
    fn set(&mut self, attribute: Attribute, fields: &[Field]) -> bool {
        let masks = self.masks(fields);
        self.set_masked(attribute, masks, self.masked_set)
    }

    /// Sets those bits of an attribute's fields that differ, or all of them where only some of
    /// them cannot be set. Returns whether any differed.
    fn set_masked(
        &mut self,
        attribute: Attribute,
        mut masks: Vec<FieldMask>,
        masked_set: bool,
    ) -> bool {
        for mask in &mut masks {
            if self.base.get(mask.field) == self.flow.get(mask.field) {
                mask.mask = 0;
            }
        }
        let differs = |mask: &FieldMask| self.base.get(mask.field) != self.flow.get(mask.field);
        if !masks.iter().any(differs) {
            return false;
        }
        self.push_set(attribute, masks, masked_set);
        true
    }

    fn push_set(&mut self, attribute: Attribute, mut masks: Vec<FieldMask>, masked_set: bool) {
        if !masked_set {
            masks.iter_mut().for_each(|mask| mask.mask = mask.bits);
        }
        for FieldMask { field, mask, .. } in &masks {
            self.base.set(*field, self.flow.get(*field));
            self.read.set(*field, self.read.get(*field) | mask);
        }
        let fields = masks.iter().filter(|mask| mask.mask != 0).map(|mask| MaskedField {
            field: mask.field,
            value: self.flow.get(mask.field) & mask.mask,
            mask: mask.mask,
        });
        let fields = fields.collect();
        self.actions.push(Action::Set(Box::new(SetFields { attribute, fields })));
    }

    fn encapsulation(&mut self, pending: &Pending) {
        let (from, to) = (packet_type(self.base), packet_type(self.flow));
        match pending {
            Pending::Encap { nsh_options } => match to {
                ETHERNET => {
                    self.actions.push(Action::PushEthernet {
                        source: self.flow.eth_src,
                        destination: self.flow.eth_dst,
                    });
                    set_packet_type(self.base, self.flow);
                    self.base.eth_src = self.flow.eth_src;
                    self.base.eth_dst = self.flow.eth_dst;
                }
                NSH => {
                    self.actions.push(push_nsh(self.flow, nsh_options));
                    self.take_headers();
                }
                // Translation lets nothing else through.
                _ => self.mpls(true),
            },
            Pending::None if from == to => {}
            Pending::None | Pending::Decap => match from {
                ETHERNET if self.flow.packet_namespace.get() == 1 => {
                    self.actions.push(Action::PopEthernet);
                    set_packet_type(self.base, self.flow);
                    self.base.eth_src = MacAddress::default();
                    self.base.eth_dst = MacAddress::default();
                }
                // What is behind the header is not known before recirculation.
                NSH => self.actions.push(Action::PopNsh),
                MPLS | MPLS_MULTICAST => self.mpls(false),
                _ => {}
            },
        }
        self.read.packet_namespace.set(u16::MAX);
        self.read.packet_type.set(u16::MAX);
    }

    /// Makes all headers of the base those of the flow, and leaves what is not of the packet.
    fn take_headers(&mut self) {
        let mut key = self.flow.clone();
        key.in_port = self.base.in_port;
        key.recirc_id = self.base.recirc_id;
        key.dp_hash = self.base.dp_hash;
        key.skb_mark = self.base.skb_mark;
        key.skb_priority = self.base.skb_priority;
        key.ct_state = self.base.ct_state;
        key.ct_proto = self.base.ct_proto;
        key.ct_zone = self.base.ct_zone;
        key.ct_mark = self.base.ct_mark;
        key.ct_label = self.base.ct_label;
        key.tunnel = self.base.tunnel;
        *self.base = key;
    }

    fn ethernet(&mut self) {
        if packet_type(self.flow) == ETHERNET && packet_type(self.base) == ETHERNET {
            self.set(Attribute::Ethernet, &[Field::EthSrc, Field::EthDst]);
        }
    }

    /// Pops and pushes labels until the base has those of the flow. The bits that matter are known
    /// since rules did the same.
    fn mpls(&mut self, is_encapsulation: bool) {
        let eth_type = self.flow.eth_type.get();
        let wanted = self.flow.mpls.map(|entry| entry.get());
        let wanted = wanted.get(..self.flow.mpls_labels()).unwrap_or(&[]);
        let mut labels = Labels::of(self.base);
        let mut common = labels.common(wanted);
        while labels.count() > common {
            // The flow's label in the place of the base's outermost.
            let above = wanted.len().checked_sub(labels.count());
            let replacement = above.and_then(|above| wanted.get(above));
            match replacement {
                Some(&entry) if labels.count() - 1 == common && wanted.len() > common => {
                    let fields = vec![MaskedField {
                        field: Field::Mpls0,
                        value: entry.into(),
                        mask: Field::Mpls0.bits(),
                    }];
                    let set = SetFields { attribute: Attribute::Mpls, fields };
                    self.actions.push(Action::Set(Box::new(set)));
                    labels.pop();
                    labels.push(entry);
                    common += 1;
                }
                _ => {
                    // What is behind the label is a label still.
                    let leaves_labels = !mpls::is_mpls(eth_type) && labels.count() > 1;
                    let eth_type = if leaves_labels { ether_type::MPLS } else { eth_type };
                    self.actions.push(Action::PopMpls { eth_type });
                    labels.pop();
                    self.base.eth_type = self.flow.eth_type;
                }
            }
        }
        while let Some(above) = wanted.len().checked_sub(labels.count() + 1)
            && let Some(&entry) = wanted.get(above)
        {
            self.actions.push(match is_encapsulation {
                true => Action::AddMpls { entry, eth_type, layer3: false },
                false => Action::PushMpls { entry, eth_type },
            });
            labels.push(entry);
            self.base.eth_type = self.flow.eth_type;
        }
        labels.write(self.base);
    }

    fn nsh(&mut self) {
        const FIELDS: [Field; 9] = [
            Field::NshFlags,
            Field::NshTtl,
            Field::NshMdType,
            Field::NshNextProtocol,
            Field::NshPath,
            Field::NshC1,
            Field::NshC2,
            Field::NshC3,
            Field::NshC4,
        ];
        if self.flow.eth_type.get() != ether_type::NSH || self.base.nsh == self.flow.nsh {
            return;
        }
        let mut masks = self.masks(&FIELDS);
        let is_exact = masks.iter().all(|mask| mask.mask == mask.bits);
        let masked_set = self.masked_set && !is_exact;
        let is_type1 = self.flow.nsh.md_type == nsh::MD_TYPE1;
        masks.retain(|mask| match mask.field {
            Field::NshMdType | Field::NshNextProtocol => !masked_set,
            Field::NshC1 | Field::NshC2 | Field::NshC3 | Field::NshC4 => is_type1,
            _ => true,
        });
        self.push_set(Attribute::Nsh, masks, masked_set);
        self.base.nsh = self.flow.nsh;
    }

    /// Sets fields of the network layer and neighbour discovery; returns whether that takes the
    /// slow path.
    fn network(&mut self) -> bool {
        if self.flow.ip_proto == 0 {
            return false;
        }
        match self.base.eth_type.get() {
            ether_type::IPV4 => {
                self.internet(
                    Attribute::Ipv4,
                    &[
                        Field::Ipv4Src,
                        Field::Ipv4Dst,
                        Field::IpProto,
                        Field::IpTos,
                        Field::IpTtl,
                        Field::IpFrag,
                    ],
                );
                false
            }
            ether_type::IPV6 => {
                self.internet(
                    Attribute::Ipv6,
                    &[
                        Field::Ipv6Src,
                        Field::Ipv6Dst,
                        Field::Ipv6Label,
                        Field::IpProto,
                        Field::IpTos,
                        Field::IpTtl,
                        Field::IpFrag,
                    ],
                );
                if self.base.ip_proto != ip_protocol::ICMPV6 {
                    return false;
                }
                // The kind of options has to be right before addresses go there.
                let extensions = self.set(Attribute::NdExt, &[Field::IgmpGroup, Field::NdOption]);
                let fields = [Field::NdTarget, Field::ArpSha, Field::ArpTha];
                self.set(Attribute::Nd, &fields) || extensions
            }
            ether_type::ARP => {
                let masks = self.masks(&[
                    Field::Ipv4Src,
                    Field::Ipv4Dst,
                    Field::IpProto,
                    Field::ArpSha,
                    Field::ArpTha,
                ]);
                self.set_masked(Attribute::Arp, masks, true)
            }
            _ => false,
        }
    }

    fn internet(&mut self, attribute: Attribute, fields: &[Field]) {
        let keeps_congestion = self.base.tunnel.has_destination()
            && u128::from(self.base.ip_tos ^ self.flow.ip_tos) & ECN_MASK == 0;
        let mut masks = self.masks(fields);
        for mask in &mut masks {
            match mask.field {
                Field::IpProto | Field::IpFrag => mask.mask = 0,
                Field::IpTos if keeps_congestion => mask.mask &= !ECN_MASK,
                _ => {}
            }
        }
        self.set_masked(attribute, masks, self.masked_set);
    }

    fn ports(&mut self) {
        let attribute = match self.flow.ip_proto {
            ip_protocol::TCP => Attribute::Tcp,
            ip_protocol::UDP => Attribute::Udp,
            ip_protocol::SCTP => Attribute::Sctp,
            _ => return,
        };
        if self.base.is_ip() {
            self.set(attribute, &[Field::TpSrc, Field::TpDst]);
        }
    }

    /// Sets type and code of ICMP; returns whether that takes the slow path.
    fn icmp(&mut self) -> bool {
        let attribute = match (self.flow.eth_type.get(), self.flow.ip_proto) {
            (ether_type::IPV4, ip_protocol::ICMP) => Attribute::Icmp,
            (ether_type::IPV6, ip_protocol::ICMPV6) => Attribute::Icmpv6,
            _ => return false,
        };
        let mut masks = self.masks(&[Field::TpSrc, Field::TpDst]);
        masks.iter_mut().for_each(|mask| mask.bits = 0xff);
        self.set_masked(attribute, masks, false)
    }

    fn vlans(&mut self) {
        let old = self.base.vlans.iter().take(tags(self.base)).rev();
        let new = self.flow.vlans.iter().take(tags(self.flow)).rev();
        let common = old.zip(new).take_while(|(old, new)| old == new).count();
        for at in (0..tags(self.base) - common).rev() {
            self.actions.push(Action::PopVlan);
            if let Some(read) = self.read.vlans.get_mut(at) {
                *read = VlanKey { tci: u16::MAX.into(), tpid: u16::MAX.into() };
            }
        }
        for tag in self.flow.vlans.iter().take(tags(self.flow) - common).rev() {
            self.actions.push(Action::PushVlan { tpid: tag.tpid.get(), tci: tag.tci.get() });
        }
        self.base.vlans = self.flow.vlans;
    }
}

/// Number of VLAN tags.
fn tags(key: &FlowKey) -> usize {
    let is_tag = |tag: &&VlanKey| tag.tci.get() & vlan::CFI != 0;
    key.vlans.iter().take_while(is_tag).count()
}

/// A stack of labels, innermost first.
struct Labels(Vec<u32>);

impl Labels {
    fn of(key: &FlowKey) -> Self {
        let labels = key.mpls.iter().take(key.mpls_labels());
        Self(labels.rev().map(|entry| entry.get()).collect())
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    /// Number of innermost labels that are the same in `wanted`, which has the outermost first.
    fn common(&self, wanted: &[u32]) -> usize {
        self.0.iter().zip(wanted.iter().rev()).take_while(|(own, wanted)| own == wanted).count()
    }

    fn push(&mut self, entry: u32) {
        self.0.push(entry);
    }

    fn pop(&mut self) {
        self.0.pop();
    }

    fn write(&self, key: &mut FlowKey) {
        let labels = self.0.iter().rev().copied().chain(std::iter::repeat(0));
        for (own, entry) in key.mpls.iter_mut().zip(labels) {
            own.set(entry);
        }
    }
}

fn push_nsh(flow: &FlowKey, options: &[u8]) -> Action {
    let header = &flow.nsh;
    let metadata = match header.md_type {
        nsh::MD_TYPE2 => NshMetadata::Type2(options.to_vec()),
        _ => NshMetadata::Type1(header.context.map(|word| word.get())),
    };
    Action::PushNsh(Box::new(PushNsh {
        flags: header.flags,
        ttl: header.ttl,
        next_protocol: header.next_protocol,
        service_path: header.path.get() >> 8,
        service_index: header.path.get() as u8,
        metadata,
    }))
}

#[cfg(test)]
mod tests;
