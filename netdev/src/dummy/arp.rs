//! Answers to ARP requests for the addresses of a dummy port (RFC 826).

use std::net::Ipv4Addr;

use crate::ethernet_address::EthernetAddress;

const ETHER_TYPE: [u8; 2] = [0x08, 0x06];
/// Hardware type Ethernet, protocol type IPv4, and the lengths of their addresses.
const ETHERNET_IPV4: [u8; 6] = [0x00, 0x01, 0x08, 0x00, 6, 4];
const REQUEST: [u8; 2] = [0x00, 0x01];
const REPLY: [u8; 2] = [0x00, 0x02];

/// The reply to `frame` from `station`, if `frame` is an untagged ARP request for an IP address
/// that `is_ours`.
pub(super) fn reply(
    frame: &[u8],
    station: EthernetAddress,
    is_ours: impl Fn(Ipv4Addr) -> bool,
) -> Option<Vec<u8>> {
    let (_, request) = frame.split_at_checked(12)?;
    let (head, request) = request.split_at_checked(10)?;
    if head != [&ETHER_TYPE[..], &ETHERNET_IPV4, &REQUEST].concat() {
        return None;
    }
    let (sender, request) = request.split_first_chunk::<6>()?;
    let (sender_ip, request) = request.split_first_chunk::<4>()?;
    let (_, request) = request.split_first_chunk::<6>()?;
    let (target_ip, _) = request.split_first_chunk::<4>()?;
    is_ours(Ipv4Addr::from(*target_ip)).then(|| {
        let ours = &station.0[..];
        [sender, ours, &ETHER_TYPE, &ETHERNET_IPV4, &REPLY, ours, target_ip, sender, sender_ip]
            .concat()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATION: EthernetAddress = EthernetAddress([0xaa, 0x55, 0xaa, 0x55, 0, 0]);

    fn request(target: [u8; 4]) -> Vec<u8> {
        let sender = [2, 0, 0, 0, 0, 7];
        let mut frame = [[0xff; 6], sender].concat();
        frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        frame.extend(sender);
        frame.extend([192, 0, 2, 7]);
        frame.extend([0; 6]);
        frame.extend(target);
        frame
    }

    fn reply_to(frame: &[u8]) -> Option<Vec<u8>> {
        reply(frame, STATION, |ip| ip == Ipv4Addr::new(192, 0, 2, 1))
    }

    #[test]
    fn answers_for_its_own_address() {
        let mut expected = vec![2, 0, 0, 0, 0, 7, 0xaa, 0x55, 0xaa, 0x55, 0, 0];
        expected.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
        expected.extend([0xaa, 0x55, 0xaa, 0x55, 0, 0, 192, 0, 2, 1]);
        expected.extend([2, 0, 0, 0, 0, 7, 192, 0, 2, 7]);
        assert_eq!(reply_to(&request([192, 0, 2, 1])), Some(expected));
    }

    #[test]
    fn leaves_everything_else_unanswered() {
        assert_eq!(reply_to(&request([192, 0, 2, 2])), None);
        let whole = request([192, 0, 2, 1]);
        for length in 0..whole.len() {
            assert_eq!(reply_to(&whole[..length]), None);
        }
        for i in 12..22 {
            let mut changed = whole.clone();
            changed[i] ^= 0x40;
            assert_eq!(reply_to(&changed), None);
        }
    }
}
