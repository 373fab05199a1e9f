//! One OpenFlow switch: its protocol, its ports, its connections and its tables. It knows nothing
//! of the configuration database and the control socket.

pub mod connection;
pub mod epoch;
pub mod mac_table;
pub mod openflow;
pub mod port;
pub mod port_settings;
pub mod switch;
pub mod switches;
pub mod translate;

use netdev::coverage::Counter;

/// The event counters of this crate.
pub static COVERAGE: &[&Counter] = &[
    &mac_table::LEARNED,
    &mac_table::EXPIRED,
    &mac_table::EVICTED,
    &mac_table::MOVED,
    &mac_table::STATIC_NONE_MOVE,
];
