//! Messages forwarded while the middlebox has not answered yet.

use std::time::Duration;

use crate::peer::{audio, audio_and_video};
use crate::world::{MiddleboxMode, Side, World};

const AUDIO: &str = "10.0.0.1:4000 192.0.2.1:6000 2";

/// Checks that the pinhole of the call is still open, and that it is closed when the middlebox answers.
fn assert_closed_when_answered(world: &World) {
    assert_eq!(world.open(), [AUDIO]);
    world.mode(MiddleboxMode::Grant);
    world.assert_over();
}

#[test]
fn bye_does_not_wait_for_the_middlebox() {
    for side in [Side::Caller, Side::Callee] {
        let mut world = World::new();
        world.established();
        world.mode(MiddleboxMode::IgnoreClose);
        let [one, other] = world.sides(side);
        one.request("BYE", "");
        one.expect("200");
        other.expect_bye();
        assert_closed_when_answered(&world);
    }
}

#[test]
fn refusal_does_not_wait_for_the_middlebox() {
    let mut world = World::new();
    world.mode(MiddleboxMode::GrantOnly(4000));
    world.caller.invite(&audio_and_video("10.0.0.1", 4000));
    let invite = world.callee.expect("INVITE");
    world
        .callee
        .answer(&invite, "200 OK", &audio_and_video("192.0.2.1", 6000));
    world.caller.expect("504");
    world.caller.request("ACK", "");
    world.callee.expect_bye();
    assert_closed_when_answered(&world);
}

#[test]
fn cancel_does_not_wait_for_the_middlebox() {
    for cancels in [true, false] {
        let mut world = World::with(|config| {
            if !cancels {
                config.answer = Duration::from_millis(300);
            }
        });
        world.mode(MiddleboxMode::IgnoreClose);
        let invite = world.invited();
        let body = audio("192.0.2.1", 6000);
        world.callee.answer(&invite, "183 Session Progress", &body);
        world.caller.expect("183");
        if cancels {
            world.caller.request("CANCEL", "");
        }
        world.caller.expect(if cancels { "487" } else { "408" });
        world.caller.request("ACK", "");
        let cancel = world.callee.expect("CANCEL");
        world.callee.answer(&cancel, "200 OK", "");
        world.callee.answer(&invite, "487 Request Terminated", "");
        assert_closed_when_answered(&world);
    }
}

#[test]
fn reinvite_does_not_wait_for_closed_pinholes() {
    let mut world = World::new();
    let invite = world.invited();
    world.mode(MiddleboxMode::IgnoreClose);
    let early = audio("192.0.2.7", 7000);
    world.callee.answer(&invite, "183 Session Progress", &early);
    world.caller.expect("183");
    world.answered(&invite);
    let answer = world.caller.expect("200");
    world.caller.confirm(&answer);
    world.callee.expect("ACK");
    world.caller.request("INVITE", &audio("10.0.0.9", 4400));
    let changed = world.callee.expect("INVITE");
    let same = audio("192.0.2.1", 6000);
    world.callee.answer(&changed, "200 OK", &same);
    world.caller.expect("200");
    world.caller.request("ACK", "");
    world.callee.request("BYE", "");
    world.callee.expect("200");
    world.caller.expect_bye();
    assert_eq!(world.open().len(), 3, "nothing is closed yet");
    world.mode(MiddleboxMode::Grant);
    world.assert_over();
}

#[test]
fn hangup_does_not_wait_for_requested_pinholes() {
    let mut world = World::new();
    world.mode(MiddleboxMode::Hang);
    let invite = world.invited();
    world.answered(&invite);
    world.callee.expect("ACK");
    world.caller.request("CANCEL", "");
    world.caller.expect("487");
    world.caller.request("ACK", "");
    world.callee.expect_bye();
    world.assert_over();
    let mut world = World::new();
    world.established();
    world.mode(MiddleboxMode::Hang);
    world.caller.request("INVITE", &audio("10.0.0.9", 4400));
    let changed = world.callee.expect("INVITE");
    let same = audio("192.0.2.1", 6000);
    world.callee.answer(&changed, "200 OK", &same);
    world.callee.expect("ACK");
    world.callee.request("BYE", "");
    world.callee.expect("200");
    world.caller.expect_bye();
    world.assert_over();
}
