//! One OpenFlow switch: its protocol, its ports, its connections and its tables. It knows nothing
//! of the configuration database and the control socket.

pub mod connection;
pub mod openflow;
pub mod port;
pub mod switch;
