//! The classifier.

mod index;
