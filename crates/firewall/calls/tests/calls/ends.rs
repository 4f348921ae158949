//! End of calls.

use std::time::Duration;

use carrick_calls::CallEnd;

use crate::peer::{audio, audio_and_video};
use crate::world::{MiddleboxMode, Side, World};

#[test]
fn bye_closes_the_pinholes_and_is_forwarded() {
    for side in [Side::Caller, Side::Callee] {
        let mut world = World::new();
        world.established();
        assert_eq!(world.open().len(), 1);
        world.hang_up(side);
    }
}

#[test]
fn pinholes_close_without_an_answer_to_bye() {
    let mut world = World::new();
    world.established();
    world.callee.stop_receiving();
    world.caller.request("BYE", "");
    world.caller.expect("200");
    world.until("closed", |world| world.open().is_empty());
}

#[test]
fn lost_pinhole_ends_the_call_on_both_sides() {
    let mut world = World::new();
    world.caller.invite(&audio_and_video("10.0.0.1", 4000));
    let invite = world.callee.expect("INVITE");
    world
        .callee
        .answer(&invite, "200 OK", &audio_and_video("192.0.2.1", 6000));
    let answer = world.caller.expect("200");
    world.caller.confirm(&answer);
    world.until("established", |world| world.counts().established == 1);
    assert_eq!(world.open().len(), 2);
    world.lose_one();
    for peer in [&mut world.caller, &mut world.callee] {
        let bye = peer.expect_bye();
        assert!(bye.header("Reason").contains("cause=503"), "{bye:?}");
    }
    world.assert_over();
    assert_eq!(world.counts().lost, 1);
}

#[test]
fn pinhole_lost_before_the_answer_ends_the_call() {
    let mut world = World::new();
    let invite = world.invited();
    let body = audio("192.0.2.1", 6000);
    world.callee.answer(&invite, "183 Session Progress", &body);
    world.caller.expect("183");
    world.lose_one();
    world.callee.answer(&invite, "200 OK", &body);
    let answer = world.caller.expect("200");
    world.caller.confirm(&answer);
    world.expect_bye_at_both();
}

/// RFC 3261, section 15: no BYE of the callee before the ACK
#[test]
fn bye_waits_for_the_ack() {
    let mut world = World::new();
    let invite = world.invited();
    let body = audio("192.0.2.1", 6000);
    world.callee.answer(&invite, "200 OK", &body);
    let answer = world.caller.expect("200");
    world.until("established", |world| world.counts().established == 1);
    world.lose_one();
    world.callee.expect_bye();
    let early = world.caller.next_within(Duration::from_millis(300));
    assert!(early.is_none(), "{early:?}");
    world.caller.confirm(&answer);
    world.caller.expect_bye();
    world.assert_over();
}

#[test]
fn silent_side_is_detected_and_the_call_ended() {
    for side in [Side::Caller, Side::Callee] {
        let mut world = World::with(|config| config.probe = Duration::from_secs(1));
        world.established();
        let [silent, remaining] = world.sides(side);
        silent.stop_receiving();
        let options = remaining.expect("OPTIONS");
        remaining.answer(&options, "200 OK", "");
        remaining.expect_bye();
        world.until("closed", |world| world.open().is_empty());
    }
}

#[test]
fn side_without_the_dialog_is_detected() {
    let mut world = World::with(|config| config.probe = Duration::from_millis(500));
    world.established();
    let options = world.callee.expect("OPTIONS");
    world
        .callee
        .answer(&options, "481 Call/Transaction Does Not Exist", "");
    world.caller.expect_bye();
    world.until("closed", |world| world.open().is_empty());
}

#[test]
fn answered_probes_keep_the_call() {
    let mut world = World::with(|config| config.probe = Duration::from_millis(1500));
    world.established();
    for _ in 0..3 {
        for peer in [&mut world.caller, &mut world.callee] {
            let options = peer.expect("OPTIONS");
            peer.answer(&options, "200 OK", "");
        }
    }
    assert_eq!((world.open().len(), world.counts().calls), (1, 1));
}

#[test]
fn stop_ends_all_calls_and_closes_all_pinholes() {
    let mut world = World::new();
    world.established();
    let answered = std::thread::scope(|scope| {
        let (caller, callee) = (&mut world.caller, &mut world.callee);
        let peers = [caller, callee].map(|peer| {
            scope.spawn(move || {
                peer.expect_bye();
            })
        });
        let b2bua = world.b2bua.take().unwrap();
        world.runtime.block_on(b2bua.stop(Duration::from_secs(5)));
        peers.map(|peer| peer.join().is_ok())
    });
    assert_eq!(answered, [true; 2]);
    assert_eq!(world.open(), [""; 0]);
}

#[test]
fn each_finished_call_has_a_record() {
    let mut world = World::new();
    let mut records = world.b2bua.as_ref().unwrap().records();
    world.established();
    world.hang_up(Side::Caller);
    world.caller.fresh();
    world.caller.invite(&audio("host.example.net", 4000));
    world.caller.expect("488");
    for end in [CallEnd::HungUp, CallEnd::NotEstablished] {
        let record = world.runtime.block_on(records.next()).unwrap();
        assert_eq!(record.end, end);
        assert!(record.call_id.starts_with("call-"), "{record:?}");
        assert_eq!(record.caller, format!("sip:anna@{}", world.caller.address));
        assert!(record.callee.starts_with("sip:bert@"), "{record:?}");
        let established = end == CallEnd::HungUp;
        assert_eq!(record.set_up.is_some(), established, "{record:?}");
        assert_eq!(record.refused, (!established).then_some(488));
    }
}

/// RFC 3261, section 12.2.2
#[test]
fn request_without_dialog_is_refused() {
    let mut world = World::new();
    world.established();
    world.caller.forget();
    world.caller.request("BYE", "");
    world.caller.expect("481");
    assert_eq!(world.counts().calls, 1);
    world.caller.request("INVITE", &audio("10.0.0.1", 4000));
    world.caller.expect("481");
}

#[test]
fn each_offered_call_is_counted_once() {
    let mut world = World::new();
    world.established();
    world.hang_up(Side::Callee);
    let invite = world.caller.fresh_invite(&mut world.callee);
    world.callee.answer(&invite, "486 Busy Here", "");
    world.caller.expect("486");
    world.caller.request("ACK", "");
    world.caller.fresh();
    world.caller.invite(&audio("host.example.net", 4000));
    world.caller.expect("488");
    world.caller.request("ACK", "");
    world.caller.more = vec!["Require: 100rel".to_owned()];
    world.caller.fresh();
    world.caller.invite(&audio("10.0.0.1", 4000));
    world.caller.expect("420");
    world.caller.request("ACK", "");
    world.mode(MiddleboxMode::Refuse);
    let invite = world.caller.fresh_invite(&mut world.callee);
    world.answered(&invite);
    world.caller.expect("503");
    world.caller.request("ACK", "");
    world.callee.expect("BYE");
    world.caller.fresh_invite(&mut world.callee);
    world.caller.request("CANCEL", "");
    world.caller.expect("487");
    world.until("counted", |world| world.counts().refused == 5);
    let counts = world.counts();
    assert_eq!(
        (counts.offered, counts.established, counts.refused),
        (6, 1, 5)
    );
    let text = world.b2bua.as_ref().unwrap().metrics();
    for line in [
        "carrick_calls_offered_total 6",
        "carrick_calls_established_total 1",
        "carrick_calls_refused_total{by=\"agent\",status=\"420\"} 1",
        "carrick_calls_refused_total{by=\"agent\",status=\"488\"} 1",
        "carrick_calls_refused_total{by=\"caller\",status=\"487\"} 1",
        "carrick_calls_refused_total{by=\"callee\",status=\"486\"} 1",
        "carrick_calls_refused_total{by=\"middlebox\",status=\"503\"} 1",
        "carrick_calls_middlebox_refusals_total 1",
        "carrick_calls_ended_total{end=\"hung-up\"} 1",
        "carrick_calls_pinholes 0",
        "carrick_calls_setup_seconds_count 1",
        "carrick_calls_opening_seconds_count 1",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
    }
}
