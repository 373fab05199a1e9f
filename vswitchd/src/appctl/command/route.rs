//! `ovs/route/*`: routes and the rules that lead to them.

use std::net::IpAddr;

use netdev::network::Network;
use netdev::route::table;
use ofproto::route::{RouteRule, RoutesText, RulesText, ShownRoute, WantedRoute, is_standard};
use rustix::io::Errno;
use serde_json::{Value, json};

use crate::appctl::registry::{Call, Command, Format, Handler, Outcome, Output};
use crate::daemon::Daemon;

use super::command;

const RULE_USAGE: &str = "[-6] [not] from=all|ip/plen [prio=num] table=local|main|default|id";

pub(super) const COMMANDS: &[Command] = &[
    command(
        "ovs/route/add",
        "ip/plen dev [gw] [pkt_mark=mark] [src=src_ip] [table=id]",
        (2, 6),
        Handler::Now(add),
    ),
    command("ovs/route/show", "[table=all|id]", (0, 1), Handler::Now(show)),
    command("ovs/route/del", "ip/plen [pkt_mark=mark] [table=id]", (1, 3), Handler::Now(delete)),
    command(
        "ovs/route/lookup",
        "ip_addr [pkt_mark=mark] [src=src_ip]",
        (1, 3),
        Handler::Now(look_up),
    ),
    command("ovs/route/rule/show", "[-6]", (0, 1), Handler::Now(show_rules)),
    command("ovs/route/rule/add", RULE_USAGE, (2, 5), Handler::Now(add_rule)),
    command("ovs/route/rule/del", RULE_USAGE, (2, 5), Handler::Now(delete_rule)),
];

fn ok() -> Outcome {
    Ok(Output::Text("OK".to_owned()))
}

/// Reads a network of either version of IP.
fn parse_network(text: &str) -> Option<Network> {
    Network::parse_ipv4(text).or_else(|_| Network::parse_ipv6(text)).ok()
}

/// Reads an address of the version of IP that `other` has.
fn parse_address(text: &str, other: IpAddr) -> Option<IpAddr> {
    text.parse().ok().filter(|address: &IpAddr| address.is_ipv4() == other.is_ipv4())
}

/// Reads `KEY=ADDRESS`.
fn parse_source(text: &str, other: IpAddr) -> Option<IpAddr> {
    parse_address(text.strip_prefix("src=")?, other)
}

/// The address, unless it stands for none.
fn specified(address: IpAddr) -> Option<IpAddr> {
    Some(address).filter(|address| !address.is_unspecified())
}

fn parse_mark(text: &str) -> Option<u32> {
    text.strip_prefix("pkt_mark=")?.parse().ok()
}

fn parse_table(text: &str) -> Option<Result<u32, String>> {
    let number = text.strip_prefix("table=")?;
    Some(number.parse().map_err(|_| "Invalid table format".to_owned()))
}

fn add(daemon: &mut Daemon, call: &Call) -> Outcome {
    let network = call.argument(0).and_then(parse_network).ok_or("Invalid 'ip/plen' parameter")?;
    let mut wanted = WantedRoute {
        table: table::MAIN,
        network,
        mark: 0,
        device: call.argument(1).unwrap_or_default().to_owned(),
        gateway: None,
        source: None,
    };
    for text in call.arguments.iter().skip(2) {
        if let Some(mark) = parse_mark(text) {
            wanted.mark = mark;
        } else if let Some(source) = parse_source(text, network.address) {
            wanted.source = specified(source);
        } else if let Some(gateway) = parse_address(text, network.address) {
            wanted.gateway = specified(gateway);
        } else if let Some(table) = parse_table(text) {
            wanted.table = table?;
        } else {
            return Err("Invalid pkt_mark, IP gateway or src_ip".to_owned());
        }
    }
    let added = daemon.bridges.underlay().add_route(wanted);
    added.map_err(|_| "Error while inserting route.".to_owned())?;
    ok()
}

fn delete(daemon: &mut Daemon, call: &Call) -> Outcome {
    let network = call.argument(0).and_then(parse_network).ok_or("Invalid parameters")?;
    let (mut mark, mut number) = (0, table::MAIN);
    let underlay = daemon.bridges.underlay();
    for text in call.arguments.iter().skip(1) {
        if let Some(given) = parse_mark(text) {
            mark = given;
        } else if let Some(given) = parse_table(text) {
            number = given?;
            if !underlay.router().has_table(number) {
                return Err(format!("Table {text} not found"));
            }
        } else {
            return Err("Invalid pkt_mark or table".to_owned());
        }
    }
    if !underlay.router().has_table(number) {
        return Err("Table not found".to_owned());
    }
    if !underlay.remove_route(number, network, mark) {
        return Err("Not found".to_owned());
    }
    ok()
}

/// Which tables are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Standard,
    All,
    One(u32),
}

fn show(daemon: &mut Daemon, call: &Call) -> Outcome {
    let shown = match call.argument(0) {
        None => Shown::Standard,
        Some("table=all") => Shown::All,
        Some(text) => match parse_table(text).ok_or("Invalid table format")?? {
            0 => Shown::Standard,
            number => Shown::One(number),
        },
    };
    let router = daemon.bridges.underlay().router();
    let routes: Vec<_> = match shown {
        Shown::Standard => {
            let standard = [table::LOCAL, table::MAIN, table::DEFAULT];
            standard.into_iter().flat_map(|table| router.routes(table)).collect()
        }
        Shown::All => router.all_routes(),
        Shown::One(number) if router.has_table(number) => router.routes(number),
        Shown::One(number) => return Err(format!("Table 'table={number}' not found")),
    };
    Ok(match call.format {
        Format::Text => {
            let head = match shown {
                Shown::All => String::new(),
                Shown::One(number) if !is_standard(number) => format!("Route Table #{number}:\n"),
                Shown::One(_) | Shown::Standard => "Route Table:\n".to_owned(),
            };
            let lines = RoutesText { routes: &routes, with_table: shown == Shown::All };
            Output::Text(format!("{head}{lines}"))
        }
        Format::Json => Output::Json(routes.iter().map(route_json).collect()),
    })
}

fn route_json(route: &ShownRoute) -> Value {
    let ShownRoute { table, network, mark, is_user, hop } = route;
    let mut next = json!({"dev": hop.device});
    if let Some(gateway) = hop.gateway {
        next["gateway"] = gateway.to_string().into();
    }
    let mut json = json!({
        "table": table,
        "user": is_user,
        "local": *table == table::LOCAL && !is_user,
        "prefix": network.prefix_length,
        "dst": network.address.to_string(),
        "prefsrc": hop.source.to_string(),
        "nexthops": [next],
    });
    if *mark != 0 {
        json["mark"] = (*mark).into();
    }
    json
}

fn look_up(daemon: &mut Daemon, call: &Call) -> Outcome {
    let network = call.argument(0).and_then(parse_network);
    let host = network.filter(|network| *network == Network::of_host(network.address));
    let destination = host.ok_or("Invalid 'ip/plen' parameter")?.address;
    let (mut mark, mut source) = (0, None);
    for text in call.arguments.iter().skip(1) {
        if let Some(given) = parse_mark(text) {
            mark = given;
        } else if let Some(given) = parse_source(text, destination) {
            source = specified(given);
        } else {
            return Err("Invalid pkt_mark or src".to_owned());
        }
    }
    let hop = daemon.bridges.underlay().router().lookup(destination, mark, source);
    let hop = hop.ok_or("Not found")?;
    Ok(match call.format {
        Format::Text => {
            let gateway =
                hop.gateway.map_or_else(|| "::".to_owned(), |gateway| gateway.to_string());
            Output::Text(format!("src {}\ngateway {gateway}\ndev {}\n", hop.source, hop.device))
        }
        Format::Json => Output::Json(json!({
            "src": hop.source.to_string(),
            "gateway": hop.gateway.map(|gateway| gateway.to_string()),
            "dev": hop.device,
        })),
    })
}

/// Reads the description of a rule.
fn parse_rule(arguments: &[String]) -> Result<RouteRule, String> {
    let mut rest = arguments.iter().map(String::as_str).peekable();
    let is_ipv6 = rest.next_if_eq(&"-6").is_some();
    let is_inverted = rest.next_if_eq(&"not").is_some();
    let from = rest.next().and_then(|text| text.strip_prefix("from="));
    let from = match from.ok_or("Invalid 'from' parameter")? {
        "all" => {
            let address: IpAddr = if is_ipv6 { [0; 16].into() } else { [0; 4].into() };
            Network { address, prefix_length: 0 }
        }
        text => parse_network(text).ok_or("Invalid from=ip/plen")?,
    };
    let mut next = rest.next().ok_or("Not enough arguments")?;
    let mut priority = 0;
    if let Some(number) = next.strip_prefix("prio=").and_then(|number| number.parse().ok()) {
        priority = number;
        next = rest.next().ok_or("Not enough arguments")?;
    }
    let table = match next {
        "table=local" => table::LOCAL,
        "table=main" => table::MAIN,
        "table=default" => table::DEFAULT,
        other => parse_table(other).and_then(Result::ok).ok_or("Invalid 'table' format")?,
    };
    Ok(RouteRule { priority, is_user: true, is_inverted, from, table })
}

fn add_rule(daemon: &mut Daemon, call: &Call) -> Outcome {
    daemon.bridges.underlay().add_rule(parse_rule(&call.arguments)?);
    ok()
}

fn delete_rule(daemon: &mut Daemon, call: &Call) -> Outcome {
    if !daemon.bridges.underlay().remove_rule(&parse_rule(&call.arguments)?) {
        let errno = -Errno::NOENT.raw_os_error();
        return Err(format!("Failed to delete router rule: {errno} (Unknown error {errno})"));
    }
    ok()
}

fn show_rules(daemon: &mut Daemon, call: &Call) -> Outcome {
    let is_ipv4 = call.argument(0) != Some("-6");
    let router = daemon.bridges.underlay().router();
    let rules: Vec<_> = router.rules(is_ipv4).collect();
    Ok(match call.format {
        Format::Text => Output::Text(RulesText(&rules).to_string()),
        Format::Json => Output::Json(rules.into_iter().map(rule_json).collect()),
    })
}

fn rule_json(rule: &RouteRule) -> Value {
    let from = match rule.from.prefix_length {
        0 => "all".to_owned(),
        _ => rule.from.address.to_string(),
    };
    json!({
        "priority": rule.priority,
        "user": rule.is_user,
        "invert": rule.is_inverted,
        "ipv4": rule.is_ipv4(),
        "src-prefix": rule.from.prefix_length,
        "lookup": rule.table,
        "from": from,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Result<RouteRule, String> {
        parse_rule(&text.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn rules_are_described_in_order() {
        let from = Network::parse_ipv4("10.0.0.0/8").unwrap();
        let plain = RouteRule { priority: 0, is_user: true, is_inverted: false, from, table: 11 };
        assert_eq!(rule("from=10.0.0.0/8 table=11"), Ok(plain));
        assert_eq!(
            rule("not from=10.0.0.0/8 prio=5 table=local"),
            Ok(RouteRule { priority: 5, is_inverted: true, table: 255, ..plain })
        );
        let any = Network::parse_ipv6("::/0").unwrap();
        assert_eq!(
            rule("-6 from=all table=main"),
            Ok(RouteRule { from: any, table: 254, ..plain })
        );
        for (bad, error) in [
            ("to=10.0.0.0/8 table=1", "Invalid 'from' parameter"),
            ("from=10.0.0/8 table=1", "Invalid from=ip/plen"),
            ("from=all", "Not enough arguments"),
            ("from=all prio=1", "Not enough arguments"),
            ("from=all table=x", "Invalid 'table' format"),
        ] {
            assert_eq!(rule(bad), Err(error.to_owned()), "{bad}");
        }
    }
}
