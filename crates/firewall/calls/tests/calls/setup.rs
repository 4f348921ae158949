//! Set-up of calls: until the answer is forwarded, or the call refused.

use std::time::Duration;

use crate::peer::{audio, audio_and_video};
use crate::world::{MiddleboxMode, World};

const AUDIO: &str = "10.0.0.1:4000 192.0.2.1:6000 2";
const SOON: Duration = Duration::from_millis(300);

#[test]
fn answer_waits_for_the_pinholes() {
    let mut world = World::new();
    world.mode(MiddleboxMode::Hang);
    let invite = world.invited();
    assert_eq!(invite.body(), audio("10.0.0.1", 4000));
    assert_eq!(invite.header("Max-Forwards"), "69");
    assert_eq!(invite.header("Content-Type"), "application/sdp");
    assert!(invite.header("From").contains("anna"), "{invite:?}");
    assert!(invite.0.starts_with("INVITE sip:bert@127.0.0.1"));
    world.callee.answer(&invite, "180 Ringing", "");
    world.caller.expect("180");
    world.answered(&invite);
    world.callee.expect("ACK");
    assert!(!world.caller.receives("200", SOON), "no pinhole yet");
    assert_eq!(world.open(), [""; 0]);
    world.mode(MiddleboxMode::Grant);
    let answer = world.caller.expect("200");
    assert_eq!(answer.body(), audio("192.0.2.1", 6000));
    assert_eq!(world.open(), [AUDIO]);
    world.caller.confirm(&answer);
    world.until("established", |world| world.counts().established == 1);
}

#[test]
fn call_from_outside_is_routed_inside() {
    let mut world = World::new();
    world.callee.invite(&audio("192.0.2.1", 6000));
    let invite = world.caller.expect("INVITE");
    world
        .caller
        .answer(&invite, "200 OK", &audio("10.0.0.1", 4000));
    let answer = world.callee.expect("200");
    assert_eq!(world.open(), [AUDIO]);
    world.callee.confirm(&answer);
}

#[test]
fn failed_pinholes_refuse_the_call() {
    for (mode, status) in [
        (MiddleboxMode::Refuse, "503"),
        (MiddleboxMode::NoAnswer, "504"),
    ] {
        let mut world = World::new();
        world.mode(mode);
        let invite = world.invited();
        world.answered(&invite);
        let refused = world.caller.expect(status);
        assert!(refused.header("Reason").contains(status), "{refused:?}");
        world.caller.request("ACK", "");
        world.callee.expect_bye();
        world.assert_over();
        assert_eq!(world.counts().refused_by_middlebox, 1);
        assert_eq!(world.counts().established, 0);
    }
}

#[test]
fn pinholes_of_all_streams_are_opened() {
    let mut world = World::new();
    world.caller.invite(&audio_and_video("10.0.0.1", 4000));
    let invite = world.callee.expect("INVITE");
    world
        .callee
        .answer(&invite, "200 OK", &audio_and_video("192.0.2.1", 6000));
    world.caller.expect("200");
    assert_eq!(world.open(), [AUDIO, "10.0.0.1:4002 192.0.2.1:6002 2"]);
}

#[test]
fn early_media_have_pinholes_until_the_answer() {
    let mut world = World::new();
    let invite = world.invited();
    world
        .callee
        .answer(&invite, "183 Session Progress", &audio("192.0.2.7", 7000));
    let early = world.caller.expect("183");
    assert_eq!(early.body(), audio("192.0.2.7", 7000));
    assert_eq!(world.open(), ["10.0.0.1:4000 192.0.2.7:7000 2"]);
    world.answered(&invite);
    world.caller.expect("200");
    world.until("only the pinhole of the answer is open", |world| {
        world.open() == [AUDIO]
    });
}

#[test]
fn negative_final_response_is_forwarded() {
    for (received, forwarded) in [
        ("486 Busy Here", "486"),
        ("305 Use Proxy", "480"),
        ("407 Proxy Authentication Required", "407"),
        ("603 Decline", "603"),
    ] {
        let mut world = World::new();
        let invite = world.invited();
        world.callee.answer(&invite, received, "");
        world.callee.expect("ACK");
        world.caller.expect(forwarded);
        world.caller.request("ACK", "");
        world.assert_over();
    }
}

#[test]
fn cancel_is_forwarded_and_closes_early_media() {
    let mut world = World::new();
    let invite = world.invited();
    world
        .callee
        .answer(&invite, "183 Session Progress", &audio("192.0.2.1", 6000));
    world.caller.expect("183");
    world.caller.request("CANCEL", "");
    world.caller.expect("487");
    world.caller.request("ACK", "");
    let cancel = world.callee.expect("CANCEL");
    world.callee.answer(&cancel, "200 OK", "");
    world.callee.answer(&invite, "487 Request Terminated", "");
    world.callee.expect("ACK");
    world.assert_over();
}

#[test]
fn answer_crossing_a_cancel_gets_bye() {
    let mut world = World::new();
    let invite = world.invited();
    world.callee.answer(&invite, "180 Ringing", "");
    world.caller.expect("180");
    world.caller.request("CANCEL", "");
    let cancel = world.callee.expect("CANCEL");
    world.answered(&invite);
    world.callee.answer(&cancel, "200 OK", "");
    world.callee.expect_bye();
    world.caller.expect("487");
    world.assert_over();
    assert_eq!(world.counts().established, 0);
}

#[test]
fn cancel_while_opening_pinholes_ends_the_call() {
    let mut world = World::new();
    world.mode(MiddleboxMode::Hang);
    let invite = world.invited();
    world.answered(&invite);
    world.callee.expect("ACK");
    world.caller.request("CANCEL", "");
    world.caller.expect("487");
    world.caller.request("ACK", "");
    world.mode(MiddleboxMode::Grant);
    world.callee.expect_bye();
    world.assert_over();
}

#[test]
fn unanswered_call_is_cancelled() {
    let mut world = World::with(|config| config.answer = Duration::from_millis(300));
    let invite = world.invited();
    world.callee.answer(&invite, "180 Ringing", "");
    world.caller.expect("408");
    world.caller.request("ACK", "");
    let cancel = world.callee.expect("CANCEL");
    world.callee.answer(&cancel, "200 OK", "");
    world.callee.answer(&invite, "487 Request Terminated", "");
    world.assert_over();
}

#[test]
fn unusable_or_excess_calls_are_refused_at_once() {
    let mut world = World::with(|config| config.max_calls = 1);
    world.caller.invite(&audio("host.example.net", 4000));
    world.caller.expect("488");
    world.caller.request("ACK", "");
    world.assert_over();
    world.caller.fresh();
    world.caller.invite(&audio("10.0.0.1", 4000));
    world.callee.expect("INVITE");
    world.caller.fresh();
    world.caller.invite(&audio("10.0.0.1", 4000));
    let refused = world.caller.expect("503");
    assert_eq!(refused.header("Retry-After"), "10");
    assert_eq!(world.counts().too_many, 1);
}

#[test]
fn answer_without_usable_address_ends_the_call() {
    let mut world = World::new();
    let invite = world.invited();
    world
        .callee
        .answer(&invite, "200 OK", &audio("host.example.net", 6000));
    world.caller.expect("502");
    world.caller.request("ACK", "");
    world.callee.expect_bye();
    world.assert_over();
}
