//! One OpenFlow switch: its ports, its connections and its tables. It knows nothing of the
//! configuration database and the control socket.

pub mod port;
pub mod switch;
