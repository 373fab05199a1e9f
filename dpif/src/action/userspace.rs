//! The action that hands packets to userspace.

use std::fmt::{self, Write};

use netdev::wire::vlan;

use crate::flow::PortNames;
use crate::flow::flags::{FlagNames, read_flags, write_flags};
use crate::flow::scan::{Scanner, from_hex};
use crate::flow::text::{write_hex, write_port};

/// Why a packet takes the slow path: bits of [`Userdata::SlowPath`].
pub mod slow_path {
    /// It is a connectivity fault management packet.
    pub const CFM: u32 = 1;
    /// It is a bidirectional forwarding detection packet.
    pub const BFD: u32 = 1 << 1;
    /// It is a link aggregation packet.
    pub const LACP: u32 = 1 << 2;
    /// It is a spanning tree packet.
    pub const STP: u32 = 1 << 3;
    /// It is a link layer discovery packet.
    pub const LLDP: u32 = 1 << 4;
    /// The datapath does not know the actions.
    pub const ACTION: u32 = 1 << 5;
    /// The datapath cannot match closely enough.
    pub const MATCH: u32 = 1 << 6;
}

const SLOW_PATH: FlagNames = &["cfm", "bfd", "lacp", "stp", "lldp", "action", "match"];

/// Most bytes of raw userdata: what fits into a netlink attribute beside the others.
const MAX_RAW: usize = 65_512;

/// Hands a packet to userspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Userspace {
    /// Netlink port to send to; 0 in this datapath.
    pub pid: u32,
    /// What to do with the packet there.
    pub userdata: Userdata,
    /// Whether the flow's actions go along.
    pub include_actions: bool,
    /// Port whose tunnel's headers go along.
    pub tunnel_out_port: Option<u32>,
}

/// What userspace is to do with a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Userdata {
    /// Nothing is said.
    None,
    /// Sample it for sFlow.
    SFlow {
        /// VLAN tag that it leaves with.
        vlan_tci: u16,
        /// Where it goes, as sFlow writes it.
        output: u32,
    },
    /// Translate and execute the actions there; see [`slow_path`] for the reasons.
    SlowPath(u32),
    /// Sample it for IPFIX, by flow.
    FlowSample {
        /// Probability, of 65,535.
        probability: u16,
        /// Collectors.
        collector_set_id: u32,
        /// Observation domain.
        observation_domain: u32,
        /// Observation point.
        observation_point: u32,
        /// Datapath port that it goes to.
        output_port: u32,
        /// Which way.
        direction: SampleDirection,
    },
    /// Sample it for IPFIX, by bridge.
    Ipfix {
        /// Datapath port that it goes to.
        output_port: u32,
    },
    /// Send it to controllers.
    Controller {
        /// OpenFlow reason.
        reason: u16,
        /// Do everything but send.
        dont_send: bool,
        /// Send it so that the controller can resume it.
        continuation: bool,
        /// Where to resume.
        recirc_id: u32,
        /// Cookie of the rule.
        rule_cookie: u64,
        /// Which controllers.
        controller_id: u16,
        /// Bytes to send.
        max_len: u16,
    },
    /// Bytes of somebody else's.
    Raw(Vec<u8>),
}

/// Which way a sampled packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleDirection {
    /// To be found out from the ports.
    Default,
    /// In.
    Ingress,
    /// Out.
    Egress,
}

impl Userspace {
    pub(super) fn write(
        &self,
        out: &mut fmt::Formatter<'_>,
        names: Option<&PortNames>,
    ) -> fmt::Result {
        write!(out, "userspace(pid={}", self.pid)?;
        self.userdata.write(out, names)?;
        if self.include_actions {
            out.write_str(",actions")?;
        }
        if let Some(port) = self.tunnel_out_port {
            out.write_str(",tunnel_out_port=")?;
            write_port(out, port, names)?;
        }
        out.write_char(')')
    }

    /// Reads what follows `userspace(`.
    pub(super) fn read(scanner: &mut Scanner<'_>) -> Option<Self> {
        scanner.need("pid=")?;
        let pid = scanner.number(32)? as u32;
        let userdata = Userdata::read(scanner)?;
        let include_actions = scanner.eat(",actions");
        let tunnel_out_port = match scanner.eat(",tunnel_out_port=") {
            true => Some(scanner.number(32)? as u32),
            false => None,
        };
        scanner.need(")")?;
        Some(Self { pid, userdata, include_actions, tunnel_out_port })
    }
}

impl Userdata {
    fn write(&self, out: &mut fmt::Formatter<'_>, names: Option<&PortNames>) -> fmt::Result {
        match self {
            Self::None => return Ok(()),
            Self::SFlow { vlan_tci, output } => {
                let (vid, pcp) = (vlan_tci & vlan::VID_MASK, vlan_tci >> vlan::PCP_SHIFT);
                write!(out, ",sFlow(vid={vid},pcp={pcp},output={output}")?;
            }
            Self::SlowPath(reasons) => {
                out.write_str(",slow_path(")?;
                write_flags(out, SLOW_PATH, *reasons, ',')?;
            }
            Self::FlowSample {
                probability,
                collector_set_id,
                observation_domain,
                observation_point,
                output_port,
                direction,
            } => {
                write!(out, ",flow_sample(probability={probability}")?;
                write!(out, ",collector_set_id={collector_set_id}")?;
                write!(out, ",obs_domain_id={observation_domain}")?;
                write!(out, ",obs_point_id={observation_point},output_port=")?;
                write_port(out, *output_port, names)?;
                out.write_str(match direction {
                    SampleDirection::Default => "",
                    SampleDirection::Ingress => ",ingress",
                    SampleDirection::Egress => ",egress",
                })?;
            }
            Self::Ipfix { output_port } => {
                out.write_str(",ipfix(output_port=")?;
                write_port(out, *output_port, names)?;
            }
            Self::Controller {
                reason,
                dont_send,
                continuation,
                recirc_id,
                rule_cookie,
                controller_id,
                max_len,
            } => {
                write!(out, ",controller(reason={reason}")?;
                write!(out, ",dont_send={}", u8::from(*dont_send))?;
                write!(out, ",continuation={}", u8::from(*continuation))?;
                write!(out, ",recirc_id={recirc_id},rule_cookie=")?;
                write_hex(out, u128::from(*rule_cookie))?;
                write!(out, ",controller_id={controller_id},max_len={max_len}")?;
            }
            Self::Raw(bytes) => {
                out.write_str(",userdata(")?;
                bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))?;
            }
        }
        out.write_char(')')
    }

    fn read(scanner: &mut Scanner<'_>) -> Option<Self> {
        let number = |scanner: &mut Scanner<'_>, name: &str| {
            scanner.need(name)?;
            Some(scanner.number(32)? as u32)
        };
        let userdata = if scanner.eat(",sFlow(") {
            let vid = number(scanner, "vid=")?;
            let pcp = number(scanner, ",pcp=")?;
            if vid > 0xfff || pcp > 7 {
                return None;
            }
            let tag = vid as u16 | (pcp as u16) << vlan::PCP_SHIFT;
            let vlan_tci = if tag == 0 { 0 } else { tag | vlan::CFI };
            Self::SFlow { vlan_tci, output: number(scanner, ",output=")? }
        } else if scanner.eat(",slow_path(") {
            Self::SlowPath(read_flags(scanner, SLOW_PATH)?.0)
        } else if scanner.eat(",flow_sample(") {
            Self::FlowSample {
                probability: number(scanner, "probability=")?.try_into().ok()?,
                collector_set_id: number(scanner, ",collector_set_id=")?,
                observation_domain: number(scanner, ",obs_domain_id=")?,
                observation_point: number(scanner, ",obs_point_id=")?,
                output_port: number(scanner, ",output_port=")?,
                direction: if scanner.eat(",ingress") {
                    SampleDirection::Ingress
                } else if scanner.eat(",egress") {
                    SampleDirection::Egress
                } else {
                    SampleDirection::Default
                },
            }
        } else if scanner.eat(",ipfix(") {
            Self::Ipfix { output_port: number(scanner, "output_port=")? }
        } else if scanner.eat(",controller(") {
            Self::Controller {
                reason: number(scanner, "reason=")?.try_into().ok()?,
                dont_send: number(scanner, ",dont_send=")? != 0,
                continuation: number(scanner, ",continuation=")? != 0,
                recirc_id: number(scanner, ",recirc_id=")?,
                rule_cookie: {
                    scanner.need(",rule_cookie=")?;
                    scanner.hex(64)? as u64
                },
                controller_id: number(scanner, ",controller_id=")?.try_into().ok()?,
                max_len: number(scanner, ",max_len=")?.try_into().ok()?,
            }
        } else if scanner.eat(",userdata(") {
            let bytes = from_hex(scanner.take_while(|next| next.is_ascii_hexdigit()))?;
            if bytes.len() > MAX_RAW {
                return None;
            }
            Self::Raw(bytes)
        } else {
            return Some(Self::None);
        };
        scanner.need(")")?;
        Some(userdata)
    }
}
