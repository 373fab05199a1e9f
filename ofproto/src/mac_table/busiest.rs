//! The ports of a MAC table by their numbers of learned entries.
//!
//! It is a heap that moves its ports as that of Open vSwitch does, so that both give up the same
//! station when several ports have the most.

use std::collections::HashMap;

use crate::port::PortNumber;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Busiest {
    /// No port has more entries than the one at half its place.
    heap: Vec<(PortNumber, usize)>,
    places: HashMap<PortNumber, usize>,
}

impl Busiest {
    /// The port with the most entries.
    pub(super) fn first(&self) -> Option<PortNumber> {
        self.heap.first().map(|(port, _)| *port)
    }

    /// Counts one entry more on a port.
    pub(super) fn add(&mut self, port: PortNumber) {
        let place = *self.places.entry(port).or_insert(self.heap.len());
        match self.heap.get_mut(place) {
            Some((_, count)) => *count += 1,
            None => self.heap.push((port, 1)),
        }
        self.restore(place);
    }

    /// Counts one entry less on a port.
    pub(super) fn take(&mut self, port: PortNumber) {
        let Some(&place) = self.places.get(&port) else { return };
        let Some((_, count)) = self.heap.get_mut(place) else { return };
        *count -= 1;
        if *count == 0 {
            self.heap.swap_remove(place);
            self.places.remove(&port);
            if let Some((moved, _)) = self.heap.get(place) {
                self.places.insert(*moved, place);
            }
        }
        self.restore(place);
    }

    fn count(&self, place: usize) -> usize {
        self.heap.get(place).map_or(0, |(_, count)| *count)
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for place in [one, other] {
            if let Some((port, _)) = self.heap.get(place) {
                self.places.insert(*port, place);
            }
        }
    }

    /// Moves the port at `place`, the only one that may be out of order, to where it belongs.
    fn restore(&mut self, mut place: usize) {
        let start = place;
        while let Some(parent) = place.checked_sub(1).map(|before| before / 2)
            && self.count(parent) < self.count(place)
        {
            self.swap(parent, place);
            place = parent;
        }
        if place != start {
            return;
        }
        loop {
            let mut largest = place;
            for child in [2 * place + 1, 2 * place + 2] {
                if self.count(child) > self.count(largest) {
                    largest = child;
                }
            }
            if largest == place {
                return;
            }
            self.swap(largest, place);
            place = largest;
        }
    }
}
