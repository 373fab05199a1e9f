//! OpenFlow port numbers.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Number of a port within its switch (OpenFlow 1.0 section 5.2.1, 1.5 section 7.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortNumber(pub u16);

impl PortNumber {
    /// The switch's own port.
    pub const LOCAL: Self = Self(0xfffe);
    /// The first number above those that ports may have.
    pub const MAX: Self = Self(0xff00);

    /// The number in a database column, when ports may have it.
    pub fn from_column(number: i64) -> Option<Self> {
        let number = Self(u16::try_from(number).ok()?);
        (number.0 >= 1 && number < Self::MAX).then_some(number)
    }
}

impl fmt::Display for PortNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Numbers chosen by the switch stay below this, which leaves the upper half to whoever asks.
const AUTOMATIC_END: u16 = 32768;
/// How long a number that was given up is avoided: rules may still name it.
const REST: Duration = Duration::from_secs(60 * 60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Taken,
    FreedAt(Duration),
}

/// Which numbers of a switch are taken, and when the others were last in use.
#[derive(Debug, Default)]
pub struct PortNumbers {
    uses: BTreeMap<u16, Use>,
    last_automatic: u16,
}

impl PortNumbers {
    /// Takes `request` if nobody has it, otherwise the next number that nobody had within the last
    /// hour, otherwise the one that has been free for longest. `now` is the time of the switch's
    /// clock. `None` when all are taken.
    pub fn take(&mut self, request: Option<PortNumber>, now: Duration) -> Option<PortNumber> {
        let number = match request {
            Some(request) if self.uses.get(&request.0) != Some(&Use::Taken) => request.0,
            _ => self.automatic(now)?,
        };
        self.uses.insert(number, Use::Taken);
        Some(PortNumber(number))
    }

    /// Gives `number` up.
    pub fn release(&mut self, number: PortNumber, now: Duration) {
        self.uses.insert(number.0, Use::FreedAt(now));
    }

    fn automatic(&mut self, now: Duration) -> Option<u16> {
        let mut longest: Option<(Duration, u16)> = None;
        for _ in 1..AUTOMATIC_END {
            self.last_automatic = match self.last_automatic + 1 {
                AUTOMATIC_END => 1,
                next => next,
            };
            let number = self.last_automatic;
            match self.uses.get(&number) {
                None => return Some(number),
                Some(Use::Taken) => {}
                Some(&Use::FreedAt(at)) if now.saturating_sub(at) > REST => return Some(number),
                Some(&Use::FreedAt(at)) => {
                    longest = longest.filter(|&(other, _)| other <= at).or(Some((at, number)));
                }
            }
        }
        longest.map(|(_, number)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(10_000);

    fn take(numbers: &mut PortNumbers, request: Option<u16>) -> Option<u16> {
        numbers.take(request.map(PortNumber), START).map(|number| number.0)
    }

    #[test]
    fn requests_come_first() {
        let mut numbers = PortNumbers::default();
        assert_eq!(take(&mut numbers, Some(2)), Some(2));
        assert_eq!(take(&mut numbers, None), Some(1));
        assert_eq!(take(&mut numbers, None), Some(3));
        assert_eq!(take(&mut numbers, Some(2)), Some(4));
        assert_eq!(take(&mut numbers, Some(40_000)), Some(40_000));
    }

    #[test]
    fn a_number_rests_for_an_hour() {
        let mut numbers = PortNumbers::default();
        for expected in 1..=2 {
            assert_eq!(take(&mut numbers, None), Some(expected));
        }
        numbers.release(PortNumber(1), START);
        assert_eq!(take(&mut numbers, None), Some(3));
        // Whoever asks for it may have it at once.
        assert_eq!(take(&mut numbers, Some(1)), Some(1));
    }

    #[test]
    fn the_longest_free_number_is_used_when_none_is_fresh() {
        let mut numbers = PortNumbers::default();
        for _ in 1..AUTOMATIC_END {
            assert!(take(&mut numbers, None).is_some());
        }
        assert_eq!(take(&mut numbers, None), None);
        numbers.release(PortNumber(7), START);
        numbers.release(PortNumber(5), START - Duration::from_secs(1));
        numbers.release(PortNumber(9), START);
        assert_eq!(take(&mut numbers, None), Some(5));
        let later = START + REST + Duration::from_secs(1);
        assert_eq!(numbers.take(None, later), Some(PortNumber(7)));
    }

    #[test]
    fn columns_hold_only_numbers_of_ports() {
        let parse = |number| PortNumber::from_column(number).map(|number| number.0);
        assert_eq!(parse(1), Some(1));
        assert_eq!(parse(0xfeff), Some(0xfeff));
        assert_eq!([parse(0), parse(-1), parse(0xff00), parse(65534), parse(70000)], [None; 5]);
    }
}
