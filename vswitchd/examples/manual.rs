//! Writes the manual pages of both programs and the bash completion of the daemon into a
//! directory: `manual DIRECTORY`. The options come from the parsers themselves.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use clap_complete::Shell;
use clap_mangen::Man;

fn main() -> io::Result<()> {
    let Some(directory) = std::env::args_os().nth(1) else {
        return Err(io::Error::other("usage: manual DIRECTORY"));
    };
    let directory = Path::new(&directory);

    let mut daemon = vswitchd::args::Args::command_named("sluice-vswitchd");
    let tail = include_str!("../packaging/sluice-vswitchd.tail.8");
    write_page(directory, daemon.clone(), tail)?;
    clap_complete::generate_to(Shell::Bash, &mut daemon, "sluice-vswitchd", directory)?;

    let client = vswitchd::appctl::client::Args::command_named("sluice-appctl");
    write_page(directory, client, include_str!("../packaging/sluice-appctl.tail.8"))
}

/// Writes the page of one program, with the hand-written sections at its end.
fn write_page(directory: &Path, command: clap::Command, tail: &str) -> io::Result<()> {
    let mut file = File::create(directory.join(format!("{}.8", command.get_name())))?;
    let man = Man::new(command).section("8").manual("Sluice Manual");
    man.render_title(&mut file)?;
    man.render_name_section(&mut file)?;
    man.render_synopsis_section(&mut file)?;
    man.render_description_section(&mut file)?;
    man.render_options_section(&mut file)?;
    file.write_all(tail.as_bytes())
}
