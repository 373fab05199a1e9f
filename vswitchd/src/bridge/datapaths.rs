//! The datapaths that bridges share, and how packets come to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dpif::action::Action;
use dpif::datapath::{Config, Datapath, DatapathType, PortNumber, Topology};
use dpif::flow::FlowKey;
use dpif::pmd::metrics::IterationLog;
use netdev::clock;
use netdev::linux::poller::Poller;
use netdev::port::Port;
use netdev::registry::Registry;
use ofproto::connection::Bridge;
use ofproto::epoch::Epoch;
use ofproto::features::{FeatureError, Features};
use ofproto::news::News;
use ofproto::revalidate::Revalidator;
use ofproto::switch::Switch;
use ofproto::switches::Switches;
use ofproto::upcall::Upcalls;
use tracing::warn;
use uuid::Uuid;

use super::{BareError, Bridges};
use crate::config::diff::InterfaceName;
use crate::config::model::DatapathConfig;

/// Frames of a datapath on each NUMA node: 2 KiB each, touched only as far as they are in use.
const FRAMES: u32 = 32 * 1024;
/// Rounds over the ports that the control thread polls before it looks at anything else.
const ROUNDS: usize = 16;

/// A packet that operators have executed.
pub struct ExecutedPacket<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Its key, which tells what the bytes do not.
    pub key: &'a FlowKey,
}

/// A datapath, and what its bridges share.
pub(super) struct SharedDatapath {
    pub(super) datapath: Datapath,
    /// The port that is there as long as the datapath, with its name and number 0. It is no port
    /// of a bridge; absent when the system refused it.
    pub(super) local: Option<Box<dyn Port>>,
    pub(super) upcalls: Arc<Upcalls>,
    /// Counts changes of what its flows depend on.
    pub(super) epoch: Arc<Epoch>,
    revalidator: Revalidator,
    /// What translation may ask of the datapath.
    features: Features,
    /// Waits for the ports that the control thread polls; absent when the system refused it.
    pub(super) poller: Option<Poller>,
    /// The ports that tunnels share, by name.
    pub(super) tunnel_ports: BTreeMap<String, PortNumber>,
}

impl SharedDatapath {
    /// An empty one, of which `epoch` counts changes. Packets that it has for controllers are
    /// `news`.
    pub(super) fn new(
        kind: DatapathType,
        topology: &Topology,
        log: IterationLog,
        epoch: Arc<Epoch>,
        news: News,
        registry: &Registry,
    ) -> Self {
        let upcalls = Arc::new(Upcalls::new(Arc::clone(&epoch), news.clone()));
        let mut datapath = Datapath::new(Config {
            name: kind.datapath_name().to_owned(),
            kind,
            topology: topology.clone(),
            frames: FRAMES,
            handler: Arc::clone(&upcalls) as Arc<_>,
            seed: Uuid::new_v4().as_u64_pair().0,
        });
        datapath.set_iteration_log(log);
        let local = open_local(&mut datapath, registry)
            .inspect_err(|error| {
                warn!(target: "dpif", "{}: no port of its own: {error}", datapath.name());
            })
            .ok();
        let revalidator = Revalidator::new(Arc::clone(&upcalls), news);
        let features = Features::default();
        let (poller, tunnel_ports) = (None, BTreeMap::new());
        Self { datapath, local, upcalls, epoch, revalidator, features, poller, tunnel_ports }
    }

    /// A switch on the datapath, as its connections see it.
    pub(super) fn bridge<'a>(&'a mut self, switch: &'a mut Switch) -> Bridge<'a> {
        Bridge { switch, datapath: &mut self.datapath, upcalls: &self.upcalls }
    }

    /// When revalidation has something to do: while there are flows, or were at the last look, and when a rule may have run
    /// out.
    fn revalidation_due(&self) -> Option<Duration> {
        let due = self.revalidator.due()?;
        if self.datapath.flow_count() > 0 || self.revalidator.statistics().known > 0 {
            return Some(due);
        }
        let switches = self.upcalls.switches();
        let expiry = switches.iter().filter_map(|switch| switch.tables.next_expiry()).min()?;
        Some(due.max(expiry))
    }
}

/// Opens the port of a datapath that has its name and number 0.
///
/// # Errors
/// When the port cannot be opened.
pub(super) fn open_local(
    datapath: &mut Datapath,
    registry: &Registry,
) -> Result<Box<dyn Port>, BareError> {
    let name = datapath.name().to_owned();
    let port = registry.open(&name, datapath.kind().port_open_type("internal"))?;
    datapath.add_port_at(&name, PortNumber::LOCAL)?;
    Ok(port)
}

impl Bridges {
    /// Brings the datapaths in line with the ports of the switches and with `config`, and tells
    /// translation of both. Interfaces that carry no packets are closed, and count as failed.
    pub(super) fn reconfigure_datapaths(&mut self, config: &DatapathConfig) {
        self.datapath_config = config.clone();
        let kinds: Vec<_> = self.datapaths.keys().copied().collect();
        for kind in kinds {
            let mut failures = self.place_tunnels(kind);
            failures.extend(self.reconfigure_datapath(kind, config));
            for (name, error) in failures {
                warn!(target: "dpif", "{}: {error}", name.interface);
                let applied = self.applied.get(&name.bridge);
                let state = applied.and_then(|bridge| bridge.interfaces.get(&name.interface));
                let Some(interface) = state.map(|state| state.config.clone()) else { continue };
                self.delete_interface(&name);
                self.fail_interface(&name, &interface, error);
            }
            self.publish_switches(kind);
        }
    }

    /// Returns the interfaces that carry no packets, and why.
    fn reconfigure_datapath(
        &mut self,
        kind: DatapathType,
        config: &DatapathConfig,
    ) -> Vec<(InterfaceName, String)> {
        let Some(shared) = self.datapaths.get_mut(&kind) else { return vec![] };
        let datapath = &mut shared.datapath;
        datapath.set_pmd_settings(config.pmd.clone());
        datapath.set_knobs(config.knobs);
        datapath.set_offload(config.offload.clone());
        shared.revalidator.set_settings(config.revalidation);
        let mut names = BTreeMap::new();
        let mut ports: Vec<(PortNumber, &mut dyn Port)> = vec![];
        ports.extend(shared.local.as_mut().map(|port| (PortNumber::LOCAL, port.as_mut())));
        for (bridge, switch) in &mut self.switches {
            let applied = self.applied.get(bridge).filter(|applied| applied.datapath == Some(kind));
            let Some(applied) = applied else { continue };
            for (_, port) in switch.ports_mut() {
                let Some(number) = port.datapath_number.filter(|_| port.port.tunnel().is_none())
                else {
                    continue;
                };
                let interface = port.port.name().to_owned();
                if let Some(state) = applied.interfaces.get(&interface) {
                    datapath.set_port_settings(number, state.config.datapath.clone());
                }
                names.insert(number, InterfaceName { bridge: bridge.clone(), interface });
                ports.push((number, port.port.as_mut()));
            }
        }
        let errors = datapath.reconfigure(&mut ports);
        shared.poller = Poller::new(shared.datapath.wait_fds())
            .inspect_err(|error| {
                warn!(target: "dpif", "cannot wait for ports: {error}; they receive nothing");
            })
            .ok();
        errors
            .into_iter()
            .filter_map(|(number, error)| Some((names.remove(&number)?, error.to_string())))
            .collect()
    }

    /// Most tags that are looked at (`vlan-limit`).
    pub fn vlan_limit(&self) -> usize {
        self.datapath_config.knobs.vlan_limit
    }

    /// Looks at ports that changed by themselves, and tells translation of that and of what
    /// controllers changed.
    pub fn follow_switches(&mut self) {
        let mut stale = BTreeSet::new();
        for (bridge, switch) in &mut self.switches {
            switch.look_at_ports();
            let kind = self.applied.get(bridge).and_then(|applied| applied.datapath);
            stale.extend(kind.filter(|_| switch.take_snapshot_is_stale()));
        }
        for kind in stale {
            self.publish_switches(kind);
        }
    }

    /// Gives translation a new picture of the switches on a datapath.
    pub(super) fn publish_switches(&mut self, kind: DatapathType) {
        let Some(shared) = self.datapaths.get_mut(&kind) else { return };
        let mut snapshots = vec![];
        for (bridge, switch) in &self.switches {
            let Some(applied) = self.applied.get(bridge) else { continue };
            if applied.datapath != Some(kind) {
                continue;
            }
            snapshots.push(switch.snapshot());
        }
        let switches = Switches::new(snapshots)
            .with_features(shared.features.clone())
            .with_underlay(Arc::clone(&self.underlay));
        shared.upcalls.publish(switches);
    }

    /// When revalidation or a MAC table has something to do.
    pub fn maintenance_due(&self) -> Option<Duration> {
        let due = self.datapaths.values().filter_map(SharedDatapath::revalidation_due);
        let balance = self.datapaths.values().filter_map(|shared| shared.datapath.balance_due());
        let expiry =
            self.stations_expire.into_iter().chain(self.connections_due).chain(self.neighbours_due);
        due.chain(balance).chain(expiry).min()
    }

    /// Does what is due: forgets silent stations and looks at flows again.
    pub fn maintain(&mut self) {
        let now = clock::now();
        self.maintain_connections();
        self.stations_expire =
            self.switches.values().filter_map(|switch| switch.mac_table().expire()).min();
        for shared in self.datapaths.values_mut() {
            shared.datapath.balance();
            shared.revalidator.collect(&mut shared.datapath);
            if shared.revalidation_due().is_some_and(|due| due <= now) {
                shared.revalidator.begin(&mut shared.datapath);
            }
        }
        self.neighbours_due = self.maintain_underlay();
    }

    /// Looks at all flows again now.
    pub fn revalidate(&mut self) {
        for shared in self.datapaths.values_mut() {
            shared.revalidator.run(&mut shared.datapath);
        }
    }

    /// Removes all flows.
    pub fn purge_flows(&mut self) {
        for shared in self.datapaths.values_mut() {
            shared.revalidator.purge(&mut shared.datapath);
        }
    }

    /// Stops looking at flows again, or goes on with it.
    pub fn pause_revalidation(&mut self, paused: bool) {
        for shared in self.datapaths.values_mut() {
            shared.revalidator.set_paused(paused);
        }
    }

    /// Sets whether flows take all packets for which the answer is the same, or as few as they
    /// can. Those that are there go.
    pub fn set_megaflows(&mut self, on: bool) {
        for shared in self.datapaths.values_mut() {
            shared.upcalls.set_megaflows(on);
            shared.revalidator.purge(&mut shared.datapath);
        }
    }

    /// Sets whether passes over the flows know these by their names alone.
    pub fn set_terse_dumps(&mut self, is_terse: bool) {
        self.datapaths.values_mut().for_each(|shared| shared.revalidator.set_terse(is_terse));
    }

    /// What translation may ask of the datapath of bridge `name`.
    pub fn features(&self, name: &str) -> Option<&Features> {
        Some(&self.datapaths.get(&self.datapath_type(name)?)?.features)
    }

    /// Changes a feature of the datapath of bridge `name`. All flows are made anew.
    ///
    /// # Errors
    /// When the feature does not exist or cannot have the value.
    pub fn set_feature(
        &mut self,
        name: &str,
        feature: &str,
        value: &str,
        force: bool,
    ) -> Result<(), FeatureError> {
        let kind = self.datapath_type(name).ok_or(FeatureError::Unknown)?;
        let shared = self.datapaths.get_mut(&kind).ok_or(FeatureError::Unknown)?;
        shared.features.set(feature, value, force)?;
        shared.revalidator.purge(&mut shared.datapath);
        self.publish_switches(kind);
        Ok(())
    }

    /// Gives a port of a datapath of dummies another number.
    ///
    /// # Errors
    /// The sentence for the operator.
    pub fn renumber_port(
        &mut self,
        datapath: &str,
        interface: &str,
        number: PortNumber,
    ) -> Result<(), &'static str> {
        let shared = self.datapaths.get_mut(&DatapathType::Dummy);
        let shared = shared.filter(|shared| shared.datapath.name() == datapath);
        let shared = shared.ok_or("unknown datapath or not a dummy")?;
        let on_it = self.applied.iter().filter(|(_, applied)| {
            applied.datapath == Some(DatapathType::Dummy)
                && applied.interfaces.get(interface).is_some_and(|state| state.number.is_some())
        });
        let bridge = on_it.map(|(name, _)| name.clone()).next().ok_or("unknown port")?;
        let name = InterfaceName { bridge, interface: interface.to_owned() };
        shared.datapath.remove_port(interface);
        let moved = shared.datapath.add_port_at(interface, number).is_ok();
        // What was free a moment ago is so still, so the port gets its old number back.
        let number = if moved { Some(number) } else { shared.datapath.add_port(interface).ok() };
        if let Some(port) = self.port_mut(&name) {
            port.datapath_number = number;
        }
        let config = self.datapath_config.clone();
        self.reconfigure_datapaths(&config);
        if moved { Ok(()) } else { Err("port number already in use") }
    }

    /// Deals the receive queues of a datapath out anew.
    pub fn rebalance(&mut self, name: &str) {
        let all = self.all_datapaths_mut();
        all.filter(|datapath| datapath.name() == name).for_each(Datapath::rebalance);
    }

    /// How suspicious rounds of poll threads are logged.
    pub fn iteration_log(&self) -> IterationLog {
        self.iteration_log
    }

    /// Changes how suspicious rounds of poll threads are logged.
    pub fn set_iteration_log(&mut self, log: IterationLog) {
        self.iteration_log = log;
        self.all_datapaths_mut().for_each(|datapath| datapath.set_iteration_log(log));
    }

    /// Sets the most flows that upcalls make.
    pub fn set_flow_limit(&mut self, limit: usize) {
        self.datapaths.values().for_each(|shared| shared.upcalls.set_flow_limit(limit));
    }

    /// The datapaths, each with its title and what revalidates its flows.
    pub fn shared_datapaths(&self) -> impl Iterator<Item = (String, &Datapath, &Revalidator)> {
        let all = self.datapaths.values();
        all.map(|shared| (shared.datapath.title(), &shared.datapath, &shared.revalidator))
    }

    /// What translation knows of the switches that share a datapath with a bridge.
    pub fn switches_beside(&self, bridge: &str) -> Option<Arc<Switches>> {
        let kind = self.datapath_type(bridge)?;
        self.datapaths.get(&kind).map(|shared| shared.upcalls.switches())
    }

    /// What translation knows of the switches on the datapath of this type, or on the only one.
    pub fn switches_of_type(&self, kind: Option<&str>) -> Option<Arc<Switches>> {
        let mut found =
            self.datapaths.iter().filter(|(own, _)| kind.is_none_or(|kind| own.name() == kind));
        let (_, shared) = found.next()?;
        found.next().is_none().then(|| shared.upcalls.switches())
    }

    /// Does `actions` to a packet on the datapath of a bridge. Returns whether that was possible.
    pub fn execute(
        &mut self,
        bridge: &str,
        packet: &ExecutedPacket<'_>,
        actions: &[Action],
    ) -> bool {
        let shared = self.datapath_type(bridge).and_then(|kind| self.datapaths.get_mut(&kind));
        let Some(shared) = shared else { return false };
        let pool = shared.datapath.pool(0).ok();
        let Some(mut made) = pool.and_then(|pool| pool.packet_with(packet.bytes)) else {
            return false;
        };
        let mut view = made.view_mut();
        let descriptor = view.descriptor_mut();
        descriptor.in_port = packet.key.in_port.get();
        descriptor.recirc_id = packet.key.recirc_id.get();
        descriptor.dp_hash = packet.key.dp_hash.get();
        descriptor.skb_mark = packet.key.skb_mark.get();
        descriptor.skb_priority = packet.key.skb_priority.get();
        shared.datapath.execute(made, actions);
        true
    }

    /// Receives and forwards what waits at the ports that the control thread polls. Returns
    /// whether more may wait.
    pub fn poll(&mut self) -> bool {
        let mut more = false;
        for datapath in self.all_datapaths_mut() {
            more |= (0..ROUNDS).all(|_| datapath.poll() > 0);
        }
        more
    }

    /// Completes when a port that the control thread polls may have something to receive.
    pub async fn arrival(&self) {
        let shared = self.datapaths.values().filter_map(|shared| shared.poller.as_ref());
        let bare = self.bare.values().filter_map(|bare| bare.poller.as_ref());
        let kernel = shared.chain(bare);
        let kernel: Vec<_> = kernel.map(|poller| Box::pin(poller.ready())).collect();
        let kernel = async {
            if kernel.is_empty() {
                std::future::pending::<()>().await;
            }
            futures::future::select_all(kernel).await;
        };
        tokio::select! {
            () = kernel => {}
            () = self.registry.dummies().received() => {}
            () = self.news.arrived() => {}
            () = self.underlay.requested() => {}
        }
    }
}
