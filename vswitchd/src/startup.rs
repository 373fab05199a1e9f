//! From the command line to a running daemon.

use std::env;
use std::io::Write;
use std::panic;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;

use netdev::coverage::Counter;
use netdev::registry::{DummyMode, Registry as PortRegistry};
use stream::tls::{CaCertificate, ProtocolError, Protocols, TlsConfig, TlsSettings};
use stream::{BindError, Remote, RemoteError};
use thiserror::Error;
use tokio::runtime::{Builder, LocalOptions};
use tokio::task::spawn_local;

use crate::appctl::command;
use crate::appctl::registry::Registry;
use crate::appctl::server::{self, Server};
use crate::args::{Args, Dummies, version_text};
use crate::bridge::Bridges;
use crate::config::columns;
use crate::daemon::{self, Daemon, Parts};
use crate::daemonize::{self, DaemonizeError, Role};
use crate::directories::Directories;
use crate::errno;
use crate::exit::{Signals, terminate};
use crate::log::Log;
use crate::memory_lock;
use crate::ovsdb::client::{Client, RemotesError, Settings, parse_remotes};
use crate::ovsdb::server::{Server as DatabaseServer, ServerError, Settings as DatabaseSettings};
use crate::topology;

/// Why the daemon cannot run.
#[derive(Debug, Error)]
enum StartError {
    /// The process cannot become a daemon.
    #[error(transparent)]
    Daemonize(#[from] DaemonizeError),
    /// The control socket cannot be made.
    #[error(transparent)]
    ControlSocket(#[from] BindError),
    /// The control socket's name is unusable.
    #[error(transparent)]
    ControlSocketName(#[from] RemoteError),
    /// The embedded database cannot be served.
    #[error(transparent)]
    DatabaseServer(ServerError),
    /// The database's name is unusable.
    #[error(transparent)]
    Database(#[from] RemotesError),
    /// A TLS option needs another one.
    #[error("{0} needs {1} too")]
    TlsIncomplete(&'static str, &'static str),
    /// The TLS protocols are unusable.
    #[error("--ssl-protocols: {0}")]
    TlsProtocols(#[from] ProtocolError),
    /// The system refuses what any process needs.
    #[error("cannot set up the event loop ({})", errno::text(.0))]
    Runtime(#[from] std::io::Error),
}

/// Runs the daemon, or what else the command line of this process asks for.
pub fn run() -> ExitCode {
    let args = match Args::parse_from(env::args_os()) {
        Ok(args) => args,
        Err(ending) => {
            // There is nowhere to tell that the terminal is gone.
            let _ = if ending.ok {
                std::io::stdout().write_all(ending.text.as_bytes())
            } else {
                std::io::stderr().write_all(ending.text.as_bytes())
            };
            return if ending.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
    };
    let log = match start_log(&args) {
        Ok(log) => log,
        Err(text) => {
            let _ = writeln!(std::io::stderr(), "{}: {text}", args.program);
            return ExitCode::FAILURE;
        }
    };
    let directories = Directories::new(&args.program, |name| env::var_os(name));
    run_role(&args, &directories, &log).unwrap_or_else(|error| {
        log.fatal("daemon_unix", &error.to_string());
        ExitCode::FAILURE
    })
}

fn start_log(args: &Args) -> Result<Log, String> {
    let log = Log::new(&args.program, args.log.syslog_method.clone());
    let log = log.map_err(|error| error.to_string())?;
    for spec in &args.log.verbose {
        log.apply(spec);
    }
    log.install().map_err(|error| error.to_string())?;
    if let Some(target) = &args.log.syslog_target {
        log.add_syslog_target(target).map_err(|error| error.to_string())?;
    }
    Ok(log)
}

fn run_role(args: &Args, directories: &Directories, log: &Log) -> Result<ExitCode, StartError> {
    let process = match daemonize::start(args, directories, log)? {
        Role::Finished(status) => return Ok(ExitCode::from(status)),
        Role::Worker(process) => process,
    };
    if args.mlockall {
        memory_lock::lock_all();
    }
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    // The switch is a task like others: these wake it without a system call.
    let switch = serve(args.clone(), directories.clone(), log.clone(), process);
    let signal = match runtime.block_on(async { spawn_local(switch).await }) {
        Ok(outcome) => outcome?,
        Err(error) => panic::resume_unwind(error.into_panic()),
    };
    // Sockets belong to tasks and are unlinked with them.
    drop(runtime);
    match signal {
        Some(number) => terminate(number),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Runs the switch. Returns the signal that ended it, if one did.
async fn serve(
    args: Args,
    directories: Directories,
    log: Log,
    process: daemonize::Daemon,
) -> Result<Option<i32>, StartError> {
    let (args, directories) = (&args, &directories);
    let mut signals = Signals::new()?;
    let signal = spawn_local(async move { signals.recv().await });
    let dummies = match args.enable_dummy {
        None => DummyMode::Disabled,
        Some(Dummies::Only) => DummyMode::Enabled,
        Some(Dummies::System) => DummyMode::OverrideSystem,
        Some(Dummies::Override) => DummyMode::OverrideAll,
    };
    let embedded = embedded_server(args, directories)?;
    let commands = command::all(dummies != DummyMode::Disabled, embedded.is_some());
    let commands = Rc::new(Registry::new(commands));
    let mut server = match control_socket(args, directories)? {
        Some(remote) => Some(Server::bind(&remote, Rc::clone(&commands)).await?),
        None => None,
    };
    let tls = tls_config(args)?.map(Arc::new);
    let database = Client::new(Settings {
        remotes: database_remotes(args, directories)?,
        tls: tls.clone(),
        database: "Open_vSwitch".to_owned(),
        monitored: columns::monitored(),
        lock: Some("ovs_vswitchd".to_owned()),
    });
    let bridges = Bridges::new(
        PortRegistry::new(dummies, &directories.run),
        args.disable_system,
        directories.run.clone(),
        topology::discover(args.dummy_numa.as_deref()),
        tls,
        !args.process.no_self_confinement,
    );
    let mut daemon = Daemon::new(Parts {
        version: version(&args.program),
        commands,
        log,
        counters: counters(),
        bridges,
        database,
        embedded,
        process,
        // Tests with dummy ports are not to depend on the host.
        follows_routing: !args.disable_system_route && dummies == DummyMode::Disabled,
    });
    let signal = tokio::select! {
        () = daemon.run(&mut server) => None,
        Ok(number) = signal => Some(number),
    };
    daemon.finish(server).await;
    Ok(signal)
}

/// What `version` answers: the first line of what `--version` prints.
fn version(program: &str) -> String {
    let text = version_text(program);
    format!("{program} {}", text.lines().next().unwrap_or_default())
}

/// Where the control socket goes, unless there is to be none.
fn control_socket(args: &Args, directories: &Directories) -> Result<Option<Remote>, RemoteError> {
    let name = match args.unixctl.as_deref() {
        Some("none") => return Ok(None),
        Some(name) => PathBuf::from(name),
        None => PathBuf::from(format!("{}.{}.ctl", args.program, std::process::id())),
    };
    Remote::parse(&format!("punix:{}", name.display()), None, &directories.run).map(Some)
}

/// The embedded database server: where no other is named and none answers on the usual socket.
/// A program called like Open vSwitch's leaves the database to `ovsdb-server`, as that does.
fn embedded_server(
    args: &Args,
    directories: &Directories,
) -> Result<Option<DatabaseServer>, StartError> {
    if args.remote().is_some() || args.program.starts_with("ovs-") {
        return Ok(None);
    }
    let settings = DatabaseSettings {
        database: args.db_file.clone().unwrap_or_else(|| directories.db.join("conf.db")),
        remotes: vec![Remote::parse("punix:db.sock", None, &directories.run)?],
        run_directory: directories.run.clone(),
        sync: true,
    };
    match DatabaseServer::start(settings) {
        Ok(server) => Ok(Some(server)),
        Err(ServerError::InUse(_)) => Ok(None),
        Err(error) => Err(StartError::DatabaseServer(error)),
    }
}

fn database_remotes(args: &Args, directories: &Directories) -> Result<Vec<Remote>, RemotesError> {
    parse_remotes(args.remote().unwrap_or("unix:db.sock"), &directories.run)
}

fn counters() -> Vec<&'static Counter> {
    let own = [&server::RECEIVED, &server::REPLIED, &daemon::RECONFIGURED];
    let lower = netdev::COVERAGE.iter().chain(ofproto::COVERAGE).copied();
    lower.chain(dpif::coverage()).chain(own).collect()
}

/// The TLS settings of the command line, if there are any.
fn tls_config(args: &Args) -> Result<Option<TlsConfig>, StartError> {
    let tls = &args.tls;
    let (private_key, certificate) = match (&tls.private_key, &tls.certificate) {
        (None, None) => return Ok(None),
        (Some(private_key), Some(certificate)) => (private_key.clone(), certificate.clone()),
        (Some(_), None) => return Err(StartError::TlsIncomplete("--private-key", "--certificate")),
        (None, Some(_)) => return Err(StartError::TlsIncomplete("--certificate", "--private-key")),
    };
    let ca_certificate = match (&tls.bootstrap_ca_cert, &tls.ca_cert) {
        (Some(file), _) => CaCertificate::Bootstrap(file.clone()),
        (None, Some(file)) if file.as_os_str() == "none" => CaCertificate::Unverified,
        (None, Some(file)) => CaCertificate::File(file.clone()),
        (None, None) => return Err(StartError::TlsIncomplete("--private-key", "--ca-cert")),
    };
    let protocols = match &tls.ssl_protocols {
        Some(text) => text.parse()?,
        None => Protocols::default(),
    };
    Ok(Some(TlsConfig::new(TlsSettings {
        private_key,
        certificate,
        ca_certificate,
        peer_ca_certificate: tls.peer_ca_cert.clone(),
        protocols,
        server_name: tls.ssl_server_name.clone(),
    })))
}
