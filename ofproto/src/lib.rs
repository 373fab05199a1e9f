//! One OpenFlow switch: its protocol, its ports, its connections and its tables. It knows nothing
//! of the configuration database and the control socket.

pub mod connection;
pub mod epoch;
pub mod mac_table;
pub mod openflow;
pub mod port;
pub mod port_settings;
pub mod switch;

/// The event counters of this crate.
pub static COVERAGE: &[&netdev::coverage::Counter] = mac_table::COVERAGE;
