//! The network below tunnels: how it changes, and how bridges ask for their neighbours.

use std::sync::Arc;
use std::time::Duration;

use netdev::network::Network;
use netdev::route::RoutingChange;
use ofproto::connection::send_from_table;
use ofproto::neighbour::NeighbourRequest;
use ofproto::switch::Switch;
use ofproto::switches::Switches;
use ofproto::underlay::Underlay;

use super::Bridges;

impl Bridges {
    /// The network below tunnels.
    pub fn underlay(&self) -> &Underlay {
        &self.underlay
    }

    /// What translation knows of the switches, by datapaths.
    pub fn translated_switches(&self) -> impl Iterator<Item = Arc<Switches>> {
        self.datapaths.values().map(|shared| shared.upcalls.switches())
    }

    /// Follows the kernel's routing.
    pub fn follow_routing(&mut self, changes: Vec<RoutingChange>) {
        let has_addresses =
            changes.iter().any(|change| matches!(change, RoutingChange::Addresses(_)));
        self.underlay.follow(changes);
        if has_addresses {
            self.publish_all_switches();
        }
    }

    /// Gives a dummy port an address, and the routes that come with it.
    pub fn add_dummy_address(&mut self, device: &str, address: Network) {
        self.underlay.add_dummy_address(device, address);
        self.publish_all_switches();
    }

    fn publish_all_switches(&mut self) {
        let kinds: Vec<_> = self.datapaths.keys().copied().collect();
        kinds.into_iter().for_each(|kind| self.publish_switches(kind));
    }

    /// Forgets neighbours whose time is over, and asks for those that are missed. Returns when
    /// there is more to do.
    pub(super) fn maintain_underlay(&mut self) -> Option<Duration> {
        for request in self.underlay.take_requests() {
            self.send_request(&request);
        }
        self.underlay.expire_neighbours()
    }

    fn send_request(&mut self, request: &NeighbourRequest) {
        let of = |switch: &&Switch| switch.id() == request.switch;
        let name = self.switches.values().find(of).map(|switch| switch.name().to_owned());
        // The addresses are of one version of IP, so that there is a frame.
        let Ok(frame) = request.frame() else { return };
        if let Some((_, mut bridge)) = name.as_deref().and_then(|name| self.conversation(name)) {
            send_from_table(&mut bridge, request.port, &frame);
        }
    }
}
