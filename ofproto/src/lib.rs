//! One OpenFlow switch: its protocol, its ports, its connections and its tables. It knows nothing
//! of the configuration database and the control socket.

pub mod classifier;
pub mod connection;
pub mod continuation;
pub mod epoch;
pub mod fdb;
pub mod features;
pub mod flow;
pub mod flow_text;
pub mod group;
pub mod handle;
pub mod mac_table;
pub mod meter;
pub mod mirror;
pub mod neighbour;
pub mod news;
pub mod openflow;
pub mod packet_in_queue;
pub mod port;
pub mod port_settings;
pub mod recirculation;
pub mod revalidate;
pub mod route;
pub mod rule;
pub mod rule_text;
pub mod switch;
pub mod switches;
pub mod tables;
pub mod trace;
pub mod translate;
pub mod tunnel;
pub mod underlay;
pub mod upcall;

use netdev::coverage::Counter;

/// The event counters of this crate.
pub static COVERAGE: &[&Counter] = &[
    &connection::PACKET_OUTS,
    &connection::PAUSED,
    &connection::RECEIVED,
    &connection::RESUMED,
    &connection::UNSENT,
    &connection::REQUESTS,
    &mac_table::LEARNED,
    &mac_table::EXPIRED,
    &mac_table::EVICTED,
    &mac_table::MOVED,
    &mac_table::STATIC_NONE_MOVE,
    &revalidate::FLOW_LIMIT_KILL,
    &revalidate::MISSING_FLOW,
    &revalidate::FLOW_LIMIT_GREW,
    &revalidate::FLOW_LIMIT_REDUCED,
    &revalidate::FLOW_LIMIT_SCALED,
    &tables::EXPIRED,
    &underlay::REQUESTS,
    &upcall::FLOW_LIMIT_HIT,
    &upcall::NOT_COLLECTED,
    &packet_in_queue::OVERFLOW,
];
