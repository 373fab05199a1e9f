//! Queries and controls a running switch.

use std::env;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use vswitchd::appctl::client::{Args, Client, ClientError, Target};

fn main() -> ExitCode {
    let args = match Args::parse_from(env::args_os()) {
        Ok(args) => args,
        Err(ending) if ending.ok => return print(&ending.text),
        Err(ending) => return complain(&ending.text, ExitCode::FAILURE),
    };
    let program = args.program.clone();
    let timeout = args.timeout(|name| env::var(name));

    // On a thread of its own, because connecting, writing and reading can all block.
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // Fails only if the main thread gave up.
        let _ = sender.send(run(&args));
    });
    let result = match timeout {
        None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
        Some(timeout) => receiver.recv_timeout(timeout),
    };
    match result {
        Ok(Ok(text)) => print(&text),
        Ok(Err(error)) => {
            let (words, code) = match &error {
                ClientError::Refused { text, .. } => (text.trim_end_matches('\n'), 2),
                ClientError::NotText(_) => ("", 2),
                _ => ("", 1),
            };
            let words = if words.is_empty() { String::new() } else { format!("{words}\n") };
            complain(&format!("{words}{program}: {error}\n"), ExitCode::from(code))
        }
        Err(RecvTimeoutError::Disconnected) => ExitCode::FAILURE,
        Err(RecvTimeoutError::Timeout) => {
            let seconds = timeout.unwrap_or_default().as_secs();
            complain(&format!("{program}: no reply within {seconds} s\n"), ExitCode::FAILURE)
        }
    }
}

fn run(args: &Args) -> Result<String, ClientError> {
    let target = Target::find(args.target.as_deref(), &args.program, |name| env::var_os(name))?;
    let (command, arguments) = args.command();
    Client::connect(target)?.run(command, arguments, args.format, args.pretty)
}

/// Writes `text` to standard output.
fn print(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        // Such as a pager that was left.
        Err(_) => ExitCode::FAILURE,
    }
}

/// Writes `text` to standard error.
fn complain(text: &str, code: ExitCode) -> ExitCode {
    // The exit status says it too.
    let _ = io::stderr().write_all(text.as_bytes());
    code
}
