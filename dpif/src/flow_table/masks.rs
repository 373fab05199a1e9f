//! The different masks of a thread's flows. There are few, so flows name them by number.

use crate::flow::{FlowMask, LineSet};

/// Number of the mask of entries that match nothing.
pub(super) const NO_MASK: u32 = 0;

/// One mask and how many flows have it.
#[derive(Debug)]
pub(super) struct SharedMask {
    pub(super) mask: FlowMask,
    /// Whether the first line of a key is all that matters.
    pub(super) is_short: bool,
    flows: usize,
}

impl SharedMask {
    fn new(mask: FlowMask) -> Self {
        let is_short = LineSet::FIRST.contains(mask.lines());
        Self { mask, is_short, flows: 0 }
    }
}

/// The masks by number.
#[derive(Debug)]
pub(super) struct Masks(Vec<SharedMask>);

impl Default for Masks {
    fn default() -> Self {
        Self(vec![SharedMask::new(FlowMask::default())])
    }
}

impl Masks {
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&SharedMask> {
        self.0.get(number as usize)
    }

    /// The number of `mask`, for one more flow.
    pub(super) fn take(&mut self, mask: &FlowMask) -> u32 {
        let mut used = self.0.iter().enumerate().skip(1);
        let found = used.find(|(_, shared)| shared.flows > 0 && shared.mask == *mask);
        let number = found.map(|(number, _)| number).unwrap_or_else(|| self.add(mask));
        if let Some(shared) = self.0.get_mut(number) {
            shared.flows += 1;
        }
        number as u32
    }

    fn add(&mut self, mask: &FlowMask) -> usize {
        let fresh = SharedMask::new(mask.clone());
        let mut places = self.0.iter_mut().enumerate().skip(1);
        match places.find(|(_, shared)| shared.flows == 0) {
            Some((number, place)) => {
                *place = fresh;
                number
            }
            None => {
                self.0.push(fresh);
                self.0.len() - 1
            }
        }
    }

    /// Gives back what [`Self::take`] took.
    pub(super) fn give_back(&mut self, number: u32) {
        if let Some(shared) = self.0.get_mut(number as usize) {
            shared.flows = shared.flows.saturating_sub(1);
        }
    }
}
