//! The kernel's links as the switch knows them, kept up to date by its notifications.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures::StreamExt;
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::link::LinkMessage;
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::{MulticastGroup, new_multicast_connection};
use rustix::io::Errno;
use tokio::sync::Notify;

use super::netlink::{self, Link};
use crate::errno;

/// The devices that open ports use.
#[derive(Debug, Default)]
pub struct Links {
    devices: Mutex<Vec<Weak<Device>>>,
    changed: Notify,
}

impl Links {
    /// Follows the kernel's notifications as long as it is polled. Without it, ports learn only of
    /// changes that they make themselves.
    ///
    /// # Errors
    /// When the kernel's notifications cannot be had (any more).
    pub async fn watch(&self) -> io::Result<Infallible> {
        let (connection, _handle, mut messages) =
            new_multicast_connection(&[MulticastGroup::Link])?;
        // What happened before the subscription.
        self.refresh();
        let follow = async {
            while let Some((message, _)) = messages.next().await {
                self.handle(&message);
            }
        };
        tokio::select! {
            () = connection => {}
            () = follow => {}
        }
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the kernel's link notifications ended"))
    }

    /// Completes when some link of the kernel came, went or changed since the last completion.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Whether the kernel has a device `name` now.
    pub fn exists(&self, name: &str) -> bool {
        netlink::link(name).is_ok()
    }

    /// Starts to follow device `name`, which must exist.
    pub(super) fn open(&self, name: &str) -> Result<Arc<Device>, Errno> {
        let link = netlink::link(name)?;
        let device = Arc::new(Device {
            name: name.to_owned(),
            state: Mutex::new(State { link: Some(link), carrier_resets: 0, change_sequence: 1 }),
        });
        let mut devices = self.lock();
        devices.retain(|device| device.strong_count() > 0);
        devices.push(Arc::downgrade(&device));
        Ok(device)
    }

    fn handle(&self, message: &NetlinkMessage<RouteNetlinkMessage>) {
        match &message.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => {
                self.apply(link, true);
            }
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link)) => {
                self.apply(link, false);
            }
            // Notifications were lost.
            NetlinkPayload::Overrun(_) => self.refresh(),
            _ => {}
        }
    }

    fn apply(&self, message: &LinkMessage, exists: bool) {
        // A bridge of the kernel tells of its ports in the same messages.
        if message.header.interface_family != AddressFamily::Unspec {
            return;
        }
        if let Some(link) = Link::parse(message) {
            for device in self.lock().iter().filter_map(Weak::upgrade) {
                device.apply(&link, exists);
            }
        }
        self.changed.notify_one();
    }

    fn refresh(&self) {
        for device in self.lock().iter().filter_map(Weak::upgrade) {
            device.refresh();
        }
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Device>>> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A device of the kernel that a port uses, found by its name.
#[derive(Debug)]
pub(super) struct Device {
    name: String,
    state: Mutex<State>,
}

/// What limits the use of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usable {
    pub(super) mtu: u32,
    pub(super) is_up: bool,
}

#[derive(Debug)]
struct State {
    /// None when no device has the name any more.
    link: Option<Link>,
    carrier_resets: u64,
    change_sequence: u64,
}

impl State {
    fn set(&mut self, link: Option<Link>) {
        if self.link == link {
            return;
        }
        let is_running = |link: &Option<Link>| link.as_ref().is_some_and(|link| link.is_running);
        if is_running(&self.link) != is_running(&link) {
            self.carrier_resets += 1;
        }
        self.link = link;
        self.change_sequence += 1;
    }
}

impl Device {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What is known of the device.
    ///
    /// # Errors
    /// `ENODEV` when it was removed or renamed.
    pub(super) fn link(&self) -> Result<Link, Errno> {
        self.lock().link.clone().ok_or(Errno::NODEV)
    }

    /// What queues need to know of the device, which was number `index` when they were opened.
    ///
    /// # Errors
    /// `ENODEV` when it was removed or renamed, even if another took its name.
    pub(super) fn usable(&self, index: u32) -> Result<Usable, Errno> {
        let state = self.lock();
        let link = state.link.as_ref().filter(|link| link.index == index).ok_or(Errno::NODEV)?;
        Ok(Usable { mtu: link.mtu, is_up: link.is_up })
    }

    pub(super) fn carrier_resets(&self) -> u64 {
        self.lock().carrier_resets
    }

    pub(super) fn change_sequence(&self) -> u64 {
        self.lock().change_sequence
    }

    /// Changes the device by its number, and learns the result.
    pub(super) fn change(
        &self,
        change: impl FnOnce(u32) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        change(self.link()?.index)?;
        self.refresh();
        Ok(())
    }

    /// Asks the kernel anew.
    fn refresh(&self) {
        match netlink::link(&self.name) {
            Ok(link) => self.lock().set(Some(link)),
            Err(Errno::NODEV) => self.lock().set(None),
            Err(errno) => {
                let (name, cause) = (&self.name, errno::description(errno));
                tracing::warn!(
                    target: "netdev_linux",
                    limited = true,
                    "{name}: could not read link state: {cause}"
                );
            }
        }
    }

    /// Takes note that `link` is so now, or is no more.
    fn apply(&self, link: &Link, exists: bool) {
        let mut state = self.lock();
        let is_ours = state.link.as_ref().is_some_and(|ours| ours.index == link.index);
        if link.name == self.name && exists {
            state.set(Some(link.clone()));
        } else if is_ours {
            // Removed, or renamed.
            state.set(None);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, name: &str, is_running: bool) -> Link {
        Link {
            index,
            name: name.to_owned(),
            address: None,
            mtu: 1500,
            is_up: true,
            is_running,
            peer_index: None,
        }
    }

    fn device(link: Link) -> Device {
        let state = State { link: Some(link), carrier_resets: 0, change_sequence: 1 };
        Device { name: "eth0".to_owned(), state: Mutex::new(state) }
    }

    fn look(device: &Device) -> (Result<u32, Errno>, u64, u64) {
        let index = device.link().map(|link| link.index);
        (index, device.carrier_resets(), device.change_sequence())
    }

    #[test]
    fn follows_its_name_and_number() {
        let device = device(link(7, "eth0", true));
        for (link, exists, expected) in [
            (link(8, "eth1", true), true, (Ok(7), 0, 1)),
            (link(8, "eth1", true), false, (Ok(7), 0, 1)),
            (link(7, "eth0", true), true, (Ok(7), 0, 1)),
            (link(7, "eth0", false), true, (Ok(7), 1, 2)),
            (link(7, "eth0", true), true, (Ok(7), 2, 3)),
            // Renamed, and back.
            (link(7, "wan", true), true, (Err(Errno::NODEV), 3, 4)),
            (link(7, "eth0", true), true, (Ok(7), 4, 5)),
            // Removed; what follows is another device of the same name.
            (link(7, "eth0", false), false, (Err(Errno::NODEV), 5, 6)),
            (link(7, "eth0", false), false, (Err(Errno::NODEV), 5, 6)),
            (link(9, "eth0", false), true, (Ok(9), 5, 7)),
            // A late notice of the first.
            (link(7, "eth0", false), false, (Ok(9), 5, 7)),
        ] {
            device.apply(&link, exists);
            assert_eq!(look(&device), expected);
        }
    }
}
