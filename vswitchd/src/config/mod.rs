//! The configuration: rows of the database parsed into types, and the difference between what is
//! applied and what is wanted.

pub mod columns;
pub mod diff;
pub mod model;
pub mod parse;
pub mod unbuilt;
