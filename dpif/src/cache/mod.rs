//! Caches in front of the classifier.

pub(crate) mod signature;
