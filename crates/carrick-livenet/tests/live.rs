//! Live networks on this host; they need root and run with `--ignored`.
#![cfg(target_os = "linux")]

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use carrick_livenet::{Accuracy, Error, LiveNetwork, Plan, enter, running};
use carrick_netsim::{Change, LinkConfig, Loss, NetworkBuilder};

/// Two hosts with two links, the first between two routers that the simulator keeps.
fn network() -> Result<Plan, Error> {
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
    Ok(Plan::new(builder.build()?, hosts))
}

/// Whether an answer comes from there: that nobody listens is one.
fn reaches(live: &LiveNetwork, to: [u8; 4]) -> bool {
    let patience = Duration::from_millis(500);
    let near = live.host("near").unwrap().namespace();
    let tried = near.run(move || TcpStream::connect_timeout(&(to, 9).into(), patience));
    tried
        .unwrap()
        .is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused)
}

fn name(what: &str) -> String {
    format!("test-{}-{what}", std::process::id())
}

#[test]
#[ignore = "needs root"]
fn live_programs_reach_each_other_over_every_path() {
    let live = LiveNetwork::start(&name("paths"), network).unwrap();
    for path in [1, 2] {
        assert!(reaches(&live, [10, path, 0, 2]), "path {path}");
    }
    assert!(!reaches(&live, [10, 3, 0, 2]), "nobody's address");
    assert_eq!(live.hosts()[0].addresses().len(), 2);
    assert!(matches!(live.host("west"), Err(Error::UnknownHost { .. })));
}

#[test]
#[ignore = "needs root"]
fn live_kernel_tcp_passes_the_simulated_links() {
    let live = LiveNetwork::start(&name("tcp"), network).unwrap();
    let far = live.host("far").unwrap();
    let listener = far
        .namespace()
        .run(|| TcpListener::bind("10.1.0.2:80"))
        .unwrap()
        .unwrap();
    let sink = far
        .spawn(move || {
            let mut received = Vec::new();
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_to_end(&mut received).unwrap();
            received
        })
        .unwrap();
    let sent: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    let data = sent.clone();
    live.host("near")
        .unwrap()
        .namespace()
        .run(move || {
            TcpStream::connect("10.1.0.2:80")
                .unwrap()
                .write_all(&data)
                .unwrap()
        })
        .unwrap();
    assert_eq!(sink.join().unwrap().unwrap(), sent);
    assert_eq!(live.emulation().refused(), 0);
}

#[test]
#[ignore = "needs root"]
fn live_changes_of_the_network_take_effect() {
    let (tell, told) = mpsc::channel();
    let live = LiveNetwork::start(&name("change"), move || {
        let mut builder = NetworkBuilder::new(1);
        let hosts = ["near", "far"].map(|name| builder.add_host(name));
        let ends =
            [0, 1].map(|n| builder.add_interface(hosts[n], [[10, 0, 0, n as u8 + 1].into()]));
        let link = LinkConfig::delay(Duration::from_millis(1));
        tell.send(builder.connect_both(ends[0], ends[1], link))
            .unwrap();
        Ok(Plan::new(builder.build()?, hosts))
    })
    .unwrap();
    let ping = || reaches(&live, [10, 0, 0, 2]);
    let link = told.recv().unwrap();
    assert!(ping());
    live.emulation().apply(Change::LinkDown(link)).unwrap();
    assert!(!ping());
    live.emulation().apply(Change::LinkUp(link)).unwrap();
    assert!(ping());
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

#[test]
#[ignore = "needs root"]
fn live_networks_are_found_by_others_and_leave_nothing_behind() {
    let name = name("found");
    let live = LiveNetwork::start(&name, network).unwrap();
    let hosts: Vec<String> = vec!["far".into(), "near".into()];
    assert!(running().contains(&(name.clone(), hosts)));
    assert!(
        LiveNetwork::start(&name, network).is_err(),
        "the name is taken"
    );
    // This thread enters the namespace and ends.
    let network = name.clone();
    let entered = std::thread::spawn(move || {
        // That fails if there is no such interface.
        let mut show = Command::new("ip");
        show.args(["address", "show", "dev", "link1"])
            .stdout(Stdio::null());
        enter(&network, "near", &mut show)
    });
    assert!(entered.join().unwrap().unwrap().success());
    let missing = enter(&name, "west", &mut Command::new("true")).unwrap_err();
    assert!(missing.to_string().contains("far, near"), "{missing}");
    let folder: PathBuf = live.directory().path().into();
    let link = folder.join("near");
    assert!(link.exists());
    drop(live);
    assert!(!folder.exists());
    assert!(enter(&name, "near", &mut Command::new("true")).is_err());
}

#[test]
#[ignore = "needs root"]
fn live_packets_are_never_early_and_the_rate_is_never_exceeded() {
    let accuracy =
        Accuracy::measure(1_000_000, Duration::from_millis(20), Duration::from_secs(3)).unwrap();
    println!("{accuracy:?}");
    assert!(accuracy.delay.packets > 100);
    assert!(accuracy.delay.least >= 0.0, "{accuracy:?}");
    assert!(accuracy.rate.packets > 200);
    assert!(accuracy.rate.relative() < 0.02, "{accuracy:?}");
}
