//! What both sides are told while the middlebox has not answered yet.

use std::time::Duration;

use crate::peer::{audio, audio_and_video};
use crate::world::{Mood, Side, World};

const AUDIO: &str = "10.0.0.1:4000 192.0.2.1:6000 2";

/// The pinhole of the call is still open, and closed when the middlebox answers.
fn closes_when_it_answers(world: &World) {
    assert_eq!(world.open(), [AUDIO]);
    world.mood(Mood::Grants);
    world.assert_over();
}

#[test]
fn bye_passes_before_the_middlebox_has_closed_the_pinholes() {
    for side in [Side::Caller, Side::Callee] {
        let mut world = World::new();
        world.established();
        world.mood(Mood::KeepsOpen);
        let [one, other] = world.sides(side);
        one.request("BYE", "");
        one.expect("200");
        other.is_hung_up_on();
        closes_when_it_answers(&world);
    }
}

#[test]
fn a_refusal_passes_before_the_middlebox_has_closed_what_was_opened_beside() {
    let mut world = World::new();
    world.mood(Mood::KeepsOnly(4000));
    world.caller.invite(&audio_and_video("10.0.0.1", 4000));
    let invite = world.callee.expect("INVITE");
    world
        .callee
        .answer(&invite, "200 OK", &audio_and_video("192.0.2.1", 6000));
    world.caller.expect("504");
    world.caller.request("ACK", "");
    world.callee.is_hung_up_on();
    closes_when_it_answers(&world);
}

#[test]
fn a_cancel_and_a_time_out_pass_before_the_middlebox_has_closed_early_media() {
    for cancels in [true, false] {
        let mut world = World::with(|config| {
            if !cancels {
                config.answer = Duration::from_millis(300);
            }
        });
        world.mood(Mood::KeepsOpen);
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
        closes_when_it_answers(&world);
    }
}

#[test]
fn a_call_that_has_moved_goes_on_before_the_middlebox_has_closed_the_old_pinholes() {
    let mut world = World::new();
    let invite = world.invited();
    world.mood(Mood::KeepsOpen);
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
    world.caller.is_hung_up_on();
    assert_eq!(world.open().len(), 3, "nothing is closed yet");
    world.mood(Mood::Grants);
    world.assert_over();
}

#[test]
fn who_hangs_up_or_cancels_while_pinholes_are_asked_for_does_not_wait_for_them() {
    let mut world = World::new();
    world.mood(Mood::Waits);
    let invite = world.invited();
    world.answered(&invite);
    world.callee.expect("ACK");
    world.caller.request("CANCEL", "");
    world.caller.expect("487");
    world.caller.request("ACK", "");
    world.callee.is_hung_up_on();
    world.assert_over();
    let mut world = World::new();
    world.established();
    world.mood(Mood::Waits);
    world.caller.request("INVITE", &audio("10.0.0.9", 4400));
    let changed = world.callee.expect("INVITE");
    let same = audio("192.0.2.1", 6000);
    world.callee.answer(&changed, "200 OK", &same);
    world.callee.expect("ACK");
    world.callee.request("BYE", "");
    world.callee.expect("200");
    world.caller.is_hung_up_on();
    world.assert_over();
}
