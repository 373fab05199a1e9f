//! The datapath: what is looked up for a packet, how, and what is done to it. It knows no
//! OpenFlow rules and no configuration database.

pub mod action;
pub mod flow;
