//! One OpenFlow switch: its protocol, its ports, its connections and its tables. It knows nothing
//! of the configuration database and the control socket.

pub mod connection;
pub mod epoch;
pub mod fdb;
pub mod mac_table;
pub mod openflow;
pub mod port;
pub mod port_settings;
pub mod revalidate;
pub mod switch;
pub mod switches;
pub mod translate;
pub mod upcall;

use netdev::coverage::Counter;

/// The event counters of this crate.
pub static COVERAGE: &[&Counter] = &[
    &mac_table::LEARNED,
    &mac_table::EXPIRED,
    &mac_table::EVICTED,
    &mac_table::MOVED,
    &mac_table::STATIC_NONE_MOVE,
    &revalidate::FLOW_LIMIT_KILL,
    &revalidate::FLOW_LIMIT_GREW,
    &revalidate::FLOW_LIMIT_REDUCED,
    &revalidate::FLOW_LIMIT_SCALED,
    &upcall::FLOW_LIMIT_HIT,
];
