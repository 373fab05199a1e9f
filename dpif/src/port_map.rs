//! Something per port, found in one load.

use std::collections::BTreeMap;

use crate::datapath::PortNumber;

/// Numbers below this one are places of an array. Ports of dummy datapaths, whose numbers follow
/// their names, may lie beyond.
const ARRAY: usize = 1 << 16;

/// A map from port numbers.
#[derive(Debug)]
pub(crate) struct PortMap<T> {
    array: Vec<Option<Box<T>>>,
    beyond: BTreeMap<PortNumber, T>,
}

impl<T> Default for PortMap<T> {
    fn default() -> Self {
        Self { array: vec![], beyond: BTreeMap::new() }
    }
}

impl<T> PortMap<T> {
    #[inline]
    pub(crate) fn get_mut(&mut self, port: PortNumber) -> Option<&mut T> {
        match self.array.get_mut(port.0 as usize) {
            Some(place) => place.as_deref_mut(),
            None => self.beyond.get_mut(&port),
        }
    }

    #[inline]
    pub(crate) fn get(&self, port: PortNumber) -> Option<&T> {
        match self.array.get(port.0 as usize) {
            Some(place) => place.as_deref(),
            None => self.beyond.get(&port),
        }
    }

    pub(crate) fn insert(&mut self, port: PortNumber, value: T) {
        let index = port.0 as usize;
        if index >= ARRAY {
            self.beyond.insert(port, value);
            return;
        }
        if index >= self.array.len() {
            self.array.resize_with(index + 1, || None);
        }
        if let Some(place) = self.array.get_mut(index) {
            *place = Some(Box::new(value));
        }
    }

    pub(crate) fn remove(&mut self, port: PortNumber) -> Option<T> {
        match self.array.get_mut(port.0 as usize) {
            Some(place) => place.take().map(|value| *value),
            None => self.beyond.remove(&port),
        }
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let array = self.array.iter_mut().filter_map(Option::as_deref_mut);
        array.chain(self.beyond.values_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_and_far_numbers_are_kept_apart() {
        let mut map = PortMap::default();
        for number in [0, 7, 65_535, 65_536, 4_000_000_000] {
            assert_eq!(map.get(PortNumber(number)), None);
            map.insert(PortNumber(number), number);
        }
        assert_eq!(map.values_mut().map(|value| *value).sum::<u32>(), 4_000_131_078);
        *map.get_mut(PortNumber(7)).unwrap() = 8;
        assert_eq!(map.remove(PortNumber(7)), Some(8));
        assert_eq!(map.remove(PortNumber(65_536)), Some(65_536));
        assert_eq!((map.get(PortNumber(7)), map.get(PortNumber(65_536))), (None, None));
        assert_eq!(map.get(PortNumber(65_535)), Some(&65_535));
    }
}
