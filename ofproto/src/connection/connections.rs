//! The connections of one switch.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use netdev::clock;
use stream::tls::TlsConfig;
use stream::{Address, Remote, RemoteError};
use tracing::{debug, error, info, warn};

use super::bridge::Bridge;
use super::controller::{Controller, ControllerSettings, ControllerType, Service};
use super::event::{Connected, ConnectionId, Events, Origin};
use super::fail_open::FailOpen;
use super::in_band::InBand;
use super::outbox::{Class, Outbox};
use super::packet_scheduler::Counts;
use super::peer::Peer;
use super::task::Context;
use crate::openflow::message::{Role, RoleReason, RoleStatus};
use crate::openflow::version::Version;
use crate::switches::FailMode;

/// Port of controllers whose targets name none (IANA).
const DEFAULT_PORT: u16 = 6653;
/// How long bundles may be unused unless something else is set.
const BUNDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// How TLS connections are made. Clones are the same setting.
#[derive(Clone, Default)]
pub struct Tls(Rc<RefCell<Option<Arc<TlsConfig>>>>);

impl Tls {
    /// The setting, if TLS is set up.
    pub fn get(&self) -> Option<Arc<TlsConfig>> {
        self.0.borrow().clone()
    }

    /// Changes the setting for connections to be made.
    pub fn set(&self, config: Option<Arc<TlsConfig>>) {
        *self.0.borrow_mut() = config;
    }
}

/// What the switches of a process share.
#[derive(Clone)]
pub struct Environment {
    /// How TLS connections are made.
    pub tls: Tls,
    /// Where events go.
    pub events: Events,
    /// What relative names of sockets are relative to.
    pub run_directory: Rc<Path>,
}

/// What is known of a controller that is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerStatus {
    /// Whether there is a connection.
    pub is_connected: bool,
    /// Its role, while it is connected.
    pub role: Option<Role>,
    /// State of the connection, as Open vSwitch calls it.
    pub state: &'static str,
    /// Why the connection last ended, or could not be made.
    pub last_error: Option<String>,
    /// When it was last made.
    pub last_connected: Option<Duration>,
    /// When it last ended.
    pub last_disconnected: Option<Duration>,
    /// What happened to packets for it, by the kind of packet, where their rate is limited.
    pub packet_ins: Vec<(&'static str, Counts)>,
}

/// The connections of one switch.
pub struct Connections {
    switch: Rc<str>,
    environment: Environment,
    controllers: BTreeMap<Rc<str>, Controller>,
    snoop: Option<Service>,
    /// In the order in which they came.
    peers: BTreeMap<ConnectionId, Peer>,
    /// The newest election of a primary controller.
    generation_id: Option<u64>,
    /// How long bundles may be unused.
    pub(super) bundle_timeout: Duration,
    pub(super) fail_mode: FailMode,
    pub(super) fail_open: Option<FailOpen>,
    pub(super) in_band: InBand,
}

impl Connections {
    /// No connections to the switch of this name.
    pub fn new(switch: &str, environment: Environment) -> Self {
        Self {
            switch: switch.into(),
            environment,
            controllers: BTreeMap::new(),
            snoop: None,
            peers: BTreeMap::new(),
            generation_id: None,
            bundle_timeout: BUNDLE_TIMEOUT,
            fail_mode: FailMode::Secure,
            fail_open: None,
            in_band: InBand::default(),
        }
    }

    /// Sets how long bundles may be unused; zero stands for 10 s.
    pub fn set_bundle_timeout(&mut self, timeout: Duration) {
        self.bundle_timeout = if timeout.is_zero() { BUNDLE_TIMEOUT } else { timeout };
    }

    /// Sets the controllers by their targets. When the first comes or the last goes, rules go.
    pub fn set_controllers(
        &mut self,
        wanted: &BTreeMap<String, ControllerSettings>,
        bridge: &mut Bridge<'_>,
    ) {
        let had_controllers = self.has_controllers();
        self.change_controllers(wanted);
        self.update_fail_open(bridge);
        if self.has_controllers() != had_controllers {
            self.flush(bridge);
        }
    }

    fn change_controllers(&mut self, wanted: &BTreeMap<String, ControllerSettings>) {
        for (target, settings) in wanted {
            if !self.controllers.contains_key(target.as_str()) {
                self.add_controller(target, settings);
            }
        }
        let targets: Vec<_> = self.controllers.keys().cloned().collect();
        for target in targets {
            let Some(controller) = self.controllers.get_mut(&target) else { continue };
            let switch = &self.switch;
            match wanted.get(&*target) {
                None => {
                    let kind = controller.type_name();
                    info!(target: "connmgr", "{switch}: removed {kind} controller \"{target}\"");
                    self.remove_controller(&target);
                }
                Some(settings) if settings.allowed != controller.settings.allowed => {
                    info!(
                        target: "connmgr",
                        "{switch}: Changes to controller \"{target}\" expects re-initialization: \
                         Re-initializing now."
                    );
                    self.remove_controller(&target);
                    self.add_controller(&target, settings);
                }
                Some(settings) => {
                    controller.set(settings.clone());
                    for peer in self.peers.values_mut().filter(|peer| peer.target == target) {
                        peer.set_up(settings);
                    }
                }
            }
        }
    }

    fn parse(&self, target: &str) -> Result<Remote, RemoteError> {
        Remote::parse(target, Some(DEFAULT_PORT), &self.environment.run_directory)
    }

    fn context(&self, origin: Origin, settings: &ControllerSettings) -> Context {
        Context {
            switch: Rc::clone(&self.switch),
            origin,
            allowed: settings.allowed,
            probe_interval: settings.probe_interval,
            environment: self.environment.clone(),
        }
    }

    fn add_controller(&mut self, target: &str, settings: &ControllerSettings) {
        let switch = &self.switch;
        let Ok(remote) = self.parse(target) else {
            warn!(
                target: "connmgr", limited = true,
                "{switch}: unsupported controller \"{target}\""
            );
            return;
        };
        let target: Rc<str> = target.into();
        let context = self.context(Origin::Controller(Rc::clone(&target)), settings);
        match Controller::start(&remote, settings.clone(), context) {
            Ok(controller) => {
                let kind = controller.type_name();
                info!(target: "connmgr", "{switch}: added {kind} controller \"{target}\"");
                self.controllers.insert(target, controller);
            }
            Err(error) => error!(target: "socket_util", "{error}"),
        }
    }

    fn remove_controller(&mut self, target: &Rc<str>) {
        self.controllers.remove(target);
        self.peers.retain(|_, peer| peer.target != *target);
    }

    /// Listens on `target` for those who want to see what a controller and the switch say.
    pub fn listen_for_snoopers(&mut self, target: &str) {
        if self.snoop.is_some() {
            return;
        }
        let Ok(remote) = self.parse(target) else { return };
        let context = Context {
            switch: Rc::clone(&self.switch),
            origin: Origin::Snoop,
            allowed: Version::ALL.into_iter().collect(),
            probe_interval: Duration::ZERO,
            environment: self.environment.clone(),
        };
        self.snoop = Service::start(&remote, context)
            .inspect_err(|error| error!(target: "connmgr", "failed to listen on {error}"))
            .ok();
    }

    /// Whether there is a primary controller, connected or not.
    pub fn has_controllers(&self) -> bool {
        self.primaries().next().is_some()
    }

    /// Where the controllers are that are connected to over the switch itself.
    pub(super) fn in_band_remotes(&self) -> impl Iterator<Item = SocketAddrV4> {
        let in_band = self.controllers.iter().filter(|(_, controller)| controller.settings.in_band);
        in_band.filter_map(|(target, _)| {
            let remote = self.parse(target).ok()?;
            let (Address::Tcp { host, port } | Address::Ssl { host, port }) = remote.address()
            else {
                return None;
            };
            Some(SocketAddrV4::new(host.parse().ok()?, *port))
        })
    }

    fn primaries(&self) -> impl Iterator<Item = &Controller> {
        self.controllers
            .values()
            .filter(|controller| controller.settings.controller_type == ControllerType::Primary)
    }

    /// The longest silence after which a primary controller is probed.
    pub(super) fn longest_probe_interval(&self) -> Duration {
        let intervals = self.primaries().map(|controller| controller.settings.probe_interval);
        intervals.max().unwrap_or_default()
    }

    /// For how many seconds no primary controller has accepted the switch.
    pub(super) fn failure_duration(&self) -> u64 {
        let now = clock::now();
        let links = self.primaries().filter_map(Controller::link);
        links.map(|link| link.failure_duration(now)).min().unwrap_or(0)
    }

    /// When [`failure_duration`](Self::failure_duration) is `seconds`, if nothing changes.
    pub(super) fn failure_at(&self, seconds: u64) -> Option<Duration> {
        let links = self.primaries().filter_map(Controller::link);
        let since: Option<Vec<_>> = links.map(|link| link.failing_since()).collect();
        Some(since?.into_iter().max()? + Duration::from_secs(seconds))
    }

    fn primary_peers(&self) -> impl Iterator<Item = &Peer> {
        self.peers().filter(|peer| peer.controller_type == ControllerType::Primary)
    }

    /// Whether a primary controller is connected.
    pub fn is_any_controller_connected(&self) -> bool {
        self.primary_peers().next().is_some()
    }

    /// Whether a primary controller has accepted the switch.
    pub(super) fn is_any_controller_admitted(&self) -> bool {
        self.primary_peers().any(|peer| peer.link.borrow().is_admitted())
    }

    /// Whether a controller wants to see packets that no rule takes.
    pub(super) fn wants_misses(&self) -> bool {
        self.peers().any(|peer| peer.controller_id == 0 && peer.version < Version::V13)
    }

    /// What is known of the controllers that are connected to, by their targets.
    pub fn statuses(&self) -> impl Iterator<Item = (&str, ControllerStatus)> {
        let controllers = self.controllers.iter();
        controllers.filter_map(|(target, controller)| {
            let link = controller.link()?;
            let peer = self.peer_of(target);
            let packet_ins = peer.map(|peer| peer.schedulers.counts()).unwrap_or_default();
            let status = ControllerStatus {
                is_connected: link.is_connected(),
                role: peer.map(|peer| peer.role),
                state: link.state_name(),
                last_error: link.last_error().map(str::to_owned),
                last_connected: link.last_connected(),
                last_disconnected: link.last_disconnected(),
                packet_ins,
            };
            Some((&**target, status))
        })
    }

    /// A connection was made.
    pub(super) fn connected(&mut self, id: ConnectionId, connected: Connected) {
        match connected.origin.clone() {
            Origin::Snoop => self.add_snooper(connected.outbox),
            Origin::Controller(target) => match self.controllers.get(&target) {
                Some(controller) => {
                    controller.show_observers(&connected.outbox);
                    let peer = Peer::new(id, target, connected, &controller.settings);
                    self.peers.insert(id, peer);
                }
                None => connected.outbox.close(),
            },
        }
    }

    /// Shows a snooper what is said with the most important controller, be it connected or not.
    fn add_snooper(&mut self, snooper: Outbox) {
        let rank = |target: &str| match self.peer_of(target).map(|peer| peer.role) {
            Some(Role::Primary) => 3,
            Some(Role::Equal) => 2,
            Some(Role::Secondary) => 1,
            Some(Role::NoChange) | None => 0,
        };
        let active = self.controllers.iter().filter(|(_, controller)| controller.link().is_some());
        let best = active.map(|(target, _)| target).max_by_key(|target| rank(target)).cloned();
        let Some(target) = best else {
            info!(target: "connmgr", limited = true, "no controller connection to snoop");
            return snooper.close();
        };
        let outbox = self.peer_of(&target).map(|peer| peer.outbox.clone());
        let Some(controller) = self.controllers.get_mut(&target) else { return };
        if controller.observe(&snooper) {
            info!(target: "rconn", "new monitor connection from {}", snooper.peer());
            outbox.into_iter().for_each(|outbox| outbox.add_observer(snooper.clone()));
        } else {
            debug!(
                target: "rconn",
                "too many monitor connections, discarding {}", snooper.peer()
            );
            snooper.close();
        }
    }

    /// The first connection of a controller.
    fn peer_of(&self, target: &str) -> Option<&Peer> {
        self.peers.values().find(|peer| &*peer.target == target)
    }

    /// A connection ended.
    pub(super) fn disconnected(&mut self, id: ConnectionId) {
        self.peers.remove(&id);
    }

    /// A peer.
    pub fn peer(&self, id: ConnectionId) -> Option<&Peer> {
        self.peers.get(&id)
    }

    /// A peer, to change it.
    pub fn peer_mut(&mut self, id: ConnectionId) -> Option<&mut Peer> {
        self.peers.get_mut(&id)
    }

    /// All peers in the order in which they came.
    pub fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.peers.values()
    }

    /// All peers in the order in which they came, to change them.
    pub(super) fn peers_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.peers.values_mut()
    }

    /// The newest election of a primary controller.
    pub(super) fn generation_id(&self) -> Option<u64> {
        self.generation_id
    }

    /// Notes an election. Returns whether it is not older than the newest.
    pub(super) fn set_generation_id(&mut self, id: u64) -> bool {
        // Numbers wrap around.
        let is_stale =
            self.generation_id.is_some_and(|newest| id.wrapping_sub(newest) as i64 <= -1);
        if !is_stale {
            self.generation_id = Some(id);
        }
        !is_stale
    }

    /// Gives a peer a role. Who was primary before a new one becomes secondary and is told so.
    pub(super) fn set_role(&mut self, id: ConnectionId, role: Role) {
        let Some(peer) = self.peers.get(&id) else { return };
        if role == Role::Primary && peer.role != role {
            let generation_id = self.generation_id.unwrap_or(u64::MAX);
            for other in self.peers.values_mut().filter(|peer| peer.role == Role::Primary) {
                other.role = Role::Secondary;
                let status = RoleStatus {
                    role: Role::Secondary,
                    reason: RoleReason::PRIMARY_REQUEST,
                    generation_id,
                };
                if other.version >= Version::V13 {
                    other.send(Class::Other, status.encode(other.version, 0));
                }
            }
        }
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.role = role;
        }
    }
}
