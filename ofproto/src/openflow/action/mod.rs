//! OpenFlow actions and instructions.
//!
//! One [`Action`] means the same in every version; the encodings differ. Instructions of OpenFlow
//! 1.1 and later are actions too, in the order in which a switch executes them: meter, the applied
//! actions, clear-actions, write-actions, write-metadata, goto-table.

mod check;
mod connection;
mod decode;
mod encode;
mod header_stack;
mod instruction;
mod learn;
mod raw;
#[cfg(test)]
pub(super) mod tests;

use std::net::{Ipv4Addr, Ipv6Addr};

pub use self::check::{CheckContext, check};
pub use self::decode::DecodeContext;
pub(crate) use self::decode::{Outer, read_actions};
pub(crate) use self::encode::put_actions;
pub(crate) use self::instruction::{
    Instruction, action_types, put_instructions, read_instructions, verify,
};
use super::error::OfError;
use super::field::Field;
use super::flow_match::Match;
use super::port::PortNo;
use super::value::Value;

/// Why a packet goes to a controller (`ofp_packet_in_reason` and Nicira's).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketInReason(pub u8);

impl PacketInReason {
    /// No flow matched.
    pub const NO_MATCH: PacketInReason = PacketInReason(0);
    /// An action said so.
    pub const ACTION: PacketInReason = PacketInReason(1);
    /// The time to live is invalid.
    pub const INVALID_TTL: PacketInReason = PacketInReason(2);
    /// Output in an action set (OpenFlow 1.4).
    pub const ACTION_SET: PacketInReason = PacketInReason(3);
    /// Output in a group bucket (OpenFlow 1.4).
    pub const GROUP: PacketInReason = PacketInReason(4);
    /// Output in a packet-out (OpenFlow 1.4).
    pub const PACKET_OUT: PacketInReason = PacketInReason(5);
    /// Not on the wire: the table-miss flow, distinguished from other actions.
    pub const EXPLICIT_MISS: PacketInReason = PacketInReason(6);
    /// Not on the wire: a table without a table-miss flow.
    pub const IMPLICIT_MISS: PacketInReason = PacketInReason(7);

    /// Number of reasons, those that are not on the wire included.
    pub const COUNT: u8 = 8;

    /// The name, `None` for a number without one.
    pub fn name(self) -> Option<&'static str> {
        const NAMES: [&str; PacketInReason::COUNT as usize] = [
            "no_match",
            "action",
            "invalid_ttl",
            "action_set",
            "group",
            "packet_out",
            "explicit_miss",
            "implicit_miss",
        ];
        NAMES.get(usize::from(self.0)).copied()
    }
}

/// Some consecutive bits of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subfield {
    /// The field.
    pub field: Field,
    /// Bytes of the field here; less than [`Field::bytes`] for a mapped tunnel metadata field.
    pub bytes: u8,
    /// The lowest bit.
    pub offset: u16,
    /// The number of bits.
    pub bits: u16,
}

impl Subfield {
    /// All bits of a field of fixed length.
    pub fn whole(field: Field) -> Subfield {
        Subfield { field, bytes: field.bytes() as u8, offset: 0, bits: field.bits() as u16 }
    }

    /// Bits of the whole field.
    fn width(&self) -> usize {
        match self.field.is_variable() {
            true => usize::from(self.bytes) * 8,
            false => self.field.bits(),
        }
    }

    /// Whether the bits are all bits of the field.
    pub fn is_whole(&self) -> bool {
        self.offset == 0 && usize::from(self.bits) == self.width()
    }

    /// Checks that the bits lie in the field and, given a match, that the field exists there.
    ///
    /// # Errors
    /// `BadActionSetLen` or `BadActionMatchInconsistent`.
    pub fn check_source(&self, flow_match: Option<&Match>) -> Result<(), OfError> {
        if self.bits == 0 || usize::from(self.offset) + usize::from(self.bits) > self.width() {
            return Err(OfError::BadActionSetLen);
        }
        match flow_match {
            Some(flow_match) if !self.field.prerequisite_met(flow_match) => {
                Err(OfError::BadActionMatchInconsistent)
            }
            _ => Ok(()),
        }
    }

    /// As [`Subfield::check_source`], for bits that an action writes.
    ///
    /// # Errors
    /// Also `BadActionSetArgument` for a read-only field.
    pub fn check_destination(&self, flow_match: Option<&Match>) -> Result<(), OfError> {
        self.check_source(flow_match)?;
        if self.field.writable() { Ok(()) } else { Err(OfError::BadActionSetArgument) }
    }
}

/// How a set-field action came and is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetForm {
    /// The standard set-field.
    SetField,
    /// Nicira's `reg_load`: bits without a value for the rest.
    Load,
    /// Nicira's `reg_load2`: value and mask.
    Load2,
}

/// Sets the bits of a field that the mask has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetField {
    /// The field.
    pub field: Field,
    /// The value, as the field's own bytes.
    pub value: Value,
    /// The bits to set; all ones of the field's bytes for the whole field.
    pub mask: Value,
    /// The encoding.
    pub form: SetForm,
    /// Whether the flow is known to have a VLAN tag here; set by [`check`].
    pub flow_has_vlan: bool,
}

impl SetField {
    /// Whether the whole field is set.
    pub fn is_whole(&self) -> bool {
        self.mask.is_ones(self.field.bytes() * 8)
    }
}

/// Copies bits between fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Where the bits come from.
    pub src: Subfield,
    /// Where they go; as many.
    pub dst: Subfield,
    /// Whether it came as the copy-field action of the ONF.
    pub copy_field: bool,
}

/// Sends the packet to controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// Most bytes of the packet to send.
    pub max_len: u16,
    /// Which controllers.
    pub controller_id: u16,
    /// The reason to report.
    pub reason: PacketInReason,
    /// Bytes that the packet-in carries back.
    pub userdata: Vec<u8>,
    /// Whether to stop processing until the controller resumes it.
    pub pause: bool,
    /// The meter that limits these packet-ins.
    pub meter_id: Option<u32>,
    /// Whether it came in the form with properties.
    pub has_properties: bool,
}

/// The packet fields that a multipath or bundle action hashes (`nx_hash_fields`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum HashFields {
    /// Ethernet source.
    EthSrc = 0,
    /// Ethernet to transport addresses, the same in both directions.
    SymmetricL4 = 1,
    /// IP addresses and TCP or SCTP ports, the same in both directions.
    SymmetricL3L4 = 2,
    /// As before, also UDP ports.
    SymmetricL3L4Udp = 3,
    /// IP source.
    NwSrc = 4,
    /// IP destination.
    NwDst = 5,
    /// IP addresses, the same in both directions.
    SymmetricL3 = 6,
}

impl HashFields {
    const ALL: [(HashFields, &str); 7] = [
        (HashFields::EthSrc, "eth_src"),
        (HashFields::SymmetricL4, "symmetric_l4"),
        (HashFields::SymmetricL3L4, "symmetric_l3l4"),
        (HashFields::SymmetricL3L4Udp, "symmetric_l3l4+udp"),
        (HashFields::NwSrc, "nw_src"),
        (HashFields::NwDst, "nw_dst"),
        (HashFields::SymmetricL3, "symmetric_l3"),
    ];

    fn from_wire(number: u16) -> Result<HashFields, OfError> {
        let found = Self::ALL.into_iter().find(|(fields, _)| *fields as u16 == number);
        found.map(|(fields, _)| fields).ok_or(OfError::BadActionArgument)
    }

    /// The name in flow syntax.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(fields, _)| *fields == self).map_or("", |(_, name)| name)
    }

    /// The fields with the given name.
    pub fn from_name(name: &str) -> Option<HashFields> {
        Self::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(f, _)| *f)
    }
}

/// How a bundle action chooses a member (`nx_bd_algorithm`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum BundleAlgorithm {
    /// The first live member.
    ActiveBackup = 0,
    /// Highest random weight.
    Hrw = 1,
}

/// Chooses one of several ports and outputs to it, or stores its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// What to hash.
    pub fields: HashFields,
    /// A basis for the hash.
    pub basis: u16,
    /// How to choose.
    pub algorithm: BundleAlgorithm,
    /// The ports.
    pub members: Vec<PortNo>,
    /// Where to store the port number, instead of output.
    pub dst: Option<Subfield>,
}

/// How a multipath action chooses a link (`nx_mp_algorithm`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum MultipathAlgorithm {
    /// Hash modulo the number of links.
    ModuloN = 0,
    /// Equal ranges of the hash.
    HashThreshold = 1,
    /// Highest random weight.
    Hrw = 2,
    /// Repeated hashing.
    IterHash = 3,
}

impl MultipathAlgorithm {
    const ALL: [(MultipathAlgorithm, &str); 4] = [
        (MultipathAlgorithm::ModuloN, "modulo_n"),
        (MultipathAlgorithm::HashThreshold, "hash_threshold"),
        (MultipathAlgorithm::Hrw, "hrw"),
        (MultipathAlgorithm::IterHash, "iter_hash"),
    ];

    fn from_wire(number: u16) -> Result<MultipathAlgorithm, OfError> {
        let found = Self::ALL.into_iter().find(|(algorithm, _)| *algorithm as u16 == number);
        found.map(|(algorithm, _)| algorithm).ok_or(OfError::BadActionArgument)
    }

    /// The name in flow syntax.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(algorithm, _)| *algorithm == self).map_or("", |(_, name)| name)
    }

    /// The algorithm with the given name.
    pub fn from_name(name: &str) -> Option<MultipathAlgorithm> {
        Self::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(a, _)| *a)
    }
}

/// Chooses a link by a hash and stores its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multipath {
    /// What to hash.
    pub fields: HashFields,
    /// A basis for the hash.
    pub basis: u16,
    /// How to choose.
    pub algorithm: MultipathAlgorithm,
    /// The greatest link number.
    pub max_link: u16,
    /// An argument of the algorithm.
    pub arg: u32,
    /// Where the number goes.
    pub dst: Subfield,
}

/// A property of an encap action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncapProperty {
    /// The metadata type of a network service header.
    NshMdType(u8),
    /// A metadata value of a network service header.
    NshTlv {
        /// Class of the value.
        class: u16,
        /// Type within the class.
        kind: u8,
        /// The value.
        data: Vec<u8>,
    },
}

/// Puts a header in front of the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encap {
    /// The packet type afterwards: namespace and type within it.
    pub packet_type: u32,
    /// The size of the header as the controller gave it.
    pub header_size: u16,
    /// More about the header.
    pub properties: Vec<EncapProperty>,
}

/// Packet types that encap actions can make.
pub(crate) mod packet_type {
    pub(crate) const ETHERNET: u32 = 0;
    pub(crate) const NSH: u32 = 0x1_894f;
    pub(crate) const MPLS: u32 = 0x1_8847;
    pub(crate) const MPLS_MULTICAST: u32 = 0x1_8848;
    /// For decap: find out from the header.
    pub(crate) const USE_NEXT_PROTO: u32 = 0xfffe;
    /// The type of a packet of which nothing is known.
    pub(crate) const UNKNOWN: u32 = 0xffff_ffff;
}

/// Where a learned flow's value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LearnSource {
    /// Bits of the packet.
    Field(Subfield),
    /// A constant.
    Immediate(Value),
}

/// What a learned flow does with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearnDestination {
    /// Matches it.
    Match(Subfield),
    /// Loads it.
    Load(Subfield),
    /// Outputs to the port of that number.
    Output,
}

/// One element of a learned flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnSpec {
    /// Number of bits.
    pub bits: u16,
    /// Where the bits come from.
    pub src: LearnSource,
    /// What happens with them.
    pub dst: LearnDestination,
}

/// Adds or changes a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learn {
    /// Idle timeout of the new flow in seconds.
    pub idle_timeout: u16,
    /// Hard timeout of the new flow in seconds.
    pub hard_timeout: u16,
    /// Idle timeout after a FIN or RST.
    pub fin_idle_timeout: u16,
    /// Hard timeout after a FIN or RST.
    pub fin_hard_timeout: u16,
    /// Priority of the new flow.
    pub priority: u16,
    /// Cookie of the new flow.
    pub cookie: u64,
    /// Flags: [`Learn::SEND_FLOW_REM`] and others.
    pub flags: u16,
    /// Table of the new flow.
    pub table_id: u8,
    /// Most flows that this action may have learned at once, 0 for any number.
    pub limit: u32,
    /// The bit that tells whether the limit allowed the flow.
    pub result_dst: Option<Subfield>,
    /// What the new flow matches and does.
    pub specs: Vec<LearnSpec>,
    /// Whether it came in the form with a limit.
    pub with_limit: bool,
}

impl Learn {
    /// The flow's removal is reported.
    pub const SEND_FLOW_REM: u16 = 1;
    /// Learned flows go when this flow goes.
    pub const DELETE_LEARNED: u16 = 2;
    /// There is a `result_dst`.
    pub const WRITE_RESULT: u16 = 4;
}

/// A number given as a constant or as bits of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number<T> {
    /// The constant.
    Immediate(T),
    /// The bits.
    Field(Subfield),
}

/// Which packets a sample action reports as sampled (`nx_action_sample_direction`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SampleDirection {
    /// Not said.
    Default = 0,
    /// On ingress.
    Ingress = 1,
    /// On egress.
    Egress = 2,
}

/// Reports some packets to flow collectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Of 65,535 packets, how many.
    pub probability: u16,
    /// The collectors.
    pub collector_set_id: u32,
    /// Observation domain.
    pub obs_domain: Number<u32>,
    /// Observation point.
    pub obs_point: Number<u32>,
    /// The port to report, or `NONE`.
    pub sampling_port: PortNo,
    /// The direction to report.
    pub direction: SampleDirection,
    /// The form in which it came, 1 to 4.
    pub form: u8,
}

/// Sends the packet through connection tracking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ct {
    /// Flags: [`Ct::COMMIT`] and [`Ct::FORCE`], and bits of unknown meaning.
    pub flags: u16,
    /// The zone.
    pub zone: Number<u16>,
    /// The table that continues with the tracked packet, [`Ct::NO_RECIRC`] for none.
    pub recirc_table: u8,
    /// The port number of the protocol whose helper to use, 0 for none.
    pub alg: u16,
    /// What to do with the connection: nat, and setting mark and label.
    pub actions: Vec<Action>,
}

impl Ct {
    /// Remember the connection.
    pub const COMMIT: u16 = 1;
    /// Replace a connection of the other direction.
    pub const FORCE: u16 = 2;
    /// No table continues.
    pub const NO_RECIRC: u8 = 255;
}

/// The addresses of a nat action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatAddresses {
    /// IPv4, from and to.
    V4(Ipv4Addr, Option<Ipv4Addr>),
    /// IPv6, from and to.
    V6(Ipv6Addr, Option<Ipv6Addr>),
}

/// Translates addresses of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nat {
    /// Flags: [`Nat::SRC`] and others.
    pub flags: u16,
    /// Addresses to translate to.
    pub addresses: Option<NatAddresses>,
    /// Ports to translate to, 0 for none.
    pub port_min: u16,
    /// The last of them, 0 when there is one or none.
    pub port_max: u16,
}

impl Nat {
    /// Translate the source.
    pub const SRC: u16 = 1;
    /// Translate the destination.
    pub const DST: u16 = 2;
    /// Keep the mapping over restarts.
    pub const PERSISTENT: u16 = 4;
    /// Choose ports by a hash.
    pub const PROTO_HASH: u16 = 8;
    /// Choose ports at random.
    pub const PROTO_RANDOM: u16 = 16;
}

/// An action or instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields repeat the names of the protocol's fields")]
pub enum Action {
    /// Output to a port; `max_len` counts for the controller only.
    Output { port: PortNo, max_len: u16 },
    /// Process by a group.
    Group(u32),
    /// Send to controllers.
    Controller(Box<Controller>),
    /// Output to a port's queue.
    Enqueue { port: PortNo, queue: u32 },
    /// Output to the port whose number is in a field. `long_header`: came in the longer form.
    OutputField { src: Subfield, max_len: u16, long_header: bool },
    /// Output to one of several ports.
    Bundle(Box<Bundle>),
    /// Set a field or some bits of it.
    SetField(Box<SetField>),
    /// Set the VLAN id, in OpenFlow 1.0 adding a tag when there is none.
    SetVlanVid { vid: u16, push_if_needed: bool, flow_has_vlan: bool },
    /// Set the VLAN priority, in OpenFlow 1.0 adding a tag when there is none.
    SetVlanPcp { pcp: u8, push_if_needed: bool, flow_has_vlan: bool },
    /// Remove the outer VLAN tag. `strip`: came as the action of OpenFlow 1.0.
    PopVlan { strip: bool },
    /// Add a VLAN tag of an Ethernet type.
    PushVlan(u16),
    /// Set the Ethernet source.
    SetEthSrc([u8; 6]),
    /// Set the Ethernet destination.
    SetEthDst([u8; 6]),
    /// Set the IPv4 source.
    SetIpv4Src(Ipv4Addr),
    /// Set the IPv4 destination.
    SetIpv4Dst(Ipv4Addr),
    /// Set the upper six bits of the type of service.
    SetIpDscp(u8),
    /// Set the lower two bits of the type of service.
    SetIpEcn(u8),
    /// Set the time to live.
    SetIpTtl(u8),
    /// Set the transport source port; `ip_proto` is what the flow matches, set by [`check`].
    SetTransportSrc { port: u16, ip_proto: u8 },
    /// Set the transport destination port; `ip_proto` is what the flow matches, set by [`check`].
    SetTransportDst { port: u16, ip_proto: u8 },
    /// Copy bits.
    Move(Box<Move>),
    /// Push bits on the stack.
    Push(Subfield),
    /// Pop bits from the stack.
    Pop(Subfield),
    /// Decrement the time to live; when it is too low tell the controllers with these ids, by
    /// default id 0.
    DecTtl(Option<Box<[u16]>>),
    /// Set the MPLS label.
    SetMplsLabel(u32),
    /// Set the MPLS traffic class.
    SetMplsTc(u8),
    /// Set the MPLS time to live.
    SetMplsTtl(u8),
    /// Decrement the MPLS time to live.
    DecMplsTtl,
    /// Add an MPLS label of an Ethernet type.
    PushMpls(u16),
    /// Remove an MPLS label; the packet then has an Ethernet type.
    PopMpls(u16),
    /// Decrement the time to live of a network service header.
    DecNshTtl,
    /// Remove a tunnel option; with the bytes that it has here.
    DeleteField { field: Field, bytes: u8 },
    /// Put a header in front.
    Encap(Box<Encap>),
    /// Remove the front header; the packet type afterwards.
    Decap(u32),
    /// Set the tunnel key. `wide`: came in the 64-bit form.
    SetTunnel { id: u64, wide: bool },
    /// Set the queue for output.
    SetQueue(u32),
    /// Restore the queue.
    PopQueue,
    /// Shorten timeouts when a connection ends.
    FinTimeout { idle: u16, hard: u16 },
    /// Look up again, with an input port, in a table (255 for the current one). `short`: came in
    /// the form without a table.
    Resubmit { in_port: PortNo, table: u8, with_ct: bool, short: bool },
    /// Add or change a flow.
    Learn(Box<Learn>),
    /// Take part in a conjunctive match: clause (from 0) of so many clauses.
    Conjunction { id: u32, clause: u8, n_clauses: u8 },
    /// Choose a link.
    Multipath(Box<Multipath>),
    /// A comment.
    Note(Box<[u8]>),
    /// Stop processing.
    Exit,
    /// Report some packets.
    Sample(Box<Sample>),
    /// Track the connection.
    Ct(Box<Ct>),
    /// Forget what connection tracking found.
    CtClear,
    /// Translate addresses; within [`Action::Ct`] only.
    Nat(Box<Nat>),
    /// Output at most so many bytes.
    OutputTrunc { port: PortNo, max_len: u32 },
    /// Execute on a copy of the packet.
    Clone(Vec<Action>),
    /// Store whether the packet is longer.
    CheckPktLarger { len: u16, dst: Subfield },
    /// For tests of the switch: recirculate.
    DebugRecirc,
    /// For tests of the switch: take the slow path.
    DebugSlow,
    /// Apply a meter.
    Meter(u32),
    /// Empty the action set.
    ClearActions,
    /// Add to the action set.
    WriteActions(Vec<Action>),
    /// Set bits of the metadata.
    WriteMetadata { metadata: u64, mask: u64 },
    /// Continue in a table.
    GotoTable(u8),
    /// Not on the wire: what follows is of a flow of this table with this cookie.
    Unroll { table: u8, cookie: u64 },
}

impl Action {
    /// The actions within this one.
    pub fn nested(&self) -> &[Action] {
        match self {
            Action::Clone(actions) | Action::WriteActions(actions) => actions,
            Action::Ct(ct) => &ct.actions,
            _ => &[],
        }
    }

    /// The field that the action writes, for set-field and move.
    fn written_field(&self) -> Option<Field> {
        match self {
            Action::SetField(set) => Some(set.field),
            Action::Move(copy) => Some(copy.dst.field),
            _ => None,
        }
    }

    /// Whether the action outputs to `port`, directly or within.
    pub fn outputs_to(&self, port: PortNo) -> bool {
        let direct = match self {
            Action::Output { port: to, .. } | Action::Enqueue { port: to, .. } => *to == port,
            Action::Controller(_) => port == PortNo::CONTROLLER,
            _ => false,
        };
        direct || self.nested().iter().any(|action| action.outputs_to(port))
    }

    /// Whether the action reads or writes `field`, directly or within.
    pub fn uses_field(&self, field: Field) -> bool {
        let is_it = |subfield: &Subfield| subfield.field == field;
        let direct = match self {
            Action::SetField(set) => set.field == field,
            Action::Move(copy) => is_it(&copy.src) || is_it(&copy.dst),
            Action::Push(subfield)
            | Action::Pop(subfield)
            | Action::OutputField { src: subfield, .. }
            | Action::CheckPktLarger { dst: subfield, .. } => is_it(subfield),
            Action::DeleteField { field: deleted, .. } => *deleted == field,
            Action::Multipath(multipath) => is_it(&multipath.dst),
            Action::Bundle(bundle) => bundle.dst.as_ref().is_some_and(is_it),
            Action::Ct(ct) => matches!(&ct.zone, Number::Field(src) if is_it(src)),
            Action::Learn(learn) => {
                learn.result_dst.as_ref().is_some_and(is_it)
                    || learn.specs.iter().any(|spec| {
                        matches!(&spec.src, LearnSource::Field(src) if is_it(src))
                            || match &spec.dst {
                                LearnDestination::Match(dst) | LearnDestination::Load(dst) => {
                                    is_it(dst)
                                }
                                LearnDestination::Output => false,
                            }
                    })
            }
            _ => false,
        };
        direct || self.nested().iter().any(|action| action.uses_field(field))
    }

    /// Whether the action sends to `group`, directly or within.
    pub fn uses_group(&self, group: u32) -> bool {
        *self == Action::Group(group) || self.nested().iter().any(|action| action.uses_group(group))
    }

    /// Whether the action uses the meter, directly or within.
    pub fn uses_meter(&self, meter: u32) -> bool {
        *self == Action::Meter(meter)
            || matches!(self, Action::Controller(c) if c.meter_id == Some(meter))
            || self.nested().iter().any(|action| action.uses_meter(meter))
    }
}
