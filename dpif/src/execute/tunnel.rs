//! Actions that put packets into tunnels, and take them out.

use netdev::packet::{NO_LAYER, Packet, Segmentation};
use netdev::transmit;
use tracing::warn;

use super::{Current, Executor};
use crate::action::{Action, TunnelPush};
use crate::datapath::PortNumber;
use crate::drop::DropReason;
use crate::flow::{Metadata, TunnelKey, extract, five_tuple_hash};
use crate::tunnel::pop::pop;
use crate::tunnel::push::{needs_whole_packets, push};

/// Whether a packet has to be cut up before it goes into a tunnel.
pub(super) fn must_cut(packet: &Packet, push: &TunnelPush) -> bool {
    let descriptor = packet.view().descriptor();
    descriptor.segmentation != Segmentation::None
        && (descriptor.inner_l3 != NO_LAYER || needs_whole_packets(push))
}

impl Executor<'_> {
    /// Cuts a large packet up, and does `actions` to all it becomes.
    pub(super) fn cut_and_run(&mut self, current: Current, actions: &[Action]) {
        let Current { mut packet, limit } = current;
        self.cut(&mut packet, |executor, packet| {
            executor.run_list(Current { packet, limit }, actions);
        });
    }

    fn cut(&mut self, packet: &mut Packet, mut take: impl FnMut(&mut Self, Packet)) {
        let report = transmit::cut_up(packet, |packet| take(self, packet));
        for (reason, count) in
            [(DropReason::MalformedPacket, report.invalid), (DropReason::NoFrame, report.no_room)]
        {
            if count > 0 {
                self.drops.add(reason, count);
            }
        }
    }

    /// Makes outputs that follow go through `tunnel`, as far as anybody looks at it.
    pub(super) fn set_tunnel(&mut self, packet: &mut Packet, tunnel: &TunnelKey) {
        let mut packet = packet.view_mut();
        let descriptor = packet.descriptor_mut();
        let known = self.metadata.get(descriptor.metadata).copied().unwrap_or_default();
        descriptor.metadata = self.metadata.add(Metadata { tunnel: *tunnel, ..known });
    }

    /// Puts the headers of a tunnel in front of a packet.
    pub(super) fn tunnel_push(
        &mut self,
        current: &mut Current,
        action: &TunnelPush,
    ) -> Result<(), DropReason> {
        let Some(tunnel) = self.tunnels.ports.get(PortNumber(action.tunnel_port)) else {
            return Err(DropReason::TunnelPushError);
        };
        let mut packet = current.packet.view_mut();
        if let Some(limit) = current.limit.take() {
            packet.truncate(limit);
        }
        if !transmit::insert_tag(&mut packet) {
            return Err(DropReason::TunnelPushError);
        }
        let descriptor = packet.view().descriptor();
        let known = descriptor.rss_hash().filter(|_| descriptor.l3 != NO_LAYER);
        let hash = known.unwrap_or_else(|| {
            extract(&mut packet, None, self.vlan_limit, self.scratch);
            let known = packet.view().descriptor().rss_hash();
            let hash = known.unwrap_or_else(|| five_tuple_hash(self.scratch.key(), self.seed));
            packet.descriptor_mut().set_rss_hash(Some(hash));
            hash
        });
        push(&mut packet, action, tunnel, hash).ok_or(DropReason::TunnelPushError)
    }

    /// Takes the headers of a tunnel off a packet, which then comes in through the tunnel.
    pub(super) fn tunnel_pop(&mut self, mut packet: Packet, number: PortNumber) {
        let Some(port) = self.tunnels.ports.get(number).map(|tunnel| tunnel.port) else {
            self.drops.add(DropReason::InvalidTunnelPort, 1);
            return;
        };
        let descriptor = packet.view().descriptor();
        if descriptor.segmentation != Segmentation::None && descriptor.inner_l3 == NO_LAYER {
            // The packet around is large, not the one inside.
            self.cut(&mut packet, |executor, packet| executor.tunnel_pop(packet, number));
            return;
        }
        match pop(&mut packet.view_mut(), port, &mut self.tunnels.events) {
            Ok(tunnel) => {
                let metadata = self.metadata.add(Metadata { tunnel, ..Metadata::default() });
                let mut view = packet.view_mut();
                let descriptor = view.descriptor_mut();
                (descriptor.in_port, descriptor.metadata) = (number.0, metadata);
                self.pass_again(packet);
            }
            Err(error) => {
                self.tunnels.events.add(error.event());
                self.drops.add(DropReason::TunnelPopError, 1);
                if error.is_logged() {
                    warn!(target: "native_tnl", limited = true, "{error}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
