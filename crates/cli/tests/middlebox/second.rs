//! A middlebox that is started while another one is running.

use std::time::Duration;

use crate::kernel::Kernel;
use crate::network::{Host, Network, Running, text_of};

const FIRST: &str = "first.log";
const SECOND: &str = "second.log";
const HOLD: &str = "hold.log";

/// Longer than the interval at which a middlebox checks its table.
const CHECK_INTERVAL: Duration = Duration::from_millis(2500);

/// Differences between the configurations of two middleboxes.
#[derive(Clone, Copy)]
struct Setup {
    state: Option<&'static str>,
    table: &'static str,
    ports: [u16; 2],
}

const ONE: Setup = Setup {
    state: None,
    table: "carrick",
    ports: [7626, 9899],
};

/// Ports that the first middlebox does not use.
const ELSEWHERE: [u16; 2] = [7627, 9898];

fn start(network: &Network, log: &str, setup: Setup) -> Running {
    let state = setup.state.map(|name| network.folder.join(name));
    let state = state.map(|path| format!("state = {:?}", text_of(&path)));
    let (state, table) = (state.unwrap_or_default(), setup.table);
    let [port, udp_port] = setup.ports;
    let text = format!(
        "name = \"firewall\"\n{state}\nanonymous = \"agent\"\n\n[listen]\nsctp = {{ addresses = [\"127.0.0.1\"], port = {port}, udp-port = {udp_port} }}\ntcp = [\"127.0.0.1:{port}\"]\n\n[backend]\nkind = \"nftables\"\ntable = \"{table}\"\n\n[[agents]]\nname = \"agent\"\nrights = \"all\"\n"
    );
    let path = network.folder.join(format!("{log}.toml"));
    std::fs::write(&path, text).unwrap();
    let arguments = ["simco", "middlebox", "--config", &text_of(&path)];
    network.carrick(Host::Firewall, log, &arguments)
}

/// Starts a middlebox and waits until it is ready.
fn started(network: &Network, log: &str, setup: Setup) -> Running {
    let running = start(network, log, setup);
    let [port, _] = setup.ports;
    network.wait_for(log, &format!("carrick: tcp 127.0.0.1:{port}"));
    running
}

fn per(network: &Network, flow: &str) {
    let [internal, external] = ["64", "65"].map(|net| format!("10.{net}.0.{flow}:4000"));
    network.agent(&[
        "per",
        "--internal",
        &internal,
        "--external",
        &external,
        "--lifetime",
        "600",
    ]);
}

/// Returns the elements, and the rules with their handles, which change when rules are created again.
fn kernel_state(network: &Network) -> (Vec<String>, String) {
    let kernel = Kernel::now(network);
    let rules = ["-a", "-s", "-t", "list", "ruleset"];
    let rules = network.command(Host::Firewall, "nft", &rules).output();
    let rules = String::from_utf8(rules.unwrap().stdout).unwrap();
    (kernel.elements.into_keys().collect(), rules)
}

/// The running middlebox is not affected by a second one, which names the conflict.
fn second_is_refused(first: Setup, second: Setup, message: &str) {
    let network = Network::new();
    let mut middlebox = started(&network, FIRST, first);
    per(&network, "1");
    let hold = [
        "simco",
        "agent",
        "--middlebox",
        "tcp://127.0.0.1",
        "--json",
        "per",
        "--hold",
        "--internal",
        "10.64.0.2:4000",
        "--external",
        "10.65.0.2:4000",
        "--lifetime",
        "600",
    ];
    let mut session = network.carrick(Host::Firewall, HOLD, &hold);
    network.wait_for(HOLD, "\"rule\"");
    let before = kernel_state(&network);
    assert_eq!(before.0.len(), 4);
    let mut refused = start(&network, SECOND, second);
    network.wait_for(SECOND, message);
    assert!(!refused.0.wait().unwrap().success());
    let why = network.log(SECOND);
    assert_eq!(kernel_state(&network), before, "{why}");
    // It detects no change of its table.
    std::thread::sleep(CHECK_INTERVAL);
    let log = network.log(FIRST);
    assert!(middlebox.0.try_wait().unwrap().is_none(), "{log}");
    assert!(session.0.try_wait().unwrap().is_none());
    let of_session = network.log(HOLD);
    assert!(!of_session.contains("closed"), "{of_session}");
    per(&network, "3");
    assert_eq!(kernel_state(&network).0.len(), 6);
    // After its end, the table is free for the next middlebox.
    middlebox.0.kill().unwrap();
    middlebox.0.wait().unwrap();
    drop(session);
    let _next = started(&network, SECOND, second);
    let kept = if second.state.is_some() && second.state == first.state {
        6
    } else {
        0
    };
    assert_eq!(kernel_state(&network).0.len(), kept);
}

#[test]
#[ignore = "needs root"]
fn second_instance_with_same_state_exits() {
    let first = Setup {
        state: Some("state"),
        ..ONE
    };
    second_is_refused(first, first, "is in use by another middlebox");
}

#[test]
#[ignore = "needs root"]
fn second_instance_without_state_exits() {
    second_is_refused(ONE, ONE, "cannot listen on sctp port 7626");
}

#[test]
#[ignore = "needs root"]
fn second_instance_with_same_table_exits() {
    for [of_first, of_second] in [[None, None], [Some("state"), Some("other")]] {
        let first = Setup {
            state: of_first,
            ..ONE
        };
        let second = Setup {
            state: of_second,
            ports: ELSEWHERE,
            ..ONE
        };
        second_is_refused(
            first,
            second,
            "table carrick is in use by another middlebox",
        );
    }
}

#[test]
#[ignore = "needs root"]
fn middleboxes_with_own_tables_coexist() {
    let network = Network::new();
    let mut first = started(&network, FIRST, ONE);
    let second = Setup {
        table: "carrick2",
        ports: ELSEWHERE,
        ..ONE
    };
    let mut second = started(&network, SECOND, second);
    per(&network, "1");
    std::thread::sleep(CHECK_INTERVAL);
    for running in [&mut first, &mut second] {
        let ended = running.0.try_wait().unwrap();
        assert!(
            ended.is_none(),
            "{}{}",
            network.log(FIRST),
            network.log(SECOND)
        );
    }
}
