//! Flow keys and masks as text, in the syntax of OVS's datapath flows.

use std::fmt::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use netdev::wire::ethernet::{MIN_TYPE, MacAddress, ether_type};
use netdev::wire::{ip_protocol, mpls, nsh, vlan};

use super::attribute::{Attribute, Entry, Format};
use super::field::{Field, Prerequisite};
use super::flags::{CT_STATE, TCP_FLAGS, TUNNEL_FLAGS, write_flags, write_flags_masked};
use super::key::{FRAG_ANY, FRAG_LATER, FlowKey, MAX_VLANS, NO_PORT, TunnelKey, tunnel_flag};
use super::mask::FlowMask;
use super::ports::PortNames;
use super::tunnel_text::write_tunnel_options;

/// Prints a flow. Without a mask every field that packets with this key have is printed; with one
/// only fields that it matches, and with `verbose` the others too, with empty masks.
#[derive(Debug, Clone, Copy)]
pub struct FlowText<'a> {
    /// What to print.
    pub key: &'a FlowKey,
    /// Which of it matters.
    pub mask: Option<&'a FlowMask>,
    /// Print fields that do not matter, too.
    pub verbose: bool,
    /// Names to print instead of numbers of ports.
    pub names: Option<&'a PortNames>,
    /// Most VLAN tags that extraction takes off a packet.
    pub vlan_limit: usize,
}

impl fmt::Display for FlowText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = Printer {
            out: f,
            source: Source { key: self.key, mask: self.mask.map(FlowMask::bits), set: false },
            verbose: self.verbose || self.mask.is_none(),
            names: self.names,
            first: true,
        };
        printer.flow(self.vlan_limit.min(MAX_VLANS))
    }
}

/// Where the values of fields and their masks come from.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) key: &'a FlowKey,
    pub(crate) mask: Option<&'a FlowKey>,
    /// Whether the fields are to be set, rather than those of a packet.
    pub(crate) set: bool,
}

impl Source<'_> {
    fn value(self, field: Field) -> u128 {
        self.key.get(field)
    }

    /// The mask of a field of which `bits` matter; all of them without a mask.
    fn mask(self, field: Field, bits: u128) -> u128 {
        self.mask.map_or(bits, |mask| mask.get(field) & bits)
    }
}

/// Writes items with commas between them.
pub(crate) struct List<'a, 'f> {
    pub(crate) out: &'a mut fmt::Formatter<'f>,
    first: bool,
}

impl<'a, 'f> List<'a, 'f> {
    pub(crate) fn new(out: &'a mut fmt::Formatter<'f>) -> Self {
        Self { out, first: true }
    }

    /// Starts an item.
    pub(crate) fn item(&mut self) -> Result<&mut fmt::Formatter<'f>, fmt::Error> {
        if !std::mem::take(&mut self.first) {
            self.out.write_char(',')?;
        }
        Ok(self.out)
    }
}

/// `0x` and digits, but `0` for zero.
pub(crate) fn write_hex(out: &mut fmt::Formatter<'_>, value: u128) -> fmt::Result {
    if value == 0 { out.write_char('0') } else { write!(out, "{value:#x}") }
}

/// An IPv6 address as the C library writes it: with an IPv4 address in dotted decimal behind 96
/// zero bits, too.
pub(crate) struct Ipv6Text(pub(crate) Ipv6Addr);

impl fmt::Display for Ipv6Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.to_bits() {
            embedded @ 0x1_0000..=0xffff_ffff => {
                write!(f, "::{}", Ipv4Addr::from_bits(embedded as u32))
            }
            _ => write!(f, "{}", self.0),
        }
    }
}

/// All bits of a format.
fn bits(format: Format) -> u128 {
    match format {
        Format::Decimal(bits) | Format::Hex(bits) => u128::MAX >> (128 - bits),
        Format::Ipv4 => u128::MAX >> 96,
        Format::Ipv6 => u128::MAX,
        Format::Mac => u128::MAX >> 80,
        Format::Label => Field::Ipv6Label.bits(),
        Format::Fragment => u128::from(FRAG_ANY),
    }
}

fn write_value(out: &mut fmt::Formatter<'_>, format: Format, value: u128) -> fmt::Result {
    match format {
        Format::Decimal(_) => write!(out, "{value}"),
        Format::Hex(64) => write!(out, "{value:#x}"),
        Format::Hex(_) | Format::Label => write_hex(out, value),
        Format::Ipv4 => write!(out, "{}", Ipv4Addr::from_bits(value as u32)),
        Format::Ipv6 => write!(out, "{}", Ipv6Text(Ipv6Addr::from_bits(value))),
        Format::Mac => {
            let [_, _, _, _, _, _, _, _, _, _, bytes @ ..] = value.to_be_bytes();
            write!(out, "{}", MacAddress(bytes))
        }
        Format::Fragment => out.write_str(match value as u8 {
            value if value & FRAG_ANY == 0 => "no",
            value if value & FRAG_LATER == 0 => "first",
            _ => "later",
        }),
    }
}

/// Writes `name=value/mask` as far as the mask asks for it.
pub(crate) fn write_masked(
    list: &mut List<'_, '_>,
    name: &str,
    format: Format,
    (value, mask): (u128, u128),
    verbose: bool,
) -> fmt::Result {
    // A fragment mask is all or nothing.
    let full = mask == bits(format);
    if mask == 0 && (!verbose || format == Format::Fragment) {
        return Ok(());
    }
    let out = list.item()?;
    write!(out, "{name}=")?;
    write_value(out, format, value & if format == Format::Fragment { 3 } else { bits(format) })?;
    if full {
        return Ok(());
    }
    out.write_char('/')?;
    match format {
        Format::Decimal(_) | Format::Hex(_) => write_hex(out, mask),
        _ => write_value(out, format, mask),
    }
}

/// An ARP operation has 16 bits, of which a key keeps 8. All of them, as in a mask, stand for all.
fn widen_operation(operation: u128) -> u128 {
    if operation == 0xff { 0xffff } else { operation }
}

fn write_entries(
    list: &mut List<'_, '_>,
    entries: &[Entry],
    source: Source<'_>,
    verbose: bool,
) -> fmt::Result {
    for Entry { name, field, format } in entries {
        let (mut value, mut mask) = (source.value(*field), source.mask(*field, bits(*format)));
        if let (Field::IpProto, Format::Decimal(16)) = (field, format) {
            (value, mask) = (widen_operation(value), widen_operation(mask));
        }
        write_masked(list, name, *format, (value, mask), verbose)?;
    }
    Ok(())
}

/// Writes `attribute` with its parentheses. `verbose` asks for fields that do not matter, too.
pub(crate) fn write_attribute(
    out: &mut fmt::Formatter<'_>,
    attribute: Attribute,
    source: Source<'_>,
    verbose: bool,
    names: Option<&PortNames>,
) -> fmt::Result {
    write!(out, "{}(", attribute.name())?;
    if let Some((field, width)) = attribute.single() {
        write_single(out, attribute, source, (field, width), names)?;
    } else {
        write_group(out, attribute, source, verbose)?;
    }
    out.write_char(')')
}

fn write_single(
    out: &mut fmt::Formatter<'_>,
    attribute: Attribute,
    source: Source<'_>,
    (field, width): (Field, u32),
    names: Option<&PortNames>,
) -> fmt::Result {
    let all = u128::MAX >> (128 - width);
    let (value, mask) = (source.value(field), source.mask(field, all));
    match attribute {
        Attribute::InPort if mask == all => write_port(out, value as u32, names)?,
        Attribute::InPort => write!(out, "{value}")?,
        Attribute::EthType => {
            write!(out, "{value:#06x}")?;
            if mask != all {
                write!(out, "/{mask:#06x}")?;
            }
            return Ok(());
        }
        _ => write_hex(out, value)?,
    }
    if mask != all {
        out.write_char('/')?;
        write_hex(out, mask)?;
    }
    Ok(())
}

/// The name of a port, or its number.
pub(crate) fn write_port(
    out: &mut fmt::Formatter<'_>,
    port: u32,
    names: Option<&PortNames>,
) -> fmt::Result {
    match names.and_then(|names| names.name(port)) {
        Some(name) => out.write_str(name),
        None => write!(out, "{port}"),
    }
}

fn write_group(
    out: &mut fmt::Formatter<'_>,
    attribute: Attribute,
    source: Source<'_>,
    verbose: bool,
) -> fmt::Result {
    match attribute {
        Attribute::CtState => {
            let value = source.value(Field::CtState) as u32;
            match source.mask {
                None if verbose => write_hex(out, value.into()),
                None => write_flags(out, CT_STATE, value, '|'),
                Some(mask) if verbose => {
                    write_hex(out, value.into())?;
                    out.write_char('/')?;
                    write_hex(out, mask.ct_state.into())
                }
                // The mask of the text has 32 bits, of which a flow can match 8.
                Some(mask) => {
                    write_flags_masked(out, CT_STATE, value, mask.ct_state.into(), u32::MAX)
                }
            }
        }
        Attribute::TcpFlags => {
            let value = source.value(Field::TcpFlags) as u32;
            match source.mask(Field::TcpFlags, Field::TcpFlags.bits()) as u32 {
                0xfff => write_flags(out, TCP_FLAGS, value, '|'),
                mask => write_flags_masked(out, TCP_FLAGS, value, mask, 0xfff),
            }
        }
        Attribute::CtLabel => {
            let mask = source.mask(Field::CtLabel, u128::MAX);
            write_hex(out, source.value(Field::CtLabel))?;
            if mask != u128::MAX {
                out.write_char('/')?;
                write_hex(out, mask)?;
            }
            Ok(())
        }
        Attribute::Vlan => {
            let mask = source.mask(Field::VlanTci, 0xffff) as u16;
            write_vlan_tci(&mut List::new(out), source.value(Field::VlanTci) as u16, mask, verbose)
        }
        Attribute::Mpls => write_mpls(out, source),
        Attribute::Nsh => write_nsh(out, source),
        Attribute::NdExt => {
            let mut list = List::new(out);
            list.item()?;
            write!(list.out, "nd_reserved={:#x}", source.value(Field::IgmpGroup))?;
            write_entries(&mut list, &attribute.entries()[1..], source, verbose)
        }
        Attribute::Tunnel => write_tunnel(out, source, verbose),
        _ => write_entries(&mut List::new(out), attribute.entries(), source, verbose),
    }
}

/// VLAN, priority, and `cfi=0` when the bit that says that there is a tag is missing.
pub(crate) fn write_vlan_tci(
    list: &mut List<'_, '_>,
    tci: u16,
    mask: u16,
    verbose: bool,
) -> fmt::Result {
    let (vid, vid_mask) = (tci & vlan::VID_MASK, mask & vlan::VID_MASK);
    if verbose || vid != 0 || vid_mask != 0 {
        write!(list.item()?, "vid={vid}")?;
        if vid_mask != vlan::VID_MASK {
            write!(list.out, "/{vid_mask:#x}")?;
        }
    }
    let (pcp, pcp_mask) = (tci >> vlan::PCP_SHIFT, mask >> vlan::PCP_SHIFT);
    if verbose || pcp != 0 || pcp_mask != 0 {
        write!(list.item()?, "pcp={pcp}")?;
        if pcp_mask != 7 {
            write!(list.out, "/{pcp_mask:#x}")?;
        }
    }
    if tci & vlan::CFI == 0 {
        list.item()?.write_str("cfi=0")?;
    }
    Ok(())
}

/// A label stack entry without a mask.
pub(crate) fn write_mpls_entry(list: &mut List<'_, '_>, entry: u32) -> fmt::Result {
    let (label, class, ttl) = (entry >> 12, entry >> 9 & 7, entry & 0xff);
    write!(list.item()?, "label={label},tc={class},ttl={ttl},bos={}", entry >> 8 & 1)
}

fn write_mpls(out: &mut fmt::Formatter<'_>, source: Source<'_>) -> fmt::Result {
    let mut list = List::new(out);
    let labels = if source.set { 1 } else { source.key.mpls_labels() };
    let mask = |index: usize| {
        source.mask.map_or(u32::MAX, |mask| mask.mpls.get(index).map_or(0, |entry| entry.get()))
    };
    let exact = (0..labels).all(|index| mask(index) == u32::MAX);
    for (index, entry) in source.key.mpls.iter().take(labels).enumerate() {
        let (entry, mask) = (entry.get(), mask(index));
        if exact {
            write_mpls_entry(&mut list, entry)?;
        } else {
            let out = list.item()?;
            write!(out, "label={}/{:#x}", entry >> 12, mask >> 12)?;
            write!(out, ",tc={}/{:x}", entry >> 9 & 7, mask >> 9 & 7)?;
            write!(out, ",ttl={}/{:#x}", entry & 0xff, mask & 0xff)?;
            write!(out, ",bos={}/{:x}", entry >> 8 & 1, mask >> 8 & 1)?;
        }
    }
    Ok(())
}

fn write_nsh(out: &mut fmt::Formatter<'_>, source: Source<'_>) -> fmt::Result {
    let mut list = List::new(out);
    let (base, context) = Attribute::Nsh.entries().split_at(4);
    let type1 = source.set || source.key.nsh.md_type == nsh::MD_TYPE1;
    let path = source.value(Field::NshPath);
    let path_mask = source.mask(Field::NshPath, u32::MAX.into());
    for Entry { name, field, .. } in base {
        let (value, mask) = (source.value(*field), source.mask(*field, 0xff));
        match mask {
            0 => {}
            0xff => write!(list.item()?, "{name}={value}")?,
            _ => write!(list.item()?, "{name}={value:#04x}/{mask:#04x}")?,
        }
    }
    match path_mask >> 8 {
        0 => {}
        0xff_ffff => write!(list.item()?, "spi={:#x}", path >> 8)?,
        mask => write!(list.item()?, "spi={:#x}/{mask:#010x}", path >> 8)?,
    }
    match path_mask & 0xff {
        0 => {}
        0xff => write!(list.item()?, "si={}", path & 0xff)?,
        mask => write!(list.item()?, "si={:#04x}/{mask:#04x}", path & 0xff)?,
    }
    for Entry { name, field, .. } in context {
        // Of other metadata types there is no context to match, and OVS prints it as exact.
        let mask = if type1 { source.mask(*field, u32::MAX.into()) } else { u32::MAX.into() };
        match (mask as u32, source.mask.is_some()) {
            (_, false) if !type1 => {}
            (0, _) => {}
            (u32::MAX, _) => write!(list.item()?, "{name}={:#x}", source.value(*field))?,
            (mask, _) => {
                write!(list.item()?, "{name}={:#x}/{mask:#010x}", source.value(*field))?;
            }
        }
    }
    Ok(())
}

fn write_tunnel(out: &mut fmt::Formatter<'_>, source: Source<'_>, verbose: bool) -> fmt::Result {
    let mut list = List::new(out);
    let tunnel = &source.key.tunnel;
    let has_id = tunnel.id.get() != 0 || tunnel.flags.get() & tunnel_flag::KEY != 0;
    for Entry { name, field, format } in Attribute::Tunnel.entries() {
        // Of a tunnel, what is not set is not there; there is always a time to live.
        let present = match field {
            Field::TunId => has_id,
            Field::TunTtl => true,
            _ => source.value(*field) != 0,
        };
        if present {
            let masked = (source.value(*field), source.mask(*field, bits(*format)));
            write_masked(&mut list, name, *format, masked, verbose)?;
        }
    }
    let mask = source.mask.map(|mask| &mask.tunnel);
    write_tunnel_options(&mut list, tunnel, mask, verbose)?;

    let key_flag = if has_id { tunnel_flag::KEY } else { 0 };
    let flags = |tunnel: &TunnelKey| {
        u32::from(tunnel.flags.get() & (tunnel_flag::ALL & !tunnel_flag::KEY) | key_flag)
    };
    match mask.map(flags) {
        Some(0) if !verbose => {}
        mask => {
            list.item()?.write_str("flags(")?;
            match mask {
                Some(mask) => write_flags_masked(
                    list.out,
                    TUNNEL_FLAGS,
                    flags(tunnel),
                    mask,
                    tunnel_flag::ALL.into(),
                )?,
                None => write_flags(list.out, TUNNEL_FLAGS, flags(tunnel), '|')?,
            }
            list.out.write_char(')')?;
        }
    }
    Ok(())
}

struct Printer<'a, 'b, 'f> {
    out: &'a mut fmt::Formatter<'f>,
    source: Source<'b>,
    verbose: bool,
    names: Option<&'b PortNames>,
    first: bool,
}

impl Printer<'_, '_, '_> {
    fn comma(&mut self) -> fmt::Result {
        if !std::mem::take(&mut self.first) {
            self.out.write_char(',')?;
        }
        Ok(())
    }

    /// Prints an attribute that the key has, if the mask or verbosity asks for it.
    fn attribute(&mut self, attribute: Attribute, matters: bool) -> fmt::Result {
        if !matters && !self.verbose {
            return Ok(());
        }
        self.comma()?;
        write_attribute(self.out, attribute, self.source, self.verbose, self.names)
    }

    /// Whether a bit of one of the fields matters.
    fn matters(&self, fields: impl IntoIterator<Item = Field>) -> bool {
        let mut fields = fields.into_iter();
        self.source.mask.is_none_or(|mask| fields.any(|field| mask.get(field) != 0))
    }

    fn single(&mut self, attribute: Attribute) -> fmt::Result {
        let matters = self.matters(attribute.single().map(|(field, _)| field));
        self.attribute(attribute, matters)
    }

    fn group(&mut self, attribute: Attribute) -> fmt::Result {
        let matters = self.matters(attribute.entries().iter().map(|entry| entry.field));
        self.attribute(attribute, matters)
    }

    fn flow(&mut self, vlan_limit: usize) -> fmt::Result {
        let key = self.source.key;
        self.single(Attribute::RecircId)?;
        self.single(Attribute::DpHash)?;
        self.single(Attribute::SkbPriority)?;
        if key.tunnel.is_set() {
            self.attribute(Attribute::Tunnel, true)?;
        }
        if key.in_port.get() != NO_PORT {
            self.single(Attribute::InPort)?;
        }
        self.single(Attribute::SkbMark)?;
        let matters = self.matters([Field::CtState]);
        self.attribute(Attribute::CtState, matters)?;
        self.single(Attribute::CtZone)?;
        self.single(Attribute::CtMark)?;
        let matters = self.matters([Field::CtLabel]);
        self.attribute(Attribute::CtLabel, matters)?;
        if Prerequisite::ConntrackIpv4.holds(key) {
            self.group(Attribute::CtTuple4)?;
        } else if Prerequisite::ConntrackIpv6.holds(key) {
            self.group(Attribute::CtTuple6)?;
        }
        self.group(Attribute::PacketType)?;
        let mut nested = 0;
        if key.is_ethernet() {
            let packet_type =
                self.verbose || self.matters([Field::PacketNamespace, Field::PacketType]);
            if packet_type || self.matters([Field::EthSrc, Field::EthDst]) {
                self.group(Attribute::Ethernet)?;
            } else {
                // Without a packet type this says that the packet is an Ethernet frame.
                self.comma()?;
                self.out.write_str("eth()")?;
            }
            for tag in 0..vlan_limit {
                let tci = key.vlans[tag].tci.get();
                let truncated = tci == 0 && vlan::is_tag(key.eth_type.get());
                if tci == 0 && !truncated {
                    break;
                }
                self.vlan(tag, truncated)?;
                nested += 1;
                if truncated {
                    return self.close(nested);
                }
            }
        }
        self.behind_tags()?;
        self.close(nested)
    }

    fn close(&mut self, nested: usize) -> fmt::Result {
        (0..nested).try_for_each(|_| self.out.write_char(')'))
    }

    /// Prints a tag and opens what it encapsulates.
    fn vlan(&mut self, tag: usize, truncated: bool) -> fmt::Result {
        let key = self.source.key;
        let tpid = if truncated { key.eth_type } else { key.vlans[tag].tpid };
        let mask = self.source.mask.map_or(0xffff, |mask| mask.vlans[tag].tci.get());
        self.comma()?;
        write!(self.out, "eth_type({:#06x})", tpid.get())?;
        if mask != 0 || self.verbose {
            self.out.write_str(",vlan(")?;
            let tci = key.vlans[tag].tci.get();
            write_vlan_tci(&mut List::new(self.out), tci, mask, self.verbose)?;
            self.out.write_char(')')?;
        }
        self.first = true;
        self.out.write_str(",encap(")
    }

    fn behind_tags(&mut self) -> fmt::Result {
        let key = self.source.key;
        let eth_type = key.eth_type.get();
        if eth_type < MIN_TYPE {
            // An 802.3 frame has no Ethertype; a mask says that no Ethertype is meant.
            if self.source.mask.is_some() && !self.first {
                self.out.write_str(",eth_type(0/0xffff)")?;
            }
            return Ok(());
        }
        self.single(Attribute::EthType)?;
        match eth_type {
            ether_type::IPV4 => self.group(Attribute::Ipv4)?,
            ether_type::IPV6 => self.group(Attribute::Ipv6)?,
            ether_type::ARP | ether_type::RARP => self.group(Attribute::Arp)?,
            ether_type::NSH => self.attribute(Attribute::Nsh, true)?,
            _ if mpls::is_mpls(eth_type) && key.mpls_labels() > 0 => {
                let labels = [Field::Mpls0, Field::Mpls1, Field::Mpls2];
                let matters = self.matters(labels.into_iter().take(key.mpls_labels()));
                self.attribute(Attribute::Mpls, matters)?;
            }
            _ => {}
        }
        if !key.is_ip() || key.ip_frag & FRAG_LATER != 0 {
            return Ok(());
        }
        match (eth_type, key.ip_proto) {
            (_, ip_protocol::TCP) => {
                self.group(Attribute::Tcp)?;
                let matched = self.source.mask.is_some_and(|mask| mask.tcp_flags.get() != 0);
                if key.tcp_flags.get() != 0 || matched {
                    let matters = self.matters([Field::TcpFlags]);
                    self.attribute(Attribute::TcpFlags, matters)?;
                }
                Ok(())
            }
            (_, ip_protocol::UDP) => self.group(Attribute::Udp),
            (_, ip_protocol::SCTP) => self.group(Attribute::Sctp),
            (ether_type::IPV4, ip_protocol::ICMP) => self.group(Attribute::Icmp),
            (ether_type::IPV6, ip_protocol::ICMPV6) => {
                self.group(Attribute::Icmpv6)?;
                // Neighbour discovery is matched only together with its whole type.
                if Prerequisite::Neighbour.holds(key) {
                    let whole =
                        self.source.mask.is_none_or(|mask| mask.tp_src.get() & 0xff == 0xff);
                    let fields = Attribute::Nd.entries().iter().map(|entry| entry.field);
                    let matters = whole && self.matters(fields);
                    self.attribute(Attribute::Nd, matters)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
