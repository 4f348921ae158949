//! Calls of `SIPp` with real RTP and RTCP through the firewall.

use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::network::{Host, READY, until};
use crate::world::{B2BUA, LONG_PACKETS, LONG_REPORTS, PACKETS, REPORTS, SCTP, TCP, World, signal};

#[test]
#[ignore = "needs root and sipp"]
fn rtp_passes_only_during_the_call() {
    let mut world = World::new();
    // The administrator lets only SIP pass.
    let site = "add rule inet carrick site udp dport 5060 udp sport 5060 accept";
    world.network.nft(Host::Firewall, site);
    let (mut rtp, mut rtcp) = ([0; 4], [0; 4]);
    let mut check = |world: &World, more_rtp: [usize; 4], more_rtcp: [usize; 4], when: &str| {
        for n in 0..4 {
            rtp[n] += more_rtp[n];
            rtcp[n] += more_rtcp[n];
        }
        world.assert_rtp(rtp, when);
        world.assert_rtcp(rtcp, when);
    };
    let neither_passes = [PACKETS, 0, PACKETS, 0];
    world.send_both_ways(PACKETS);
    check(&world, neither_passes, neither_passes, "without a call");
    let directly = world.call("10.82.2.2:5060", 1, 1);
    assert!(directly, "{}", world.network.log("caller.errors"));
    let blocked = |packets| [packets, 0, 0, 0];
    check(&world, blocked(PACKETS), blocked(REPORTS), "directly");
    let _b2bua = world.b2bua();
    world.calls_succeed("caller.xml", 1, 1);
    check(&world, [PACKETS; 4], [REPORTS; 4], "with pinholes");
    until("the rule set is empty", || world.network.elements() == 0);
    world.send_both_ways(PACKETS);
    check(&world, neither_passes, neither_passes, "after BYE");
    world.calls_succeed("caller.xml", 1, 1);
    check(&world, [PACKETS; 4], [REPORTS; 4], "with pinholes again");
}

/// Asserts that calls with SIMCO over this transport succeed with all packets and leave no rules.
fn succeed_and_leave_nothing(middlebox: &str, calls: usize) {
    let world = World::new();
    let metrics = "127.0.0.1:9464";
    let mut b2bua = world.b2bua_with(middlebox, &["--metrics", metrics, "--status", "1s"]);
    world.calls_succeed("caller.xml", calls as u32, 50);
    world.assert_rtp([calls * PACKETS; 4], "");
    world.assert_rtcp([calls * REPORTS; 4], "");
    until("the rule set is empty", || world.network.elements() == 0);
    let text = world.metrics(metrics);
    for line in [
        format!("carrick_calls_established_total {calls}"),
        format!("carrick_calls_ended_total{{end=\"hung-up\"}} {calls}"),
        format!("carrick_calls_opening_seconds_count {calls}"),
        "carrick_calls_pinholes 0".to_owned(),
    ] {
        assert!(text.lines().any(|l| l == line), "{line} in {text}");
    }
    // A call is logged when its BYE has been answered on both sides; its rules end before.
    until("each call is logged", || {
        let output = world.network.log("b2bua.log");
        output.matches("\"end\":\"hung-up\"").count() == calls
    });
    signal(&b2bua, Signal::SIGTERM);
    assert!(b2bua.0.wait().unwrap().success());
    let output = world.network.log("b2bua.log");
    for counted in [
        format!("\"offered\":{calls}"),
        format!("\"established\":{calls}"),
        "\"pinholes_at_stop\":0".to_owned(),
        // Printed while it runs.
        "\"calls\":".to_owned(),
    ] {
        assert!(output.contains(&counted), "{counted} in {output}");
    }
}

#[test]
#[ignore = "needs root and sipp"]
fn five_hundred_calls_leave_no_rules() {
    succeed_and_leave_nothing(SCTP, 500);
}

#[test]
#[ignore = "needs root and sipp"]
fn calls_succeed_with_simco_over_tcp_as_well() {
    succeed_and_leave_nothing(TCP, 100);
}

#[test]
#[ignore = "needs root and sipp"]
fn refreshed_pinholes_lose_no_packet() {
    let world = World::new();
    let _b2bua = world.b2bua_with(SCTP, &["--lifetime", "5"]);
    thread::scope(|scope| {
        let calling = scope.spawn(|| world.calls_succeed("long.xml", 1, 1));
        until("the pinhole is open", || world.network.elements() == 4);
        // The kernel removes elements 5 s after their lifetime, so that the remaining time never exceeds 10
        // s.
        while !calling.is_finished() {
            let table = world.network.nft(Host::Firewall, "list table inet carrick");
            for left in table.split(" expires ").skip(1) {
                let seconds = left.split('s').next().unwrap().parse::<u32>();
                assert!(seconds.is_ok_and(|seconds| seconds <= 10), "{table}");
            }
            thread::sleep(Duration::from_millis(200));
        }
    });
    world.assert_rtp([LONG_PACKETS; 4], "");
    world.assert_rtcp([LONG_REPORTS; 4], "");
    until("the rule set is empty", || world.network.elements() == 0);
}

/// RFC 3261, section 18
#[test]
#[ignore = "needs root and sipp"]
fn calls_work_over_tcp() {
    let world = World::with(&["-sn", "uas", "-rtp_echo"], "t1", "");
    // Drops everything but TCP.
    let drop = "add table inet only; add chain inet only in { type filter hook input priority 0; }; add rule inet only in iifname != lo udp dport 5060 drop";
    world.network.nft(Host::Firewall, drop);
    let _b2bua = world.b2bua();
    world.calls_succeed("caller.xml", 20, 20);
    world.assert_rtp([20 * PACKETS; 4], "");
    until("the rule set is empty", || world.network.elements() == 0);
}

#[test]
#[ignore = "needs root and sipp"]
fn rtp_passes_with_delayed_offer() {
    let world = World::new();
    let _b2bua = world.b2bua();
    world.calls_succeed("late.xml", 5, 50);
    world.assert_rtp([5 * PACKETS; 4], "");
    until("the rule set is empty", || world.network.elements() == 0);
}

#[test]
#[ignore = "needs root and sipp"]
fn a_call_is_refused_when_the_middlebox_is_gone() {
    let mut world = World::new();
    let _b2bua = world.b2bua();
    let refused = |world: &World| {
        assert!(!world.call(B2BUA, 1, 1));
        let errors = world.network.log("caller.errors");
        assert!(errors.contains("504"), "{errors}");
    };
    signal(&world.middlebox, Signal::SIGSTOP);
    refused(&world);
    signal(&world.middlebox, Signal::SIGCONT);
    // The agent closes a pinhole that is granted late.
    until("the rule set is empty", || world.network.elements() == 0);
    world.assert_rtp([0; 4], "");
    assert!(world.call(B2BUA, 1, 1), "calls succeed again");
    until("the rule set is empty", || world.network.elements() == 0);
    world.middlebox.0.kill().unwrap();
    world.middlebox.0.wait().unwrap();
    refused(&world);
    assert_eq!(world.network.elements(), 0, "nothing is open");
    world.middlebox = world.network.middlebox("middlebox.log");
    until("calls succeed again", || world.call(B2BUA, 1, 1));
    until("the rule set is empty", || world.network.elements() == 0);
}

#[test]
#[ignore = "needs root and sipp"]
fn call_beyond_the_quota_is_refused() {
    let callee = ["-sf", "patient-callee.xml"];
    let world = World::with(&callee, "u1", "max-rules = 1");
    let b2bua = world.b2bua();
    let mut first = world.caller("patient.xml", B2BUA, 1, 1);
    until("the pinhole is open", || world.network.elements() == 4);
    let open = world.network.agent(&["list"]);
    let second = ["5070", "11000"];
    let mut second = world.caller_at(second, "caller.xml", B2BUA, 1, 1);
    assert!(!second.0.wait().unwrap().success());
    let errors = world.network.log("caller.errors");
    assert!(errors.contains("SIP/2.0 503"), "{errors}");
    assert_eq!(world.network.agent(&["list"]), open);
    assert_eq!(world.network.elements(), 4);
    signal(&b2bua, Signal::SIGTERM);
    assert!(first.0.wait().unwrap().success(), "no BYE");
    world
        .network
        .wait_for("b2bua.log", "\"refused_by_middlebox\":1");
    until("the rule set is empty", || world.network.elements() == 0);
}

#[test]
#[ignore = "needs root and sipp"]
fn prohibited_call_is_refused() {
    let callee = ["-sn", "uas", "-rtp_echo"];
    let world = World::with(&callee, "u1", "rights = \"all\"");
    let _b2bua = world.b2bua();
    let blocked = ["pdr", "--internal", "any", "--external", "10.82.2.2"];
    let output = world.network.agent(&blocked);
    let rule = first_number(&output);
    let of_the_block = world.network.elements();
    assert!(!world.call(B2BUA, 1, 1));
    let errors = world.network.log("caller.errors");
    assert!(errors.contains("SIP/2.0 503"), "{errors}");
    assert_eq!(world.network.elements(), of_the_block);
    world.assert_rtp([0; 4], "");
    world.network.agent(&["plc", &rule, "0"]);
    world.calls_succeed("caller.xml", 1, 1);
    world.assert_rtp([PACKETS; 4], "");
    until("the rule set is empty", || world.network.elements() == 0);
}

#[test]
#[ignore = "needs root and sipp"]
fn translating_middlebox_is_refused() {
    let mut world = World::new();
    let b2bua = world.b2bua();
    signal(&world.middlebox, Signal::SIGTERM);
    world.middlebox.0.wait().unwrap();
    let pool = "translation = [{ address = \"10.82.2.1\", first-port = 10000, last-port = 20000 }]";
    let log = "middlebox.log";
    world.middlebox = world.network.begin_middlebox(log, pool, "");
    world.network.wait_for(log, READY);
    // 504 until the agent has found the new middlebox.
    until("a call is refused with 503", || {
        assert!(!world.call(B2BUA, 1, 1));
        let errors = world.network.log("caller.errors");
        errors.contains("503")
    });
    until("the rule set is empty", || world.network.elements() == 0);
    world.assert_rtp([0; 4], "");
    drop(b2bua);
    let mut refused = world.begin_b2bua(SCTP, &[]);
    assert!(!refused.0.wait().unwrap().success());
    let output = world.network.log("b2bua.log");
    assert!(output.contains("translates addresses"), "{output}");
}

/// Returns the first number in a text; in the output of an agent it identifies the rule.
pub(crate) fn first_number(text: &str) -> String {
    let mut words = text.split(|c: char| !c.is_ascii_digit());
    words.find(|word| !word.is_empty()).unwrap().to_owned()
}
