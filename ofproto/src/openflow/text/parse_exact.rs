//! Reading the fields of one packet, such as `ofproto/trace` takes them.

use super::super::field::Field;
use super::super::flow_match::Match;
use super::super::slot::Slot;
use super::Names;
use super::parse_match::{PROTOCOLS, parse_value};
use super::scan::{Pairs, Word};

/// Reads the fields of a packet such as `in_port=1,icmp,nw_src=10.0.0.1`, none of which may have a
/// mask. Fields that the text does not name are zero.
///
/// # Errors
/// For a word that is not understood, a field that was there before, and a field whose
/// prerequisites no word before meets.
pub fn parse_packet_fields(text: &str, names: &dyn Names) -> Result<Match, String> {
    let mut fields = Match::new();
    for pair in Pairs::new(Word::new(text)) {
        let word = pair.key.text;
        if let Some((_, kind, proto)) = PROTOCOLS.iter().find(|(name, ..)| *name == word) {
            if fields.value(Slot::ETH_TYPE) != 0 {
                return Err(format!("{text}: Ethernet type set multiple times"));
            }
            fields.set_exact(Slot::ETH_TYPE, (*kind).into());
            if let Some(proto) = proto {
                if fields.value(Slot::NW_PROTO) != 0 {
                    return Err(format!("{text}: network protocol set multiple times"));
                }
                fields.set_exact(Slot::NW_PROTO, (*proto).into());
            }
            continue;
        }
        let field = Field::from_name(word).or_else(|| Field::from_oxm_name(word));
        let field = field.ok_or_else(|| format!("{text}: unknown field {word}"))?;
        if !field.prerequisite_met(&fields) {
            return Err(format!("{text}: prerequisites not met for setting {word}"));
        }
        if !fields.field(field).0.is_zero() {
            return Err(format!("{text}: field {word} set multiple times"));
        }
        let bad_value = |why: String| format!("{text}: bad value for {word} ({why})");
        let (value, mask) = parse_value(field, pair.value, names)
            .map_err(|error| bad_value(format!("{}: {}", error.word, error.message)))?;
        if !mask.is_ones(field.bytes() * 8) {
            let value = pair.value.text;
            return Err(bad_value(format!("{value}: wildcards not allowed here")));
        }
        let set = match field.slot().tun_metadata_index() {
            Some(index) => {
                let bytes = value.significant_bytes();
                fields.set_tun_metadata(index, &value, &mask, bytes, false)
            }
            None => fields.set_field(field, &value, &mask),
        };
        set.map_err(|error| bad_value(error.to_string()))?;
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::super::{DEFAULT_PRIORITY, NoNames, print_match};
    use super::*;

    #[test]
    fn reads_fields_and_says_what_is_wrong() {
        let fields = |text: &str| {
            parse_packet_fields(text, &NoNames).map(|fields| {
                let mut text = String::new();
                print_match(&mut text, &fields, DEFAULT_PRIORITY, &NoNames);
                text
            })
        };
        for text in ["icmp,in_port=1,nw_src=10.0.0.1,icmp_type=8", "tcp6,ipv6_dst=::1,tp_dst=80"] {
            assert_eq!(fields(text), Ok(text.to_owned()));
        }
        for (text, error) in [
            ("tcp,ip", "tcp,ip: Ethernet type set multiple times"),
            ("foo=1", "foo=1: unknown field foo"),
            ("nw_src=1.2.3.4", "nw_src=1.2.3.4: prerequisites not met for setting nw_src"),
            ("in_port=1,in_port=2", "in_port=1,in_port=2: field in_port set multiple times"),
            (
                "ip,nw_src=10.0.0.0/8",
                "ip,nw_src=10.0.0.0/8: bad value for nw_src (10.0.0.0/8: wildcards not allowed \
                 here)",
            ),
        ] {
            assert_eq!(fields(text), Err(error.to_owned()));
        }
    }
}
