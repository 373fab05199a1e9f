//! Flow keys and masks from text.

use super::attribute::{Attribute, Entry, Format};
use super::convert::{Fitness, FlowError, key_of, mask_of};
use super::field::Field;
use super::flags::{CT_STATE, TCP_FLAGS, TUNNEL_FLAGS, read_flags};
use super::key::{ETH_TYPE_NONE, FRAG_ANY, FRAG_LATER, FlowKey, MAX_MPLS_LABELS, tunnel_flag};
use super::mask::FlowMask;
use super::ports::PortNames;
use super::scan::{Scanner, SyntaxError};
use super::tunnel_text::read_tunnel_option;
use super::ufid::Ufid;

/// Most things that a tunnel may say: netlink attributes of at least 8 bytes in one of 65,531.
const MAX_TUNNEL_ITEMS: usize = 8191;
/// Attributes nest less deep than this.
pub(crate) const MAX_DEPTH: usize = 32;

/// Why text is no flow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlowParseError {
    /// It cannot be read.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// Its attributes contradict each other.
    #[error(transparent)]
    Flow(#[from] FlowError),
}

/// A flow read from text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedFlow {
    /// Its identifier, when the text has one.
    pub ufid: Option<Ufid>,
    /// The key.
    pub key: FlowKey,
    /// What of it matters: what the text names.
    pub mask: FlowMask,
    /// Whether the text has the attributes that such a packet has.
    pub fitness: Fitness,
}

/// Reads a key without masks. Fields that the text does not name are 0.
pub fn parse_key(
    text: &str,
    names: Option<&PortNames>,
    vlan_limit: usize,
) -> Result<(FlowKey, Fitness), FlowParseError> {
    let context = Context { names, masks: false };
    let (_, attributes) = parse_attributes(text, context)?;
    Ok(key_of(&attributes, vlan_limit)?)
}

/// Reads a key with masks. Fields that the text does not name do not matter, except that
/// `recirc_id` always does, and that without `vlan` the packet has no tag.
pub fn parse_flow(
    text: &str,
    names: Option<&PortNames>,
    vlan_limit: usize,
) -> Result<ParsedFlow, FlowParseError> {
    let context = Context { names, masks: true };
    let (ufid, attributes) = parse_attributes(text, context)?;
    let (key, fitness) = key_of(&attributes, vlan_limit)?;
    if attributes.is_empty() {
        let mask = FlowMask::exact_for(&key);
        return Ok(ParsedFlow { ufid, key, mask, fitness });
    }
    let (mask, mask_fitness) = mask_of(&attributes, &key, vlan_limit)?;
    let fitness = if fitness == Fitness::Perfect { mask_fitness } else { fitness };
    Ok(ParsedFlow { ufid, key, mask: FlowMask::new(mask), fitness })
}

/// How to read attributes.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) names: Option<&'a PortNames>,
    /// Whether values may have masks.
    pub(crate) masks: bool,
}

/// An attribute read from text. Only its own fields of key and mask are set.
#[derive(Debug)]
pub(crate) struct AttributeValue {
    pub(crate) attribute: Attribute,
    pub(crate) key: FlowKey,
    pub(crate) mask: FlowKey,
    /// Number of MPLS labels.
    pub(crate) labels: usize,
    /// Whether a tunnel has a time to live.
    pub(crate) has_ttl: bool,
    /// Whether it says more than a message to a datapath of the kernel could carry.
    pub(crate) is_too_long: bool,
    /// What `encap` holds.
    pub(crate) nested: Vec<AttributeValue>,
}

type Attributes = (Option<Ufid>, Vec<AttributeValue>);

fn parse_attributes(text: &str, context: Context<'_>) -> Result<Attributes, SyntaxError> {
    let mut scanner = Scanner::new(text);
    let (mut ufid, mut attributes) = (None, vec![]);
    loop {
        scanner.skip_delimiters();
        if scanner.rest().is_empty() {
            return Ok((ufid, attributes));
        }
        if scanner.rest().starts_with("ufid:") {
            let (read, rest) = Ufid::parse_prefix(scanner.rest()).ok_or_else(|| scanner.error())?;
            ufid = Some(read);
            scanner.skip(scanner.rest().len() - rest.len());
            scanner.eat(" ");
        }
        let error = scanner.error();
        match parse_attribute(&mut scanner, context, MAX_DEPTH - 1) {
            Some(AttributeValue { is_too_long: true, .. }) => {
                return Err(SyntaxError { is_too_long: true, ..error });
            }
            Some(attribute) => attributes.push(attribute),
            None => return Err(error),
        }
    }
}

/// Reads one attribute with its parentheses. `depth` is how deep others may nest inside,
/// itself included.
pub(crate) fn parse_attribute(
    scanner: &mut Scanner<'_>,
    context: Context<'_>,
    depth: usize,
) -> Option<AttributeValue> {
    let depth = depth.checked_sub(1)?;
    let rest = scanner.rest();
    let (name, _) = rest.split_once('(')?;
    let attribute = *Attribute::ALL.iter().find(|attribute| attribute.name() == name)?;
    scanner.skip(name.len() + 1);
    let mut value = AttributeValue {
        attribute,
        key: FlowKey::default(),
        mask: FlowKey::default(),
        labels: 0,
        has_ttl: false,
        is_too_long: false,
        nested: vec![],
    };
    if let Some((field, bits)) = attribute.single() {
        value.single(scanner, context, field, bits)?;
        scanner.need(")")?;
        return Some(value);
    }
    match attribute {
        Attribute::CtState => {
            let (flags, mask) = read_flags(scanner, CT_STATE)?;
            value.set(Field::CtState, flags.into(), mask.into());
            scanner.need(")")?;
        }
        Attribute::TcpFlags => {
            let (flags, mask) = read_flags(scanner, TCP_FLAGS)?;
            let bits = Field::TcpFlags.bits();
            value.set(Field::TcpFlags, flags.into(), u128::from(mask) & bits);
            scanner.need(")")?;
        }
        Attribute::CtLabel => {
            let (label, mask) = masked(scanner, true, u128::MAX, |scanner| scanner.number(128))?;
            value.set(Field::CtLabel, label, mask);
            scanner.need(")")?;
        }
        Attribute::Encap => loop {
            scanner.skip_delimiters();
            if scanner.eat(")") {
                break;
            }
            value.nested.push(parse_attribute(scanner, context, depth)?);
        },
        Attribute::Vlan => value.vlan(scanner, context.masks)?,
        Attribute::Mpls => value.mpls(scanner, context.masks)?,
        Attribute::Nsh => value.nsh(scanner, context.masks)?,
        Attribute::Tunnel => value.tunnel(scanner)?,
        _ => fields(scanner, |scanner| value.entry(scanner, attribute.entries(), context.masks))?,
    }
    Some(value)
}

/// Reads named fields with commas between them, up to the closing parenthesis. `field` reads one
/// of them; its inner `Option` is none when no known name comes next.
fn fields(
    scanner: &mut Scanner<'_>,
    mut field: impl FnMut(&mut Scanner<'_>) -> Option<Option<()>>,
) -> Option<()> {
    loop {
        let found = field(scanner)?.is_some();
        if scanner.eat(")") {
            return Some(());
        }
        if !found || !scanner.eat(",") {
            return None;
        }
    }
}

/// A value and its mask, which is `all` when none is written or allowed.
fn masked(
    scanner: &mut Scanner<'_>,
    masks: bool,
    all: u128,
    read: impl Fn(&mut Scanner<'_>) -> Option<u128>,
) -> Option<(u128, u128)> {
    let value = read(scanner)?;
    let mask = if masks && scanner.eat("/") { read(scanner)? } else { all };
    Some((value, mask))
}

fn formatted(scanner: &mut Scanner<'_>, format: Format, masks: bool) -> Option<(u128, u128)> {
    match format {
        Format::Decimal(bits) | Format::Hex(bits) => {
            masked(scanner, masks, u128::MAX >> (128 - bits), |scanner| scanner.number(bits))
        }
        Format::Ipv4 => {
            masked(scanner, masks, u32::MAX.into(), |scanner| scanner.ipv4().map(u128::from))
        }
        Format::Ipv6 => masked(scanner, masks, u128::MAX, |scanner| scanner.ipv6()),
        Format::Mac => {
            masked(scanner, masks, u128::MAX >> 80, |scanner| scanner.mac().map(u128::from))
        }
        Format::Label => {
            masked(scanner, masks, Field::Ipv6Label.bits(), |scanner| scanner.number(20))
        }
        Format::Fragment => {
            let word = scanner.take_while(|next| next.is_ascii_lowercase());
            let value = match word {
                "no" => 0,
                "first" => FRAG_ANY,
                "later" => FRAG_ANY | FRAG_LATER,
                _ => return None,
            };
            Some((value.into(), Field::IpFrag.bits()))
        }
    }
}

/// Reads a bit field into the right place of a value and its mask.
fn bit_field(
    scanner: &mut Scanner<'_>,
    masks: bool,
    (bits, shift): (u32, u32),
    (value, mask): (&mut u32, &mut u32),
) -> Option<()> {
    let all = u32::MAX >> (32 - bits);
    let (read, read_mask) = masked(scanner, masks, all.into(), |scanner| scanner.number(bits))?;
    *value = *value & !(all << shift) | (read as u32) << shift;
    *mask = *mask & !(all << shift) | (read_mask as u32) << shift;
    Some(())
}

impl AttributeValue {
    fn set(&mut self, field: Field, value: u128, mask: u128) {
        self.key.set(field, value);
        self.mask.set(field, mask);
    }

    fn single(
        &mut self,
        scanner: &mut Scanner<'_>,
        context: Context<'_>,
        field: Field,
        bits: u32,
    ) -> Option<()> {
        let all = u128::MAX >> (128 - bits);
        // Recirculation is always matched as a whole.
        let masks = field != Field::RecircId;
        let start = *scanner;
        let read = masked(scanner, masks, all, |scanner| scanner.number(bits));
        let (value, mask) = match (read, context.names) {
            (Some(read), _) => read,
            (None, Some(names)) if field == Field::InPort => {
                *scanner = start;
                let name = scanner.take_while(|next| next != ')');
                (names.number(name)?.into(), all)
            }
            _ => return None,
        };
        if self.attribute == Attribute::EthType && context.masks && (value, mask) == (0, all) {
            // So a mask says that the frame is one of 802.3.
            self.set(field, ETH_TYPE_NONE.into(), mask);
            return Some(());
        }
        self.set(field, value, mask);
        Some(())
    }

    /// Reads a field whose name is one of `entries`, if one comes next.
    fn entry(
        &mut self,
        scanner: &mut Scanner<'_>,
        entries: &[Entry],
        masks: bool,
    ) -> Option<Option<()>> {
        let rest = scanner.rest();
        let Some((name, _)) = rest.split_once('=') else { return Some(None) };
        let known = match (self.attribute, name) {
            (Attribute::CtTuple6, "tp_src") => "src_port",
            (Attribute::CtTuple6, "tp_dst") => "dst_port",
            _ => name,
        };
        let Some(entry) = entries.iter().find(|entry| entry.name == known) else {
            return Some(None);
        };
        scanner.skip(name.len() + 1);
        let (value, mask) = formatted(scanner, entry.format, masks)?;
        if self.attribute == Attribute::Arp
            && entry.name == "op"
            && !matches!(value, 0..=0xff | 0xffff)
        {
            return None;
        }
        self.set(entry.field, value, mask);
        self.has_ttl |= entry.field == Field::TunTtl;
        Some(Some(()))
    }

    fn vlan(&mut self, scanner: &mut Scanner<'_>, masks: bool) -> Option<()> {
        let (mut tci, mut mask) = (0x1000, 0x1000);
        fields(scanner, |scanner| {
            let place = if scanner.eat("vid=") {
                (12, 0)
            } else if scanner.eat("pcp=") {
                (3, 13)
            } else if scanner.eat("cfi=") {
                (1, 12)
            } else {
                return Some(None);
            };
            bit_field(scanner, masks, place, (&mut tci, &mut mask)).map(Some)
        })?;
        self.set(Field::VlanTci, tci.into(), mask.into());
        Some(())
    }

    /// A field that comes again belongs to the next label.
    fn mpls(&mut self, scanner: &mut Scanner<'_>, masks: bool) -> Option<()> {
        const FIELDS: [(&str, (u32, u32)); 4] =
            [("label=", (20, 12)), ("tc=", (3, 9)), ("ttl=", (8, 0)), ("bos=", (1, 8))];
        let mut labels = [(0, 0); MAX_MPLS_LABELS];
        let (mut index, mut seen) = (0, [false; FIELDS.len()]);
        fields(scanner, |scanner| {
            let known = FIELDS.iter().zip(0..).find(|((name, _), _)| scanner.eat(name));
            let Some(((_, place), field)) = known else { return Some(None) };
            if seen[field] {
                seen = [false; FIELDS.len()];
                index += 1;
            }
            seen[field] = true;
            let (value, mask) = labels.get_mut(index)?;
            bit_field(scanner, masks, *place, (value, mask)).map(Some)
        })?;
        self.labels = index + 1;
        for (field, (value, mask)) in
            [Field::Mpls0, Field::Mpls1, Field::Mpls2].into_iter().zip(labels)
        {
            self.set(field, value.into(), mask.into());
        }
        Some(())
    }

    fn nsh(&mut self, scanner: &mut Scanner<'_>, masks: bool) -> Option<()> {
        let (mut path, mut path_mask) = (0, 0);
        fields(scanner, |scanner| {
            let place = if scanner.eat("spi=") {
                (24, 8)
            } else if scanner.eat("si=") {
                (8, 0)
            } else {
                return self.entry(scanner, Attribute::Nsh.entries(), masks);
            };
            bit_field(scanner, masks, place, (&mut path, &mut path_mask)).map(Some)
        })?;
        self.set(Field::NshPath, path.into(), path_mask.into());
        Some(())
    }

    fn tunnel(&mut self, scanner: &mut Scanner<'_>) -> Option<()> {
        let (mut has_id, mut items) = (false, 0);
        fields(scanner, |scanner| {
            items += 1;
            if scanner.eat("flags(") {
                let (flags, mask) = read_flags(scanner, TUNNEL_FLAGS)?;
                self.key.tunnel.flags.set(flags as u16);
                self.mask.tunnel.flags.set(mask as u16 & tunnel_flag::ALL);
                return scanner.need(")").map(Some);
            }
            has_id |= scanner.rest().starts_with("tun_id=");
            let (key, mask) = (&mut self.key.tunnel, &mut self.mask.tunnel);
            if read_tunnel_option(scanner, key, mask)?.is_some() {
                return Some(Some(()));
            }
            self.entry(scanner, Attribute::Tunnel.entries(), true)
        })?;
        self.is_too_long = items > MAX_TUNNEL_ITEMS;
        // The flag follows from the identifier, whatever the text says.
        for tunnel in [&mut self.key.tunnel, &mut self.mask.tunnel] {
            let flags = tunnel.flags.get() & !tunnel_flag::KEY;
            tunnel.flags.set(flags | if has_id { tunnel_flag::KEY } else { 0 });
        }
        Some(())
    }
}
