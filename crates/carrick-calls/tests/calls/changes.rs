//! New offers in a call, and other requests.

use crate::peer::{Mood, World, audio};

const AUDIO: &str = "10.0.0.1:4000 192.0.2.1:6000 2";

#[test]
fn changed_addresses_are_opened_before_the_answer_and_the_old_ones_closed() {
    let mut world = World::new();
    world.established();
    assert_eq!(world.open(), [AUDIO]);
    world.caller.request("INVITE", &audio("10.0.0.9", 4400));
    let changed = world.callee.expect("INVITE");
    assert_eq!(changed.body(), audio("10.0.0.9", 4400));
    world
        .callee
        .answer(&changed, "200 OK", &audio("192.0.2.1", 6000));
    let answer = world.caller.expect("200");
    assert_eq!(answer.body(), audio("192.0.2.1", 6000));
    let new = "10.0.0.9:4400 192.0.2.1:6000 2";
    assert!(world.open().contains(&new.to_owned()));
    world.caller.request("ACK", "");
    world.until("the old one is closed", |world| world.open() == [new]);
    // The callee changes too, by UPDATE.
    world.callee.request("UPDATE", &audio("192.0.2.9", 6600));
    let changed = world.caller.expect("UPDATE");
    world
        .caller
        .answer(&changed, "200 OK", &audio("10.0.0.9", 4400));
    world.callee.expect("200");
    world.until("the new one only", |world| {
        world.open() == ["10.0.0.9:4400 192.0.2.9:6600 2"]
    });
    world.caller.request("BYE", "");
    world.caller.expect("200");
    let bye = world.callee.expect("BYE");
    world.callee.answer(&bye, "200 OK", "");
    world.assert_over();
}

#[test]
fn hold_closes_what_is_not_sent_and_resuming_opens_it_again() {
    let mut world = World::new();
    world.established();
    let with = |body: String, way: &str| format!("{body}a={way}\r\n");
    for (way, back, expected) in [
        (
            "inactive",
            "inactive",
            vec!["10.0.0.1:4001 192.0.2.1:6001 1"],
        ),
        ("sendrecv", "sendrecv", vec![AUDIO]),
        (
            "sendonly",
            "recvonly",
            vec![
                "10.0.0.1:4000 192.0.2.1:6000 1",
                "10.0.0.1:4001 192.0.2.1:6001 1",
            ],
        ),
    ] {
        world
            .caller
            .request("INVITE", &with(audio("10.0.0.1", 4000), way));
        let held = world.callee.expect("INVITE");
        world
            .callee
            .answer(&held, "200 OK", &with(audio("192.0.2.1", 6000), back));
        world.caller.expect("200");
        world.caller.request("ACK", "");
        world.until(way, |world| world.open() == expected);
    }
}

#[test]
fn a_change_that_is_refused_leaves_the_call_as_it_was() {
    let mut world = World::new();
    world.established();
    world.caller.request("INVITE", &audio("10.0.0.9", 4400));
    let changed = world.callee.expect("INVITE");
    world.callee.answer(&changed, "488 Not Acceptable Here", "");
    world.caller.expect("488");
    world.caller.request("ACK", "");
    assert_eq!(world.open(), [AUDIO]);
    assert_eq!(world.counts().calls, 1);
}

#[test]
fn a_change_that_the_middlebox_refuses_ends_the_call_and_bye_is_behind_the_refusal() {
    let mut world = World::new();
    world.established();
    world.mood(Mood::Refuses);
    world.caller.request("INVITE", &audio("10.0.0.9", 4400));
    let changed = world.callee.expect("INVITE");
    world
        .callee
        .answer(&changed, "200 OK", &audio("192.0.2.1", 6000));
    world.caller.expect_next("503");
    world.caller.request("ACK", "");
    let bye = world.caller.expect_next("BYE");
    assert!(bye.header("Reason").contains("quota"), "{bye:?}");
    world.caller.answer(&bye, "200 OK", "");
    let bye = world.callee.expect("BYE");
    world.callee.answer(&bye, "200 OK", "");
    world.assert_over();
    assert_eq!(world.counts().lost, 1);
}

#[test]
fn other_requests_are_passed_on_or_answered() {
    let mut world = World::new();
    world.established();
    world.caller.request("INFO", "dtmf");
    let info = world.callee.expect("INFO");
    assert_eq!(info.body(), "dtmf");
    world.callee.answer(&info, "200 OK", "");
    world.caller.expect("200");
    world.callee.request("OPTIONS", "");
    world.callee.expect("200");
    world.callee.request("REFER", "");
    let refused = world.callee.expect("405");
    assert!(refused.header("Allow").contains("INVITE"));
    // The call goes on, and ends.
    world.callee.request("BYE", "");
    world.callee.expect("200");
    let bye = world.caller.expect("BYE");
    world.caller.answer(&bye, "200 OK", "");
    world.assert_over();
}
