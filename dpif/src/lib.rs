//! The datapath: which ports packets enter and leave by, what is looked up for them, how, and
//! what is done to them. It knows no OpenFlow rules and no configuration database.

mod bucket;
mod cache;
mod classifier;
pub mod datapath;
pub mod flow;
pub mod pmd;
