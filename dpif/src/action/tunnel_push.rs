//! The action that puts a tunnel's headers in front of a packet.

use std::fmt::{self, Write};
use std::net::Ipv4Addr;

use netdev::wire::erspan::{self, ErspanHeader, ErspanMetadata};
use netdev::wire::ethernet::{EthernetHeader, MacAddress, ether_type};
use netdev::wire::geneve::{self, GeneveHeader};
use netdev::wire::gre::{self, GreHeader};
use netdev::wire::gtpu::GtpuHeader;
use netdev::wire::ip_protocol;
use netdev::wire::ipv4::Ipv4Header;
use netdev::wire::ipv6::{self, Ipv6Header, SegmentRoutingHeader};
use netdev::wire::udp::UdpHeader;
use netdev::wire::vxlan::VxlanHeader;
use netdev::wire::{checksum, split};
use zerocopy::IntoBytes;
use zerocopy::network_endian::{U16, U32};

use crate::flow::PortNames;
use crate::flow::scan::Scanner;
use crate::flow::text::{Ipv6Text, write_hex, write_port};
use crate::flow::tunnel_text::{read_geneve_options, write_geneve_options};

/// Kinds of tunnels, as numbered in text.
pub mod tunnel_type {
    /// GRE over IPv4.
    pub const GRE: u32 = 3;
    /// VXLAN.
    pub const VXLAN: u32 = 4;
    /// Geneve.
    pub const GENEVE: u32 = 5;
    /// ERSPAN over IPv4.
    pub const ERSPAN: u32 = 107;
    /// ERSPAN over IPv6.
    pub const IP6ERSPAN: u32 = 108;
    /// GRE over IPv6.
    pub const IP6GRE: u32 = 109;
    /// GTP-U.
    pub const GTPU: u32 = 110;
    /// Segment routing over IPv6.
    pub const SRV6: u32 = 112;
}

/// Most segments of a segment routing header.
const MAX_SEGMENTS: usize = 6;

/// Puts a tunnel's headers in front of the packet and sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelPush {
    /// Tunnel port.
    pub tunnel_port: u32,
    /// Port that the encapsulated packet leaves by.
    pub out_port: u32,
    /// Kind of tunnel; see [`tunnel_type`].
    pub tunnel_type: u32,
    /// The headers, from Ethernet on. Lengths and checksums are those of no packet.
    pub header: Vec<u8>,
}

/// Says that a header is cut short.
fn truncated(out: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    write!(out, "{name}(truncated header)")
}

impl TunnelPush {
    pub(super) fn write(
        &self,
        out: &mut fmt::Formatter<'_>,
        names: Option<&PortNames>,
    ) -> fmt::Result {
        out.write_str("tnl_push(tnl_port(")?;
        write_port(out, self.tunnel_port, names)?;
        write!(out, "),header(size={},type={},", self.header.len(), self.tunnel_type)?;
        self.write_ethernet(out)?;
        out.write_str("),out_port(")?;
        write_port(out, self.out_port, names)?;
        out.write_str("))")
    }

    fn write_ethernet(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((header, rest)) = split::<EthernetHeader>(&self.header) else {
            return truncated(out, "eth");
        };
        let EthernetHeader { destination, source, ether_type } = header;
        write!(out, "eth(dst={destination},src={source},dl_type={:#06x}),", ether_type.get())?;
        if ether_type.get() == ether_type::IPV4 {
            let Some((header, rest)) = split::<Ipv4Header>(rest) else {
                return truncated(out, "ipv4");
            };
            let (source, destination) = (header.source.get(), header.destination.get());
            write!(out, "ipv4(src={}", Ipv4Addr::from_bits(source))?;
            write!(out, ",dst={},proto=", Ipv4Addr::from_bits(destination))?;
            write!(out, "{},tos=", header.protocol)?;
            write_hex(out, header.tos.into())?;
            write!(out, ",ttl={},frag={:#x}),", header.ttl, header.fragment.get())?;
            return self.write_tunnel(out, rest);
        }
        let Some((header, rest)) = split::<Ipv6Header>(rest) else {
            return truncated(out, "ipv6");
        };
        let flow = header.flow.get();
        write!(out, "ipv6(src={}", Ipv6Text(header.source.into()))?;
        write!(out, ",dst={}", Ipv6Text(header.destination.into()))?;
        write!(out, ",label={},proto={}", flow & ipv6::LABEL_MASK, header.next_header)?;
        write!(out, ",tclass={:#x},hlimit={}),", flow >> 20 & 0xff, header.hop_limit)?;
        self.write_tunnel(out, rest)
    }

    fn write_tunnel(&self, out: &mut fmt::Formatter<'_>, rest: &[u8]) -> fmt::Result {
        match self.tunnel_type {
            tunnel_type::GRE | tunnel_type::IP6GRE => write_gre(out, rest),
            tunnel_type::ERSPAN | tunnel_type::IP6ERSPAN => write_erspan(out, rest),
            tunnel_type::SRV6 => write_segments(out, rest),
            tunnel_type::VXLAN | tunnel_type::GENEVE | tunnel_type::GTPU => {
                let Some((udp, rest)) = split::<UdpHeader>(rest) else {
                    return truncated(out, "udp");
                };
                let UdpHeader { source, destination, checksum, .. } = udp;
                write!(out, "udp(src={source},dst={destination},csum={:#x}),", checksum.get())?;
                match self.tunnel_type {
                    tunnel_type::VXLAN => write_vxlan(out, rest),
                    tunnel_type::GENEVE => write_geneve(out, rest),
                    _ => write_gtpu(out, rest),
                }
            }
            _ => Ok(()),
        }
    }

    /// Reads what follows `tnl_push(`.
    pub(super) fn read(scanner: &mut Scanner<'_>) -> Option<Self> {
        scanner.need("tnl_port(")?;
        let tunnel_port = scanner.number(32)? as u32;
        scanner.need("),header(size=")?;
        let size = scanner.number(32)?;
        scanner.need(",type=")?;
        let declared_type = scanner.number(32)? as u32;
        scanner.need(",")?;

        let ethernet = read_ethernet(scanner)?;
        let is_ipv4 = ethernet.ether_type.get() == ether_type::IPV4;
        let mut header = ethernet.as_bytes().to_vec();
        if is_ipv4 {
            header.extend(read_ipv4(scanner)?.as_bytes());
        } else {
            header.extend(read_ipv6(scanner)?.as_bytes());
        }
        let tunnel_type = read_tunnel(scanner, &mut header, is_ipv4)?;
        scanner.need("),out_port(")?;
        let out_port = scanner.number(32)? as u32;
        scanner.need("))")?;
        let fits = declared_type == tunnel_type && size == header.len() as u128;
        fits.then_some(Self { tunnel_port, out_port, tunnel_type, header })
    }
}

fn write_vxlan(out: &mut fmt::Formatter<'_>, rest: &[u8]) -> fmt::Result {
    let Some((header, _)) = split::<VxlanHeader>(rest) else { return truncated(out, "vxlan") };
    write!(out, "vxlan(flags={:#x},vni={:#x})", header.flags.get(), header.vni.get() >> 8)
}

fn write_geneve(out: &mut fmt::Formatter<'_>, rest: &[u8]) -> fmt::Result {
    let Some((header, rest)) = split::<GeneveHeader>(rest) else {
        return truncated(out, "geneve");
    };
    let flag = |bit, name| if header.control_critical & bit != 0 { name } else { "" };
    let (control, critical) = (flag(geneve::CONTROL, "oam,"), flag(geneve::CRITICAL, "crit,"));
    write!(out, "geneve({control}{critical}vni={:#x}", header.vni.get() >> 8)?;
    if header.options_length() > 0 {
        let Some(options) = rest.get(..header.options_length()) else {
            return out.write_str(",options(invalid length))");
        };
        out.write_str(",options(")?;
        write_geneve_options(out, options, None, false)?;
        out.write_char(')')?;
    }
    out.write_char(')')
}

fn write_gtpu(out: &mut fmt::Formatter<'_>, rest: &[u8]) -> fmt::Result {
    let Some((header, _)) = split::<GtpuHeader>(rest) else { return truncated(out, "gtpu") };
    write!(out, "gtpu(flags={:#x},msgtype={}", header.flags, header.message_type)?;
    write!(out, ",teid={:#x})", header.teid.get())
}

fn write_gre(out: &mut fmt::Formatter<'_>, rest: &[u8]) -> fmt::Result {
    let Some((header, mut rest)) = split::<GreHeader>(rest) else { return truncated(out, "gre") };
    let flags = header.flags.get();
    write!(out, "gre((flags={flags:#x},proto={:#x})", header.protocol.get())?;
    for (flag, name) in [(gre::CHECKSUM, "csum"), (gre::KEY, "key"), (gre::SEQUENCE, "seq")] {
        if flags & flag == 0 {
            continue;
        }
        let Some((word, behind)) = split::<U32>(rest) else {
            return write!(out, ",{name}=<truncated>)");
        };
        let value = word.get() >> if flag == gre::CHECKSUM { 16 } else { 0 };
        write!(out, ",{name}={value:#x}")?;
        rest = behind;
    }
    out.write_char(')')
}

fn write_erspan(out: &mut fmt::Formatter<'_>, rest: &[u8]) -> fmt::Result {
    let Some((header, rest)) = split::<ErspanHeader>(rest) else {
        return truncated(out, "erspan");
    };
    let session = header.session.get() & erspan::SESSION_MASK;
    match header.version_vlan.get() >> 12 {
        1 => {
            let Some((index, _)) = split::<U32>(rest) else {
                return out.write_str("erspan(ver=1,truncated header)");
            };
            write!(out, "erspan(ver=1,sid={session:#x},idx={:#x})", index.get())
        }
        2 => {
            let Some((metadata, _)) = split::<ErspanMetadata>(rest) else {
                return out.write_str("erspan(ver=2,truncated header)");
            };
            let (dir, hwid) = (metadata.direction(), metadata.hardware_id());
            write!(out, "erspan(ver=2,sid={session:#x},dir={dir},hwid={hwid:#x})")
        }
        version => write!(out, "erspan(ver={version})"),
    }
}

fn write_segments(out: &mut fmt::Formatter<'_>, rest: &[u8]) -> fmt::Result {
    let Some((header, rest)) = split::<SegmentRoutingHeader>(rest) else {
        return truncated(out, "srv6");
    };
    write!(out, "srv6(segments_left={},segs(", header.segments_left)?;
    let count = usize::from(header.last_entry) + 1;
    let (segments, _) = rest.as_chunks::<16>();
    let Some(segments) = segments.get(..count) else { return out.write_str("truncated segs))") };
    for (index, segment) in segments.iter().rev().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(out, "{comma}{}", Ipv6Text((*segment).into()))?;
    }
    out.write_str("))")
}

/// A number behind `name`.
fn named(scanner: &mut Scanner<'_>, name: &str, bits: u32) -> Option<u64> {
    scanner.need(name)?;
    Some(scanner.number(bits)? as u64)
}

/// A hexadecimal number behind `name`.
fn named_hex(scanner: &mut Scanner<'_>, name: &str, bits: u32) -> Option<u64> {
    scanner.need(name)?;
    Some(scanner.hex(bits)? as u64)
}

fn mac(scanner: &mut Scanner<'_>) -> Option<MacAddress> {
    let [_, _, bytes @ ..] = scanner.mac()?.to_be_bytes();
    Some(MacAddress(bytes))
}

fn read_ethernet(scanner: &mut Scanner<'_>) -> Option<EthernetHeader> {
    scanner.need("eth(dst=")?;
    let destination = mac(scanner)?;
    scanner.need(",src=")?;
    let source = mac(scanner)?;
    let ether_type = U16::new(named_hex(scanner, ",dl_type=", 16)? as u16);
    scanner.need("),")?;
    Some(EthernetHeader { destination, source, ether_type })
}

fn read_ipv4(scanner: &mut Scanner<'_>) -> Option<Ipv4Header> {
    let mut header = Ipv4Header { version_length: Ipv4Header::PLAIN, ..Default::default() };
    scanner.need("ipv4(src=")?;
    header.source.set(scanner.ipv4()?);
    scanner.need(",dst=")?;
    header.destination.set(scanner.ipv4()?);
    header.protocol = named(scanner, ",proto=", 8)? as u8;
    header.tos = named(scanner, ",tos=", 8)? as u8;
    header.ttl = named(scanner, ",ttl=", 8)? as u8;
    header.fragment.set(named_hex(scanner, ",frag=", 16)? as u16);
    scanner.need("),")?;
    header.checksum.set(checksum::checksum(header.as_bytes()));
    Some(header)
}

fn read_ipv6(scanner: &mut Scanner<'_>) -> Option<Ipv6Header> {
    let mut header = Ipv6Header::default();
    scanner.need("ipv6(src=")?;
    header.source = scanner.ipv6()?.to_be_bytes();
    scanner.need(",dst=")?;
    header.destination = scanner.ipv6()?.to_be_bytes();
    let label = named(scanner, ",label=", 20)? as u32;
    header.next_header = named(scanner, ",proto=", 8)? as u8;
    let class = named_hex(scanner, ",tclass=", 8)? as u32;
    header.hop_limit = named(scanner, ",hlimit=", 8)? as u8;
    scanner.need("),")?;
    header.flow.set(6 << 28 | class << 20 | label);
    Some(header)
}

/// Reads what follows the IP header, with its closing parenthesis, to the end of `header`.
/// Returns the kind of tunnel.
fn read_tunnel(scanner: &mut Scanner<'_>, header: &mut Vec<u8>, is_ipv4: bool) -> Option<u32> {
    let kinds = |ipv4, ipv6| Some(if is_ipv4 { ipv4 } else { ipv6 });
    if scanner.eat("udp(") {
        let udp = UdpHeader {
            source: U16::new(named(scanner, "src=", 16)? as u16),
            destination: U16::new(named(scanner, ",dst=", 16)? as u16),
            length: U16::ZERO,
            checksum: U16::new(named_hex(scanner, ",csum=", 16)? as u16),
        };
        header.extend(udp.as_bytes());
        scanner.need("),")?;
        return read_udp_tunnel(scanner, header);
    }
    if scanner.eat("gre(") {
        read_gre(scanner, header)?;
        return kinds(tunnel_type::GRE, tunnel_type::IP6GRE);
    }
    if scanner.eat("erspan(") {
        read_erspan(scanner, header)?;
        return kinds(tunnel_type::ERSPAN, tunnel_type::IP6ERSPAN);
    }
    if scanner.eat("srv6(") && !is_ipv4 {
        read_segments(scanner, header)?;
        return Some(tunnel_type::SRV6);
    }
    None
}

fn read_udp_tunnel(scanner: &mut Scanner<'_>, header: &mut Vec<u8>) -> Option<u32> {
    if scanner.eat("vxlan(") {
        let vxlan = VxlanHeader {
            flags: U32::new(named_hex(scanner, "flags=", 32)? as u32),
            vni: U32::new((named_hex(scanner, ",vni=", 24)? as u32) << 8),
        };
        header.extend(vxlan.as_bytes());
        scanner.need(")")?;
        return Some(tunnel_type::VXLAN);
    }
    if scanner.eat("geneve(") {
        let mut geneve = GeneveHeader::default();
        geneve.protocol.set(ether_type::TEB);
        geneve.control_critical |= if scanner.eat("oam,") { geneve::CONTROL } else { 0 };
        geneve.control_critical |= if scanner.eat("crit,") { geneve::CRITICAL } else { 0 };
        geneve.vni.set((named(scanner, "vni=", 24)? as u32) << 8);
        let mut options = vec![];
        if scanner.eat(",options(") {
            (options, _) = read_geneve_options(scanner)?;
        }
        geneve.version_length = (options.len() / 4) as u8;
        header.extend(geneve.as_bytes());
        header.extend(options);
        scanner.need(")")?;
        return Some(tunnel_type::GENEVE);
    }
    if scanner.eat("gtpu(") {
        let gtpu = GtpuHeader {
            flags: named_hex(scanner, "flags=", 8)? as u8,
            message_type: named(scanner, ",msgtype=", 8)? as u8,
            length: U16::ZERO,
            teid: U32::new(named_hex(scanner, ",teid=", 32)? as u32),
        };
        header.extend(gtpu.as_bytes());
        scanner.need(")")?;
        return Some(tunnel_type::GTPU);
    }
    None
}

fn read_gre(scanner: &mut Scanner<'_>, header: &mut Vec<u8>) -> Option<()> {
    let flags = named_hex(scanner, "(flags=", 16)? as u16;
    let protocol = named_hex(scanner, ",proto=", 16)? as u16;
    scanner.need(")")?;
    let gre = GreHeader { flags: U16::new(flags), protocol: U16::new(protocol) };
    header.extend(gre.as_bytes());
    if flags & gre::CHECKSUM != 0 {
        let checksum = named_hex(scanner, ",csum=", 16)? as u32;
        header.extend((checksum << 16).to_be_bytes());
    }
    for (flag, name) in [(gre::KEY, ",key="), (gre::SEQUENCE, ",seq=")] {
        if flags & flag != 0 {
            header.extend((named_hex(scanner, name, 32)? as u32).to_be_bytes());
        }
    }
    scanner.need(")")
}

fn read_erspan(scanner: &mut Scanner<'_>, header: &mut Vec<u8>) -> Option<()> {
    let version = named(scanner, "ver=", 4)? as u16;
    let session = named_hex(scanner, ",sid=", 10)? as u16;
    let (protocol, metadata) = match version {
        1 => {
            let index = named_hex(scanner, ",idx=", 32)? as u32;
            (gre::ERSPAN1, index.to_be_bytes().to_vec())
        }
        2 => {
            let dir = named(scanner, ",dir=", 1)? as u8;
            let hwid = named_hex(scanner, ",hwid=", 6)? as u8;
            let hardware = ErspanMetadata::hardware_of(hwid, dir);
            let metadata = ErspanMetadata { timestamp: U32::ZERO, group: U16::ZERO, hardware };
            (gre::ERSPAN2, metadata.as_bytes().to_vec())
        }
        _ => return None,
    };
    let erspan = ErspanHeader {
        gre: GreHeader { flags: U16::new(gre::SEQUENCE), protocol: U16::new(protocol) },
        sequence: U32::ZERO,
        version_vlan: U16::new(version << 12),
        session: U16::new(session),
    };
    header.extend(erspan.as_bytes());
    header.extend(metadata);
    scanner.need(")")
}

fn read_segments(scanner: &mut Scanner<'_>, header: &mut Vec<u8>) -> Option<()> {
    let left = named(scanner, "segments_left=", 8)? as u8;
    let count = usize::from(left) + 1;
    if count > MAX_SEGMENTS {
        return None;
    }
    scanner.need(",segs(")?;
    let mut segments = vec![];
    while !scanner.eat(")") {
        if !segments.is_empty() {
            scanner.need(",")?;
        }
        segments.push(scanner.ipv6()?.to_be_bytes());
    }
    if segments.len() != count {
        return None;
    }
    // The extension header follows from the text, whatever protocol it says.
    let next_header = size_of::<EthernetHeader>() + std::mem::offset_of!(Ipv6Header, next_header);
    *header.get_mut(next_header)? = ip_protocol::ROUTING;
    let routing = SegmentRoutingHeader {
        routing_type: SegmentRoutingHeader::TYPE,
        length: 2 * count as u8,
        segments_left: left,
        last_entry: left,
        ..Default::default()
    };
    header.extend(routing.as_bytes());
    header.extend(segments.iter().rev().flatten());
    scanner.need(")")
}
