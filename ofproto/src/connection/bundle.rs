//! Bundles: messages that a controller collects, to have them done together.

use std::time::Duration;

use netdev::clock;
use tracing::info;

use super::bridge::Bridge;
use super::connections::Connections;
use super::event::ConnectionId;
use super::peer::Peer;
use crate::handle::bundle::{self, Done, Entry};
use crate::openflow::error::OfError;
use crate::openflow::kind::Raw;
use crate::openflow::message::{BundleAdd, BundleControl, BundleType};

/// A bundle of a peer.
#[derive(Debug)]
pub(super) struct Bundle {
    flags: u16,
    is_closed: bool,
    /// When it was last changed.
    used: Duration,
    /// The message that opened it.
    opened_by: Vec<u8>,
    entries: Vec<Entry>,
}

impl Bundle {
    fn new(flags: u16, opened_by: &[u8]) -> Self {
        Self {
            flags,
            is_closed: false,
            used: clock::now(),
            opened_by: opened_by.to_vec(),
            entries: vec![],
        }
    }
}

impl Peer {
    fn open_bundle(&mut self, control: &BundleControl, message: &[u8]) -> Result<(), OfError> {
        if self.bundles.remove(&control.bundle_id).is_some() {
            info!(target: "bundles", "Bundle {:x} already exists.", control.bundle_id);
            return Err(OfError::BundleBadId);
        }
        self.bundles.insert(control.bundle_id, Bundle::new(control.flags, message));
        Ok(())
    }

    fn close_bundle(&mut self, control: &BundleControl) -> Result<(), OfError> {
        let mut bundle = self.bundles.remove(&control.bundle_id).ok_or(OfError::BundleBadId)?;
        // One that is used wrongly is gone.
        if bundle.is_closed {
            return Err(OfError::BundleBundleClosed);
        }
        if bundle.flags != control.flags {
            return Err(OfError::BundleBadFlags);
        }
        bundle.is_closed = true;
        bundle.used = clock::now();
        self.bundles.insert(control.bundle_id, bundle);
        Ok(())
    }

    /// Adds a message to a bundle, which is opened if need be.
    pub(super) fn add_to_bundle(
        &mut self,
        bridge: &mut Bridge<'_>,
        raw: &Raw<'_>,
    ) -> Result<(), OfError> {
        let add = BundleAdd::decode(raw)?;
        let entry = bundle::decode(bridge, &self.context(), &add.message, raw.message)?;
        let new = || Bundle::new(add.flags, raw.message);
        let bundle = self.bundles.entry(add.bundle_id).or_insert_with(new);
        let error = if bundle.is_closed {
            OfError::BundleBundleClosed
        } else if bundle.flags != add.flags {
            OfError::BundleBadFlags
        } else {
            bundle.used = clock::now();
            bundle.entries.push(entry);
            return Ok(());
        };
        self.bundles.remove(&add.bundle_id);
        Err(error)
    }

    /// When the next bundle that nobody uses is to be forgotten.
    pub(super) fn bundles_due(&self, timeout: Duration) -> Option<Duration> {
        self.bundles.values().map(|bundle| bundle.used + timeout).min()
    }

    /// Forgets bundles that nobody used for `timeout`. Returns the messages that opened them.
    pub(super) fn expire_bundles(&mut self, now: Duration, timeout: Duration) -> Vec<Vec<u8>> {
        let late = self.bundles.extract_if(.., |_, bundle| bundle.used + timeout <= now);
        late.map(|(_, bundle)| bundle.opened_by).collect()
    }
}

impl Connections {
    /// Does what a message about a bundle as a whole asks for.
    ///
    /// # Errors
    /// The error that Open vSwitch replies with.
    pub(super) fn control_bundle(
        &mut self,
        id: ConnectionId,
        raw: &Raw<'_>,
        bridge: &mut Bridge<'_>,
    ) -> Result<Vec<Vec<u8>>, OfError> {
        let control = BundleControl::decode(raw)?;
        let Some(peer) = self.peer_mut(id) else { return Ok(vec![]) };
        let version = peer.version;
        match control.bundle_type {
            BundleType::OPEN_REQUEST => peer.open_bundle(&control, raw.message)?,
            BundleType::CLOSE_REQUEST => peer.close_bundle(&control)?,
            BundleType::COMMIT_REQUEST => self.commit_bundle(id, &control, bridge)?,
            BundleType::DISCARD_REQUEST => {
                peer.bundles.remove(&control.bundle_id).ok_or(OfError::BundleBadId)?;
            }
            _ => return Err(OfError::BundleBadType),
        }
        let reply = BundleControl {
            bundle_id: control.bundle_id,
            bundle_type: control.bundle_type.reply(),
            flags: 0,
        };
        Ok(vec![reply.encode(version, raw.header.xid)])
    }

    /// Does all that a bundle holds, or nothing of it.
    fn commit_bundle(
        &mut self,
        id: ConnectionId,
        control: &BundleControl,
        bridge: &mut Bridge<'_>,
    ) -> Result<(), OfError> {
        let Some(peer) = self.peer_mut(id) else { return Ok(()) };
        // It is gone whatever comes of it.
        let bundle = peer.bundles.remove(&control.bundle_id).ok_or(OfError::BundleBadId)?;
        if bundle.flags != control.flags {
            return Err(OfError::BundleBadFlags);
        }
        match bundle::commit(bridge, &peer.context(), bundle.flags, bundle.entries) {
            Ok(Done { forwards, flow_mods }) => {
                if let Some(peer) = self.peer_mut(id) {
                    let now = clock::now();
                    flow_mods.into_iter().for_each(|command| peer.flow_mods.count(command, now));
                }
                for (request, xid) in forwards {
                    self.forward(&request, xid, id);
                }
                Ok(())
            }
            Err(failure) => {
                self.refuse(id, failure.error, &failure.message);
                Err(OfError::BundleMsgFailed)
            }
        }
    }
}
