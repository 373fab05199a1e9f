//! The control thread: it takes in what the database, operators and the clock say, one event at a
//! time, and makes the switch follow before it takes the next.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use netdev::clock::{self, Alarm};
use netdev::coverage::Counter;
use netdev::linux::links::Links;
use netdev::linux::routing::Routing;
use tokio::task::spawn_local;
use tracing::{error, info, warn};
use uuid::Uuid;

use crate::appctl::registry::{Handler, Output, Registry, Responder};
use crate::appctl::server::{Request, Server};
use crate::args::OVS_VERSION;
use crate::bridge::Bridges;
use crate::bridge::status::{self, Publisher};
use crate::config::model::STATISTICS_INTERVAL;
use crate::config::parse::{self, Parsed, Problem, Severity};
use crate::config::unbuilt;
use crate::coverage::{self, Coverage};
use crate::daemonize;
use crate::errno;
use crate::log::Log;
use crate::ovsdb::atom::Atom;
use crate::ovsdb::client::{Client, Event, Outcome, Transaction, TransactionId};
use crate::ovsdb::datum::Datum;
use crate::ovsdb::open_vswitch;
use crate::ovsdb::server::Server as DatabaseServer;
use crate::system::System;

/// Real time that other threads get between two steps of a long warp.
const WARP_PAUSE: Duration = Duration::from_millis(10);
/// When a write to the database that failed is tried again.
const WRITE_AGAIN: Duration = Duration::from_millis(100);

/// Times that the whole configuration was compared with what is applied.
pub static RECONFIGURED: Counter = Counter::new("bridge_reconfigure");

/// A move of the clock in steps (`time/warp`).
pub struct Warp {
    left: Duration,
    step: Duration,
    responder: Responder,
}

impl Warp {
    /// A move by `total` in steps of `step`; `responder` answers at the end.
    pub fn new(total: Duration, step: Duration, responder: Responder) -> Self {
        Self { left: total, step, responder }
    }
}

/// A wish to end the process.
#[derive(Debug, Default)]
pub struct Exit {
    /// Whether devices that outlive the process go as well.
    pub cleanup: bool,
    /// Who is told when everything is torn down.
    pub responders: Vec<Responder>,
}

/// What the control thread owns.
pub struct Daemon {
    /// What `version` answers.
    pub version: String,
    /// The commands of the control socket.
    pub commands: Rc<Registry>,
    /// The log.
    pub log: Log,
    /// Event counters.
    pub coverage: Coverage,
    /// The bridges.
    pub bridges: Bridges,
    /// The database.
    pub database: Client,
    /// The embedded database server, if the database is embedded.
    pub embedded: Option<Rc<DatabaseServer>>,
    /// The move of the clock under way.
    pub warp: Option<Warp>,
    /// Set when the process is to end.
    pub exit: Option<Exit>,
    publisher: Publisher,
    /// Problems of the configuration that the log has told of.
    known_problems: BTreeSet<Problem>,
    /// Interfaces that are not open although the kernel has devices of their names.
    present: BTreeSet<String>,
    /// Those of which the devices appeared since the last reconciliation.
    appeared: BTreeSet<String>,
    reconcile: bool,
    /// Whether ports that this thread polls may have more to receive.
    poll_again: bool,
    /// Transactions under way, by what they write.
    writing_outcome: Option<TransactionId>,
    writing_state: Option<TransactionId>,
    writing_statistics: Option<TransactionId>,
    write_again_at: Option<Duration>,
    statistics_interval: Duration,
    statistics_at: Duration,
    sample_at: Duration,
    process: daemonize::Daemon,
    routing: Arc<Routing>,
    follows_routing: bool,
    initialized: bool,
    /// Settings in use that are not acted upon and of which the log has told.
    known_unbuilt: BTreeSet<String>,
}

/// The parts that a [`Daemon`] is made of.
pub struct Parts {
    /// What `version` answers.
    pub version: String,
    /// The commands of the control socket.
    pub commands: Rc<Registry>,
    /// The log.
    pub log: Log,
    /// All event counters of the process.
    pub counters: Vec<&'static Counter>,
    /// The bridges.
    pub bridges: Bridges,
    /// The database.
    pub database: Client,
    /// The embedded database server, if the database is embedded.
    pub embedded: Option<DatabaseServer>,
    /// The process, which is to be told when the first configuration is applied and published.
    pub process: daemonize::Daemon,
    /// Whether routes are those of the kernel, too.
    pub follows_routing: bool,
}

impl Daemon {
    /// A daemon that has seen nothing of the database yet.
    pub fn new(parts: Parts) -> Self {
        let now = clock::now();
        Self {
            version: parts.version,
            commands: parts.commands,
            log: parts.log,
            coverage: Coverage::new(parts.counters),
            bridges: parts.bridges,
            database: parts.database,
            embedded: parts.embedded.map(Rc::new),
            warp: None,
            exit: None,
            publisher: Publisher::default(),
            known_problems: BTreeSet::new(),
            present: BTreeSet::new(),
            appeared: BTreeSet::new(),
            reconcile: false,
            poll_again: false,
            writing_outcome: None,
            writing_state: None,
            writing_statistics: None,
            write_again_at: None,
            statistics_interval: STATISTICS_INTERVAL,
            statistics_at: now + STATISTICS_INTERVAL,
            sample_at: now + coverage::SAMPLE_INTERVAL,
            process: parts.process,
            routing: Arc::default(),
            follows_routing: parts.follows_routing,
            initialized: false,
            known_unbuilt: BTreeSet::new(),
        }
    }

    /// Serves until somebody asks for the end.
    pub async fn run(&mut self, server: &mut Option<Server>) {
        let links = Arc::clone(self.bridges.registry().links());
        spawn_local(watch_links(Arc::clone(&links)));
        let mut alarm = Alarm::default();
        let routing = Arc::clone(&self.routing);
        if self.follows_routing {
            spawn_local(watch_routing(Arc::clone(&routing)));
        }
        let afxdp = Arc::clone(self.bridges.registry().afxdp());
        spawn_local(async move { afxdp.watch().await });
        while self.exit.is_none() {
            let deadline = self.deadline();
            let warp_pause = async {
                match &self.warp {
                    Some(_) => tokio::time::sleep(WARP_PAUSE).await,
                    None => std::future::pending().await,
                }
            };
            let request = async {
                match server {
                    Some(server) => server.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = self.database.next_event() => self.take_database_event(event),
                Some(request) = request => self.take_request(request),
                () = warp_pause => self.warp_step(),
                () = links.changed() => self.links_changed(),
                () = routing.changed() => self.bridges.follow_routing(routing.take()),
                () = self.bridges.arrival() => {}
                event = self.bridges.openflow_event() => self.bridges.handle_openflow(event),
                () = std::future::ready(()), if self.poll_again => {}
                () = alarm.ring_at(deadline) => {}
            }
            self.settle();
            if self.poll_again {
                // However many packets wait, the tasks of connections get their turn. Anything
                // else comes from tasks, which wait for their turn themselves.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Tears everything down and tells whoever asked for it. Devices that can outlive the process
    /// do so unless somebody asked for more.
    pub async fn finish(mut self, server: Option<Server>) {
        self.process.stopping();
        let exit = self.exit.take().unwrap_or_default();
        self.bridges.delete_all(exit.cleanup);
        for responder in exit.responders {
            responder.answer(Ok(Output::none()));
        }
        if let Some(server) = server {
            server.close().await;
        }
    }

    /// When the next timer is due.
    fn deadline(&self) -> Duration {
        let again = self.write_again_at.unwrap_or(Duration::MAX);
        let maintenance = self.bridges.maintenance_due().unwrap_or(Duration::MAX);
        self.statistics_at.min(self.sample_at).min(again).min(maintenance)
    }

    fn take_request(&mut self, Request { call, handler, responder }: Request) {
        match handler {
            Handler::Now(run) => {
                let outcome = run(self, &call);
                // What the command changed shows before its answer does.
                self.settle();
                responder.answer(outcome);
            }
            Handler::Later(run) => run(self, &call, responder),
            Handler::Connection => responder.answer(Ok(Output::none())),
        }
    }

    /// Closes ports whose devices went, and has those opened whose devices came.
    fn links_changed(&mut self) {
        let lost = self.bridges.close_lost();
        let present = self.bridges.present_but_closed();
        self.appeared.extend(present.difference(&self.present).cloned());
        self.present = present;
        self.reconcile |= lost || !self.appeared.is_empty();
    }

    fn warp_step(&mut self) {
        let Some(mut warp) = self.warp.take() else { return };
        let step = warp.step.min(warp.left);
        clock::warp(step);
        warp.left -= step;
        if warp.left.is_zero() {
            self.settle();
            warp.responder.answer(Ok(Output::Text("warped".to_owned())));
        } else {
            self.warp = Some(warp);
        }
    }

    fn take_database_event(&mut self, event: Event) {
        match event {
            Event::Changed | Event::LockGranted => self.reconcile = true,
            Event::LockHeldElsewhere | Event::LockLost => {
                error!(
                    target: "bridge", limited = true,
                    "another ovs-vswitchd process is running, disabling this process (pid {}) until \
                     it goes away",
                    std::process::id()
                );
                self.bridges.delete_all(false);
                self.publisher.forget();
            }
            Event::TransactionDone(id, outcome) => self.transaction_done(id, &outcome),
            Event::Connected | Event::Disconnected => {}
        }
    }

    fn transaction_done(&mut self, id: TransactionId, outcome: &Outcome) {
        let id = Some(id);
        if let Outcome::Error(error) = outcome {
            warn!(target: "bridge", limited = true, "the database refused an update: {error}");
        }
        let written = matches!(outcome, Outcome::Success { .. } | Outcome::Unchanged);
        if id == self.writing_statistics {
            self.writing_statistics = None;
            return;
        }
        if !written {
            self.publisher.forget();
            self.write_again_at = Some(clock::now() + WRITE_AGAIN);
        }
        if id == self.writing_state {
            self.writing_state = None;
        } else if id == self.writing_outcome {
            self.writing_outcome = None;
            if !written {
                self.reconcile = true;
            } else if !self.initialized {
                self.initialized = true;
                if let Err(error) = self.process.ready() {
                    error!(target: "daemon_unix", "{error}");
                }
                info!(target: "bridge", "{}", self.version);
                self.report_unbuilt();
            }
        }
    }

    /// Does all that is due, so that the next event finds everything in order.
    fn settle(&mut self) {
        self.bridges.follow_switches();
        self.poll_again = self.bridges.poll();
        self.bridges.maintain();
        let now = clock::now();
        if self.sample_at <= now {
            self.coverage.sample();
            self.sample_at = now + coverage::SAMPLE_INTERVAL;
        }
        if self.write_again_at.is_some_and(|at| at <= now) {
            self.write_again_at = None;
        }
        let statistics_due = self.statistics_at <= now;
        if statistics_due {
            self.statistics_at = now + self.statistics_interval;
        }
        if !self.database.has_lock() || !self.database.has_contents() {
            return;
        }
        if self.write_again_at.is_none() {
            if self.reconcile && self.writing_outcome.is_none() {
                self.reconcile = false;
                self.reconcile();
            } else if self.writing_state.is_none() && self.publisher.has_changes(&self.bridges) {
                let mut transaction = Transaction::new();
                self.publisher.write_changes(&self.bridges, &mut transaction);
                self.writing_state = Some(self.database.commit(&transaction));
            }
        }
        if statistics_due && self.writing_statistics.is_none() {
            let mut transaction = Transaction::new();
            status::write_all_statistics(&self.bridges, &mut transaction);
            self.writing_statistics = Some(self.database.commit(&transaction));
        }
    }

    fn reconcile(&mut self) {
        RECONFIGURED.add(1);
        let Parsed { config, number_hints, problems } =
            parse::parse(self.database.cache(), self.bridges.run_directory());
        for problem in problems.difference(&self.known_problems) {
            let Problem { severity, text } = problem;
            match severity {
                Severity::Information => info!(target: "bridge", "{text}"),
                Severity::Warning => warn!(target: "bridge", "{text}"),
                Severity::Error => error!(target: "bridge", "{text}"),
            }
        }
        self.known_problems = problems;
        if config.statistics_interval != self.statistics_interval {
            self.statistics_interval = config.statistics_interval;
            self.statistics_at = clock::now();
        }
        let appeared = std::mem::take(&mut self.appeared);
        self.bridges.reconcile(&config, &number_hints, &appeared);

        let mut transaction = Transaction::new();
        self.publisher.write_outcome(&self.bridges, &config, &mut transaction);
        if let Some(root) = self.database.cache().singleton("Open_vSwitch") {
            let uuid = root.uuid();
            transaction.set("Open_vSwitch", uuid, "cur_cfg", root.integer("next_cfg"));
            let names = |names: Vec<&str>| {
                Datum::from(names.into_iter().map(Atom::from).collect::<BTreeSet<_>>())
            };
            let datapath_types = names(self.bridges.datapath_types());
            transaction.set("Open_vSwitch", uuid, "datapath_types", datapath_types);
            let iface_types = names(self.bridges.registry().types());
            transaction.set("Open_vSwitch", uuid, "iface_types", iface_types);
            if self.embedded.is_some() {
                write_versions(uuid, &mut transaction);
            }
        } else if self.embedded.is_some() {
            // Nobody else is there to make the one row that everything hangs on.
            transaction.insert("Open_vSwitch");
        }
        self.writing_outcome = Some(self.database.commit(&transaction));
        if self.initialized {
            self.report_unbuilt();
        }
    }

    /// Says once of each setting in use that nothing acts upon it. Not before the daemon is ready:
    /// until then standard error belongs to problems.
    fn report_unbuilt(&mut self) {
        for setting in unbuilt::settings(self.database.cache()) {
            if !self.known_unbuilt.contains(&setting) {
                info!(target: "bridge", "{setting} is stored but not acted upon yet");
                self.known_unbuilt.insert(setting);
            }
        }
    }
}

/// Follows the kernel's links until the process ends.
async fn watch_links(links: Arc<Links>) {
    let Err(error) = links.watch().await;
    warn!(
        target: "netlink_notifier",
        "changes of links go unnoticed from now on: {}", errno::text(&error)
    );
}

/// Follows the kernel's routes until the process ends.
async fn watch_routing(routing: Arc<Routing>) {
    let Err(error) = routing.watch().await;
    warn!(
        target: "netlink_notifier",
        "changes of routes go unnoticed from now on: {}", errno::text(&error)
    );
}

/// Writes what the start scripts of Open vSwitch write where the database is not embedded.
fn write_versions(root: Uuid, transaction: &mut Transaction) {
    let System { name, version } = System::current();
    let mut set = |column, text: &str| transaction.set("Open_vSwitch", root, column, text);
    set("ovs_version", OVS_VERSION);
    set("db_version", open_vswitch::VERSION);
    set("system_type", &name);
    set("system_version", &version);
}
