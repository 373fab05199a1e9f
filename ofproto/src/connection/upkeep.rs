//! What is done on connections as time passes.

use std::time::Duration;

use netdev::clock;

use super::bridge::Bridge;
use super::connections::Connections;
use crate::openflow::error::OfError;

impl Connections {
    /// Tells peers what happened to the switch, and does what else is due. Returns when the next
    /// thing is, as far as is known.
    pub fn maintain(&mut self, bridge: &mut Bridge<'_>) -> Option<Duration> {
        let now = clock::now();
        self.run_fail_open(bridge);
        self.run_in_band(bridge);
        let switch = &mut *bridge.switch;
        switch.set_controllers(self.is_any_controller_connected(), self.wants_misses());
        self.tell(switch, None);
        self.resume_monitors(switch);
        let timeout = self.bundle_timeout;
        let mut refusals = vec![];
        for peer in self.peers_mut() {
            peer.release_packets(now);
            if peer.flow_mods.due().is_some_and(|due| due <= now) {
                peer.log_flow_mods();
            }
            let late = peer.expire_bundles(now, timeout).into_iter();
            refusals.extend(late.map(|message| (peer.id, OfError::BundleTimeout, message)));
            let late = peer.multiparts.expire(now).into_iter();
            refusals.extend(
                late.map(|message| (peer.id, OfError::BadRequestMultipartRequestTimeout, message)),
            );
        }
        for (id, error, message) in refusals {
            self.refuse(id, error, &message);
        }
        let due = self.peers().filter_map(|peer| peer.due(timeout));
        due.chain(self.fail_open_due()).min()
    }
}
