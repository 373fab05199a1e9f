//! What a device really did: the truth that a datapath under test does not see.

use std::collections::VecDeque;
use std::fmt;

/// Events that are kept when recording is on; older ones go.
const MAX_EVENTS: usize = 1 << 20;

macro_rules! totals {
    ($($(#[$doc:meta])* $name:ident $text:literal,)*) => {
        /// How often a device did what.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Totals {
            /// The totals under their names.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$(($text, self.$name)),*].into_iter()
            }
        }
    };
}

totals! {
    /// Rules put in.
    inserted "inserted",
    /// Rules changed.
    updated "updated",
    /// Rules taken out.
    removed "removed",
    /// Requests that failed.
    failed "failed",
    /// Results kept back for good.
    lost "lost",
    /// Results given twice.
    duplicated "duplicated",
    /// Requests that a correct caller does not make: about a rule that is not there, or whose
    /// insertion has not been completed.
    caller_bugs "caller-bugs",
    /// Packets that matched a rule.
    matched "matched",
    /// Packets that matched none.
    missed "missed",
    /// Packets dropped by a rule.
    dropped "dropped",
    /// Packets sent on by a rule.
    forwarded "forwarded",
    /// Packets whose tunnel headers a rule took off and that came to software.
    restored "restored",
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.named().try_for_each(|(name, value)| writeln!(f, "  {name}: {value}"))
    }
}

/// Something that happened to a rule or a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A rule was put in.
    Inserted {
        /// User data of the rule.
        user: u64,
    },
    /// A rule was taken out.
    Removed {
        /// User data of the rule.
        user: u64,
    },
    /// A packet was given this mark.
    Marked {
        /// The mark.
        mark: u32,
        /// User data of the rule.
        user: u64,
    },
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Audit {
    pub(super) totals: Totals,
    pub(super) is_recording: bool,
    events: VecDeque<Event>,
}

impl Audit {
    pub(super) fn record(&mut self, event: Event) {
        if !self.is_recording {
            return;
        }
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    pub(super) fn take_events(&mut self) -> Vec<Event> {
        self.events.drain(..).collect()
    }
}
