//! Commands about connections. Datapaths do not track any yet, so there are none to show, and
//! what would change how they are tracked is refused.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use rustix::io::Errno;
use serde_json::{Value, json};

use super::{Options, Report, choose, command};
use crate::appctl::registry::{Call, Command, Handler, Outcome};
use crate::daemon::Daemon;

const ANY: usize = usize::MAX;

pub(super) const COMMANDS: &[Command] = &[
    command("dpctl/dump-conntrack", "[-m] [-s] [dp] [zone=N]", (0, 4), Handler::Now(dump)),
    command(
        "dpctl/flush-conntrack",
        "[dp] [zone=N] [mark=X[/M]] [labels=Y[/N]] [ct-orig-tuple [ct-reply-tuple]]",
        (0, 6),
        Handler::Now(flush),
    ),
    command("dpctl/ct-stats-show", "[dp] [zone=N]", (0, 3), Handler::Now(show_statistics)),
    command("dpctl/ct-get-nconns", "[dp]", (0, 1), Handler::Now(count)),
    command("dpctl/ct-get-limits", "[dp] [zone=N1[,N2]...]", (0, 2), Handler::Now(show_limits)),
    command(
        "dpctl/ct-set-limits",
        "[dp] [default=L] [zone=N,limit=L]...",
        (0, ANY),
        Handler::Now(set_limits),
    ),
    command(
        "dpctl/ct-del-limits",
        "[dp] [default] [zone=N1[,N2]...]",
        (0, 3),
        Handler::Now(delete_limits),
    ),
    command("dpctl/dump-conntrack-exp", "[dp] [zone=N]", (0, 2), Handler::Now(refuse)),
    command("dpctl/ct-bkts", "[dp] [gt=N]", (0, 2), Handler::Now(refuse)),
    command("dpctl/ct-set-maxconns", "[dp] maxconns", (1, 2), Handler::Now(refuse)),
    command("dpctl/ct-get-maxconns", "[dp]", (0, 1), Handler::Now(refuse)),
    command("dpctl/ct-enable-tcp-seq-chk", "[dp]", (0, 1), Handler::Now(refuse)),
    command("dpctl/ct-disable-tcp-seq-chk", "[dp]", (0, 1), Handler::Now(refuse)),
    command("dpctl/ct-get-tcp-seq-chk", "[dp]", (0, 1), Handler::Now(refuse)),
    command("dpctl/ct-get-sweep-interval", "[dp]", (0, 1), Handler::Now(refuse)),
    command("dpctl/ct-set-sweep-interval", "[dp] ms", (1, 2), Handler::Now(refuse)),
    command("dpctl/ipf-set-enabled", "[dp] v4|v6", (1, 2), Handler::Now(refuse)),
    command("dpctl/ipf-set-disabled", "[dp] v4|v6", (1, 2), Handler::Now(refuse)),
    command("dpctl/ipf-set-min-frag", "[dp] v4|v6 minfragment", (2, 3), Handler::Now(refuse)),
    command("dpctl/ipf-set-max-nfrags", "[dp] maxfrags", (1, 2), Handler::Now(refuse)),
    command("dpctl/ipf-get-status", "[dp]", (0, 1), Handler::Now(refuse)),
];

/// Fails because no connections are tracked.
fn untracked(report: &mut Report, what: &str) {
    report.fail(Some(Errno::OPNOTSUPP), format!("{what}: this datapath tracks no connections"));
}

fn refuse(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (_, arguments) = Options::parse(&call.arguments)?;
    let mut report = Report::new(daemon);
    if choose(daemon, arguments, ANY, &mut report).is_some() {
        untracked(&mut report, &call.command);
    }
    report.outcome()
}

fn dump(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (_, arguments) = Options::parse(&call.arguments)?;
    let mut report = Report::new(daemon);
    let arguments = without_zone(arguments, &mut report);
    choose(daemon, arguments, 1, &mut report);
    report.outcome_or(call, || json!([]))
}

fn flush(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (_, arguments) = Options::parse(&call.arguments)?;
    let mut report = Report::new(daemon);
    if let Some((_, filters)) = choose(daemon, arguments, 5, &mut report)
        && !without_zone(filters, &mut report).is_empty()
    {
        untracked(&mut report, "flushing some connections of a zone");
    }
    report.outcome()
}

fn show_statistics(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (_, arguments) = Options::parse(&call.arguments)?;
    let mut report = Report::new(daemon);
    let arguments = match arguments {
        [rest @ .., last] if last == "verbose" => rest,
        all => all,
    };
    let arguments = without_zone(arguments, &mut report);
    if choose(daemon, arguments, 1, &mut report).is_some() {
        report.line("Connections Stats:\n    Total: 0");
    }
    report.outcome_or(call, || json!({"total": 0}))
}

fn count(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (_, arguments) = Options::parse(&call.arguments)?;
    let mut report = Report::new(daemon);
    if choose(daemon, arguments, 1, &mut report).is_some() {
        report.line(0);
    }
    report.outcome_or(call, || json!(0))
}

/// Takes `zone=N` off the end of `arguments`.
fn without_zone<'a>(arguments: &'a [String], report: &mut Report) -> &'a [String] {
    let [rest @ .., last] = arguments else { return arguments };
    let Some(zone) = last.strip_prefix("zone=") else { return arguments };
    if zone.parse::<u16>().is_err() {
        report.fail(Some(Errno::INVAL), format!("zone \"{zone}\" is not from 0 to {}", u16::MAX));
    }
    rest
}

/// Reads `zone=N1[,N2]...`.
fn parse_zones(text: &str) -> Result<BTreeSet<u16>, String> {
    let zones = text.strip_prefix("zone=").ok_or_else(|| format!("invalid argument {text}"))?;
    let zones = zones.split(',').filter(|zone| !zone.is_empty()).map(str::parse);
    zones.collect::<Result<_, _>>().map_err(|_| "invalid zone".to_owned())
}

/// Reads `zone=N,limit=L`.
fn parse_limit(text: &str) -> Result<(u16, u32), String> {
    let (mut zone, mut limit) = (None, None);
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let wrong = || format!("failed to parse field {key}");
        match key {
            _ if value.is_empty() => return Err(format!("field {key} missing value")),
            "zone" => zone = Some(value.parse().map_err(|_| wrong())?),
            "limit" => limit = Some(value.parse().map_err(|_| wrong())?),
            _ => return Err(format!("invalid zone limit field: {key}")),
        }
    }
    zone.zip(limit).ok_or_else(|| "failed to parse zone limit".to_owned())
}

/// Reads what `ct-set-limits` is to set, and returns the highest of the limits.
fn parse_limits(arguments: &[String]) -> Result<u32, String> {
    let (default, zones) = match arguments {
        [first, rest @ ..] if first.starts_with("default=") => (Some(first), rest),
        all => (None, all),
    };
    let default = default.map(|text| text.trim_start_matches("default=").parse());
    let mut highest = default.transpose().map_err(|_| "invalid default limit")?.unwrap_or(0);
    for text in zones {
        highest = highest.max(parse_limit(text)?.1);
    }
    Ok(highest)
}

/// The datapath and the rest of the arguments, of which there must be some.
fn with_arguments<'a>(
    daemon: &Daemon,
    arguments: &'a [String],
    report: &mut Report,
) -> Option<&'a [String]> {
    let (_, rest) = choose(daemon, arguments, ANY, report)?;
    if rest.is_empty() {
        report.fail(Some(Errno::INVAL), "too few arguments");
        return None;
    }
    Some(rest)
}

fn set_limits(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (_, arguments) = Options::parse(&call.arguments)?;
    let mut report = Report::new(daemon);
    match with_arguments(daemon, arguments, &mut report).map(parse_limits) {
        // None is what there is.
        None | Some(Ok(0)) => {}
        Some(Ok(_)) => untracked(&mut report, "failed to set conntrack limit"),
        Some(Err(error)) => report.fail(Some(Errno::INVAL), error),
    }
    report.outcome()
}

fn delete_limits(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (_, arguments) = Options::parse(&call.arguments)?;
    let mut report = Report::new(daemon);
    let zones = with_arguments(daemon, arguments, &mut report).and_then(|arguments| {
        let is_default = arguments.first().is_some_and(|first| first == "default");
        arguments.get(usize::from(is_default))
    });
    if let Some(Err(error)) = zones.map(|text| parse_zones(text)) {
        report.fail(Some(Errno::INVAL), error);
    }
    report.outcome()
}

fn show_limits(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (_, arguments) = Options::parse(&call.arguments)?;
    let mut report = Report::new(daemon);
    let Some((_, rest)) = choose(daemon, arguments, 2, &mut report) else {
        return report.outcome();
    };
    match rest.first().map_or(Ok(BTreeSet::new()), |text| parse_zones(text)) {
        Ok(zones) => {
            let lines = zones.iter().fold("default limit=0".to_owned(), |mut lines, zone| {
                let _ = write!(lines, "\nzone={zone},limit=0,count=0");
                lines
            });
            report.line(lines);
            report.outcome_or(call, || {
                let zones =
                    zones.iter().map(|zone| (zone.to_string(), json!({"limit": 0, "count": 0})));
                json!({"default": 0, "zones": zones.collect::<Value>()})
            })
        }
        Err(error) => {
            report.fail(Some(Errno::INVAL), error);
            report.outcome()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_numbers_in_range() {
        let parse = |arguments: &[&str]| {
            parse_limits(&arguments.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(parse(&["default=5", "zone=1,limit=9", "limit=0,zone=65535"]), Ok(9));
        assert_eq!(parse(&["zone=1,limit=4294967295"]), Ok(u32::MAX));
        for (bad, error) in [
            ("default=-1", "invalid default limit"),
            ("default=4294967296", "invalid default limit"),
            ("zone=1,limit=5000000000", "failed to parse field limit"),
            ("zone=65536,limit=1", "failed to parse field zone"),
            ("zone=1,limit=", "field limit missing value"),
            ("zone=1,rate=2", "invalid zone limit field: rate"),
            ("zone=1", "failed to parse zone limit"),
        ] {
            assert_eq!(parse(&[bad]), Err(error.to_owned()));
        }
    }

    #[test]
    fn zones_are_a_list() {
        assert_eq!(parse_zones("zone=3,,1"), Ok([1, 3].into()));
        assert_eq!(parse_zones("zone="), Ok([].into()));
        assert_eq!(parse_zones("zone=x"), Err("invalid zone".to_owned()));
        assert_eq!(parse_zones("zones=1"), Err("invalid argument zones=1".to_owned()));
    }
}
