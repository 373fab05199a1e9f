//! Actions from text.

use netdev::wire::ethernet::{MacAddress, ether_type};
use netdev::wire::{nsh, vlan};

use super::{
    Action, ConntrackAction, HashAlgorithm, MAX_NSH_OPTIONS, MAX_PSAMPLE_COOKIE, MaskedField,
    NshMetadata, PushNsh, SetFields, TunnelPush, Userspace,
};
use crate::flow::parse::{AttributeValue, Context, MAX_DEPTH, parse_attribute};
use crate::flow::scan::{Scanner, SyntaxError, from_hex};
use crate::flow::{Attribute, Field, PortNames};

/// Most actions of a list: what fits into a netlink attribute when each takes as little as it can.
const MAX_ACTIONS: usize = 8191;

/// Reads actions. `drop` alone is an action, too.
pub fn parse_actions(text: &str, names: Option<&PortNames>) -> Result<Vec<Action>, SyntaxError> {
    let mut scanner = Scanner::new(text);
    let mut actions = vec![];
    loop {
        scanner.skip_delimiters();
        if scanner.rest().is_empty() {
            return Ok(actions);
        }
        let error = scanner.error();
        if actions.len() == MAX_ACTIONS {
            return Err(error);
        }
        let reader = Reader { names, depth: MAX_DEPTH - 1 };
        actions.push(reader.action(&mut scanner).ok_or(error)?);
    }
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    names: Option<&'a PortNames>,
    /// How deep actions may nest from here on.
    depth: usize,
}

fn number(scanner: &mut Scanner<'_>, name: &str) -> Option<u32> {
    scanner.need(name)?;
    Some(scanner.number(32)? as u32)
}

fn mac(scanner: &mut Scanner<'_>, name: &str) -> Option<MacAddress> {
    scanner.need(name)?;
    let [_, _, bytes @ ..] = scanner.mac()?.to_be_bytes();
    Some(MacAddress(bytes))
}

impl Reader<'_> {
    fn action(self, scanner: &mut Scanner<'_>) -> Option<Action> {
        let reader = Self { depth: self.depth.checked_sub(1)?, ..self };
        if let Some(port) = scanner.number(32) {
            return Some(Action::Output(port as u32));
        }
        let is_word = |next: char| !matches!(next, ',' | ' ' | '\t' | '\r' | '\n' | '(' | ')');
        let mut behind = *scanner;
        let word = behind.take_while(is_word);
        if let Some(port) = self.names.and_then(|names| names.number(word)) {
            *scanner = behind;
            return Some(Action::Output(port));
        }
        *scanner = behind;
        if word == "ct" {
            return Some(Action::Conntrack(Box::new(ConntrackAction::read(scanner)?)));
        }
        let simple = match word {
            "pop_vlan" => Action::PopVlan,
            "pop_eth" => Action::PopEthernet,
            "ct_clear" => Action::ConntrackClear,
            "drop" => Action::Drop { reason: 0 },
            _ => {
                scanner.need("(")?;
                return reader.with_arguments(scanner, word);
            }
        };
        Some(simple)
    }

    /// Reads what follows `word(`, with the closing parenthesis.
    fn with_arguments(self, scanner: &mut Scanner<'_>, word: &str) -> Option<Action> {
        let action = match word {
            "userspace" => return Some(Action::Userspace(Box::new(Userspace::read(scanner)?))),
            "tnl_push" => return Some(Action::TunnelPush(Box::new(TunnelPush::read(scanner)?))),
            "push_nsh" => return push_nsh(scanner),
            "psample" => return psample(scanner),
            "clone" => return Some(Action::Clone(self.list(scanner)?)),
            "lb_output" => Action::LoadBalancedOutput(number(scanner, "")?),
            "trunc" => Action::Truncate(number(scanner, "")?),
            "recirc" => Action::Recirculate(number(scanner, "")?),
            "meter" => Action::Meter(number(scanner, "")?),
            "tnl_pop" => Action::TunnelPop(number(scanner, "")?),
            "pop_nsh" => Action::PopNsh,
            "pop_mpls" => Action::PopMpls { eth_type: eth_type(scanner, "eth_type=")? },
            "push_mpls" => {
                let entry = mpls_entry(scanner)?;
                Action::PushMpls { entry, eth_type: eth_type(scanner, ",eth_type=")? }
            }
            "add_mpls" => {
                let entry = mpls_entry(scanner)?;
                let eth_type = eth_type(scanner, ",eth_type=")?;
                Action::AddMpls { entry, eth_type, layer3: false }
            }
            "push_eth" => {
                let source = mac(scanner, "src=")?;
                Action::PushEthernet { source, destination: mac(scanner, ",dst=")? }
            }
            "push_vlan" => push_vlan(scanner)?,
            "hash" => {
                let algorithm = if scanner.eat("sym_l4(") {
                    HashAlgorithm::SymmetricL4
                } else {
                    scanner.need("l4(")?;
                    HashAlgorithm::L4
                };
                let basis = number(scanner, "")?;
                scanner.need(")")?;
                Action::Hash { algorithm, basis }
            }
            "set" => self.set(scanner)?,
            "sample" => self.sample(scanner)?,
            "check_pkt_len" => {
                let length = number(scanner, "size=")?.try_into().ok()?;
                scanner.need(",gt(")?;
                let greater = self.list(scanner)?;
                scanner.need(",le(")?;
                let less_equal = self.list(scanner)?;
                Action::CheckPacketLength { length, greater, less_equal }
            }
            _ => return None,
        };
        scanner.need(")")?;
        Some(action)
    }

    /// Reads actions up to a closing parenthesis. `drop` alone is none.
    fn list(self, scanner: &mut Scanner<'_>) -> Option<Vec<Action>> {
        let mut actions = vec![];
        loop {
            scanner.skip_delimiters();
            if scanner.eat(")") {
                break;
            }
            if actions.len() == MAX_ACTIONS {
                return None;
            }
            actions.push(self.action(scanner)?);
        }
        if matches!(actions[..], [Action::Drop { .. }]) {
            actions.clear();
        }
        Some(actions)
    }

    fn sample(self, scanner: &mut Scanner<'_>) -> Option<Action> {
        scanner.need("sample=")?;
        let digits = scanner.take_while(|next| next.is_ascii_digit() || next == '.');
        let percentage: f64 = digits.parse().ok()?;
        if !(0.0..=100.0).contains(&percentage) {
            return None;
        }
        let probability = (f64::from(u32::MAX) * (percentage / 100.0) + 0.5).floor() as u32;
        scanner.need("%,actions(")?;
        Some(Action::Sample { probability, actions: self.list(scanner)? })
    }

    fn set(self, scanner: &mut Scanner<'_>) -> Option<Action> {
        let context = Context { names: self.names, masks: true };
        let value = parse_attribute(scanner, context, self.depth)?;
        match value.attribute {
            // A flow has none of its own.
            Attribute::Encap => None,
            Attribute::Tunnel => Some(Action::SetTunnel(Box::new(value.key.tunnel))),
            Attribute::Mpls if value.labels > 1 => None,
            attribute => {
                let fields = set_fields(&value);
                Some(Action::Set(Box::new(SetFields { attribute, fields })))
            }
        }
    }
}

/// The fields of an attribute of which a bit is to be set.
fn set_fields(value: &AttributeValue) -> Vec<MaskedField> {
    let fields = Field::ALL.iter().map(|field| MaskedField {
        field: *field,
        value: value.key.get(*field),
        mask: value.mask.get(*field),
    });
    fields.filter(|field| field.mask != 0).collect()
}

fn eth_type(scanner: &mut Scanner<'_>, name: &str) -> Option<u16> {
    scanner.need(name)?;
    Some(scanner.hex(16)? as u16)
}

fn mpls_entry(scanner: &mut Scanner<'_>) -> Option<u32> {
    let label = number(scanner, "label=")?;
    let class = number(scanner, ",tc=")?;
    let ttl = number(scanner, ",ttl=")?;
    let bottom = number(scanner, ",bos=")?;
    let fits = label >> 20 == 0 && class < 8 && ttl < 256 && bottom < 2;
    fits.then_some(label << 12 | class << 9 | bottom << 8 | ttl)
}

fn push_vlan(scanner: &mut Scanner<'_>) -> Option<Action> {
    let mut tpid = ether_type::VLAN;
    if scanner.eat("tpid=") {
        tpid = scanner.number(16)? as u16;
        scanner.need(",")?;
    }
    let vid = number(scanner, "vid=")?;
    let pcp = number(scanner, ",pcp=")?;
    let has_cfi = if scanner.eat(",cfi=") { scanner.number(1)? != 0 } else { true };
    if vid > u32::from(vlan::VID_MASK) || pcp > 7 {
        return None;
    }
    let cfi = if has_cfi { vlan::CFI } else { 0 };
    Some(Action::PushVlan { tpid, tci: vid as u16 | (pcp as u16) << vlan::PCP_SHIFT | cfi })
}

fn push_nsh(scanner: &mut Scanner<'_>) -> Option<Action> {
    let mut header = PushNsh {
        flags: 0,
        ttl: 63,
        next_protocol: 3,
        service_path: 0,
        service_index: 255,
        metadata: NshMetadata::Type1([0; 4]),
    };
    loop {
        scanner.skip_delimiters();
        if scanner.eat(")") {
            return Some(Action::PushNsh(Box::new(header)));
        }
        let name = scanner.take_while(|next| next != '=');
        scanner.need("=")?;
        match (name, &mut header.metadata) {
            ("flags", _) => header.flags = scanner.number(2)? as u8,
            ("ttl", _) => header.ttl = scanner.number(6)? as u8,
            ("np", _) => header.next_protocol = scanner.number(8)? as u8,
            ("spi", _) => header.service_path = scanner.hex(24)? as u32,
            ("si", _) => header.service_index = scanner.number(8)? as u8,
            ("mdtype", metadata) => match (scanner.number(8)? as u8, &metadata) {
                (nsh::MD_TYPE1, NshMetadata::Type1(_)) | (nsh::MD_TYPE2, NshMetadata::Type2(_)) => {
                }
                (nsh::MD_TYPE1, _) => *metadata = NshMetadata::Type1([0; 4]),
                (nsh::MD_TYPE2, _) => *metadata = NshMetadata::Type2(vec![]),
                _ => return None,
            },
            ("c1" | "c2" | "c3" | "c4", NshMetadata::Type1(context)) => {
                let index = usize::from(name.as_bytes().get(1)?.checked_sub(b'1')?);
                *context.get_mut(index)? = scanner.hex(32)? as u32;
            }
            ("md2", NshMetadata::Type2(options)) => {
                *options = hex_bytes(scanner)?;
                options.resize(options.len().next_multiple_of(4), 0);
                if options.len() > MAX_NSH_OPTIONS {
                    return None;
                }
            }
            _ => return None,
        }
    }
}

/// Bytes that [`write_bytes`](crate::flow::tunnel_text::write_bytes) wrote, without zeros in
/// front.
fn hex_bytes(scanner: &mut Scanner<'_>) -> Option<Vec<u8>> {
    if !scanner.eat("0x") {
        // All zeros.
        return scanner.need("0").map(|()| vec![]);
    }
    let digits = scanner.take_while(|next| next.is_ascii_hexdigit());
    if digits.len().is_multiple_of(2) { from_hex(digits) } else { from_hex(&format!("0{digits}")) }
}

fn psample(scanner: &mut Scanner<'_>) -> Option<Action> {
    let (mut group, mut cookie) = (None, vec![]);
    while !scanner.eat(")") {
        scanner.skip_delimiters();
        if group.is_none() && scanner.eat("group=") {
            group = Some(scanner.number(32)? as u32);
        } else if cookie.is_empty() && scanner.rest().starts_with("cookie=0x") {
            scanner.need("cookie=")?;
            cookie = hex_bytes(scanner)?;
            if !(1..=MAX_PSAMPLE_COOKIE).contains(&cookie.len()) {
                return None;
            }
        } else {
            return None;
        }
    }
    Some(Action::Psample { group: group?, cookie })
}
