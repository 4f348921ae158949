//! Calls of `SIPp` that somebody else ends.

use nix::sys::signal::Signal;

use crate::calls::{World, signal};
use crate::network::{Host, Running, until};

/// A call that is there, between patient peers, with RTP and RTCP open in both directions.
fn established(world: &World) -> Running {
    let caller = world.caller("patient.xml", "10.82.1.1:5060", 1, 1);
    until("the pinhole is open", || world.network.elements() == 4);
    caller
}

fn patient() -> World {
    World::with(&["-sf", "patient-callee.xml", "-m", "1"], "u1")
}

#[test]
#[ignore = "needs root and sipp"]
fn when_a_side_is_killed_the_other_gets_bye_and_the_rule_set_is_empty() {
    for caller_is_killed in [true, false] {
        let mut world = patient();
        let _b2bua = world.b2bua_with(&["--probe", "1s"]);
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
fn when_the_middlebox_ends_a_rule_both_sides_get_bye_and_the_rule_set_is_empty() {
    let mut world = patient();
    let b2bua = world.b2bua();
    let mut caller = established(&world);
    let agent = |arguments: &[&str]| {
        let common = ["simco", "agent", "--middlebox", "tcp://127.0.0.1", "--json"];
        let arguments = [&common, arguments].concat();
        let program = env!("CARGO_BIN_EXE_carrick");
        let mut command = world.network.command(Host::Firewall, program, &arguments);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let listed = agent(&["list"]);
    let digits = |c: char| !c.is_ascii_digit();
    let rule = listed.split(digits).find(|word| !word.is_empty()).unwrap();
    agent(&["plc", rule, "0"]);
    assert!(caller.0.wait().unwrap().success(), "no BYE");
    assert!(world.callee.0.wait().unwrap().success(), "no BYE");
    until("the rule set is empty", || world.network.elements() == 0);
    signal(&b2bua, Signal::SIGTERM);
    world.network.wait_for("b2bua.log", "\"pinhole_lost\":1");
}

#[test]
#[ignore = "needs root and sipp"]
fn when_the_middlebox_is_gone_longer_than_a_rule_lives_both_sides_get_bye() {
    let mut world = patient();
    let _b2bua = world.b2bua_with(&["--lifetime", "5"]);
    let mut caller = established(&world);
    signal(&world.middlebox, Signal::SIGKILL);
    assert!(caller.0.wait().unwrap().success(), "no BYE");
    assert!(world.callee.0.wait().unwrap().success(), "no BYE");
    until("the rule set is empty", || world.network.elements() == 0);
}
