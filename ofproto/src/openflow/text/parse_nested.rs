//! Reading ct, nat, sample, encap and decap actions.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::super::action::{
    Action, Ct, Encap, EncapProperty, Instruction, Nat, NatAddresses, Number, Outer, Sample,
    SampleDirection, packet_type,
};
use super::super::port::PortNo;
use super::Names;
use super::parse_action::{Reading, parse_list};
use super::scan::{Pairs, ParseError, Word, strip_hex};

/// A number or some bits of a field.
fn number<T: TryFrom<u128>>(word: Word<'_>) -> Result<Number<T>, ParseError> {
    match word.text.starts_with(|c: char| c.is_ascii_digit()) {
        true => word.number().map(Number::Immediate),
        false => word.subfield().map(Number::Field),
    }
}

pub(super) fn parse_ct(value: Word<'_>, reading: Reading<'_>) -> Result<Action, ParseError> {
    let mut ct = Ct {
        flags: 0,
        zone: Number::Immediate(0),
        recirc_table: Ct::NO_RECIRC,
        alg: 0,
        actions: Vec::new(),
    };
    for pair in Pairs::new(value) {
        let value = pair.value;
        match pair.key.text {
            "commit" => ct.flags |= Ct::COMMIT,
            "force" => ct.flags |= Ct::FORCE,
            "table" => {
                ct.recirc_table = value.table(reading.names)?;
                if ct.recirc_table == Ct::NO_RECIRC {
                    return Err(value.error("invalid table 0xff"));
                }
            }
            "zone" => {
                ct.zone = number(value)?;
                if matches!(ct.zone, Number::Field(src) if src.bits != 16) {
                    return Err(value.error("zone must be 16 bits"));
                }
            }
            "alg" => {
                ct.alg = match value.text {
                    "ftp" => 21,
                    "tftp" => 69,
                    _ => value.number()?,
                }
            }
            // Address translation stands before the other actions.
            "nat" => ct.actions.insert(0, parse_nat(value)?),
            "exec" => {
                let allowed = &[Instruction::ApplyActions];
                ct.actions.extend(parse_list(value, reading, allowed, Outer::Ct)?);
            }
            _ => return Err(pair.key.error("invalid argument to \"ct\" action")),
        }
    }
    if ct.flags & Ct::FORCE != 0 && ct.flags & Ct::COMMIT == 0 {
        return Err(value.error("\"force\" flag requires \"commit\" flag"));
    }
    Ok(Action::Ct(Box::new(ct)))
}

pub(super) fn parse_nat(value: Word<'_>) -> Result<Action, ParseError> {
    let mut nat = Nat { flags: 0, addresses: None, port_min: 0, port_max: 0 };
    for pair in Pairs::new(value) {
        let range = pair.value;
        match pair.key.text {
            "src" => nat.flags |= Nat::SRC,
            "dst" => nat.flags |= Nat::DST,
            "persistent" => nat.flags |= Nat::PERSISTENT,
            "hash" => nat.flags |= Nat::PROTO_HASH,
            "random" => nat.flags |= Nat::PROTO_RANDOM,
            _ => return Err(pair.key.error("invalid key in \"nat\" argument")),
        }
        if matches!(pair.key.text, "src" | "dst") && !range.text.is_empty() {
            parse_nat_range(&mut nat, range)?;
        }
    }
    if nat.flags & Nat::SRC != 0 && nat.flags & Nat::DST != 0 {
        return Err(value.error("may only specify one of \"src\" or \"dst\""));
    }
    if nat.flags & (Nat::SRC | Nat::DST) == 0 && nat.flags != 0 {
        return Err(value.error("flags allowed only with \"src\" or \"dst\""));
    }
    if nat.flags & Nat::PROTO_HASH != 0 && nat.flags & Nat::PROTO_RANDOM != 0 {
        return Err(value.error("both \"hash\" and \"random\" are not allowed"));
    }
    Ok(Action::Nat(Box::new(nat)))
}

/// `address[-address][:port[-port]]`, with IPv6 addresses in brackets when ports follow.
fn parse_nat_range(nat: &mut Nat, range: Word<'_>) -> Result<(), ParseError> {
    let bad = || range.error("invalid NAT range");
    let bracketed = range.text.starts_with('[');
    let is_ipv6 = bracketed || range.text.matches(':').count() > 1;
    let (addresses, ports) = match (bracketed, is_ipv6) {
        (true, _) => match range.text.rfind("]:") {
            Some(at) => range.text.split_at_checked(at + 1).ok_or_else(bad)?,
            None => (range.text, ""),
        },
        (false, true) => (range.text, ""),
        _ => match range.text.find(':') {
            Some(at) => range.text.split_at_checked(at).ok_or_else(bad)?,
            None => (range.text, ""),
        },
    };
    let (first, last) = match addresses.split_once('-') {
        Some((first, last)) => (first, Some(last)),
        None => (addresses, None),
    };
    let v6 = |text: &str| {
        text.trim_start_matches('[').trim_end_matches(']').parse::<Ipv6Addr>().map_err(|_| bad())
    };
    let v4 = |text: &str| text.parse::<Ipv4Addr>().map_err(|_| bad());
    let addresses = match is_ipv6 {
        true => NatAddresses::V6(v6(first)?, last.map(v6).transpose()?),
        false => NatAddresses::V4(v4(first)?, last.map(v4).transpose()?),
    };
    let ordered = match addresses {
        NatAddresses::V4(first, last) => last.is_none_or(|last| first <= last),
        NatAddresses::V6(first, last) => last.is_none_or(|last| first <= last),
    };
    if !ordered {
        return Err(bad());
    }
    nat.addresses = Some(addresses);
    if let Some(ports) = ports.strip_prefix(':') {
        let port = |text: &str| text.parse::<u16>().map_err(|_| bad());
        let (first, last) = match ports.split_once('-') {
            Some((first, last)) => (port(first)?, port(last)?),
            None => (port(ports)?, 0),
        };
        if last != 0 && first > last {
            return Err(bad());
        }
        (nat.port_min, nat.port_max) = (first, last);
    }
    Ok(())
}

pub(super) fn parse_sample(value: Word<'_>, names: &dyn Names) -> Result<Action, ParseError> {
    let mut sample = Sample {
        probability: 0,
        collector_set_id: 0,
        obs_domain: Number::Immediate(0),
        obs_point: Number::Immediate(0),
        sampling_port: PortNo::NONE,
        direction: SampleDirection::Default,
        form: 1,
    };
    for pair in Pairs::new(value) {
        let value = pair.value;
        match pair.key.text {
            "probability" => sample.probability = value.number()?,
            "collector_set_id" => sample.collector_set_id = value.number()?,
            "obs_domain_id" => sample.obs_domain = number(value)?,
            "obs_point_id" => sample.obs_point = number(value)?,
            "sampling_port" => {
                sample.sampling_port = value.port(names)?;
                sample.form = sample.form.max(2);
            }
            "ingress" | "egress" => {
                let ingress = pair.key.text == "ingress";
                sample.direction =
                    if ingress { SampleDirection::Ingress } else { SampleDirection::Egress };
                sample.form = sample.form.max(3);
            }
            _ => return Err(pair.key.error("invalid key in \"sample\" argument")),
        }
    }
    let by_field = |number: &Number<u32>| matches!(number, Number::Field(_));
    if by_field(&sample.obs_domain) || by_field(&sample.obs_point) {
        sample.form = 4;
    }
    match sample.probability {
        0 => Err(value.error("non-zero \"probability\" must be specified on sample")),
        _ => Ok(Action::Sample(Box::new(sample))),
    }
}

pub(super) fn parse_encap(value: Word<'_>) -> Result<Action, ParseError> {
    let mut pairs = Pairs::new(value);
    let header = pairs.next().ok_or_else(|| value.error("missing encap header"))?;
    let packet_type = match header.key.text {
        "ethernet" => packet_type::ETHERNET,
        "nsh" => packet_type::NSH,
        "mpls" => packet_type::MPLS,
        "mpls_mc" => packet_type::MPLS_MULTICAST,
        _ => return Err(header.key.error("encap header not supported")),
    };
    let mut properties = Vec::new();
    for pair in Pairs::new(header.value) {
        properties.push(match pair.key.text {
            "md_type" => EncapProperty::NshMdType(pair.value.number()?),
            "tlv" => parse_tlv(pair.value)?,
            _ => return Err(pair.key.error("invalid property")),
        });
    }
    Ok(Action::Encap(Box::new(Encap { packet_type, header_size: 0, properties })))
}

/// `class,type,0xdata`.
fn parse_tlv(value: Word<'_>) -> Result<EncapProperty, ParseError> {
    let words = value.split(",").and_then(|(class, rest)| Some((class, rest.split(",")?)));
    let (class, (kind, data)) = words.ok_or_else(|| value.error("expected class,type,data"))?;
    let digits = strip_hex(data.text).ok_or_else(|| data.error("not a hexadecimal number"))?;
    let data = Word { text: digits, position: data.position + 2 }.dotted_hex()?;
    Ok(EncapProperty::NshTlv { class: class.number()?, kind: kind.number()?, data })
}

pub(super) fn parse_decap(value: Word<'_>) -> Result<Action, ParseError> {
    let mut packet_type = packet_type::USE_NEXT_PROTO;
    for pair in Pairs::new(value) {
        if pair.key.text != "packet_type" {
            return Err(pair.key.error("invalid decap argument"));
        }
        let (mut namespace, mut kind) = (0u16, 0u16);
        for part in Pairs::new(pair.value) {
            match part.key.text {
                "ns" => namespace = part.value.number()?,
                "type" => kind = part.value.number()?,
                _ => return Err(part.key.error("invalid packet type")),
            }
        }
        packet_type = u32::from(namespace) << 16 | u32::from(kind);
    }
    Ok(Action::Decap(packet_type))
}
