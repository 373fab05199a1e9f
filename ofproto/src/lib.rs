//! One OpenFlow switch: its protocol, tables and translation of packets into datapath actions.

pub mod openflow;
