//! The configuration: rows of the database parsed into types, and the difference between what is
//! applied and what is wanted.

pub mod columns;
mod controller;
mod datapath;
pub mod diff;
mod flow_table;
mod interface;
pub mod mirror;
pub mod model;
pub mod parse;
pub mod unbuilt;
mod vlan;
