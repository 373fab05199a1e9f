//! Finds out what about a device will break what its users expect, and how to mend it.

use super::options::Mode;
use super::socket::Kind;
use crate::port::Finding;

/// What is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Examined {
    pub(super) name: String,
    pub(super) is_up: bool,
    pub(super) mtu: usize,
    pub(super) max_mtu: usize,
    /// Receive queues with a socket, and those of the device.
    pub(super) queues: u32,
    pub(super) device_queues: u32,
    /// What was found to work.
    pub(super) in_use: Option<(Mode, Kind)>,
    /// Whether the program learns of tags that the device takes out of frames.
    pub(super) sees_tags: bool,
    /// Whether the device takes tags out of frames.
    pub(super) takes_tags_out: bool,
    /// Whether the device is one end of a pair; then the other end takes the tags out.
    pub(super) is_pair: bool,
    /// Bytes of frames, and how many the limit of locked memory allows, if there is one.
    pub(super) frame_bytes: u64,
    pub(super) locked_memory: Option<u64>,
}

/// What was found, the worst first.
pub(super) fn examine(port: &Examined) -> Vec<Finding> {
    let name = &port.name;
    let mut findings = vec![];
    let mut add = |problem: String, remedy: String| findings.push(Finding { problem, remedy });
    if !port.is_up {
        add(
            "the device is down: nothing is received or sent".into(),
            format!("ip link set dev {name} up"),
        );
    }
    if port.mtu > port.max_mtu {
        add(
            format!(
                "packets for the MTU of {} do not fit: more than {} are lost",
                port.mtu, port.max_mtu
            ),
            format!("ip link set dev {name} mtu {}", port.max_mtu),
        );
    }
    if port.takes_tags_out && !port.sees_tags {
        let (problem, remedy) = match port.is_pair {
            true => (
                "VLAN tags are lost: the other end of the pair keeps them beside the frame, where \
                 the XDP program cannot see them",
                "ethtool -K PEER txvlan off, where the peer is".to_owned(),
            ),
            false => (
                "VLAN tags are lost: the device takes them out of frames, and its driver does not \
                 tell the XDP program",
                format!("ethtool -K {name} rxvlan off"),
            ),
        };
        add(problem.to_owned(), remedy);
    }
    if port.queues < port.device_queues {
        add(
            format!(
                "packets of receive queues {} to {} go to the host: n_rxq is {}",
                port.queues,
                port.device_queues - 1,
                port.queues
            ),
            format!("ethtool -L {name} combined {} (or rx)", port.queues),
        );
    }
    match port.in_use {
        Some((Mode::Generic, _)) => add(
            "the kernel runs the XDP program after it has built its own packets: slow".into(),
            format!("ovs-vsctl set interface {name} options:xdp-mode=native, if the driver has it"),
        ),
        Some(_) => {}
        None => add(
            "no socket is open: the port carries no packets".into(),
            format!("ovs-vsctl get interface {name} error"),
        ),
    }
    if port.locked_memory.is_some_and(|limit| limit < port.frame_bytes) {
        add(
            format!(
                "the limit of locked memory is lower than the {} bytes of frames: the next port may be refused",
                port.frame_bytes
            ),
            "ulimit -l unlimited (LimitMEMLOCK=infinity in a systemd unit)".into(),
        );
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::afxdp::options::Options;

    fn healthy() -> Examined {
        let kind = Kind::new(Mode::Native, true, &Options::default());
        Examined {
            name: "p1".to_owned(),
            is_up: true,
            mtu: 9000,
            max_mtu: 20000,
            queues: 2,
            device_queues: 2,
            in_use: Some((Mode::Native, kind)),
            sees_tags: true,
            takes_tags_out: true,
            is_pair: true,
            frame_bytes: 1 << 26,
            locked_memory: None,
        }
    }

    #[test]
    fn every_finding_has_a_remedy() {
        assert_eq!(examine(&healthy()), []);
        let kind = healthy().in_use.unwrap().1;
        for (change, problem, remedy) in [
            (
                (|port| port.is_up = false) as fn(&mut Examined),
                "the device is down: nothing is received or sent",
                "ip link set dev p1 up",
            ),
            (
                |port| port.max_mtu = 1774,
                "packets for the MTU of 9000 do not fit: more than 1774 are lost",
                "ip link set dev p1 mtu 1774",
            ),
            (
                |port| port.sees_tags = false,
                "VLAN tags are lost: the other end of the pair keeps them beside the frame, where \
                 the XDP program cannot see them",
                "ethtool -K PEER txvlan off, where the peer is",
            ),
            (
                |port| (port.sees_tags, port.is_pair) = (false, false),
                "VLAN tags are lost: the device takes them out of frames, and its driver does not \
                 tell the XDP program",
                "ethtool -K p1 rxvlan off",
            ),
            (
                |port| port.device_queues = 8,
                "packets of receive queues 2 to 7 go to the host: n_rxq is 2",
                "ethtool -L p1 combined 2 (or rx)",
            ),
            (
                |port| port.in_use = None,
                "no socket is open: the port carries no packets",
                "ovs-vsctl get interface p1 error",
            ),
            (
                |port| port.locked_memory = Some(1 << 16),
                "the limit of locked memory is lower than the 67108864 bytes of frames: the next port may be refused",
                "ulimit -l unlimited (LimitMEMLOCK=infinity in a systemd unit)",
            ),
        ] {
            let mut port = healthy();
            change(&mut port);
            let expected = Finding { problem: problem.to_owned(), remedy: remedy.to_owned() };
            assert_eq!(examine(&port), [expected]);
        }
        let generic = Examined { in_use: Some((Mode::Generic, kind)), ..healthy() };
        assert!(examine(&generic)[0].problem.ends_with("slow"));
        let fine = Examined { takes_tags_out: false, sees_tags: false, ..healthy() };
        assert_eq!(examine(&fine), []);
    }
}
