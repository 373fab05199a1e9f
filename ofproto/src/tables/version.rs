//! Versions of the tables: which is the newest, and which are in use still.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;

/// A version of the tables. Its rules stay as long as somebody holds it.
#[derive(Debug)]
pub struct Version(u64);

impl Version {
    /// A version that is still being made, which only its maker sees.
    pub(crate) fn unpublished(number: u64) -> Arc<Self> {
        Arc::new(Self(number))
    }

    /// Versions have rising numbers.
    pub fn number(&self) -> u64 {
        self.0
    }
}

/// The newest version.
#[derive(Debug)]
pub(super) struct Versions(ArcSwap<Version>);

impl Default for Versions {
    fn default() -> Self {
        Self(ArcSwap::from_pointee(Version(1)))
    }
}

impl Versions {
    pub(super) fn newest(&self) -> Arc<Version> {
        self.0.load_full()
    }

    /// Makes a version visible. The one before is noted in `in_use` if it is.
    pub(super) fn publish(&self, number: u64, in_use: &mut VersionsInUse) {
        let old = self.0.swap(Arc::new(Version(number)));
        if Arc::strong_count(&old) > 1 {
            in_use.0.push_back(Arc::downgrade(&old));
        }
    }
}

/// Former versions that somebody held when another was published.
#[derive(Debug, Default)]
pub(super) struct VersionsInUse(VecDeque<Weak<Version>>);

impl VersionsInUse {
    /// The oldest former version that somebody holds.
    pub(super) fn oldest(&mut self) -> Option<u64> {
        self.0.retain(|version| version.strong_count() > 0);
        self.0.iter().find_map(Weak::upgrade).map(|version| version.number())
    }
}
