//! The open AF_XDP ports: what they share, and what is looked after from time to time.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::attachment::Attachment;
use super::error::OpenError;
use super::options::Mode;
use super::queue::{Shared, SocketFrames};
use super::socket::Kind;
use crate::clock;
use crate::linux::links::Links;
use crate::packet::FramePool;

/// How often the programs are looked after.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The open AF_XDP ports.
#[derive(Debug)]
pub struct AfxdpPorts {
    links: Arc<Links>,
    states: Mutex<Vec<Weak<State>>>,
}

/// What a port has open.
#[derive(Debug)]
pub(super) struct State {
    pub(super) name: String,
    pub(super) open: Mutex<Open>,
}

/// See [`State`].
#[derive(Debug, Default)]
pub(super) struct Open {
    pub(super) attachment: Weak<Attachment>,
    /// By receive queue.
    pub(super) sockets: Vec<Weak<Shared>>,
    /// What was found to work.
    pub(super) in_use: Option<(Mode, Kind)>,
    /// Why the port does not work any more.
    pub(super) failure: Option<OpenError>,
    pub(super) change_sequence: u64,
}

impl State {
    pub(super) fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sockets that are open.
    pub(super) fn sockets(&self) -> Vec<Arc<Shared>> {
        self.lock().sockets.iter().filter_map(Weak::upgrade).collect()
    }
}

impl AfxdpPorts {
    pub(crate) fn new(links: &Arc<Links>) -> Self {
        Self { links: Arc::clone(links), states: Mutex::default() }
    }

    pub(super) fn links(&self) -> &Links {
        &self.links
    }

    /// Starts to look after a port.
    pub(super) fn add(&self, name: &str) -> Arc<State> {
        let state = Arc::new(State { name: name.to_owned(), open: Mutex::default() });
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.retain(|state| state.strong_count() > 0);
        states.push(Arc::downgrade(&state));
        state
    }

    fn states(&self) -> Vec<Arc<State>> {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.iter().filter_map(Weak::upgrade).collect()
    }

    /// A socket whose memory region another socket of `kind` for frames of `pool` can share.
    pub(super) fn socket_to_share(&self, pool: &Arc<FramePool>, kind: Kind) -> Option<Arc<Shared>> {
        let sockets = self.states().into_iter().flat_map(|state| state.sockets());
        let mut sockets = sockets.filter(|shared| Arc::ptr_eq(&shared.pool, pool));
        sockets.find(|shared| shared.socket.kind == kind)
    }

    /// Where the frames of each socket are, by name of the port.
    pub fn frames(&self) -> BTreeMap<String, Vec<SocketFrames>> {
        let frames = |state: &State| state.sockets().iter().map(|shared| shared.frames()).collect();
        self.states().iter().map(|state| (state.name.clone(), frames(state))).collect()
    }

    /// Frames of `pool` that are lent to sockets. Exact when nothing moves.
    pub fn lent_of(&self, pool: &FramePool) -> usize {
        let sockets = self.states().into_iter().flat_map(|state| state.sockets());
        let sockets = sockets.filter(|shared| std::ptr::eq(Arc::as_ptr(&shared.pool), pool));
        sockets.map(|shared| shared.lent() as usize).sum()
    }

    /// Looks after the ports' programs as long as it is polled: one that somebody detached is
    /// attached again, or its port fails.
    pub async fn watch(&self) -> Infallible {
        loop {
            clock::sleep_until(clock::now() + CHECK_INTERVAL).await;
            self.check_all();
        }
    }

    pub(super) fn check_all(&self) {
        self.states().iter().for_each(|state| self.check(state));
    }

    fn check(&self, state: &State) {
        let attachment = state.lock().attachment.upgrade();
        let Some(attachment) = attachment else { return };
        let name = &state.name;
        match attachment.attach_again() {
            Ok(false) => {}
            Ok(true) => {
                tracing::warn!(
                    target: "netdev_afxdp",
                    "{name}: the XDP program was detached by somebody; it is attached again."
                );
            }
            Err(error) => {
                tracing::error!(
                    target: "netdev_afxdp",
                    "{name}: the XDP program was detached by somebody, \
                     and cannot be attached again: {error}"
                );
                let mut open = state.lock();
                open.failure = Some(error);
                open.change_sequence += 1;
                drop(open);
                self.links.tell_changed();
            }
        }
    }
}
