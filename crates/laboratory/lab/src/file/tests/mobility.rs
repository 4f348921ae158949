//! Mobile nodes, their agents, and addresses that change.

use super::*;

/// A node away from home leaves the first visited network for the second.
const MOVE: &str = r#"
duration = "20 s"
measure = ["interruption.change", "interruption.detached", "interruption.locating", "interruption.resuming", "round_trip.min", "delivered.share"]
[settings.quick]
base = "modern"
rto_min = "200 ms"
extensions = { authentication = true, dynamic_addresses = true }
[hosts.fixed]
settings = "quick"
addresses = { wire = "10.0.1.1" }
[hosts.node]
settings = "quick"
addresses = { home = "10.0.0.7" }
mobile = { home = "home" }
set_peer_primary = true
[routers.core]
[routers.home-agent]
agent = "home"
addresses = { to-home = "10.0.0.1" }
[routers.first]
agent = "foreign"
addresses = { to-first = "10.1.0.1" }
[routers.second]
agent = "foreign"
addresses = { to-second = "10.2.0.1" }
[links.wire]
between = ["fixed", "core"]
[links.to-home]
between = ["core", "home-agent"]
delay = "40 ms"
[links.to-first]
between = ["core", "first"]
delay = "10 ms"
[links.to-second]
between = ["core", "second"]
delay = "10 ms"
[links.home]
between = ["node", "home-agent"]
state = "down"
[links.radio-1]
between = ["node", "first"]
delay = "1 ms"
[links.radio-2]
between = ["node", "second"]
delay = "1 ms"
state = "down"
[flows.data]
from = "fixed"
to = "node"
kind = "constant"
size = 200
interval = "10 ms"
messages = 1000
setup = "2 s"
[[schedule]]
at = "8 s"
link = "radio-1"
state = "down"
[[schedule]]
at = "8.3 s"
link = "radio-2"
state = "up"
"#;

/// Replaces parts of `MOVE`.
fn with(changes: &[(&str, &str)]) -> String {
    changes.iter().fold(MOVE.to_owned(), |text, (old, new)| {
        assert!(text.contains(old), "{old:?} is not in the file");
        text.replace(old, new)
    })
}

/// RFC 5944
#[test]
fn a_mobile_node_registers_in_the_next_network() {
    for stack in ["sctp", "tcp"] {
        let hosts =
            ["[hosts.fixed]", "[hosts.node]"].map(|host| format!("{host}\nstack = \"{stack}\""));
        let text = with(&[("[hosts.fixed]", &hosts[0]), ("[hosts.node]", &hosts[1])]);
        let rows = measured(&text);
        assert!((value(&rows, "data.delivered.share") - 100.0).abs() < 1e-9);
        let [whole, detached, locating, resuming] = ["change", "detached", "locating", "resuming"]
            .map(|part| value(&rows, &format!("data.interruption.{part}")));
        assert!((detached + locating + resuming - whole).abs() < 1e-6);
        // Nagle’s algorithm of TCP combines messages.
        assert!((300.0..420.0).contains(&detached), "{stack}: {detached}");
        // Solicitation and advertisement, the request to the home agent and the reply.
        assert!((102.0..110.0).contains(&locating), "{stack}: {locating}");
        assert!(resuming > 40.0, "{stack}: {resuming}");
    }
}

/// RFC 5944, section 2.3
#[test]
fn a_mobile_node_ignores_agents_it_does_not_visit() {
    let text = with(&[(
        "{ home = \"home\" }",
        "{ home = \"home\", visits = [\"radio-1\"] }",
    )]);
    let rows = measured(&text);
    let share = value(&rows, "data.delivered.share");
    assert!((50.0..65.0).contains(&share), "{share}");
}

/// RFC 3024
#[test]
fn a_reverse_tunnel_leads_over_the_home_agent() {
    let of = |text: &str| value(&measured(text), "data.round_trip.min");
    let tunnel = of(MOVE);
    let triangle = of(&with(&[(
        "{ home = \"home\" }",
        "{ home = \"home\", reverse_tunnel = false }",
    )]));
    // To the node over the home agent; back over it, too, or not.
    assert!((182.0..183.0).contains(&tunnel), "{tunnel}");
    assert!((102.0..103.0).contains(&triangle), "{triangle}");
}

/// RFC 5061
#[test]
fn a_node_without_agents_announces_its_address() {
    let text = with(&[
        (
            "mobile = { home = \"home\" }\n",
            "mobile = \"none\"\nsource_routing = true\n",
        ),
        ("{ home = \"10.0.0.7\" }", "{ radio-1 = \"10.1.0.7\" }"),
        (
            "link = \"radio-1\"\nstate",
            "link = \"radio-1\"\nnode = \"node\"\nremove_address = \"10.1.0.7\"\nstate",
        ),
        (
            "link = \"radio-2\"\nstate",
            "link = \"radio-2\"\nnode = \"node\"\nadd_address = \"10.2.0.7\"\nstate",
        ),
    ]);
    let rows = measured(&text);
    let locating = value(&rows, "data.interruption.locating");
    // ASCONF and ASCONF-ACK.
    assert!((22.0..24.0).contains(&locating), "{locating}");
    let whole = value(&rows, "data.interruption.change");
    assert!((340.0..400.0).contains(&whole), "{whole}");
}

#[test]
fn errors_of_mobility_have_their_location() {
    for (old, new, line, key, expected) in [
        (
            "agent = \"home\"",
            "agent = \"hone\"",
            18,
            "routers.home-agent.agent",
            "one of \"home\", \"foreign\", or \"none\"",
        ),
        (
            "\naddresses = { to-first = \"10.1.0.1\" }",
            "",
            20,
            "routers.first",
            "agent: needs an IPv4 address",
        ),
        (
            "{ home = \"home\" }",
            "{ reverse_tunnel = true }",
            14,
            "hosts.node.mobile.home",
            "missing; expected the name of the link",
        ),
        (
            "{ home = \"home\" }",
            "{ home = \"hone\" }",
            14,
            "hosts.node.mobile.home",
            "there is no link \"hone\"",
        ),
        (
            "{ home = \"home\" }",
            "{ home = \"radio-1\" }",
            11,
            "hosts.node",
            "mobile.home: expected a link on which the host has an IPv4 address",
        ),
        (
            "{ home = \"10.0.0.7\" }\nmobile = { home = \"home\" }",
            "{ radio-1 = \"10.1.0.7\" }\nmobile = { home = \"radio-1\" }",
            11,
            "hosts.node",
            "to a router with agent = \"home\"",
        ),
        (
            "{ home = \"home\" }",
            "{ home = \"home\", visits = [\"wire\"] }",
            11,
            "hosts.node",
            "mobile.visits: expected links to routers with agent = \"foreign\"",
        ),
        (
            "state = \"down\"\n[links.radio-1]",
            "state = \"off\"\n[links.radio-1]",
            39,
            "links.home.state",
            "one of \"up\", \"down\"",
        ),
        (
            "setup = \"2 s\"",
            "known_addresses = \"two\"",
            54,
            "flows.data.known_addresses",
            "one of \"all\", \"first\"",
        ),
    ] {
        let error = ScenarioFile::parse("x.toml", &with(&[(old, new)])).expect_err(new);
        assert_eq!((error.line, error.key.as_str()), (line, key), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// RFC 9260, section 5.4
#[test]
fn known_addresses_need_no_verification() {
    let first_delivery = |known: &str| {
        let known = format!("known_addresses = \"{known}\"");
        let file = parse(&TWO_PATHS.replace("start = \"1 s\"", &known));
        let extras = Extras {
            messages: true,
            ..Extras::default()
        };
        let run = file.run_one(0, 0, &RunOptions::default(), extras);
        let run = run.expect("it runs");
        // The path fails after 8 s.
        run.details.deliveries[0][0] + 8.0
    };
    let (all, first) = (first_delivery("all"), first_delivery("first"));
    assert!(all < 0.2 && first - all > 0.04, "{all}, {first}");
}
