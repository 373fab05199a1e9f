//! The kernel's links as the switch knows them, kept up to date by its notifications.

use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures::StreamExt;
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::link::LinkMessage;
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::{MulticastGroup, new_multicast_connection};
use rustix::fs::{fstat, stat};
use rustix::io::Errno;
use tokio::sync::Notify;

use super::ioctl;
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

    /// Lets those who wait for [`Self::changed`] look again.
    pub(crate) fn tell_changed(&self) {
        self.changed.notify_one();
    }

    /// Whether the kernel has a device `name` now.
    pub fn exists(&self, name: &str) -> bool {
        netlink::link(name).is_ok()
    }

    /// Starts to follow device `name`, which must exist; `tap` is the file of a tap device.
    pub(super) fn open(
        &self,
        name: &str,
        tap: Option<&Arc<OwnedFd>>,
    ) -> Result<Arc<Device>, Errno> {
        let link = netlink::link(name)?;
        let state =
            State { link: Some(link), is_elsewhere: false, carrier_resets: 0, change_sequence: 1 };
        let device = Arc::new(Device {
            name: name.to_owned(),
            tap: tap.map(Arc::downgrade).unwrap_or_default(),
            state: Mutex::new(state),
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
///
/// A tap device goes on to work when it is moved to another network namespace, as is done to give
/// containers a port. Nothing can be asked of it or changed there.
#[derive(Debug)]
pub(crate) struct Device {
    name: String,
    /// The file of a tap device.
    tap: Weak<OwnedFd>,
    state: Mutex<State>,
}

/// What limits the use of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usable {
    pub(crate) mtu: u32,
    pub(crate) is_up: bool,
}

#[derive(Debug)]
struct State {
    /// None when no device has the name any more. What was known last of one that is elsewhere.
    link: Option<Link>,
    /// Whether the device is in another network namespace.
    is_elsewhere: bool,
    carrier_resets: u64,
    change_sequence: u64,
}

impl State {
    /// Takes note that the device is in another namespace. It is taken to be up.
    fn set_elsewhere(&mut self) {
        let link = self.link.clone();
        self.set(link.map(|link| Link { is_up: true, is_running: true, ..link }));
        if !std::mem::replace(&mut self.is_elsewhere, true) {
            self.change_sequence += 1;
        }
    }

    fn set(&mut self, link: Option<Link>) {
        let was_elsewhere = std::mem::take(&mut self.is_elsewhere);
        if self.link == link && !was_elsewhere {
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
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What is known of the device.
    ///
    /// # Errors
    /// `ENODEV` when it was removed or renamed.
    pub(crate) fn link(&self) -> Result<Link, Errno> {
        self.lock().link.clone().ok_or(Errno::NODEV)
    }

    /// The number of the device, unless it is in another network namespace.
    ///
    /// # Errors
    /// `ENODEV` when it was removed or renamed, `EOPNOTSUPP` when it is elsewhere.
    pub(crate) fn index(&self) -> Result<u32, Errno> {
        let state = self.lock();
        let link = state.link.as_ref().ok_or(Errno::NODEV)?;
        if state.is_elsewhere { Err(Errno::OPNOTSUPP) } else { Ok(link.index) }
    }

    /// What queues need to know of the device, which had number `index` when they were opened,
    /// if that matters to them. Nothing limits packets to a device in another namespace.
    ///
    /// # Errors
    /// `ENODEV` when it was removed or renamed, even if another took its name.
    pub(crate) fn usable(&self, index: Option<u32>) -> Result<Usable, Errno> {
        let state = self.lock();
        let is_meant = |link: &&Link| index.is_none_or(|index| index == link.index);
        let link = state.link.as_ref().filter(is_meant).ok_or(Errno::NODEV)?;
        let mtu = if state.is_elsewhere { u32::MAX } else { link.mtu };
        Ok(Usable { mtu, is_up: link.is_up })
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
        change(self.index()?)?;
        self.refresh();
        Ok(())
    }

    /// Asks the kernel anew.
    fn refresh(&self) {
        match netlink::link(&self.name) {
            Ok(link) => self.apply(&link, true),
            Err(Errno::NODEV) => self.lost(),
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
        let is_ours = self.lock().link.as_ref().is_some_and(|ours| ours.index == link.index);
        if link.name == self.name && exists {
            // A device of that name may have been made while a tap device is elsewhere.
            if self.tap.upgrade().is_none_or(|tap| is_here(&tap)) {
                self.lock().set(Some(link.clone()));
            }
        } else if is_ours {
            // Removed, renamed or moved.
            self.lost();
        }
    }

    /// Takes note that this namespace has no device of the name.
    fn lost(&self) {
        match self.tap.upgrade() {
            Some(tap) if ioctl::is_attached(&tap) && !is_here(&tap) => self.lock().set_elsewhere(),
            _ => self.lock().set(None),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the device of a tap file is in the network namespace of this thread. Where the kernel
/// does not tell, it is taken to be.
fn is_here(tap: &OwnedFd) -> bool {
    let Ok(there) = ioctl::namespace(tap).and_then(fstat) else { return true };
    stat("/proc/thread-self/ns/net")
        .is_ok_and(|here| (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino))
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
        let state =
            State { link: Some(link), is_elsewhere: false, carrier_resets: 0, change_sequence: 1 };
        Device { name: "eth0".to_owned(), tap: Weak::new(), state: Mutex::new(state) }
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
