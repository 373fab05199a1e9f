//! The kernel's routes, rules and addresses, kept up to date by its notifications.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::channel::mpsc::UnboundedReceiver;
use futures::{FutureExt, StreamExt, TryStreamExt};
use rtnetlink::packet_core::{NLM_F_REPLACE, NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use rtnetlink::packet_route::route::RouteMessage;
use rtnetlink::sys::SocketAddr;
use rtnetlink::{Error, Handle, IpVersion, MulticastGroup, new_multicast_connection};
use tokio::sync::Notify;

use super::routing_message::{self as message, DeviceNames};
use crate::network::Network;
use crate::route::{DeviceAddresses, RoutingChange};

const GROUPS: [MulticastGroup; 7] = [
    MulticastGroup::Link,
    MulticastGroup::Ipv4Ifaddr,
    MulticastGroup::Ipv6Ifaddr,
    MulticastGroup::Ipv4Route,
    MulticastGroup::Ipv6Route,
    MulticastGroup::Ipv4Rule,
    MulticastGroup::Ipv6Rule,
];

/// Changes of the kernel's routing that nobody took yet.
#[derive(Debug, Default)]
pub struct Routing {
    changes: Mutex<Vec<RoutingChange>>,
    changed: Notify,
}

/// Messages as they come from the kernel.
type Messages = UnboundedReceiver<(NetlinkMessage<RouteNetlinkMessage>, SocketAddr)>;

impl Routing {
    /// Follows the kernel's notifications as long as it is polled. First it tells of all there is.
    ///
    /// # Errors
    /// When the kernel's notifications cannot be had (any more).
    pub async fn watch(&self) -> io::Result<Infallible> {
        let (connection, handle, messages) = new_multicast_connection(&GROUPS)?;
        let error = tokio::select! {
            () = connection => {
                let text = "the kernel's notifications of routing ended";
                io::Error::new(io::ErrorKind::UnexpectedEof, text)
            }
            error = self.follow(&handle, messages) => io::Error::other(error),
        };
        Err(error)
    }

    /// Completes when there are changes to take.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Takes the changes in the order in which they happened.
    pub fn take(&self) -> Vec<RoutingChange> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<RoutingChange>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, changes: impl IntoIterator<Item = RoutingChange>) {
        self.lock().extend(changes);
        self.changed.notify_one();
    }

    async fn follow(&self, handle: &Handle, mut messages: Messages) -> Error {
        let mut follower = Follower { stale: Stale::ALL, ..Follower::default() };
        loop {
            // All that happened before is in what is asked for now.
            while let Some(message) = messages.next().now_or_never().flatten() {
                follower.handle(&message.0);
            }
            match follower.refresh(handle).await {
                Ok(changes) if changes.is_empty() => {}
                Ok(changes) => self.tell(changes),
                Err(error) => return error,
            }
            let Some((message, _)) = messages.next().await else { return Error::RequestFailed };
            follower.handle(&message);
        }
    }
}

/// What has to be asked for anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stale {
    links: bool,
    routes: bool,
    rules: bool,
}

impl Stale {
    const ALL: Self = Self { links: true, routes: true, rules: true };
}

/// What notifications made of the state so far.
#[derive(Debug, Default)]
struct Follower {
    names: DeviceNames,
    /// Which links are up.
    is_up: HashMap<u32, bool>,
    addresses: BTreeMap<u32, Vec<Network>>,
    addresses_changed: bool,
    stale: Stale,
    changes: Vec<RoutingChange>,
}

impl Follower {
    fn handle(&mut self, message: &NetlinkMessage<RouteNetlinkMessage>) {
        let flags = message.header.flags;
        let message = match &message.payload {
            NetlinkPayload::InnerMessage(message) => message,
            // Notifications were lost.
            NetlinkPayload::Overrun(_) => {
                self.stale = Stale::ALL;
                return;
            }
            _ => return,
        };
        match message {
            RouteNetlinkMessage::NewLink(link) => self.link(link, true),
            RouteNetlinkMessage::DelLink(link) => self.link(link, false),
            RouteNetlinkMessage::NewAddress(address) => self.address(address, true),
            RouteNetlinkMessage::DelAddress(address) => {
                self.address(address, false);
                // Routes that were from it go without a word.
                self.stale.routes = true;
            }
            RouteNetlinkMessage::NewRoute(route) => {
                self.route(route, Some(flags & NLM_F_REPLACE != 0));
            }
            RouteNetlinkMessage::DelRoute(route) => self.route(route, None),
            RouteNetlinkMessage::NewRule(_) | RouteNetlinkMessage::DelRule(_) => {
                self.stale.rules = true;
            }
            _ => {}
        }
    }

    /// Routes of links that go, go down or get another name change without a word.
    fn link(&mut self, link: &LinkMessage, exists: bool) {
        let index = link.header.index;
        let name = link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name),
            _ => None,
        });
        let Some(name) = name else { return };
        let is_up = link.header.flags.contains(LinkFlags::Up);
        if !exists {
            self.stale.routes |= self.names.remove(&index).is_some();
            self.is_up.remove(&index);
            self.addresses_changed |= self.addresses.remove(&index).is_some();
            return;
        }
        let old = self.names.insert(index, name.clone());
        if old.as_ref() != Some(name) {
            self.stale.routes = true;
            self.addresses_changed = true;
        }
        self.stale.routes |= self.is_up.insert(index, is_up) != Some(is_up);
    }

    fn address(&mut self, message: &AddressMessage, exists: bool) {
        let Some(network) = network_of(message) else { return };
        let own = self.addresses.entry(message.header.index).or_default();
        let known = own.iter().position(|other| *other == network);
        match (known, exists) {
            (None, true) => own.push(network),
            (Some(at), false) => drop(own.remove(at)),
            _ => return,
        }
        self.addresses_changed = true;
    }

    /// A route that is there now, perhaps in the place of another, or is gone.
    fn route(&mut self, route: &RouteMessage, replaces: Option<bool>) {
        if self.stale.routes {
            return;
        }
        let Some(mut routes) = message::routes(route, &self.names) else {
            // It is of a link of which nothing was heard.
            self.stale.links = true;
            return;
        };
        match replaces {
            Some(mut replaces) => {
                for route in routes.drain(..) {
                    self.changes.push(RoutingChange::Added { route, replaces });
                    // The next hops of one route do not replace each other.
                    replaces = false;
                }
            }
            None => self.changes.extend(routes.into_iter().map(RoutingChange::Removed)),
        }
    }

    /// Asks the kernel for what is stale. Returns what changed since the last time.
    async fn refresh(&mut self, handle: &Handle) -> Result<Vec<RoutingChange>, Error> {
        if std::mem::take(&mut self.stale.links) {
            self.stale.routes = true;
            self.ask_for_links(handle).await?;
        }
        let mut changes = vec![];
        if std::mem::take(&mut self.stale.rules) {
            let mut rules = vec![];
            for version in [IpVersion::V4, IpVersion::V6] {
                let mut answer = handle.rule().get(version).execute();
                while let Some(rule) = answer.try_next().await? {
                    rules.extend(message::rule(&rule));
                }
            }
            changes.push(RoutingChange::Rules(rules));
        }
        if std::mem::take(&mut self.addresses_changed) {
            changes.push(RoutingChange::Addresses(self.device_addresses()));
        }
        if std::mem::take(&mut self.stale.routes) {
            self.changes.clear();
            let mut routes = vec![];
            for family in [message::IPV4, message::IPV6] {
                let mut question = RouteMessage::default();
                question.header.address_family = family;
                let mut answer = handle.route().get(question).execute().boxed();
                while let Some(route) = answer.try_next().await? {
                    // Those of links that just came follow.
                    routes.extend(message::routes(&route, &self.names).unwrap_or_default());
                }
            }
            changes.push(RoutingChange::Routes(routes));
        }
        changes.append(&mut self.changes);
        Ok(changes)
    }

    async fn ask_for_links(&mut self, handle: &Handle) -> Result<(), Error> {
        *self = Self { stale: self.stale, ..Self::default() };
        let mut answer = handle.link().get().execute();
        while let Some(link) = answer.try_next().await? {
            self.link(&link, true);
        }
        let mut answer = handle.address().get().execute();
        while let Some(address) = answer.try_next().await? {
            self.address(&address, true);
        }
        self.addresses_changed = true;
        Ok(())
    }

    fn device_addresses(&self) -> DeviceAddresses {
        let named = self
            .addresses
            .iter()
            .filter_map(|(index, own)| Some((self.names.get(index)?.clone(), own.clone())));
        named.filter(|(_, own)| !own.is_empty()).collect()
    }
}

/// The address that a message is about. On links between two hosts, the other attribute is that of
/// the other end.
fn network_of(message: &AddressMessage) -> Option<Network> {
    let local = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    let address = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Address(address) => Some(*address),
        _ => None,
    });
    let prefix_length = message.header.prefix_len;
    Some(Network { address: local.or(address)?, prefix_length })
}
