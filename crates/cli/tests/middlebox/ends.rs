//! Calls of `SIPp` that end abnormally.

use std::thread;

use nix::sys::signal::Signal;

use crate::calls::first_number;
use crate::network::{Running, until};
use crate::world::{B2BUA, PACKETS, REPORTS, SCTP, World, signal};

/// Establishes a call between patient peers, with RTP and RTCP open in both directions.
fn established(world: &World) -> Running {
    let caller = world.caller("patient.xml", B2BUA, 1, 1);
    // The pinhole is open before the caller has its answer.
    let file = world.network.folder.join("established");
    until("the call is established", || file.exists());
    assert_eq!(world.network.elements(), 4, "the pinhole is open");
    caller
}

#[test]
#[ignore = "needs root and sipp"]
fn killed_side_ends_the_call_and_its_rules() {
    for caller_is_killed in [true, false] {
        let mut world = World::patient();
        let _b2bua = world.b2bua_with(SCTP, &["--probe", "1s"]);
        let mut caller = established(&world);
        let (killed, left) = if caller_is_killed {
            (&mut caller, &mut world.callee)
        } else {
            (&mut world.callee, &mut caller)
        };
        signal(killed, Signal::SIGKILL);
        killed.0.wait().unwrap();
        assert!(left.0.wait().unwrap().success(), "no BYE");
        until("the rule set is empty", || world.network.elements() == 0);
    }
}

#[test]
#[ignore = "needs root and sipp"]
fn rule_ended_by_the_middlebox_ends_the_call() {
    let mut world = World::patient();
    let b2bua = world.b2bua();
    let mut caller = established(&world);
    let rule = first_number(&world.network.agent(&["list"]));
    world.network.agent(&["plc", &rule, "0"]);
    assert!(caller.0.wait().unwrap().success(), "no BYE");
    assert!(world.callee.0.wait().unwrap().success(), "no BYE");
    until("the rule set is empty", || world.network.elements() == 0);
    signal(&b2bua, Signal::SIGTERM);
    world.network.wait_for("b2bua.log", "\"pinhole_lost\":1");
}

#[test]
#[ignore = "needs root and sipp"]
fn middlebox_down_too_long_ends_the_call() {
    let mut world = World::patient();
    let _b2bua = world.b2bua_with(SCTP, &["--lifetime", "5"]);
    let mut caller = established(&world);
    signal(&world.middlebox, Signal::SIGKILL);
    assert!(caller.0.wait().unwrap().success(), "no BYE");
    assert!(world.callee.0.wait().unwrap().success(), "no BYE");
    until("the rule set is empty", || world.network.elements() == 0);
}

#[test]
#[ignore = "needs root and sipp"]
fn early_media_pass_and_leave_no_rules() {
    for (caller, callee) in [
        ("cancelled.xml", "early-callee.xml"),
        ("refused.xml", "busy-callee.xml"),
        ("unanswered.xml", "early-callee.xml"),
    ] {
        let mut world = World::with(&["-sf", callee, "-m", "1", "-rtp_echo"], "u1", "");
        let b2bua = world.b2bua_with(SCTP, &["--answer", "3s"]);
        thread::scope(|scope| {
            let calling = scope.spawn(|| world.calls_succeed(caller, 1, 1));
            until("the pinhole is open", || world.network.elements() == 4);
            calling.join().unwrap();
        });
        assert!(world.callee.0.wait().unwrap().success(), "{callee}");
        world.assert_rtp([PACKETS; 4], caller);
        world.assert_rtcp([REPORTS; 4], caller);
        until("the rule set is empty", || world.network.elements() == 0);
        signal(&b2bua, Signal::SIGTERM);
        world.network.wait_for("b2bua.log", "\"refused\":1");
        let log = world.network.log("b2bua.log");
        assert!(log.contains("\"established\":0"), "{log}");
    }
}
