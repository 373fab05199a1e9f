//! What benchmarks share: the systems that are measured, and what is made of the figures.

use crate::tools::program;
use crate::{Daemon, Directory, Output, OvsdbServer};

/// Whose daemon is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum System {
    /// Ours.
    Sluice,
    /// Debian's.
    OpenVswitch,
    /// The same with DPDK, which needs [`HugePages`].
    OpenVswitchDpdk,
}

/// Huge pages of 2 MiB for the time of a measurement; dropping it restores the number there was.
#[derive(Debug)]
pub struct HugePages {
    before: String,
}

const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";

impl HugePages {
    /// Makes the system keep so many.
    ///
    /// # Panics
    /// When it cannot.
    #[track_caller]
    pub fn reserve(count: u32) -> Self {
        let before = std::fs::read_to_string(HUGE_PAGES).expect(HUGE_PAGES);
        let reserved = Self { before };
        std::fs::write(HUGE_PAGES, count.to_string()).expect(HUGE_PAGES);
        let after = std::fs::read_to_string(HUGE_PAGES).expect(HUGE_PAGES);
        assert_eq!(after.trim(), count.to_string(), "there is no memory for huge pages");
        reserved
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let _ = std::fs::write(HUGE_PAGES, self.before.trim());
    }
}

/// The processes of a running system.
#[derive(Debug)]
pub struct Processes<'a> {
    daemon: Daemon<'a>,
    server: Option<OvsdbServer>,
}

impl System {
    /// Starts the system in `directory`.
    ///
    /// # Panics
    /// When it does not start.
    #[track_caller]
    pub fn start(self, directory: &Directory) -> Processes<'_> {
        match self {
            Self::Sluice => Processes { daemon: Daemon::start(directory, &[]), server: None },
            Self::OpenVswitch => {
                self.start_beside_server(directory, &["init"], "/usr/sbin/ovs-vswitchd")
            }
            Self::OpenVswitchDpdk => {
                let set = ["init", "--", "set", "open", ".", "other_config:dpdk-init=true"];
                let settings = [
                    "other_config:dpdk-extra=\"--no-pci --in-memory\"",
                    "other_config:dpdk-socket-mem=1024",
                    "other_config:dpdk-lcore-mask=0x1",
                ];
                let program = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
                self.start_beside_server(directory, &[&set[..], &settings].concat(), program)
            }
        }
    }

    /// Starts `program` with a server whose database `vsctl` has set up.
    #[track_caller]
    fn start_beside_server<'a>(
        self,
        directory: &'a Directory,
        vsctl: &[&str],
        program: &'static str,
    ) -> Processes<'a> {
        let server = OvsdbServer::start(directory);
        directory.vsctl(&[&["--no-wait"], vsctl].concat()).ok();
        let output = Output::of(
            directory
                .command(program)
                .args(["--enable-dummy", "--disable-system", "--disable-system-route"])
                .args(["--detach", "--no-chdir", "--pidfile", "--log-file"])
                .arg("-vconsole:off"),
        );
        assert!(output.status.success(), "{output:#?}");
        let name = program.rsplit('/').next().unwrap_or(program);
        Processes { daemon: Daemon::adopt(directory, name), server: Some(server) }
    }
}

impl Processes<'_> {
    fn each<T>(&self, value: impl Fn(i32) -> T) -> Vec<T> {
        let server = self.server.as_ref().map(|server| server.running().pid());
        [Some(self.daemon.running().pid()), server].into_iter().flatten().map(value).collect()
    }

    /// Runs `ovs-appctl ARGS` against the daemon.
    #[track_caller]
    pub fn appctl(&self, args: &[&str]) -> String {
        self.daemon.appctl(args).ok()
    }

    /// Processor time used so far, in seconds.
    pub fn processor_time(&self) -> f64 {
        let ticks = self.each(|pid| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
            // The name, field 2, may contain spaces; user and system time are fields 14 and 15.
            let fields = text.rsplit(')').next().expect("fields").split_whitespace();
            fields.skip(11).take(2).map(|field| field.parse::<u64>().expect("ticks")).sum::<u64>()
        });
        let per_second = rustix::param::clock_ticks_per_second();
        ticks.into_iter().sum::<u64>() as f64 / per_second as f64
    }

    /// Memory in use, in mebibytes.
    pub fn resident(&self) -> f64 {
        let pages = self.each(|pid| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).expect("a process");
            text.split(' ').nth(1).and_then(|field| field.parse::<usize>().ok()).expect("pages")
        });
        (pages.into_iter().sum::<usize>() * rustix::param::page_size()) as f64 / f64::from(1 << 20)
    }

    /// Ends all processes.
    #[track_caller]
    pub fn stop(self) {
        self.daemon.appctl(&["exit", "--cleanup"]).ok();
        if let Some(server) = self.server {
            server.stop();
        }
    }
}

/// Median, smallest and largest value.
pub fn summary(values: &[f64]) -> (f64, f64, f64) {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

/// Writes a table beside the other results.
///
/// # Panics
/// When it cannot be written.
#[track_caller]
pub fn write_result(name: &str, table: &str) {
    let directory = program("sluice-vswitchd").with_file_name("..").join("bench");
    std::fs::create_dir_all(&directory).expect("a directory for the result");
    std::fs::write(directory.join(name), table).expect("a file for the result");
}
