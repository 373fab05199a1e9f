//! The datapath: which ports packets enter and leave by, and under which numbers. It knows no
//! OpenFlow rules and no configuration database.

pub mod datapath;
pub mod pmd;
