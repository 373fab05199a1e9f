//! `ovsdb-server/*`: the embedded database.

use std::rc::Rc;

use serde_json::json;
use tokio::task::spawn_local;

use crate::appctl::registry::{Call, Command, Format, Handler, Outcome, Output, Responder};
use crate::daemon::Daemon;
use crate::ovsdb::server::Server;

use super::command;

pub(super) const COMMANDS: &[Command] = &[
    command("ovsdb-server/compact", "[db]", (0, 1), Handler::Later(compact)),
    command("ovsdb-server/list-dbs", "", (0, 0), Handler::Later(list_databases)),
    command("ovsdb-server/sync-status", "", (0, 0), Handler::Now(sync_status)),
];

/// Answers with what `ask` gets from the embedded server, which has its own thread.
fn ask<F: Future<Output = Outcome> + 'static>(
    daemon: &Daemon,
    responder: Responder,
    ask: impl FnOnce(Rc<Server>) -> F,
) {
    match &daemon.embedded {
        Some(server) => {
            let answer = ask(Rc::clone(server));
            spawn_local(async move { responder.answer(answer.await) });
        }
        None => responder.answer(Err("the database is not embedded".to_owned())),
    }
}

fn compact(daemon: &mut Daemon, call: &Call, responder: Responder) {
    let name = call.argument(0).map(str::to_owned);
    ask(daemon, responder, |server| async move {
        match name {
            Some(name) if name.starts_with('_') => {
                return Err("cannot compact built-in databases".to_owned());
            }
            Some(name) if !server.databases().await.contains(&name) => {
                return Err("no database by that name".to_owned());
            }
            _ => {}
        }
        server.compact().await.map(|()| Output::none())
    });
}

fn list_databases(daemon: &mut Daemon, call: &Call, responder: Responder) {
    let format = call.format;
    ask(daemon, responder, move |server| async move {
        let mut names = server.databases().await;
        names.sort();
        Ok(match format {
            Format::Text => Output::Text(names.iter().map(|name| format!("{name}\n")).collect()),
            Format::Json => Output::Json(json!(names)),
        })
    });
}

/// The embedded server replicates nobody and so is always the active one.
fn sync_status(_: &mut Daemon, call: &Call) -> Outcome {
    Ok(match call.format {
        Format::Text => Output::Text("state: active\n".to_owned()),
        Format::Json => Output::Json(json!({"state": "active"})),
    })
}
