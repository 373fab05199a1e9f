//! Ways in which a device can be made to fail, and the random choices of a device.

/// A small generator of numbers that depend on nothing but its seed (xorshift64, Marsaglia 2003).
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        // The generator would stay at 0.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `end`, which is not 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end.max(1)
    }

    /// True `per_mille` times in a thousand.
    pub(super) fn happens(&mut self, per_mille: u32) -> bool {
        per_mille > 0 && self.below(1000) < u64::from(per_mille)
    }
}

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident $text:literal,)*) => {
        /// How often, in a thousand times, a device fails in each way.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Faults {
            $($(#[$doc])* pub $name: u32,)*
        }

        impl Faults {
            /// Sets the fault `name` to `per_mille`; false when there is none of that name.
            pub fn set(&mut self, name: &str, per_mille: u32) -> bool {
                match name {
                    $($text => self.$name = per_mille,)*
                    _ => return false,
                }
                true
            }

            /// The names of the faults.
            pub const NAMES: &[&str] = &[$($text),*];

            /// The faults under their names.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u32)> {
                [$(($text, self.$name)),*].into_iter()
            }
        }
    };
}

faults! {
    /// Insertions fail.
    insert_error "insert-error",
    /// Updates fail; the rule stays as it was.
    update_error "update-error",
    /// Removals fail; the rule stays.
    remove_error "remove-error",
    /// Results, good or bad, come long after the others.
    late "late",
    /// Requests are carried out but no result is ever given.
    lost "lost",
    /// Results are given twice.
    duplicate "duplicate",
    /// At 1000, queues take requests and do nothing with them.
    stuck "stuck",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_set_by_name() {
        let mut faults = Faults::default();
        assert!(Faults::NAMES.iter().all(|name| faults.set(name, 7)));
        assert!(!faults.set("fire", 1));
        let all = Faults {
            insert_error: 7,
            update_error: 7,
            remove_error: 7,
            late: 7,
            lost: 7,
            duplicate: 7,
            stuck: 7,
        };
        assert_eq!(faults, all);
        assert_eq!(all.named().next(), Some(("insert-error", 7)));
    }

    #[test]
    fn chance_keeps_its_promise() {
        let mut random = Random::new(0);
        assert!((0..1000).all(|_| !random.happens(0)));
        assert!((0..1000).all(|_| random.happens(1000)));
        let hits = (0..100_000).filter(|_| random.happens(100)).count();
        assert!((9_000..11_000).contains(&hits), "{hits}");
    }
}
