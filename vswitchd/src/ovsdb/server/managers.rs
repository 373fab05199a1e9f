//! The remotes that the database itself asks for: the rows of its `Manager` table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use netdev::clock;
use stream::Remote;
use stream::tls::{CaCertificate, Protocols, TlsConfig, TlsSettings};
use tokio::task::{AbortHandle, spawn_local};
use tracing::{error, info};
use uuid::Uuid;

use super::remote::{Options, State, serve};
use super::shared::{Shared, time};
use crate::ovsdb::atom::Atom;
use crate::ovsdb::database::{Database, Table};
use crate::ovsdb::datum::Datum;
use crate::ovsdb::engine::Engine;
use crate::ovsdb::error::Error;
use crate::ovsdb::row::Row;

/// Time between updates of the status of managers.
const STATUS_INTERVAL: Duration = Duration::from_millis(2500);
/// The port of OVSDB managers that name none (RFC 7047 section 10).
const DEFAULT_PORT: u16 = 6640;

/// A manager as the database wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    target: String,
    options: Options,
}

/// A manager that is served.
struct Running {
    wanted: Wanted,
    tls: Option<TlsSettings>,
    state: Rc<State>,
    task: Option<AbortHandle>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

fn column<'a>(table: &Table, row: &'a Row, name: &str) -> Option<&'a Datum> {
    table.schema().column_index(name).map(|column| &row[column])
}

fn text(table: &Table, row: &Row, name: &str) -> Option<String> {
    match column(table, row, name)?.as_scalar()? {
        Atom::String(text) => Some(text.to_string()),
        _ => None,
    }
}

fn milliseconds(table: &Table, row: &Row, name: &str) -> Option<Duration> {
    match column(table, row, name)?.as_scalar()? {
        Atom::Integer(value) => u64::try_from(*value).ok().map(Duration::from_millis),
        _ => None,
    }
}

/// The rows that the columns called `name` of the root table `Open_vSwitch` refer to.
fn referenced<'a>(
    database: &'a Database,
    name: &str,
    table: &str,
) -> Option<(&'a Table, Vec<(Uuid, &'a Row)>)> {
    let root = database.table(database.table_index("Open_vSwitch")?);
    let table = database.table(database.table_index(table)?);
    let rows = root
        .rows()
        .filter_map(|(_, row)| column(root, row, name))
        .flat_map(Datum::keys)
        .filter_map(Atom::as_uuid)
        .filter_map(|uuid| Some((uuid, &**table.row(uuid)?)))
        .collect();
    Some((table, rows))
}

fn wanted(database: &Database) -> BTreeMap<Uuid, Wanted> {
    let Some((table, rows)) = referenced(database, "manager_options", "Manager") else {
        return BTreeMap::new();
    };
    let manager = |row: &Row| {
        let default = Options::default();
        Some(Wanted {
            target: text(table, row, "target")?,
            options: Options {
                max_backoff: milliseconds(table, row, "max_backoff").unwrap_or(default.max_backoff),
                probe_interval: milliseconds(table, row, "inactivity_probe"),
            },
        })
    };
    rows.into_iter().filter_map(|(uuid, row)| Some((uuid, manager(row)?))).collect()
}

fn tls_settings(database: &Database, run_directory: &Path) -> Option<TlsSettings> {
    let (table, rows) = referenced(database, "ssl", "SSL")?;
    let (_, row) = rows.first()?;
    let file = |name: &str| -> Option<PathBuf> {
        text(table, row, name).filter(|file| !file.is_empty()).map(|file| run_directory.join(file))
    };
    let bootstrap = column(table, row, "bootstrap_ca_cert")?.as_scalar()?;
    Some(TlsSettings {
        private_key: file("private_key")?,
        certificate: file("certificate")?,
        ca_certificate: match (file("ca_cert")?, bootstrap) {
            (path, Atom::Boolean(true)) => CaCertificate::Bootstrap(path),
            (path, _) => CaCertificate::File(path),
        },
        peer_ca_certificate: None,
        protocols: Protocols::default(),
        server_name: None,
    })
}

/// Serves the managers that the database asks for, and writes their status back.
pub(super) async fn run(shared: Rc<Shared>, run_directory: PathBuf) {
    let mut running: BTreeMap<Uuid, Running> = BTreeMap::new();
    let mut next_status = Duration::ZERO;
    loop {
        // Created before the database is read, so that a change after that is not missed.
        let changed = shared.changed();
        tokio::pin!(changed);
        reconfigure(&mut running, &shared, &run_directory);
        if running.is_empty() {
            changed.await;
            continue;
        }
        if clock::now() >= next_status {
            next_status = clock::now() + STATUS_INTERVAL;
            let updated = shared.act(|engine| write_status(engine, &running));
            if let Err(problem) = updated {
                error!(
                    target: "ovsdb_server",
                    limited = true,
                    "Failed to update manager status: {problem}"
                );
            }
        }
        tokio::select! {
            () = changed => {}
            () = shared.status() => next_status = clock::now(),
            () = clock::sleep_until(next_status) => {}
        }
    }
}

/// Starts and stops managers as the database says.
fn reconfigure(running: &mut BTreeMap<Uuid, Running>, shared: &Rc<Shared>, run_directory: &Path) {
    let engine = shared.engine();
    let wanted = wanted(engine.database());
    let tls = tls_settings(engine.database(), run_directory);
    drop(engine);
    let uses_tls = |target: &str| target.starts_with("ssl:") || target.starts_with("pssl:");
    let tls_for = |target: &str| tls.clone().filter(|_| uses_tls(target));

    running.retain(|uuid, manager| {
        let target = &manager.wanted.target;
        let stays = wanted.get(uuid) == Some(&manager.wanted) && manager.tls == tls_for(target);
        if !stays && !wanted.values().any(|wanted| wanted.target == *target) {
            info!(target: "ovsdb_jsonrpc_server", "{target}: remote deconfigured");
        }
        stays
    });
    for (uuid, wanted) in wanted {
        running.entry(uuid).or_insert_with(|| {
            let tls = tls_for(&wanted.target);
            start(wanted, tls, shared, run_directory)
        });
    }
}

fn start(
    wanted: Wanted,
    tls: Option<TlsSettings>,
    shared: &Rc<Shared>,
    run_directory: &Path,
) -> Running {
    let state = Rc::new(State::default());
    let task = match Remote::parse(&wanted.target, Some(DEFAULT_PORT), run_directory) {
        Ok(remote) => {
            let tls = tls.clone().map(|settings| Arc::new(TlsConfig::new(settings)));
            let options = wanted.options.clone();
            let serving = serve(remote, tls, options, Rc::clone(&state), Rc::clone(shared));
            Some(spawn_local(serving).abort_handle())
        }
        Err(problem) => {
            error!(target: "ovsdb_jsonrpc_server", limited = true, "{problem}");
            state.last_error.replace(Some(problem.to_string()));
            shared.status_changed();
            None
        }
    };
    Running { wanted, tls, state, task }
}

/// Writes how the managers are doing to their rows, where that is new.
fn write_status(engine: &mut Engine, running: &BTreeMap<Uuid, Running>) -> Result<(), Error> {
    let rows: Vec<_> = running
        .iter()
        .map(|(uuid, manager)| {
            let connected = !manager.state.sessions.borrow().is_empty();
            (*uuid, Datum::from(connected), status(engine, &manager.state))
        })
        .collect();
    engine.change(
        |transaction| {
            let database = transaction.database();
            let Some(index) = database.table_index("Manager") else { return };
            let schema = database.table(index).schema();
            let columns = (schema.column_index("is_connected"), schema.column_index("status"));
            let (Some(connected_column), Some(status_column)) = columns else { return };
            for (uuid, connected, status) in rows {
                transaction.modify(index, uuid, |row| {
                    row.set(connected_column, connected);
                    row.set(status_column, status);
                });
            }
        },
        time(),
    )
}

/// The `status` column of a manager.
fn status(engine: &Engine, state: &State) -> Datum {
    let mut pairs = Vec::new();
    let mut put = |key: &str, value: &str| pairs.push((Atom::from(key), Atom::from(value)));
    let sessions = state.sessions.borrow();
    let now = clock::now();
    let seconds = |at: Duration| now.saturating_sub(at).as_secs().to_string();
    if let Some(name) = state.name.get() {
        put("state", name);
        if let Some(at) = state.connected_at.get() {
            put("sec_since_connect", &seconds(at));
        }
        if let Some(at) = state.disconnected_at.get() {
            put("sec_since_disconnect", &seconds(at));
        }
        if let [session] = sessions.as_slice() {
            let locks = engine.locks_of(*session);
            for (key, names) in [
                ("locks_held", locks.held),
                ("locks_waiting", locks.waiting),
                ("locks_lost", locks.lost),
            ] {
                if !names.is_empty() {
                    put(key, &names.join(" "));
                }
            }
        }
    } else if let Some(port) = state.port.get() {
        put("bound_port", &port.to_string());
        // Of no meaning for a listener, but tools are used to them.
        put("sec_since_connect", "0");
        put("sec_since_disconnect", "0");
    }
    if let Some(error) = &*state.last_error.borrow() {
        put("last_error", error);
    }
    if sessions.len() > 1 {
        put("n_connections", &sessions.len().to_string());
    }
    Datum::map(pairs).unwrap_or_else(|_| Datum::empty_map())
}
