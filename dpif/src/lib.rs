<<<<<<< HEAD
//! The datapath: which ports packets enter and leave by, and under which numbers. It knows no
//! OpenFlow rules and no configuration database.

mod bucket;
mod cache;
mod classifier;
pub mod datapath;
pub mod pmd;
=======
//! The datapath: what is looked up for a packet, how, and what is done to it. It knows no
//! OpenFlow rules and no configuration database.

pub mod flow;
>>>>>>> packets
