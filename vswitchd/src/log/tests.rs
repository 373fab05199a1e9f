use super::*;

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use tempfile::TempDir;
use tracing::{debug, error};

/// A log that is quiet on standard error, with `%N|%c%T|%p|%m` lines in a file.
fn quiet_log(directory: &TempDir) -> (Log, PathBuf) {
    let log = Log::new("test", SyslogMethod::Null).unwrap();
    log.close_console();
    log.apply(&"PATTERN:file:%c|%p|%m".parse().unwrap());
    (log, directory.path().join("log"))
}

fn within(log: &Log, body: impl FnOnce()) {
    tracing::subscriber::with_default(tracing_subscriber::registry().with(log.clone()), body);
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_line_has_the_format_that_tools_read() {
    let directory = tempfile::tempdir().unwrap();
    let log = Log::new("test", SyslogMethod::Null).unwrap();
    log.close_console();
    let path = directory.path().join("log");
    let thread = thread::Builder::new().name("pmd-c00/id:9".to_owned());
    let opened = path.clone();
    thread
        .spawn(move || {
            within(&log, || {
                log.open_file(&opened).unwrap();
                error!(target: "dpif_netdev", "port {} gone", 7);
            });
        })
        .unwrap()
        .join()
        .unwrap();

    let text = read(&path);
    let lines: Vec<&str> = text.lines().collect();
    let (date, first) = lines[0].split_once('|').unwrap();
    assert_eq!(first, format!("00001|vlog(pmd-c00/id:9)|INFO|opened log file {}", path.display()));
    let shape: String = date.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(shape, "0000-00-00T00:00:00.000Z");
    let (_, second) = lines[1].split_once('|').unwrap();
    assert_eq!(second, "00002|dpif_netdev(pmd-c00/id:9)|ERR|port 7 gone");
    assert_eq!(lines.len(), 2);
}

#[test]
fn levels_decide_by_module_and_change_while_running() {
    let directory = tempfile::tempdir().unwrap();
    let (log, path) = quiet_log(&directory);
    let say = || {
        debug!(target: "vconn", "debug");
        debug!(target: "rconn", "other module");
        info!(target: "vconn", "info");
        tracing::trace!(target: "vconn", "never");
        // Not a module.
        error!(target: module_path!(), "library");
    };
    within(&log, || {
        // Nowhere to go, and evaluated at call sites that are used again below.
        say();
        log.open_file(&path).unwrap();
        say();
        log.apply(&"vconn".parse().unwrap());
        say();
        log.apply(&"file:off".parse().unwrap());
        say();
    });
    assert_eq!(
        read(&path),
        format!(
            "vlog|INFO|opened log file {}\nvconn|INFO|info\nvconn|DBG|debug\nvconn|INFO|info\n",
            path.display()
        )
    );
}

#[test]
fn a_file_is_closed_rotated_and_reopened() {
    let directory = tempfile::tempdir().unwrap();
    let (log, path) = quiet_log(&directory);
    let rotated = directory.path().join("log.1");
    within(&log, || {
        assert_eq!(log.reopen().unwrap_err().to_string(), "Logging to file not configured");
        log.open_file(&path).unwrap();
        log.reopen().unwrap();
        fs::rename(&path, &rotated).unwrap();
        info!(target: "bridge", "to the old file");
        log.reopen().unwrap();
        info!(target: "bridge", "to the new file");
        log.close();
        info!(target: "bridge", "nowhere");
        log.reopen().unwrap();
        let nowhere = directory.path().join("none/log");
        assert_eq!(
            log.open_file(&nowhere).unwrap_err().to_string(),
            format!("failed to open {} for logging: No such file or directory", nowhere.display())
        );
    });
    let opened = format!("vlog|INFO|opened log file {}\n", path.display());
    assert_eq!(
        read(&rotated),
        format!("{opened}bridge|INFO|to the old file\nvlog|INFO|closing log file\n")
    );
    assert_eq!(
        read(&path),
        format!(
            "{opened}bridge|INFO|to the new file\n{opened}\
             vlog|WARN|failed to open {}/none/log for logging: No such file or directory\n",
            directory.path().display()
        )
    );
    assert_eq!(log.file(), Some(path));
}

// The one test that stops the clock, which the whole process shares.
#[test]
fn limited_places_are_held_back_and_counted() {
    clock::stop();
    let directory = tempfile::tempdir().unwrap();
    let (log, path) = quiet_log(&directory);
    let say = |n: u32| warn!(target: "bridge", limited = true, "{n}");
    within(&log, || {
        log.open_file(&path).unwrap();
        fs::write(&path, "").unwrap();
        (1..=8).for_each(say);
        // Another place has its own allowance.
        warn!(target: "bridge", limited = true, "elsewhere");
        clock::warp(Duration::from_secs(60));
        say(9);
        log.limit_rate(Module::named("bridge"), false);
        (10..=20).for_each(say);
        log.limit_rate(None, true);
        say(21);
    });
    let mut want: String = (1..=5).map(|n| format!("bridge|WARN|{n}\n")).collect();
    want.push_str("bridge|WARN|elsewhere\n");
    want.push_str(
        "bridge|WARN|Dropped 3 log messages in last 60 seconds (most recently, 60 seconds ago) \
         due to excessive rate\n",
    );
    want.extend((9..=20).map(|n| format!("bridge|WARN|{n}\n")));
    assert_eq!(read(&path), want);
}

#[test]
fn syslog_gets_each_line_with_the_priority_of_its_level() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("syslog");
    let server = UnixDatagram::bind(&socket).unwrap();
    let log = Log::new("test", SyslogMethod::Unix(socket)).unwrap();
    log.close_console();
    log.apply(&"PATTERN:syslog:ovs|%c|%p|%m".parse().unwrap());
    within(&log, || {
        warn!(target: "bridge", "one\n\ntwo\n");
        log.apply(&"FACILITY:local1".parse().unwrap());
        info!(target: "bridge", "three");
    });
    let mut buffer = [0; 256];
    for want in ["<28>ovs|bridge|WARN|one", "<28>two", "<141>ovs|bridge|INFO|three"] {
        let length = server.recv(&mut buffer).unwrap();
        assert_eq!(std::str::from_utf8(&buffer[..length]), Ok(want));
    }
}

#[test]
fn a_syslog_target_gets_whole_messages() {
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = receiver.local_addr().unwrap().to_string().parse().unwrap();
    let log = Log::new("test", SyslogMethod::Null).unwrap();
    log.close_console();
    within(&log, || {
        log.add_syslog_target(&target).unwrap();
    });
    let mut buffer = [0; 512];
    let length = receiver.recv(&mut buffer).unwrap();
    let message = std::str::from_utf8(&buffer[..length]).unwrap();
    assert!(message.starts_with("<132>1 20"), "{message}");
    let process = std::process::id();
    let end = format!(
        " test {process} vlog - \u{feff}--syslog-target flag is deprecated, use --syslog-method \
         instead"
    );
    assert!(message.ends_with(&end), "{message}");
}

#[test]
fn lists_have_the_layout_that_tools_read() {
    let log = Log::new("test", SyslogMethod::Libc).unwrap();
    log.apply(&"console:bond:warn".parse().unwrap());
    log.apply(&"file:bond:off".parse().unwrap());
    log.apply(&"PATTERN:console:%m".parse().unwrap());
    log.limit_rate(Module::named("bridge"), false);
    let levels = log.levels();
    let mut lines = levels.lines();
    assert_eq!(lines.next(), Some("                 console    syslog    file"));
    assert_eq!(lines.next(), Some("                 -------    ------    ------"));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), Module::COUNT);
    assert!(lines.contains(&"bfd               INFO       INFO       INFO"));
    assert!(lines.contains(&"bond              WARN       INFO        OFF"));
    assert!(
        lines.contains(&"bridge            INFO       INFO       INFO    (rate limiting disabled)")
    );
    assert_eq!(
        log.patterns(),
        "         prefix                            format\n\
         \x20        ------                            ------\n\
         SYSLOG   <%B> %D{%h %e %T} %E %A:          ovs|%05N|%c%T|%p|%m\n\
         CONSOLE  none                              %m\n\
         FILE     none                              %D{%Y-%m-%dT%H:%M:%S.###Z}|%05N|%c%T|%p|%m\n"
    );
}

#[test]
fn a_fatal_message_is_logged_as_an_emergency() {
    let directory = tempfile::tempdir().unwrap();
    let (log, path) = quiet_log(&directory);
    within(&log, || {
        log.open_file(&path).unwrap();
        log.fatal("daemon_unix", "cannot go on");
    });
    assert_eq!(
        read(&path),
        format!("vlog|INFO|opened log file {}\ndaemon_unix|EMER|cannot go on\n", path.display())
    );
}
