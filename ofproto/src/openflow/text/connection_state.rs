//! The state of a connection, as operators write it and as it is shown.

use super::value::{CT_STATES, put_flags};

const NEW: u8 = 1;
const ESTABLISHED: u8 = 1 << 1;
const REPLY: u8 = 1 << 3;
const INVALID: u8 = 1 << 4;
const TRACKED: u8 = 1 << 5;

/// The flags of a state by name, with `|` between them.
pub fn connection_state_text(state: u8) -> String {
    let mut text = String::new();
    put_flags(&mut text, &CT_STATES, state.into(), u8::MAX.into(), u8::MAX.into());
    text
}

/// Reads flags with commas or spaces between them, such as `trk,new`.
///
/// # Errors
/// For a flag that is not known, and for flags that cannot go together.
pub fn parse_connection_state(text: &str) -> Result<u8, String> {
    let mut state = 0;
    for name in text.split([',', ' ']).filter(|name| !name.is_empty()) {
        let bit = CT_STATES.iter().position(|known| *known == name);
        let unknown = || format!("{name}: unknown connection tracking state flag");
        state |= 1 << bit.ok_or_else(unknown)?;
    }
    let has = |bits: u8| state & bits == bits;
    let faults = [
        (state != 0 && !has(TRACKED), "If \"trk\" is unset, no other flags are set"),
        (
            has(INVALID) && state & !(TRACKED | INVALID) != 0,
            "when \"inv\" is set, only \"trk\" may also be set",
        ),
        (has(NEW | ESTABLISHED), "\"new\" and \"est\" are mutually exclusive"),
        (has(NEW | REPLY), "\"new\" and \"rpy\" are mutually exclusive"),
    ];
    let shown = connection_state_text(state);
    let faults: String = faults
        .iter()
        .filter(|(is_wrong, _)| *is_wrong)
        .map(|(_, why)| format!("{shown}: invalid connection state: {why}\n"))
        .collect();
    if faults.is_empty() { Ok(state) } else { Err(faults) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_checked() {
        assert_eq!(parse_connection_state("trk,new"), Ok(0x21));
        assert_eq!(parse_connection_state("trk est,rpl"), Ok(0x2a));
        assert_eq!(connection_state_text(0x2a), "est|rpl|trk");
        assert_eq!(connection_state_text(0), "0");
        for (text, error) in [
            ("foo", "foo: unknown connection tracking state flag"),
            ("new", "new: invalid connection state: If \"trk\" is unset, no other flags are set\n"),
            (
                "trk,new,est",
                "new|est|trk: invalid connection state: \"new\" and \"est\" are mutually \
                 exclusive\n",
            ),
        ] {
            assert_eq!(parse_connection_state(text), Err(error.to_owned()));
        }
    }
}
