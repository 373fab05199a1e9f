//! Adding, changing and removing ports of datapaths.

use std::collections::BTreeMap;

use dpif::datapath::PortNumber;
use netdev::errno;
use rustix::io::Errno;
use tracing::{debug, warn};

use super::{Options, Report, command, open};
use crate::appctl::command::datapath::shown_type;
use crate::appctl::registry::{Call, Command, Handler, Outcome};
use crate::daemon::Daemon;

const ANY: usize = usize::MAX;

pub(super) const COMMANDS: &[Command] = &[
    command("dpctl/add-if", "dp iface...", (2, ANY), Handler::Now(add)),
    command("dpctl/set-if", "dp iface...", (2, ANY), Handler::Now(set)),
    command("dpctl/del-if", "dp iface...", (2, ANY), Handler::Now(delete)),
];

/// A port as arguments describe it: `NAME[,KEY=VALUE]...`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Interface<'a> {
    name: &'a str,
    /// `type`.
    port_type: Option<&'a str>,
    /// `port_no`.
    number: Option<PortNumber>,
    /// Everything else. What is empty removes an option.
    options: Vec<(&'a str, &'a str)>,
}

impl<'a> Interface<'a> {
    fn parse(text: &'a str) -> Result<Self, String> {
        let mut parts = text.split(',').filter(|part| !part.is_empty());
        let name =
            parts.next().ok_or_else(|| format!("{text} is not a valid network device name"))?;
        let mut interface = Self { name, ..Self::default() };
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            match key {
                "" => return Err(format!("Invalid option format: {part}")),
                "type" => interface.port_type = Some(value),
                "port_no" => {
                    let number = value.parse().map_err(|_| {
                        format!("{name}: port number \"{value}\" is not from 0 to {}", u32::MAX)
                    })?;
                    interface.number = Some(PortNumber(number));
                }
                _ => interface.options.push((key, value)),
            }
        }
        Ok(interface)
    }

    /// `options` with what this changes of them.
    fn changed(&self, mut options: BTreeMap<String, String>) -> BTreeMap<String, String> {
        for (key, value) in &self.options {
            if value.is_empty() {
                options.remove(*key);
            } else {
                options.insert((*key).to_owned(), (*value).to_owned());
            }
        }
        options
    }
}

fn add(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (_, arguments) = Options::parse(&call.arguments)?;
    let mut report = Report::new(daemon);
    if let Some((name, interfaces)) = open(daemon, arguments, &mut report) {
        let shown = arguments.first().map_or("", String::as_str);
        add_all(daemon, &name, shown, interfaces, &mut report);
    }
    report.outcome()
}

/// Adds ports to a datapath, which the operator called `shown`.
pub(super) fn add_all(
    daemon: &mut Daemon,
    datapath: &str,
    shown: &str,
    interfaces: &[String],
    report: &mut Report,
) {
    for text in interfaces {
        match Interface::parse(text) {
            Ok(interface) => add_one(daemon, datapath, shown, &interface, report),
            Err(error) => report.fail(None, error),
        }
    }
}

fn add_one(
    daemon: &mut Daemon,
    datapath: &str,
    shown: &str,
    interface: &Interface<'_>,
    report: &mut Report,
) {
    let name = interface.name;
    let refused = |errno: Errno, report: &mut Report| {
        warn!(
            target: "dpif", limited = true,
            "{shown}: failed to add {name} as port: {}", errno::description(errno)
        );
        report.fail(Some(errno), format!("adding {name} to {shown} failed"));
    };
    let is_taken = |daemon: &Daemon| {
        daemon.bridges.datapath_ports(datapath).values().any(|port| port.name() == name)
    };
    if is_taken(daemon) {
        return refused(Errno::EXIST, report);
    }
    let port_type = interface.port_type.unwrap_or("system");
    let mut port = match daemon.bridges.registry().open(name, port_type) {
        Ok(port) => port,
        Err(error) => {
            let text = format!("{name}: failed to open network device");
            return report.fail(Some(error.errno()), text);
        }
    };
    if let Err(error) = port.set_options(&interface.changed(BTreeMap::new())) {
        return report.fail(None, error);
    }
    let up = port.set_admin_up(true);
    match daemon.bridges.add_bare_port(datapath, port, interface.number) {
        Ok(number) => {
            debug!(target: "dpif", limited = true, "{shown}: added {name} as port {number}")
        }
        Err(error) => return refused(error.errno(), report),
    }
    if let Err(error) = up {
        report.fail(Some(error.errno()), format!("{name}: failed bringing interface up"));
    }
}

fn set(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (_, arguments) = Options::parse(&call.arguments)?;
    let mut report = Report::new(daemon);
    if let Some((name, interfaces)) = open(daemon, arguments, &mut report) {
        let shown = arguments.first().map_or("", String::as_str);
        for text in interfaces {
            match Interface::parse(text) {
                Ok(interface) => set_one(daemon, &name, shown, &interface, &mut report),
                Err(error) => report.fail(None, error),
            }
        }
    }
    report.outcome()
}

fn set_one(
    daemon: &mut Daemon,
    datapath: &str,
    shown: &str,
    interface: &Interface<'_>,
    report: &mut Report,
) {
    let name = interface.name;
    let ports = daemon.bridges.datapath_ports(datapath);
    let Some((&number, port)) = ports.iter().find(|(_, port)| port.name() == name) else {
        let text = format!("{name}: failed to query port in {shown}");
        return report.fail(Some(Errno::NODEV), text);
    };
    let port_type = shown_type(port.port_type());
    if let Some(wanted) = interface.port_type.filter(|wanted| *wanted != port_type) {
        let text = format!("{name}: can't change type from {port_type} to {wanted}");
        return report.fail(None, text);
    }
    if let Some(wanted) = interface.number.filter(|wanted| *wanted != number) {
        let text = format!("{name}: can't change port number from {number} to {wanted}");
        return report.fail(None, text);
    }
    if interface.options.is_empty() {
        return;
    }
    let options = interface.changed(port.options());
    if let Err(error) = daemon.bridges.set_bare_port(datapath, number, &options) {
        report.fail(Some(error.errno()), error);
    }
}

fn delete(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (_, arguments) = Options::parse(&call.arguments)?;
    let mut report = Report::new(daemon);
    let Some((datapath, names)) = open(daemon, arguments, &mut report) else {
        return report.outcome();
    };
    let shown = arguments.first().map_or("", String::as_str);
    for name in names {
        let number = name.parse().ok().map(PortNumber).or_else(|| {
            let ports = daemon.bridges.datapath_ports(&datapath);
            ports.iter().find(|(_, port)| port.name() == name).map(|(number, _)| *number)
        });
        let Some(number) = number else {
            report.fail(None, format!("no port named {name}"));
            continue;
        };
        match daemon.bridges.remove_datapath_port(&datapath, number) {
            Ok(()) => debug!(target: "dpif", limited = true, "{shown}: port_del({number})"),
            Err(error) => {
                let errno = error.errno();
                warn!(
                    target: "dpif", limited = true,
                    "{shown}: port_del failed ({})", errno::description(errno)
                );
                report.fail(Some(errno), format!("deleting port {name} from {shown} failed"));
            }
        }
    }
    report.outcome()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_names_with_options() {
        assert_eq!(
            Interface::parse("vif1.0,type=dummy,,port_no=5,n_rxq=2,pcap=a=b,numa_id"),
            Ok(Interface {
                name: "vif1.0",
                port_type: Some("dummy"),
                number: Some(PortNumber(5)),
                options: vec![("n_rxq", "2"), ("pcap", "a=b"), ("numa_id", "")],
            })
        );
        for (bad, error) in [
            (",", ", is not a valid network device name"),
            ("p,=1", "Invalid option format: =1"),
            ("p,port_no=-1", "p: port number \"-1\" is not from 0 to 4294967295"),
        ] {
            assert_eq!(Interface::parse(bad), Err(error.to_owned()));
        }
    }

    #[test]
    fn an_empty_value_removes_an_option() {
        let interface = Interface::parse("p,n_rxq=2,numa_id=").unwrap();
        let map = |pairs: &[(&str, &str)]| {
            let owned = pairs.iter().map(|(key, value)| (key.to_string(), value.to_string()));
            owned.collect::<BTreeMap<_, _>>()
        };
        assert_eq!(
            interface.changed(map(&[("numa_id", "1"), ("n_txq", "1")])),
            map(&[("n_rxq", "2"), ("n_txq", "1")])
        );
    }
}
