//! Requests to the kernel about its links, each answered before the call returns (RFC 3549,
//! `linux/rtnetlink.h`).

use rtnetlink::packet_core::{NLM_F_ACK, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::link::{
    InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, LinkXdp, Stats64,
};
use rtnetlink::sys::{Socket, protocols::NETLINK_ROUTE};
use rustix::io::Errno;

use crate::ethernet_address::EthernetAddress;

/// What the kernel says of a link, without its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    /// None for links that are not Ethernet.
    pub(crate) address: Option<EthernetAddress>,
    pub(crate) mtu: u32,
    pub(crate) is_up: bool,
    /// Whether frames can pass.
    pub(crate) is_running: bool,
    /// The other end of a pair of virtual Ethernet devices.
    pub(crate) peer_index: Option<u32>,
}

impl Link {
    /// Reads the attributes of `message`; none when it names no link.
    pub(super) fn parse(message: &LinkMessage) -> Option<Self> {
        let (mut name, mut address, mut mtu) = (None, None, 0);
        let (mut lower_index, mut is_pair) = (None, false);
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(text) => name = Some(text.clone()),
                LinkAttribute::Mtu(bytes) => mtu = *bytes,
                LinkAttribute::Address(bytes) => {
                    address = bytes.as_slice().try_into().ok().map(EthernetAddress);
                }
                LinkAttribute::Link(index) => lower_index = Some(*index),
                LinkAttribute::LinkInfo(information) => {
                    is_pair = information.contains(&LinkInfo::Kind(InfoKind::Veth));
                }
                _ => {}
            }
        }
        let flags = message.header.flags;
        Some(Self {
            index: message.header.index,
            name: name?,
            address,
            mtu,
            is_up: flags.contains(LinkFlags::Up),
            is_running: flags.contains(LinkFlags::Running),
            peer_index: lower_index.filter(|_| is_pair),
        })
    }
}

/// The link called `name`, which is its only name: alternative names do not count.
pub(super) fn link(name: &str) -> Result<Link, Errno> {
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::IfName(name.to_owned()));
    let reply = get(message)?;
    Link::parse(&reply).filter(|link| link.name == name).ok_or(Errno::NODEV)
}

/// Whether `name` is a tap device whose other end some process holds.
pub(super) fn is_attached_tap(name: &str) -> bool {
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::IfName(name.to_owned()));
    let attributes = get(message).map(|reply| reply.attributes).unwrap_or_default();
    let is_tap = attributes.iter().any(|attribute| match attribute {
        LinkAttribute::LinkInfo(information) => {
            information.contains(&LinkInfo::Kind(InfoKind::Tun))
        }
        _ => false,
    });
    is_tap && attributes.contains(&LinkAttribute::Carrier(1))
}

/// The counters of the link with number `index`.
pub(super) fn statistics(index: u32) -> Result<Stats64, Errno> {
    let mut message = LinkMessage::default();
    message.header.index = index;
    let reply = get(message)?;
    let statistics = reply.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Stats64(statistics) => Some(*statistics),
        _ => None,
    });
    statistics.ok_or(Errno::NODATA)
}

/// Number of the XDP program that is attached to the link with number `index`, in whatever way.
pub(crate) fn xdp_program(index: u32) -> Result<Option<u32>, Errno> {
    let mut message = LinkMessage::default();
    message.header.index = index;
    let reply = get(message)?;
    let xdp = reply.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Xdp(attributes) => Some(attributes.as_slice()),
        _ => None,
    });
    let id = xdp.unwrap_or_default().iter().find_map(|attribute| match attribute {
        LinkXdp::ProgId(id) | LinkXdp::DrvProgId(id) | LinkXdp::SkbProgId(id) => Some(*id),
        _ => None,
    });
    Ok(id)
}

/// Detaches the XDP program of the link with number `index`, unless a process holds it there.
pub(crate) fn detach_xdp(index: u32) -> Result<(), Errno> {
    set(index, |message| message.attributes.push(LinkAttribute::Xdp(vec![LinkXdp::Fd(-1)])))
}

/// Sets the MTU of the link with number `index`.
pub(super) fn set_mtu(index: u32, mtu: u32) -> Result<(), Errno> {
    set(index, |message| message.attributes.push(LinkAttribute::Mtu(mtu)))
}

/// Sets the address of the link with number `index`.
pub(super) fn set_address(index: u32, address: EthernetAddress) -> Result<(), Errno> {
    set(index, |message| message.attributes.push(LinkAttribute::Address(address.0.to_vec())))
}

/// Sets the link with number `index` up or down.
pub(super) fn set_up(index: u32, up: bool) -> Result<(), Errno> {
    set(index, |message| {
        message.header.change_mask = LinkFlags::Up;
        message.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
    })
}

fn set(index: u32, change: impl FnOnce(&mut LinkMessage)) -> Result<(), Errno> {
    let mut message = LinkMessage::default();
    message.header.index = index;
    change(&mut message);
    match request(RouteNetlinkMessage::SetLink(message), NLM_F_ACK)? {
        NetlinkPayload::Error(_) => Ok(()),
        _ => Err(Errno::PROTO),
    }
}

fn get(message: LinkMessage) -> Result<LinkMessage, Errno> {
    match request(RouteNetlinkMessage::GetLink(message), 0)? {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => Ok(link),
        _ => Err(Errno::PROTO),
    }
}

/// Sends `message` and returns its one answer, which is no error.
fn request(
    message: RouteNetlinkMessage,
    flags: u16,
) -> Result<NetlinkPayload<RouteNetlinkMessage>, Errno> {
    let mut message = NetlinkMessage::from(message);
    message.header.flags = NLM_F_REQUEST | flags;
    message.header.sequence_number = 1;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);

    let system = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    // A socket of its own gets no answer to another request.
    let mut socket = Socket::new(NETLINK_ROUTE).map_err(system)?;
    socket.bind_auto().map_err(system)?;
    socket.send(&bytes, 0).map_err(system)?;
    let (answer, _) = socket.recv_from_full().map_err(system)?;
    let answer = NetlinkMessage::deserialize(&answer).map_err(|_| Errno::PROTO)?;
    match answer.payload {
        NetlinkPayload::Error(error) if error.code.is_some() => {
            Err(Errno::from_raw_os_error(error.raw_code().saturating_neg()))
        }
        payload => Ok(payload),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_loopback_device() {
        let link = link("lo").unwrap();
        assert_eq!((link.index, link.name.as_str(), link.peer_index), (1, "lo", None));
        assert_eq!(link.address, Some(EthernetAddress([0; 6])));
        statistics(link.index).unwrap();
    }

    #[test]
    fn reports_what_does_not_exist() {
        assert_eq!(link("none such"), Err(Errno::NODEV));
        assert_eq!(statistics(u32::MAX >> 1), Err(Errno::NODEV));
        assert_eq!(set_up(u32::MAX >> 1, true), Err(Errno::NODEV));
    }
}
