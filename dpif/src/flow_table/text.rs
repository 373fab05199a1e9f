//! What a flow has counted, in words.

use std::fmt;
use std::time::Duration;

use netdev::clock;

use super::FlowStatistics;

impl FlowStatistics {
    /// Time since the flow was used, in whole milliseconds of the clock as the flow counts them.
    pub fn age(&self) -> Option<Duration> {
        let age = clock::now().as_millis().saturating_sub(self.used?.as_millis());
        Some(Duration::from_millis(age as u64))
    }

    /// The TCP flags as letters, in the order of Open vSwitch.
    pub fn flag_letters(&self) -> String {
        const LETTERS: [(u16, &str); 12] = [
            (0x002, "S"),
            (0x001, "F"),
            (0x008, "P"),
            (0x004, "R"),
            (0x020, "U"),
            (0x010, "."),
            (0x040, "E"),
            (0x080, "C"),
            (0x100, "N"),
            (0x200, "[200]"),
            (0x400, "[400]"),
            (0x800, "[800]"),
        ];
        let set = LETTERS.iter().filter(|(flag, _)| self.tcp_flags & flag != 0);
        set.map(|(_, letter)| *letter).collect()
    }
}

impl fmt::Display for FlowStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packets, bytes, tcp_flags, .. } = self;
        write!(f, "packets:{packets}, bytes:{bytes}, used:")?;
        match self.age() {
            Some(age) => write!(f, "{:.3}s", age.as_secs_f64())?,
            None => f.write_str("never")?,
        }
        if *tcp_flags != 0 {
            write!(f, ", flags:{}", self.flag_letters())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_flags_stand_in_the_order_of_the_tools() {
        let letters = |tcp_flags| FlowStatistics { tcp_flags, ..Default::default() }.flag_letters();
        assert_eq!(letters(0x002), "S");
        assert_eq!(letters(0xfff), "SFPRU.ECN[200][400][800]");
    }

    #[test]
    fn flows_that_nothing_hit_were_never_used() {
        let never = FlowStatistics { packets: 2, bytes: 120, ..FlowStatistics::default() };
        assert_eq!(never.to_string(), "packets:2, bytes:120, used:never");
        assert_eq!(never.age(), None);
        // It has not come yet, so it was just now.
        let used = Some(clock::now() + Duration::from_secs(3600));
        let now = FlowStatistics { used, tcp_flags: 0x012, ..never };
        assert_eq!(now.to_string(), "packets:2, bytes:120, used:0.000s, flags:S.");
    }
}
