//! `make install` into a directory of its own, and what it put there.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::tools::program;
use tests::{Directory, Output};

/// Runs the script behind `make install` and `make uninstall` on this build.
fn install(destination: &Directory, args: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let binaries = program("sluice-vswitchd");
    let mut command = Command::new(root.join(".ci/install"));
    command.args(args).env("DESTDIR", destination.root()).env("PREFIX", "/usr");
    assert_eq!(Output::of(command.env("BINARIES", binaries.parent().unwrap())).ok(), "");
}

/// All files below a directory, relative to it, with their permissions.
fn files(root: &Path) -> BTreeSet<(String, u32)> {
    let mut files = BTreeSet::new();
    let mut directories = vec![PathBuf::from(root)];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let mode = path.metadata().unwrap().permissions().mode() & 0o777;
                files.insert((path.strip_prefix(root).unwrap().display().to_string(), mode));
            }
        }
    }
    files
}

#[test]
fn installs_and_removes_everything() {
    let destination = Directory::new();
    install(&destination, &[]);
    let expected = [
        ("usr/sbin/sluice-vswitchd", 0o755),
        ("usr/sbin/sluice-appctl", 0o755),
        ("usr/lib/systemd/system/sluice-vswitchd.service", 0o644),
        ("usr/share/bash-completion/completions/sluice-vswitchd", 0o644),
        ("usr/share/bash-completion/completions/sluice-appctl", 0o644),
        ("usr/share/man/man8/sluice-vswitchd.8", 0o644),
        ("usr/share/man/man8/sluice-appctl.8", 0o644),
    ];
    let expected = expected.map(|(path, mode)| (path.to_owned(), mode));
    assert_eq!(files(destination.root()), BTreeSet::from(expected));

    // Again over itself, then away.
    install(&destination, &[]);
    install(&destination, &["--remove"]);
    assert_eq!(files(destination.root()), BTreeSet::new());
}

#[test]
fn manual_pages_are_sound() {
    let destination = Directory::new();
    install(&destination, &[]);
    for (program, words) in [
        ("sluice-vswitchd", ["--detach", "--db-file", "OVS_RUNDIR", "DB-REMOTE"]),
        ("sluice-appctl", ["--target", "--timeout", "--format", "EXIT STATUS"]),
    ] {
        let page = destination.path(format!("usr/share/man/man8/{program}.8"));
        let mut man = Command::new("man");
        man.args(["--warnings", "--encoding=ascii", "-l"]).arg(&page).env("MANWIDTH", "80");
        let text = Output::of(&mut man).ok();
        for word in words {
            assert!(text.contains(word), "{word} is missing from {program}.8:\n{text}");
        }
    }
}

#[test]
fn completions_complete() {
    let destination = Directory::new();
    install(&destination, &[]);
    let complete = |program: &str, line: &str| {
        let script = destination.path("usr/share/bash-completion/completions").join(program);
        Output::of(Command::new("bash").arg("-n").arg(&script)).ok();
        // What bash itself does on the tab key.
        let text = r#"
            source "$1"
            PATH=$2:$PATH
            read -ra COMP_WORDS <<<"$4"
            [[ $4 == *' ' ]] && COMP_WORDS+=('')
            COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$4 COMP_POINT=${#4}
            function=$(complete -p "$3" | sed 's/.* -F \([^ ]*\).*/\1/')
            "$function" "$3" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
            printf '%s\n' "${COMPREPLY[@]}"
        "#;
        let mut bash = destination.command("bash");
        bash.args(["-c", text, "bash"]).arg(&script);
        bash.arg(destination.path("usr/sbin")).args([program, line]);
        let reply = Output::of(&mut bash).ok();
        reply.lines().map(|line| line.trim_end().to_owned()).collect::<BTreeSet<_>>()
    };
    let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect();
    assert_eq!(
        complete("sluice-vswitchd", "sluice-vswitchd --pid"),
        words(&["--pidfile"]) as BTreeSet<String>
    );
    assert_eq!(complete("sluice-appctl", "sluice-appctl --tar"), words(&["--target"]));
    // No daemon: no commands, and no complaint.
    assert_eq!(complete("sluice-appctl", "sluice-appctl vlog/"), words(&[""]));
    let daemon = tests::Daemon::start(&destination, &[]);
    let expected = ["vlog/list", "vlog/list-pattern"];
    assert_eq!(complete("sluice-appctl", "sluice-appctl vlog/li"), words(&expected));
    assert_eq!(
        complete("sluice-appctl", "sluice-appctl -t sluice-vswitchd vlog/li"),
        words(&expected)
    );
    daemon.stop();
}

#[test]
fn unit_is_sound() {
    let destination = Directory::new();
    install(&destination, &[]);
    let unit = destination.path("usr/lib/systemd/system/sluice-vswitchd.service");
    let text = std::fs::read_to_string(&unit).unwrap();
    assert!(text.contains("\nExecStart=/usr/sbin/sluice-vswitchd --pidfile"), "{text}");
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        println!("skipped: systemd-analyze is not installed");
        return;
    }
    // It looks for the programs where the unit names them.
    let analysed =
        text.replace("/usr/sbin/", &format!("{}/usr/sbin/", destination.root().display()));
    destination.write("sluice-vswitchd.service", analysed);
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["verify", "--man=no", "--recursive-errors=no"]);
    Output::of(analyze.arg(destination.path("sluice-vswitchd.service"))).ok();
}
