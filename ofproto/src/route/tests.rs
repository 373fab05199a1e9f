use proptest::prelude::*;

use super::*;

fn network(text: &str) -> Network {
    Network::parse_ipv4(text).or_else(|_| Network::parse_ipv6(text)).unwrap()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn wanted(text: &str, device: &str, gateway: Option<&str>) -> WantedRoute {
    WantedRoute {
        table: number::MAIN,
        network: network(text),
        mark: 0,
        device: device.to_owned(),
        gateway: gateway.map(address),
        source: None,
    }
}

fn hop(device: &str, gateway: Option<&str>, source: &str) -> Option<Hop> {
    let (gateway, source) = (gateway.map(address), address(source));
    Some(Hop { device: device.to_owned(), gateway, source })
}

fn lookup(router: &Router, destination: &str) -> Option<Hop> {
    router.lookup(address(destination), 0, None)
}

fn kernel_route(text: &str, device: &str, metric: u32) -> KernelRoute {
    KernelRoute {
        table: number::MAIN,
        network: network(text),
        mark: 0,
        metric,
        device: device.to_owned(),
        gateway: None,
        preferred_source: None,
    }
}

#[test]
fn addresses_of_dummies_make_routes() {
    let mut router = Router::default();
    router.add_dummy_address("br0", network("2.2.2.2/24"));
    router.add_user_route(wanted("1.1.1.0/24", "br0", Some("2.2.2.10"))).unwrap();
    let text =
        |router: &Router| RoutesText { routes: &router.all_routes(), with_table: true }.to_string();
    assert_eq!(
        text(&router),
        "Cached: 2.2.2.0/24 dev br0 SRC 2.2.2.2\nUser: 1.1.1.0/24 dev br0 GW 2.2.2.10 SRC 2.2.2.2\
         \nCached: 2.2.2.2/32 dev br0 SRC 2.2.2.2 local\n"
    );
    assert_eq!(lookup(&router, "1.1.1.7"), hop("br0", Some("2.2.2.10"), "2.2.2.2"));
    assert_eq!(lookup(&router, "2.2.2.7"), hop("br0", None, "2.2.2.2"));
    assert_eq!(lookup(&router, "3.3.3.3"), None);
    let error = router.add_user_route(wanted("3.0.0.0/8", "br0", None)).unwrap_err();
    assert_eq!(error.to_string(), "br0 has no address to send to 3.0.0.0/8 from");
    assert!(router.remove_user_route(number::MAIN, network("1.1.1.0/24"), 0));
    assert!(!router.remove_user_route(number::MAIN, network("1.1.1.0/24"), 0));
    assert!(!router.remove_user_route(number::MAIN, network("2.2.2.0/24"), 0));
    assert_eq!(lookup(&router, "1.1.1.7"), None);
}

#[test]
fn a_source_must_be_ours_and_chooses_rules() {
    let mut router = Router::default();
    router.add_dummy_address("p1", network("10.0.0.11/24"));
    router.add_dummy_address("p2", network("10.0.0.22/24"));
    let table11 = WantedRoute { table: 11, ..wanted("0.0.0.0/0", "p1", Some("10.0.0.1")) };
    router.add_user_route(table11).unwrap();
    let from = |source: &str| router_lookup(&router, "20.0.0.1", source);
    assert_eq!(from("10.0.0.11"), None);
    let rule = RouteRule {
        priority: 0,
        is_user: true,
        is_inverted: false,
        from: network("10.0.0.11"),
        table: 11,
    };
    router.add_user_rule(rule);
    let from = |source: &str| router_lookup(&router, "20.0.0.1", source);
    assert_eq!(from("10.0.0.11"), hop("p1", Some("10.0.0.1"), "10.0.0.11"));
    assert_eq!(from("10.0.0.22"), None);
    assert_eq!(from("10.0.0.33"), None);
    let rules: Vec<_> = router.rules(true).map(|rule| (rule.priority, rule.table)).collect();
    assert_eq!(rules, [(0, 255), (32765, 11), (32766, 254), (32767, 253)]);
    assert!(router.remove_user_rule(&rule));
    assert!(!router.remove_user_rule(&rule));
}

fn router_lookup(router: &Router, destination: &str, source: &str) -> Option<Hop> {
    router.lookup(address(destination), 0, Some(address(source)))
}

#[test]
fn routes_of_the_kernel_follow_it() {
    let mut router = Router::default();
    let addresses = |text: &str| DeviceAddresses::from([("eth0".to_owned(), vec![network(text)])]);
    let added =
        |route: &KernelRoute, replaces| RoutingChange::Added { route: route.clone(), replaces };
    let (good, bad) =
        (kernel_route("10.0.0.0/8", "eth0", 5), kernel_route("10.0.0.0/8", "eth1", 1));
    assert_eq!(router.follow(added(&good, false)), Some(good.network));
    assert_eq!(lookup(&router, "10.1.1.1"), None);
    assert_eq!(router.follow(RoutingChange::Addresses(addresses("10.0.0.1/8"))), None);
    assert_eq!(lookup(&router, "10.1.1.1"), hop("eth0", None, "10.0.0.1"));
    // A better one that cannot be used.
    router.follow(added(&bad, false));
    assert_eq!(lookup(&router, "10.1.1.1"), hop("eth0", None, "10.0.0.1"));
    let through = KernelRoute { gateway: Some(address("10.0.0.9")), ..good.clone() };
    router.follow(added(&through, true));
    assert_eq!(lookup(&router, "10.1.1.1"), hop("eth0", Some("10.0.0.9"), "10.0.0.1"));
    assert_eq!(router.follow(RoutingChange::Removed(good.clone())), Some(good.network));
    assert_eq!(lookup(&router, "10.1.1.1"), hop("eth0", Some("10.0.0.9"), "10.0.0.1"));
    router.follow(RoutingChange::Removed(through));
    assert_eq!(lookup(&router, "10.1.1.1"), None);
    router.add_user_route(wanted("11.0.0.0/8", "eth0", Some("10.0.0.2"))).unwrap();
    assert_eq!(router.follow(RoutingChange::Routes(vec![good])), None);
    assert_eq!(lookup(&router, "10.1.1.1"), hop("eth0", None, "10.0.0.1"));
    router.follow(RoutingChange::Routes(vec![]));
    assert_eq!(lookup(&router, "10.1.1.1"), None);
    assert_eq!(lookup(&router, "11.1.1.1"), hop("eth0", Some("10.0.0.2"), "10.0.0.1"));
}

#[test]
fn rules_of_the_kernel_lie_between_those_of_operators() {
    let mut router = Router::default();
    let rule = |priority, table| RouteRule {
        priority,
        is_user: true,
        is_inverted: false,
        from: network("10.0.0.0/8"),
        table,
    };
    router.add_user_rule(rule(100, 1));
    let of_kernel = |priority, table| KernelRule {
        priority,
        is_inverted: true,
        from: network("fc00::/7"),
        table,
    };
    router.follow(RoutingChange::Rules(vec![of_kernel(50, 2), of_kernel(200, 3)]));
    let text = |is_ipv4| RulesText(&router.rules(is_ipv4).collect::<Vec<_>>()).to_string();
    assert_eq!(text(true), "User: 100: from 10.0.0.0/8  lookup 1\n");
    assert_eq!(
        text(false),
        "Cached: 50: not from fc00::/7  lookup 2\nCached: 200: not from fc00::/7  lookup 3\n"
    );
}

/// A route of few bits: address, length, mark, whether it is an operator's, and its number, which
/// its source tells.
type Small = (u8, u8, u32, bool);

fn small_network((bits, length, ..): Small) -> Network {
    let address = IpAddr::from([10, 0, 0, bits]);
    Network { address, prefix_length: 24 + length % 9 }.masked()
}

proptest! {
    #[test]
    fn lookups_find_what_a_scan_finds(
        routes in proptest::collection::vec((any::<u8>(), any::<u8>(), 0u32..2, any::<bool>()), 1..30),
        destination in any::<u8>(),
        mark in 0u32..2,
    ) {
        let mut router = Router::default();
        let everywhere = DeviceAddresses::from([("d".to_owned(), vec![network("10.0.0.1/0")])]);
        router.follow(RoutingChange::Addresses(everywhere));
        // The gateway tells which route it is.
        let gateway = |index: usize| IpAddr::from([11, 0, 0, index as u8]);
        for (index, small) in routes.iter().enumerate() {
            let (_, _, mark, is_user) = *small;
            let network = small_network(*small);
            if is_user {
                let route = WantedRoute {
                    mark,
                    network,
                    gateway: Some(gateway(index)),
                    ..wanted("0.0.0.0/0", "d", None)
                };
                router.add_user_route(route).unwrap();
            } else {
                let route = KernelRoute {
                    network,
                    mark,
                    gateway: Some(gateway(index)),
                    ..kernel_route("0.0.0.0/0", "d", 0)
                };
                router.follow(RoutingChange::Added { route, replaces: true });
            }
        }
        let destination = IpAddr::from([10, 0, 0, destination]);
        let found = routes.iter().enumerate().filter(|(_, small)| {
            small.2 == mark && small_network(**small).contains(destination)
        });
        // Of the same network, the last.
        let best = found.max_by_key(|(index, small)| {
            let bonus = if small.3 { 32 } else { 0 };
            (small_network(**small).prefix_length + bonus, *index)
        });
        let expected = best.map(|(index, _)| gateway(index));
        let actual = router.lookup(destination, mark, None);
        prop_assert_eq!(actual.and_then(|hop| hop.gateway), expected);
    }
}
