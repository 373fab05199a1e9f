//! Caches in front of the classifier.

pub(crate) mod signature;
pub(crate) mod simple_match;
