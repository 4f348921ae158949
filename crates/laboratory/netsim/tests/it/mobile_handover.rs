//! A node that moves between networks: packet loss, duration of the handover, and captured packets.

use crate::common;
use crate::mobile_world;

use std::process::Command;
use std::time::Duration;

use carrick_netsim::mobile::{Attachment, MobilityEvent};
use carrick_netsim::{Change, Time};
use common::Recorder;
use mobile_world::{
    AGENTS, AT_HOME, CORRESPONDENT, HOME, WIRED, WIRELESS, World, WorldConfig, sctp,
};

const MILLISECOND: Duration = Duration::from_millis(1);

/// Makes the correspondent send a packet each millisecond to the home address, from now on.
fn stream(world: &mut World, packets: u32) {
    let start = world.net.now() + MILLISECOND;
    let script = (0..packets).map(|n| (start + MILLISECOND * n, sctp(CORRESPONDENT, HOME, 50)));
    let source = Box::new(Recorder::sending(script));
    world.net.set_node_program(world.correspondent, source);
}

/// Returns the longest time without a packet at the mobile node, and its start.
fn silence(world: &World) -> (Duration, Time) {
    let times: Vec<Time> = world
        .mobile()
        .program()
        .received
        .iter()
        .map(|r| r.0)
        .collect();
    let gaps = times.windows(2).map(|t| (t[1] - t[0], t[0]));
    gaps.max().expect("packets")
}

#[test]
fn a_handover_takes_gap_discovery_and_registration() {
    for gap in [0, 200, 700].map(Duration::from_millis) {
        let mut world = World::usual();
        world.run_secs(5);
        stream(&mut world, 3000);
        world.run_secs(1);
        world.handover(1, 2, gap);
        world.run_secs(3);
        assert_eq!(world.bound_to(), [AGENTS[1]]);
        // Solicitation and advertisement, the request, then the first packet through the new
        // tunnel.
        let discovery = WIRELESS * 2;
        let request = WIRELESS + WIRED * 2;
        let first = WIRED * 2 + WIRELESS;
        let expected = gap + discovery + request + first;
        let (silence, _) = silence(&world);
        assert!(
            silence >= expected && silence <= expected + 2 * MILLISECOND,
            "{silence:?}"
        );
    }
}

#[test]
fn packets_in_flight_to_the_old_network_are_lost() {
    let mut world = World::usual();
    world.run_secs(5);
    stream(&mut world, 2000);
    world.run_secs(1);
    world.handover(1, 2, Duration::from_millis(100));
    world.run_secs(3);
    let received = world.mobile().program().received.len();
    let (silence, _) = silence(&world);
    let lost = 2000 - received;
    let expected = silence.as_millis() as usize;
    assert!(lost.abs_diff(expected) <= 2, "{lost} lost in {expected} ms");
}

/// RFC 5944, section 2.4.2.1
#[test]
fn without_link_triggers_the_old_agent_has_to_expire() {
    let mut world = World::new(&WorldConfig {
        mobile: Box::new(|config| config.link_triggers = false),
        ..WorldConfig::default()
    });
    world.run_secs(5);
    stream(&mut world, 8000);
    world.run_secs(1);
    world.handover(1, 2, Duration::from_millis(100));
    world.run_secs(8);
    assert_eq!(world.bound_to(), [AGENTS[1]]);
    let (silence, _) = silence(&world);
    // The last advertisement was received up to a second before and is valid for three seconds.
    assert!(silence > Duration::from_secs(2) && silence < Duration::from_millis(3500));
}

#[test]
fn a_reachable_agent_is_kept() {
    let mut world = World::usual();
    world.run_secs(5);
    let link = world.links[2];
    world.apply(Change::LinkUp(link));
    world.run_secs(10);
    assert_eq!(world.bound_to(), [AGENTS[0]]);
    assert_eq!(world.mobile().stats().requests, 1);
    // The node already knows the second agent when the first one is lost.
    stream(&mut world, 2000);
    world.run_secs(1);
    let link = world.links[1];
    world.apply(Change::LinkDown(link));
    world.run_secs(2);
    assert_eq!(world.bound_to(), [AGENTS[1]]);
    let (silence, _) = silence(&world);
    let least = WIRELESS * 2 + WIRED * 4;
    assert!(
        silence <= least + 2 * MILLISECOND,
        "no discovery: {silence:?}"
    );
}

#[test]
fn the_attachment_follows_the_movement() {
    let mut world = World::usual();
    let mut at = 1;
    for (to, bound) in [
        (2, Some(AGENTS[1])),
        (AT_HOME, None),
        (1, Some(AGENTS[0])),
        (2, Some(AGENTS[1])),
    ] {
        world.run_secs(5);
        world.handover(at, to, Duration::from_millis(300));
        world.run_secs(5);
        at = to;
        assert_eq!(world.bound_to(), Vec::from_iter(bound), "at {to}");
        assert_eq!(world.ping(100), 1, "at {to}");
        assert_eq!(world.send_from_home().len(), 1, "at {to}");
    }
    let nowhere = MobilityEvent::Attached(Attachment::Detached);
    assert_eq!(world.times(|event| *event == nowhere).len(), 4);
}

#[test]
fn equal_seeds_give_equal_handovers() {
    let journey = |seed| {
        let mut world = World::new(&WorldConfig {
            seed,
            mobile: Box::new(|config| config.max_solicitation_delay = Duration::from_secs(1)),
            ..WorldConfig::default()
        });
        world.run_secs(5);
        stream(&mut world, 3000);
        world.handover(1, 2, Duration::from_millis(100));
        world.run_secs(5);
        let received = world.mobile().program().received.iter().map(|r| r.0);
        (
            received.collect::<Vec<_>>(),
            world.mobile().events().to_vec(),
        )
    };
    assert_eq!(journey(3), journey(3));
    assert_ne!(journey(3), journey(4));
}

#[test]
fn tshark_accepts_the_capture() {
    if Command::new("tshark").arg("--version").output().is_err() {
        assert!(
            std::env::var_os("CI").is_none(),
            "install the package tshark"
        );
        eprintln!("not run: tshark is not installed");
        return;
    }
    let mut world = World::usual();
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("mobile.pcapng");
    let file = std::fs::File::create(&path).expect("a file in the target folder");
    let mut interfaces = world.interfaces.to_vec();
    interfaces.extend(world.net.interfaces(world.home_agent));
    interfaces.extend(world.net.interfaces(world.agents[1]));
    world
        .net
        .capture_all(&interfaces, file)
        .expect("room on the disk");
    world.run_secs(5);
    world.ping(100);
    world.handover(1, 2, Duration::from_millis(100));
    world.run_secs(5);
    world.ping(100);
    world.send_from_home();
    world.handover(2, AT_HOME, Duration::from_millis(100));
    world.run_secs(5);
    world.net.finish_captures().expect("room on the disk");

    let tshark = |filter: &str| -> Vec<String> {
        let mut command = Command::new("tshark");
        command.arg("-n").arg("-r").arg(&path);
        for check in ["ip.check_checksum:TRUE", "udp.check_checksum:TRUE"] {
            command.args(["-o", check]);
        }
        let output = command.args(["-Y", filter]).output().expect("tshark runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{errors}");
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().map(str::to_owned).collect()
    };
    // The payload of the test packets is not valid SCTP.
    let complaints = "(_ws.malformed || ip.checksum.status == 0 || udp.checksum.status == 0 \
                      || icmp.checksum.status == 0 || _ws.expert.severity >= error) && !sctp";
    assert_eq!(tshark(complaints), Vec::<String>::new());
    // Requests: both hops through each agent, and of the home agent.
    let found = |filter: &str| tshark(filter).len();
    assert!(found("mip.type == 1 && mip.ext.type == 32 && mip.auth.spi == 1000") >= 5);
    assert!(found("mip.type == 3 && mip.code == 0 && mip.haaddr == 10.0.0.1") >= 5);
    assert!(found("mip.type == 1 && mip.life == 0 && mip.coa == 10.0.0.7") >= 2);
    assert!(found("icmp.type == 9 && icmp.mip.type == 16 && icmp.mip.f == 1") > 5);
    assert!(found("icmp.type == 9 && icmp.mip.coa == 10.2.0.1") > 3);
    assert!(found("icmp.type == 10 && ip.ttl == 1") >= 3);
    assert!(found("ip.proto == 4 && ip.proto == 132") >= 4);
}
