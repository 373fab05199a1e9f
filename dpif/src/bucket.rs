//! A cache line of a hash table: eight tags and the flows that they may stand for.

/// Slots of a bucket.
pub(crate) const SLOTS: usize = 8;

/// Flow number of an empty slot. No flow has it, so that a look-up needs no test for it.
pub(crate) const NO_FLOW: u32 = 0;

/// Eight slots, each a tag and a flow. Slots fill from the first on and stay without gaps.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Bucket {
    pub(crate) tags: [u32; SLOTS],
    pub(crate) flows: [u32; SLOTS],
}

const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    pub(crate) const EMPTY: Self = Self { tags: [0; SLOTS], flows: [NO_FLOW; SLOTS] };

    /// The slots with this tag, a bit each. Empty slots have tag 0.
    #[inline]
    pub(crate) fn matches(&self, tag: u32) -> u8 {
        let mut found = 0;
        for (slot, &other) in self.tags.iter().enumerate() {
            found |= u8::from(other == tag) << slot;
        }
        found
    }

    /// The flow with this tag, or [`NO_FLOW`]. When several slots have the tag it is none of theirs.
    #[inline]
    pub(crate) fn guess(&self, tag: u32) -> u32 {
        // A few vector instructions, and no branch.
        let mut guess = NO_FLOW;
        for (&other, &flow) in self.tags.iter().zip(&self.flows) {
            guess |= if other == tag { flow } else { NO_FLOW };
        }
        guess
    }

    /// The flow in a slot; the slot counts modulo 8.
    #[inline]
    pub(crate) fn flow(&self, slot: u32) -> u32 {
        self.flows[slot as usize % SLOTS]
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.flows[SLOTS - 1] != NO_FLOW
    }

    /// Fills the first empty slot; false when there is none.
    pub(crate) fn push(&mut self, tag: u32, flow: u32) -> bool {
        let mut slots = self.tags.iter_mut().zip(&mut self.flows);
        let Some((place, empty)) = slots.find(|(_, flow)| **flow == NO_FLOW) else {
            return false;
        };
        (*place, *empty) = (tag, flow);
        true
    }

    /// Empties a slot and moves the last one into the gap.
    pub(crate) fn remove(&mut self, slot: usize) {
        let used = self.flows.iter().take_while(|&&flow| flow != NO_FLOW).count();
        if slot < used {
            self.tags.swap(slot, used - 1);
            self.flows.swap(slot, used - 1);
            self.tags[used - 1] = 0;
            self.flows[used - 1] = NO_FLOW;
        }
    }
}
