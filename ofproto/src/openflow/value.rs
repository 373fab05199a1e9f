//! Values and masks of match fields.

use std::fmt;

/// Bytes that a value can have: the widest field, tunnel metadata, has 124.
pub const VALUE_LEN: usize = 128;

/// A big-endian unsigned number of up to 1,024 bits: the value or the mask of a match field. The
/// low 128 bits, which suffice for all fields but tunnel metadata, are stored in place.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Value {
    low: u128,
    /// The bits above; `None` when they are all zero, so that equal values compare equal.
    high: Option<Box<[u8; VALUE_LEN - 16]>>,
}

impl Value {
    /// The value zero.
    pub const ZERO: Value = Value { low: 0, high: None };

    /// The number that big-endian `bytes` spell. Bytes beyond the last 128 are ignored.
    pub fn from_bytes(bytes: &[u8]) -> Value {
        let mut all = [0; VALUE_LEN];
        for (to, from) in all.iter_mut().rev().zip(bytes.iter().rev()) {
            *to = *from;
        }
        Value::from_array(&all)
    }

    fn from_array(all: &[u8; VALUE_LEN]) -> Value {
        let mut high = [0; VALUE_LEN - 16];
        let mut low = [0; 16];
        for (to, from) in high.iter_mut().chain(&mut low).zip(all) {
            *to = *from;
        }
        let high = high.iter().any(|byte| *byte != 0).then(|| Box::new(high));
        Value { low: u128::from_be_bytes(low), high }
    }

    fn to_array(&self) -> [u8; VALUE_LEN] {
        let mut all = [0; VALUE_LEN];
        let high = self.high.iter().flat_map(|high| high.iter());
        let bytes = self.low.to_be_bytes();
        let low = bytes.iter().rev().chain(high.rev());
        for (to, from) in all.iter_mut().rev().zip(low) {
            *to = *from;
        }
        all
    }

    /// All ones in the `bits` low bits.
    pub fn ones(bits: usize) -> Value {
        if bits <= 128 {
            return Value::from(low_ones(bits));
        }
        let mut all = [0; VALUE_LEN];
        for (index, byte) in all.iter_mut().rev().enumerate() {
            *byte = low_ones(bits.saturating_sub(index * 8).min(8)) as u8;
        }
        Value::from_array(&all)
    }

    /// The low 128 bits.
    pub fn low(&self) -> u128 {
        self.low
    }

    /// The low `count` bytes, most significant first.
    pub fn to_bytes(&self, count: usize) -> Vec<u8> {
        let all = self.to_array();
        all.iter().copied().skip(VALUE_LEN.saturating_sub(count)).collect()
    }

    /// Whether every bit is zero.
    pub fn is_zero(&self) -> bool {
        self.low == 0 && self.high.is_none()
    }

    /// Whether the `bits` low bits are ones; the bits above do not matter.
    pub fn is_ones(&self, bits: usize) -> bool {
        self.and(&Value::ones(bits)) == Value::ones(bits)
    }

    /// Bytes that are needed to write the number without leading zeros.
    pub fn significant_bytes(&self) -> usize {
        self.to_array().iter().skip_while(|byte| **byte == 0).count()
    }

    /// The bits that are one in both.
    pub fn and(&self, other: &Value) -> Value {
        self.combine(other, |a, b| a & b)
    }

    /// The bits that are one in this value and zero in `other`.
    pub fn and_not(&self, other: &Value) -> Value {
        self.combine(other, |a, b| a & !b)
    }

    /// The bits that are one in either.
    pub fn or(&self, other: &Value) -> Value {
        self.combine(other, |a, b| a | b)
    }

    fn combine(&self, other: &Value, bits: fn(u8, u8) -> u8) -> Value {
        let mut all = self.to_array();
        for (to, from) in all.iter_mut().zip(other.to_array()) {
            *to = bits(*to, from);
        }
        Value::from_array(&all)
    }

    /// The value moved up by `count` bits; bits beyond 1,024 are lost.
    pub fn shl(&self, count: usize) -> Value {
        self.moved(|bit| bit.checked_sub(count))
    }

    /// The value moved down by `count` bits.
    pub fn shr(&self, count: usize) -> Value {
        self.moved(|bit| bit.checked_add(count))
    }

    /// A value whose bit N is bit `source(N)` of this one.
    fn moved(&self, source: impl Fn(usize) -> Option<usize>) -> Value {
        let from = self.to_array();
        let bit_of = |bit: usize| {
            let byte = from.iter().rev().nth(bit / 8).copied().unwrap_or(0);
            byte >> (bit % 8) & 1
        };
        let mut all = [0; VALUE_LEN];
        for (index, byte) in all.iter_mut().rev().enumerate() {
            for bit in 0..8 {
                *byte |= source(index * 8 + bit).map_or(0, bit_of) << bit;
            }
        }
        Value::from_array(&all)
    }
}

/// A number whose `bits` low bits are ones.
pub(crate) fn low_ones(bits: usize) -> u128 {
    if bits >= 128 { u128::MAX } else { (1 << bits) - 1 }
}

impl From<u128> for Value {
    fn from(low: u128) -> Value {
        Value { low, high: None }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Value {
    /// Writes `0x` and lower-case hexadecimal digits without leading zeros; zero is `0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        let bytes = self.to_bytes(self.significant_bytes());
        let mut bytes = bytes.iter();
        if let Some(first) = bytes.next() {
            write!(f, "{first:#x}")?;
        }
        bytes.try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_round_trip(bytes in prop::collection::vec(any::<u8>(), 0..=128)) {
            let value = Value::from_bytes(&bytes);
            prop_assert_eq!(value.to_bytes(bytes.len()), bytes.clone());
            let significant: Vec<u8> = bytes.into_iter().skip_while(|b| *b == 0).collect();
            prop_assert_eq!(value.to_bytes(value.significant_bytes()), significant);
        }

        #[test]
        fn shifts_agree_with_u128(number in any::<u128>(), count in 0usize..128) {
            let value = Value::from(number);
            prop_assert_eq!(value.shr(count), Value::from(number >> count));
            prop_assert_eq!(value.shl(count).low(), number << count);
            prop_assert_eq!(value.shl(count).shr(count), value.clone());
            prop_assert_eq!(value.and(&Value::ones(count)).low(), number & low_ones(count));
        }
    }

    #[test]
    fn text_and_ones() {
        assert_eq!(Value::ZERO.to_string(), "0");
        assert_eq!(Value::from(0x0a0b).to_string(), "0xa0b");
        assert_eq!(Value::ones(130).to_string(), format!("0x3{}", "f".repeat(32)));
        assert!(Value::ones(992).is_ones(992) && !Value::ones(991).is_ones(992));
        assert!(Value::ones(0).is_zero());
    }
}
