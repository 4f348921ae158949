//! Networks between namespaces.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use carrick_live::{Error, LinkAccuracy, LiveNetwork, NetworkPlan, run_on_host, running_networks};
use carrick_netsim::{Change, HostRouting, LinkConfig, Loss, NetworkBuilder, Queue};

/// Two hosts with two paths, the first over two simulated routers.
fn network() -> Result<NetworkPlan, Error> {
    let mut builder = NetworkBuilder::new(1);
    let hosts = ["near", "far"].map(|name| builder.add_host(name));
    let routers = ["west", "east"].map(|name| builder.add_router(name));
    let on_path = |path: u8, host: u8| IpAddr::from([10, path, 0, host]);
    let ends = [0, 1].map(|n| builder.add_interface(hosts[n], [on_path(1, n as u8 + 1)]));
    let link = |ms| LinkConfig::delay(Duration::from_millis(ms));
    for side in [0, 1] {
        let port = builder.add_interface(routers[side], []);
        builder.connect_both(ends[side], port, link(1));
    }
    let between = routers.map(|router| builder.add_interface(router, []));
    builder.connect_both(between[0], between[1], link(5));
    let ends = [0, 1].map(|n| builder.add_interface(hosts[n], [on_path(2, n as u8 + 1)]));
    builder.connect_both(ends[0], ends[1], link(2));
    Ok(NetworkPlan::new(builder.build()?, hosts))
}

/// Timeout for a reply that must arrive.
const EXPECTED: Duration = Duration::from_secs(10);
/// Timeout for a reply that must not arrive.
const UNEXPECTED: Duration = Duration::from_millis(500);

/// Returns true if a reply arrives from `to`, where no port is open: a TCP reset.
fn reaches(live: &LiveNetwork, to: [u8; 4], timeout: Duration) -> bool {
    let near = live.host("near").unwrap().namespace();
    let tried = near.run(move || TcpStream::connect_timeout(&(to, 9).into(), timeout));
    tried
        .unwrap()
        .is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused)
}

fn name(what: &str) -> String {
    format!("test-{}-{what}", std::process::id())
}

#[test]
#[ignore = "needs root"]
fn programs_communicate_over_every_path() {
    let live = LiveNetwork::start(&name("paths"), network).unwrap();
    for path in [1, 2] {
        assert!(reaches(&live, [10, path, 0, 2], EXPECTED), "path {path}");
    }
    assert!(
        !reaches(&live, [10, 3, 0, 2], UNEXPECTED),
        "an address of no host"
    );
    assert_eq!(live.hosts()[0].addresses().len(), 2);
    assert!(matches!(live.host("west"), Err(Error::UnknownHost { .. })));
}

/// Sends bytes from host "near" to an address of host "far" over the kernels' TCP, and checks that they arrive.
fn pass_over_tcp(live: &LiveNetwork, to: &'static str, length: u32) {
    let far = live.host("far").unwrap();
    let listener = far.namespace().run(move || TcpListener::bind(to));
    let listener = listener.unwrap().unwrap();
    let sink = far
        .spawn(move || {
            let mut received = Vec::new();
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_to_end(&mut received).unwrap();
            received
        })
        .unwrap();
    let sent: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
    let data = sent.clone();
    let near = live.host("near").unwrap().namespace();
    near.run(move || TcpStream::connect(to).unwrap().write_all(&data).unwrap())
        .unwrap();
    assert!(sink.join().unwrap().unwrap() == sent, "other bytes arrived");
    assert_eq!(live.emulation().dropped_packets(), 0);
}

#[test]
#[ignore = "needs root"]
fn kernel_tcp_passes_the_simulated_links() {
    let live = LiveNetwork::start(&name("tcp"), network).unwrap();
    pass_over_tcp(&live, "10.1.0.2:80", 300_000);
}

/// Offload of the devices: the kernel passes several segments in one packet, which the network must not carry.
#[test]
#[ignore = "needs root"]
fn a_fast_link_carries_single_segments() {
    const LENGTH: u32 = 3_000_000;
    let lengths = Arc::new(Mutex::new(Vec::new()));
    let observed = lengths.clone();
    let plan = move || {
        let mut builder = NetworkBuilder::new(1);
        let hosts = ["near", "far"].map(|name| builder.add_host(name));
        let ends =
            [0, 1].map(|n| builder.add_interface(hosts[n], [[10, 0, 0, n as u8 + 1].into()]));
        let link = LinkConfig::new(1_000_000_000, Duration::from_millis(1));
        builder.connect_both(ends[0], ends[1], link);
        let plan = NetworkPlan::new(builder.build()?, hosts);
        Ok(plan
            .with_observer(move |packet| observed.lock().unwrap().push(packet.packet.wire_len())))
    };
    let live = LiveNetwork::start_at(&name("fast"), Instant::now(), 1500, plan).unwrap();
    pass_over_tcp(&live, "10.0.0.2:80", LENGTH);
    let lengths = lengths.lock().unwrap();
    assert!(lengths.iter().all(|length| *length <= 1500), "{lengths:?}");
    let full = lengths.iter().filter(|length| **length > 1400).count();
    // Each is observed at both ends.
    assert!(full >= 2 * (LENGTH as usize / 1460), "{full}");
}

#[test]
#[ignore = "needs root"]
fn changes_of_the_network_take_effect() {
    let (sender, receiver) = mpsc::channel();
    let live = LiveNetwork::start(&name("change"), move || {
        let mut builder = NetworkBuilder::new(1);
        let hosts = ["near", "far"].map(|name| builder.add_host(name));
        let ends =
            [0, 1].map(|n| builder.add_interface(hosts[n], [[10, 0, 0, n as u8 + 1].into()]));
        let link = LinkConfig::delay(Duration::from_millis(1));
        sender
            .send(builder.connect_both(ends[0], ends[1], link))
            .unwrap();
        Ok(NetworkPlan::new(builder.build()?, hosts))
    })
    .unwrap();
    let ping = |timeout| reaches(&live, [10, 0, 0, 2], timeout);
    let link = receiver.recv().unwrap();
    assert!(ping(EXPECTED));
    live.emulation().apply(Change::LinkDown(link)).unwrap();
    assert!(!ping(UNEXPECTED));
    live.emulation().apply(Change::LinkUp(link)).unwrap();
    assert!(ping(EXPECTED));
    let absurd = Change::SetLoss {
        link,
        direction: carrick_netsim::Direction::Forward,
        loss: Loss::Random(2.0),
    };
    assert!(matches!(
        live.emulation().apply(absurd),
        Err(Error::Network(_))
    ));
}

/// Two hosts around a router; the near host has two interfaces, the second without an address.
fn roaming() -> (Result<NetworkPlan, Error>, [carrick_netsim::InterfaceId; 2]) {
    let mut builder = NetworkBuilder::new(1);
    let near = builder.add_host("near");
    let far = builder.add_host("far");
    builder.set_routing(near, HostRouting::PreferSource);
    let router = builder.add_router("router");
    let mut link = |ends: [(carrick_netsim::NodeId, Option<[u8; 4]>); 2]| {
        let ends = ends.map(|(node, own)| builder.add_interface(node, own.map(IpAddr::from)));
        builder.connect_both(
            ends[0],
            ends[1],
            LinkConfig::delay(Duration::from_millis(1)),
        );
        ends[0]
    };
    let first = link([(near, Some([10, 1, 0, 7])), (router, None)]);
    let second = link([(near, None), (router, None)]);
    link([(far, Some([10, 0, 0, 1])), (router, None)]);
    let network = builder.build().map_err(Error::from);
    (
        network.map(|network| NetworkPlan::new(network, [near, far])),
        [first, second],
    )
}

/// IPv4 addresses of the near host, each as `DEVICE ADDRESS`.
fn own_addresses(live: &LiveNetwork) -> Vec<String> {
    let shown = live.host("near").unwrap();
    let shown = shown
        .command("ip", &["-4", "-o", "address", "show"])
        .unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    let words = |line: &str| -> Vec<String> { line.split_whitespace().map(Into::into).collect() };
    let lines = text.lines().map(words);
    let ours = lines.filter(|words| words[1].starts_with("link"));
    ours.map(|words| format!("{} {}", words[1], words[3]))
        .collect()
}

fn wait_for_addresses(live: &LiveNetwork, expected: &[&str]) {
    let begin = Instant::now();
    while own_addresses(live) != expected {
        let found = own_addresses(live);
        assert!(begin.elapsed() < Duration::from_secs(60), "{found:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
#[ignore = "needs root"]
fn address_changes_appear_on_the_interfaces() {
    let (sender, receiver) = mpsc::channel();
    let live = LiveNetwork::start(&name("roams"), move || {
        let (plan, ends) = roaming();
        sender.send(ends).unwrap();
        plan
    })
    .unwrap();
    let [first, second] = receiver.recv().unwrap();
    let [old, new] = [[10, 1, 0, 7], [172, 16, 2, 7]].map(IpAddr::from);
    let connects = |from: IpAddr| {
        let near = live.host("near").unwrap().namespace();
        let to = std::net::SocketAddr::from(([10, 0, 0, 1], 9));
        let tried = near.run(move || {
            let socket = std::net::UdpSocket::bind((from, 0))?;
            socket.connect(to)?;
            socket.send(b"x")?;
            // A closed port is reported by an ICMP error.
            socket.set_read_timeout(Some(Duration::from_millis(500)))?;
            socket.recv(&mut [0; 10])
        });
        let refused = |e: &std::io::Error| e.kind() == ErrorKind::ConnectionRefused;
        tried.unwrap().is_err_and(|e| refused(&e))
    };
    wait_for_addresses(&live, &["link0 10.1.0.7/32"]);
    assert!(connects(old));
    let change = |change| live.emulation().apply(change).unwrap();
    change(Change::AddAddress {
        interface: second,
        address: new,
    });
    wait_for_addresses(&live, &["link0 10.1.0.7/32", "link1 172.16.2.7/32"]);
    assert!(connects(old) && connects(new));
    change(Change::RemoveAddress {
        interface: first,
        address: old,
    });
    wait_for_addresses(&live, &["link1 172.16.2.7/32"]);
    assert!(!connects(old) && connects(new));
    // The address moves to the other interface without an interval.
    change(Change::RemoveAddress {
        interface: second,
        address: new,
    });
    wait_for_addresses(&live, &[]);
    change(Change::AddAddress {
        interface: first,
        address: new,
    });
    wait_for_addresses(&live, &["link0 172.16.2.7/32"]);
    assert!(connects(new));
    let rules = live.host("near").unwrap().command("ip", &["-4", "rule"]);
    let rules = String::from_utf8(rules.unwrap().stdout).unwrap();
    let own: Vec<&str> = rules
        .lines()
        .filter(|line| line.contains("lookup 10"))
        .collect();
    assert!(
        own.len() == 1 && own[0].contains("172.16.2.7"),
        "the rules of removed addresses are removed: {rules}"
    );
    live.remove().unwrap();
}

#[test]
#[ignore = "needs root"]
fn removal_reports_an_address_that_a_host_refused() {
    let (sender, receiver) = mpsc::channel();
    let live = LiveNetwork::start(&name("refuses"), move || {
        let (plan, ends) = roaming();
        sender.send(ends).unwrap();
        plan
    })
    .unwrap();
    let interface = receiver.recv().unwrap()[1];
    let near = live.host("near").unwrap();
    let own = ["address", "add", "172.16.2.7/32", "dev", "link1"];
    assert!(near.command("ip", &own).unwrap().status.success());
    let address = [172, 16, 2, 7].into();
    let change = Change::AddAddress { interface, address };
    live.emulation().apply(change).unwrap();
    let error = live.remove().unwrap_err().to_string();
    assert!(
        error.contains("address add 172.16.2.7/32 dev link1"),
        "{error}"
    );
}

#[test]
#[ignore = "needs root"]
fn networks_are_published_and_removed() {
    let name = name("found");
    let live = LiveNetwork::start(&name, network).unwrap();
    let hosts: Vec<String> = vec!["far".into(), "near".into()];
    assert!(running_networks().contains(&(name.clone(), hosts)));
    assert!(
        LiveNetwork::start(&name, network).is_err(),
        "the name is in use"
    );
    // The thread remains in the namespace and ends.
    let network = name.clone();
    let entered = std::thread::spawn(move || {
        // The command fails if the interface does not exist.
        let mut show = Command::new("ip");
        show.args(["address", "show", "dev", "link1"])
            .stdout(Stdio::null());
        run_on_host(&network, "near", &mut show)
    });
    assert!(entered.join().unwrap().unwrap().success());
    let missing = run_on_host(&name, "west", &mut Command::new("true")).unwrap_err();
    assert!(missing.to_string().contains("far, near"), "{missing}");
    let network = name.clone();
    let entered = std::thread::spawn(move || {
        run_on_host(&network, "near", &mut Command::new("no-such-program"))
    });
    let missing = entered.join().unwrap().unwrap_err();
    assert!(matches!(&missing, Error::Program { program, .. } if program == "no-such-program"));
    assert!(!missing.to_string().contains("iproute2"), "{missing}");
    let folder: PathBuf = live.directory().path().into();
    let link = folder.join("near");
    assert!(link.exists());
    drop(live);
    assert!(!folder.exists());
    assert!(run_on_host(&name, "near", &mut Command::new("true")).is_err());
}

/// Expected rate in bit/s and delay of the measured links.
const LINK: (u64, Duration) = (2_000_000, Duration::from_millis(20));

fn measured(rate: u64, delay: Duration) -> LinkAccuracy {
    let link = LinkConfig::new(rate, delay).with_queue(Queue::packets(200));
    let accuracy =
        LinkAccuracy::measure_link(link, LINK, Duration::from_secs(2), &Arc::default()).unwrap();
    println!("{accuracy:?}");
    assert!(accuracy.delay.packets > 100 && accuracy.rate.packets > 200);
    accuracy
}

#[test]
#[ignore = "needs root"]
fn delay_and_rate_are_within_their_limits() {
    let mut accuracy = measured(LINK.0, LINK.1);
    // Load on the machine may disturb a measurement; a wrong link fails every one.
    for _ in 0..2 {
        if accuracy.is_correct() {
            break;
        }
        accuracy = measured(LINK.0, LINK.1);
    }
    assert!(accuracy.delay.min >= 0.0, "{accuracy:?}");
    assert!(accuracy.delay.unloaded.median <= 0.5, "{accuracy:?}");
    assert!(accuracy.rate.relative().abs() <= 0.01, "{accuracy:?}");
    assert!(accuracy.is_correct(), "{accuracy:?}");
}

#[test]
#[ignore = "needs root"]
fn a_wrong_delay_or_rate_is_detected() {
    let (rate, delay) = LINK;
    let error = Duration::from_millis(1);
    let slow = thread::spawn(move || measured(rate / 100 * 98, delay + error));
    let mut fast = measured(rate / 100 * 102, delay.saturating_sub(error));
    // On a busy machine all packets may be late by more than the error.
    for _ in 0..2 {
        if fast.delay.min >= 0.0 {
            fast = measured(rate / 100 * 102, delay.saturating_sub(error));
        }
    }
    let slow = slow.join().unwrap();
    for wrong in [&slow, &fast] {
        assert!(!wrong.delay.is_correct(), "{wrong:?}");
        assert!(
            !wrong.rate.is_within_limit() && !wrong.is_correct(),
            "{wrong:?}"
        );
    }
    assert!(slow.delay.min >= 1.0 && fast.delay.min < 0.0);
}
