//! What the rules of a table have in common.

use super::{ActionKinds, HEADER_WORDS, HeaderFields};

/// A table of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableId(pub u32);

/// The shape of a group of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Packets start at group 0; others are reached by jumps.
    pub group: u32,
    /// Among the tables of a group, a lower number is asked first.
    pub priority: u32,
    /// Which bits of the headers rules look at.
    pub mask: HeaderFields,
    /// Kinds of actions that rules may have.
    pub actions: ActionKinds,
    /// Most rules of the table.
    pub capacity: u32,
}

/// The words of [`HeaderFields`] in which a mask has bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyWords {
    words: Vec<(usize, u64)>,
}

impl KeyWords {
    /// The words of `mask`.
    pub fn new(mask: &HeaderFields) -> Self {
        let words = mask.words().iter().copied().enumerate();
        Self { words: words.filter(|(_, mask)| *mask != 0).collect() }
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether the mask has no bits: every packet matches.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Those words of `headers`, under the mask.
    #[inline]
    pub fn of<'a>(&'a self, headers: &'a HeaderFields) -> impl Iterator<Item = u64> + 'a {
        let words: &[u64; HEADER_WORDS] = headers.words();
        self.words.iter().filter_map(|(index, mask)| Some(words.get(*index)? & mask))
    }
}
