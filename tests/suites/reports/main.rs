//! What users reported of switches like this one, given to this one: each test is named by what it
//! shows, and says which report it comes from.

mod daemon;
mod lookup;
mod messages;
mod openflow;
mod packet_book;
mod packets;
mod ports;
