//! Rules, and the tables in which a device looks for them.

use std::time::Duration;

use super::index::Index;
use crate::flow_api::{
    HEADER_WORDS, HeaderFields, KeyWords, ModifyStyle, RuleActions, RuleError, TableId, Template,
};

/// Words of a key that lie in the rule itself.
const INLINE: usize = 3;

/// The words of a rule that its table looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Short(u8, [u64; INLINE]),
    Long(Box<[u64]>),
}

impl Key {
    pub(super) fn new(words: &KeyWords, values: &HeaderFields) -> Self {
        if words.len() > INLINE {
            return Self::Long(words.of(values).collect());
        }
        let mut short = [0; INLINE];
        for (place, word) in short.iter_mut().zip(words.of(values)) {
            *place = word;
        }
        Self::Short(words.len() as u8, short)
    }

    fn words(&self) -> &[u64] {
        match self {
            Self::Short(length, words) => words.get(..usize::from(*length)).unwrap_or(words),
            Self::Long(words) => words,
        }
    }

    /// The hash under which its table has the rule.
    pub(super) fn hash(&self) -> u64 {
        hash(self.words().iter().copied())
    }
}

fn hash(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(0x2545_f491_4f6c_dd1d, |hash: u64, word| {
        let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15;
        product as u64 ^ (product >> 64) as u64
    })
}

/// Where a rule lies: the queue that put it in, and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) queue: u16,
    pub(super) slot: u32,
}

impl Place {
    /// No place.
    pub(super) const NONE: Self = Self { queue: u16::MAX, slot: u32::MAX };
}

/// Counters as a query saw them last, and what an update leaves behind.
#[derive(Debug, Default)]
pub(super) struct Extra {
    /// Counters at the end of the refresh interval before.
    pub(super) visible: (u64, u64),
    /// The interval in which they were taken.
    pub(super) interval: u64,
    /// What the rule did before an update that takes a while, and when that is over.
    pub(super) previous: Option<(RuleActions, Duration)>,
    /// From when on packets match neither rule of an update, and until when.
    pub(super) gap: Option<(Duration, Duration)>,
    /// When a packet matched last, for ageing.
    pub(super) used: Duration,
    /// Whether ageing was reported.
    pub(super) is_aged: bool,
}

/// A rule.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) key: Key,
    /// That of the key.
    pub(super) hash: u64,
    pub(super) actions: RuleActions,
    pub(super) table: TableId,
    /// How often its slot was used before.
    pub(super) generation: u16,
    /// Whether packets can match it.
    pub(super) is_installed: bool,
    /// Whether the result of its insertion has been given.
    pub(super) is_complete: bool,
    pub(super) user: u64,
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) extra: Option<Box<Extra>>,
}

impl Rule {
    pub(super) fn free() -> Self {
        Self {
            key: Key::Short(0, [0; INLINE]),
            hash: 0,
            actions: RuleActions::default(),
            table: TableId(0),
            generation: 0,
            is_installed: false,
            is_complete: false,
            user: 0,
            packets: 0,
            bytes: 0,
            extra: None,
        }
    }

    pub(super) fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }
}

/// The rules of a [`Template`].
#[derive(Debug)]
pub(super) struct Table {
    pub(super) template: Template,
    pub(super) words: KeyWords,
    index: Index,
}

impl Table {
    pub(super) fn new(template: &Template) -> Self {
        let words = KeyWords::new(&template.mask);
        Self { template: template.clone(), words, index: Index::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Asks for what a look-up of this hash needs, ahead of it.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        self.index.prefetch(hash);
    }

    /// The rule that packets with these headers match, given a way to see the keys of rules.
    pub(super) fn find<'a>(
        &self,
        headers: &HeaderFields,
        key_of: impl Fn(Place) -> Option<&'a Key>,
    ) -> Option<Place> {
        let mut wanted = [0; HEADER_WORDS];
        let count = self.words.len();
        let wanted = wanted.get_mut(..count)?;
        wanted.iter_mut().zip(self.words.of(headers)).for_each(|(place, word)| *place = word);
        let is_same = |place| key_of(place).is_some_and(|key| key.words() == wanted);
        self.index.find(hash(wanted.iter().copied()), is_same)
    }

    /// Adds a rule with this key, whose hash is `hash`.
    #[inline]
    pub(super) fn insert<'a>(
        &mut self,
        key: &Key,
        hash: u64,
        place: Place,
        key_of: impl Fn(Place) -> Option<&'a Key>,
    ) -> Result<(), RuleError> {
        if self.len() >= self.template.capacity as usize {
            return Err(RuleError::TableFull);
        }
        let is_same = |place| key_of(place).is_some_and(|other| other == key);
        if self.index.insert(hash, place, is_same) { Ok(()) } else { Err(RuleError::Exists) }
    }

    /// Takes out the rule with this hash and place.
    #[inline]
    pub(super) fn remove(&mut self, hash: u64, place: Place) {
        self.index.remove(hash, place);
    }

    pub(super) fn clear(&mut self) {
        self.index.clear();
    }
}

/// How an update that takes `latency` from `now` on shows to packets.
pub(super) fn begin_update(
    rule: &mut Rule,
    actions: RuleActions,
    style: ModifyStyle,
    now: Duration,
    latency: Duration,
) {
    let old = std::mem::replace(&mut rule.actions, actions);
    let end = now + latency;
    match style {
        ModifyStyle::InPlace => {}
        ModifyStyle::MakeBeforeBreak => {
            if !latency.is_zero() {
                rule.extra().previous = Some((old, end));
            }
        }
        ModifyStyle::BreakBeforeMake => {
            (rule.packets, rule.bytes) = (0, 0);
            let extra = rule.extra();
            extra.visible = (0, 0);
            extra.gap = (!latency.is_zero()).then_some((now, end));
        }
    }
}
