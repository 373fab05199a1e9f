//! The network below tunnels, as all datapaths share it: how the other ends of tunnels are
//! reached.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use netdev::clock;
use netdev::coverage::Counter;
use netdev::ethernet_address::EthernetAddress;
use netdev::network::Network;
use netdev::route::RoutingChange;
use tokio::sync::Notify;

use crate::epoch::Epoch;
use crate::neighbour::{BadTime, Known, NeighbourRequest, Neighbours};
use crate::route::{Hop, NoSource, RouteRule, Router, WantedRoute};

/// Requests for neighbours.
pub(crate) static REQUESTS: Counter = Counter::new("xlate_actions_neigh_sent");

/// Most requests that wait.
const MAX_REQUESTS: usize = 1024;

/// Most destinations that are remembered.
const MAX_DESTINATIONS: usize = 65_536;

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Underlay {
    router: RwLock<Router>,
    /// Destinations that flows made in this epoch depend on the ways to.
    destinations: Mutex<BTreeSet<IpAddr>>,
    neighbours: Mutex<Neighbours>,
    /// Requests that are to be sent.
    requests: Mutex<Vec<NeighbourRequest>>,
    requested: Notify,
    epoch: Arc<Epoch>,
}

impl Underlay {
    /// Counts changes of what flows depend on.
    pub fn epoch(&self) -> &Arc<Epoch> {
        &self.epoch
    }

    /// Routes and rules.
    pub fn router(&self) -> RwLockReadGuard<'_, Router> {
        self.router.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn router_mut(&self) -> RwLockWriteGuard<'_, Router> {
        self.router.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the way to a destination for a flow. See [`Router::lookup`].
    pub fn route(&self, destination: IpAddr, mark: u32, source: Option<IpAddr>) -> Option<Hop> {
        // Before the lookup, so that no change is missed.
        let mut known = self.destinations.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_DESTINATIONS {
            known.clear();
            self.epoch.advance();
        }
        known.insert(destination);
        drop(known);
        self.router().lookup(destination, mark, source)
    }

    /// Has flows looked at again that depend on ways into a network, or on any.
    fn changed(&self, network: Option<Network>) {
        let mut known = self.destinations.lock().unwrap_or_else(PoisonError::into_inner);
        let is_concerned = network.is_none_or(|network| {
            let first = network.masked().address;
            known.range(first..).take_while(|own| network.contains(**own)).next().is_some()
        });
        if is_concerned {
            // Whoever is looked at again is remembered again.
            known.clear();
            self.epoch.advance();
        }
    }

    /// Follows the kernel.
    pub fn follow(&self, changes: Vec<RoutingChange>) {
        for change in changes {
            let network = self.router_mut().follow(change);
            self.changed(network);
        }
    }

    /// Adds a route of an operator.
    ///
    /// # Errors
    /// When the device has no source address for it.
    pub fn add_route(&self, wanted: WantedRoute) -> Result<(), NoSource> {
        let network = wanted.network;
        self.router_mut().add_user_route(wanted)?;
        self.changed(Some(network));
        Ok(())
    }

    /// Removes a route of an operator. Returns whether there was one.
    pub fn remove_route(&self, table: u32, network: Network, mark: u32) -> bool {
        let is_found = self.router_mut().remove_user_route(table, network, mark);
        self.changed(Some(network));
        is_found
    }

    /// Adds a rule of an operator.
    pub fn add_rule(&self, rule: RouteRule) {
        self.router_mut().add_user_rule(rule);
        self.changed(None);
    }

    /// Removes a rule of an operator. Returns whether there was one.
    pub fn remove_rule(&self, wanted: &RouteRule) -> bool {
        let is_found = self.router_mut().remove_user_rule(wanted);
        self.changed(None);
        is_found
    }

    /// Gives a dummy port an address, and the routes that come with it.
    pub fn add_dummy_address(&self, device: &str, address: Network) {
        self.router_mut().add_dummy_address(device, address);
        self.changed(None);
    }

    /// The neighbours of bridges.
    pub fn neighbours(&self) -> MutexGuard<'_, Neighbours> {
        self.neighbours.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a neighbour. If that is nothing, `request` is sent.
    pub(crate) fn look_up_neighbour(
        &self,
        bridge: &str,
        address: IpAddr,
        request: impl FnOnce() -> NeighbourRequest,
    ) -> Known {
        let now = clock::now();
        let mut neighbours = self.neighbours();
        let known = neighbours.lookup(bridge, address, now);
        if known == Known::Nothing {
            neighbours.ask(bridge, address, now);
            REQUESTS.add(1);
            let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
            if requests.len() < MAX_REQUESTS {
                requests.push(request());
                self.requested.notify_one();
            }
        }
        known
    }

    /// Lets what is known of a neighbour live on, as it was of use.
    pub(crate) fn use_neighbour(&self, bridge: &str, address: IpAddr) {
        self.neighbours().lookup(bridge, address, clock::now());
    }

    /// Completes when requests are to be sent.
    pub async fn requested(&self) {
        self.requested.notified().await;
    }

    /// Takes the requests that are to be sent.
    pub fn take_requests(&self) -> Vec<NeighbourRequest> {
        std::mem::take(&mut *self.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets the Ethernet address of a neighbour of a bridge.
    pub fn set_neighbour(&self, bridge: &str, address: IpAddr, ethernet: EthernetAddress) {
        if self.neighbours().set(bridge, address, ethernet, clock::now()) {
            self.epoch.advance();
        }
    }

    /// Forgets neighbours whose time is over. Returns when the next has to be forgotten.
    pub fn expire_neighbours(&self) -> Option<Duration> {
        let mut neighbours = self.neighbours();
        if neighbours.expire(clock::now()) {
            self.epoch.advance();
        }
        neighbours.next_expiry()
    }

    /// Forgets all neighbours.
    pub fn flush_neighbours(&self) {
        if self.neighbours().flush() {
            self.epoch.advance();
        }
    }

    /// Forgets the neighbours of a bridge.
    pub fn flush_neighbours_of(&self, bridge: &str) {
        if self.neighbours().flush_bridge(bridge) {
            self.epoch.advance();
        }
    }

    /// Sets the time for which neighbours that nobody uses are remembered.
    ///
    /// # Errors
    /// See [`Neighbours::set_aging`].
    pub fn set_aging(&self, aging: Duration) -> Result<(), BadTime> {
        self.neighbours().set_aging(aging, clock::now())
    }

    /// Sets the time before a neighbour that does not answer is asked for again.
    ///
    /// # Errors
    /// See [`Neighbours::set_retransmission`].
    pub fn set_retransmission(&self, time: Duration) -> Result<(), BadTime> {
        self.neighbours().set_retransmission(time, clock::now())
    }
}
