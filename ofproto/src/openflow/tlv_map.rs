//! The tunnel options that a switch maps to `tun_metadata` fields, and where it keeps their values.
//!
//! All fields of a packet share [`SPACE`] bytes. A field has as many units of four bytes of them as
//! its option needs, not necessarily next to each other: its bytes lie in them in rising order.

use zerocopy::network_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::error::OfError;
use super::message::TlvMapping;
use super::slot::N_TUN_METADATA;
use super::value::Value;

/// Bytes of all fields together.
pub const SPACE: usize = 256;
/// Bytes of a unit.
const UNIT: usize = 4;

/// An option that is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlvOption {
    /// Its class.
    pub class: u16,
    /// Its type.
    pub kind: u8,
    /// The units of its value, one bit each.
    units: u64,
}

impl TlvOption {
    /// Bytes of its value.
    pub fn bytes(&self) -> usize {
        self.units.count_ones() as usize * UNIT
    }
}

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlvMap([Option<TlvOption>; N_TUN_METADATA as usize]);

impl Default for TlvMap {
    /// Maps nothing.
    fn default() -> Self {
        Self([None; N_TUN_METADATA as usize])
    }
}

impl TlvMap {
    /// The option of a field, if there is one.
    pub fn get(&self, index: u8) -> Option<&TlvOption> {
        self.0.get(usize::from(index))?.as_ref()
    }

    /// The field of an option, and the option.
    pub fn find(&self, class: u16, kind: u8) -> Option<(u8, &TlvOption)> {
        self.iter().find(|(_, option)| (option.class, option.kind) == (class, kind))
    }

    /// The fields with an option, in rising order.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &TlvOption)> {
        let fields = (0u8..).zip(&self.0);
        fields.filter_map(|(index, option)| Some((index, option.as_ref()?)))
    }

    /// Maps an option to a field.
    ///
    /// # Errors
    /// When the field or the option is mapped, or there is no room left.
    pub fn add(&mut self, mapping: &TlvMapping) -> Result<(), OfError> {
        let &TlvMapping { option_class: class, option_type: kind, option_len, index } = mapping;
        let used = self.iter().fold(0, |used, (_, option)| used | option.units);
        let is_known = self.find(class, kind).is_some();
        let place = self.0.get_mut(usize::from(index)).ok_or(OfError::TlvTableModBadFieldIdx)?;
        if place.is_some() {
            return Err(OfError::TlvTableModAlreadyMapped);
        }
        if is_known {
            return Err(OfError::TlvTableModDupEntry);
        }
        let mut units = 0;
        for _ in 0..usize::from(option_len).div_ceil(UNIT) {
            let free = !(used | units);
            if free == 0 {
                return Err(OfError::TlvTableModTableFull);
            }
            units |= 1 << free.trailing_zeros();
        }
        *place = Some(TlvOption { class, kind, units });
        Ok(())
    }

    /// Ends the mapping of a field, if there is one.
    pub fn remove(&mut self, index: u8) {
        if let Some(place) = self.0.get_mut(usize::from(index)) {
            *place = None;
        }
    }

    /// What is mapped, as messages have it.
    pub fn mappings(&self) -> Vec<TlvMapping> {
        let mappings = self.iter().map(|(index, option)| TlvMapping {
            option_class: option.class,
            option_type: option.kind,
            option_len: option.bytes() as u8,
            index: index.into(),
        });
        mappings.collect()
    }
}

/// The values of `tun_metadata` fields of a packet, or bits of them.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct TunnelMetadata {
    /// The fields that the packet has, the lowest bit for the first.
    present: U64,
    values: [u8; SPACE],
}

impl Default for TunnelMetadata {
    fn default() -> Self {
        Self { present: U64::ZERO, values: [0; SPACE] }
    }
}

impl std::fmt::Debug for TunnelMetadata {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let values = self.values.chunks(UNIT).enumerate();
        let set = values.filter(|(_, unit)| unit.iter().any(|byte| *byte != 0));
        f.debug_map().entry(&"present", &self.present.get()).entries(set).finish()
    }
}

impl TunnelMetadata {
    /// Whether no field is there.
    pub fn is_empty(&self) -> bool {
        self.present.get() == 0
    }

    /// Whether field `index` is there.
    pub fn has(&self, index: u8) -> bool {
        self.present.get() & 1 << index != 0
    }

    /// Takes a field off, but not its value, which means nothing then.
    pub fn remove(&mut self, index: u8) {
        self.present.set(self.present.get() & !(1 << index));
    }

    /// The mask with every bit of the fields that are there.
    pub fn all_bits(&self) -> Self {
        Self { present: self.present, values: [u8::MAX; SPACE] }
    }

    /// The value of an option's field.
    pub fn value(&self, option: &TlvOption) -> Value {
        let units = self.values.chunks(UNIT).enumerate();
        let own = units.filter(|(unit, _)| option.units & 1 << unit != 0);
        Value::from_bytes(&own.flat_map(|(_, unit)| unit.iter().copied()).collect::<Vec<_>>())
    }

    /// Sets bits of the field `index` of an option, which is there then.
    pub fn set(&mut self, index: u8, option: &TlvOption, value: &Value, mask: &Value) {
        let new = self.value(option).and_not(mask).or(&value.and(mask));
        let bytes = new.to_bytes(option.bytes());
        let units = self.values.chunks_mut(UNIT).enumerate();
        let own = units.filter(|(unit, _)| option.units & 1 << unit != 0);
        for (byte, new) in own.flat_map(|(_, unit)| unit).zip(bytes) {
            *byte = new;
        }
        self.present.set(self.present.get() | 1 << index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(index: u16, option_len: u8) -> TlvMapping {
        TlvMapping { option_class: 0xffff, option_type: index as u8, option_len, index }
    }

    fn map(mappings: &[TlvMapping]) -> TlvMap {
        let mut map = TlvMap::default();
        mappings.iter().for_each(|mapping| map.add(mapping).unwrap());
        map
    }

    #[test]
    fn fields_and_options_are_mapped_once() {
        let mappings = [mapping(1, 0), mapping(5, 8)];
        let mut map = map(&mappings);
        assert_eq!(map.mappings(), mappings);
        assert_eq!(map.add(&mapping(5, 4)), Err(OfError::TlvTableModAlreadyMapped));
        let same = TlvMapping { index: 6, ..mapping(5, 4) };
        assert_eq!(map.add(&same), Err(OfError::TlvTableModDupEntry));
        assert_eq!(map.add(&mapping(64, 4)), Err(OfError::TlvTableModBadFieldIdx));
        assert_eq!(
            map.find(0xffff, 5).map(|(index, option)| (index, option.bytes())),
            Some((5, 8))
        );
        map.remove(5);
        assert_eq!(map.mappings(), [mapping(1, 0)]);
        map.add(&same).unwrap();
    }

    #[test]
    fn room_is_used_up_to_the_last_unit() {
        let mut map = map(&[mapping(0, 124), mapping(1, 4), mapping(2, 124)]);
        assert_eq!(map.add(&mapping(3, 8)), Err(OfError::TlvTableModTableFull));
        // What is left lies apart.
        map.remove(1);
        map.add(&mapping(3, 8)).unwrap();
        assert_eq!(map.add(&mapping(1, 4)), Err(OfError::TlvTableModTableFull));
        map.add(&mapping(1, 0)).unwrap();
        let (mut metadata, ones) = (TunnelMetadata::default(), Value::ones(64));
        for (index, value) in [(0, 1), (3, 0x0123_4567_89ab_cdef_u128), (2, 2)] {
            let option = map.get(index).unwrap();
            metadata.set(index, option, &Value::from(value), &ones);
        }
        let value = |index| metadata.value(map.get(index).unwrap()).low();
        assert_eq!([0, 1, 2, 3].map(value), [1, 0, 2, 0x0123_4567_89ab_cdef]);
        assert_eq!([0, 1, 2, 3].map(|index| metadata.has(index)), [true, false, true, true]);
    }

    #[test]
    fn some_bits_are_set() {
        let map = map(&[mapping(9, 4)]);
        let option = map.get(9).unwrap();
        let mut metadata = TunnelMetadata::default();
        let set = |metadata: &mut TunnelMetadata, value: u128, mask: u128| {
            metadata.set(9, option, &Value::from(value), &Value::from(mask));
        };
        set(&mut metadata, 0xffff_ffff, 0x0000_ff00);
        set(&mut metadata, 0x1, 0x0000_010f);
        assert_eq!(metadata.value(option).low(), 0x0000_fe01);
        assert!(!metadata.is_empty());
        metadata.remove(9);
        assert!(metadata.is_empty());
    }
}
