//! Packets as hexadecimal text, and as the flows that they belong to.

/// The flow of a TCP packet from 192.0.2.1 to 192.0.2.2.
pub(crate) fn tcp(source: u16, destination: u16, flags: &str) -> String {
    ip(6) + &format!(",tcp(src={source},dst={destination}),tcp_flags({flags})")
}

/// The flow of a UDP packet from 192.0.2.1 to 192.0.2.2.
pub(crate) fn udp(source: u16, destination: u16) -> String {
    ip(17) + &format!(",udp(src={source},dst={destination})")
}

/// The flow of an IPv4 packet of some protocol from 192.0.2.1 to 192.0.2.2.
pub(crate) fn ip(protocol: u8) -> String {
    format!(
        "in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),\
         ipv4(src=192.0.2.1,dst=192.0.2.2,proto={protocol},tos=0,ttl=64,frag=no)"
    )
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of hexadecimal text.
pub(crate) fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().map(|digit| digit.to_digit(16).expect("a digit")).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}
