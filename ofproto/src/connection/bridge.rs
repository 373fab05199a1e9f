//! What messages of controllers act upon.

use dpif::datapath::Datapath;

use crate::switch::Switch;
use crate::upcall::Upcalls;

/// A switch and what it is on.
pub struct Bridge<'a> {
    /// The switch.
    pub switch: &'a mut Switch,
    /// Its datapath.
    pub datapath: &'a mut Datapath,
    /// What translates for the datapath.
    pub upcalls: &'a Upcalls,
}
