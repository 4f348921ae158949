//! New offers in a call, and other requests.

use std::time::Duration;

use crate::peer::{Message, audio};
use crate::world::{MiddleboxMode, Side, World};

const SOON: Duration = Duration::from_millis(300);
const AUDIO: &str = "10.0.0.1:4000 192.0.2.1:6000 2";

#[test]
fn reinvite_replaces_the_pinholes() {
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
    world.until("the old pinhole is closed", |world| world.open() == [new]);
    // The callee changes too, by UPDATE.
    world.callee.request("UPDATE", &audio("192.0.2.9", 6600));
    let changed = world.caller.expect("UPDATE");
    world
        .caller
        .answer(&changed, "200 OK", &audio("10.0.0.9", 4400));
    world.callee.expect("200");
    world.until("only the new pinhole is open", |world| {
        world.open() == ["10.0.0.9:4400 192.0.2.9:6600 2"]
    });
    world.hang_up(Side::Caller);
}

#[test]
fn hold_and_resume_change_the_pinholes() {
    let mut world = World::new();
    world.established();
    let with = |body: String, direction: &str| format!("{body}a={direction}\r\n");
    for (direction, answered_direction, expected) in [
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
            .request("INVITE", &with(audio("10.0.0.1", 4000), direction));
        let held = world.callee.expect("INVITE");
        world.callee.answer(
            &held,
            "200 OK",
            &with(audio("192.0.2.1", 6000), answered_direction),
        );
        world.caller.expect("200");
        world.caller.request("ACK", "");
        world.until(direction, |world| world.open() == expected);
    }
}

#[test]
fn refused_reinvite_leaves_the_call_unchanged() {
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
fn refused_pinholes_of_a_reinvite_end_the_call() {
    let mut world = World::new();
    world.established();
    world.mode(MiddleboxMode::Refuse);
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
    world.callee.expect_bye();
    world.assert_over();
    assert_eq!(world.counts().lost, 1);
}

#[test]
fn other_requests_are_forwarded_or_answered() {
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
    // The call continues, and ends.
    world.hang_up(Side::Callee);
}

/// RFC 3261, section 14
#[test]
fn simultaneous_reinvites_are_refused() {
    let mut world = World::new();
    world.established();
    world.caller.request("INVITE", &audio("10.0.0.9", 4400));
    let reinvite = world.callee.expect("INVITE");
    world.callee.request("INVITE", &audio("192.0.2.9", 6600));
    world.callee.expect("491");
    world.callee.request("ACK", "");
    world.callee.answer(&reinvite, "491 Request Pending", "");
    world.caller.expect("491");
    world.caller.request("ACK", "");
    assert_eq!(world.open(), [AUDIO]);
    // A later change by one side succeeds.
    world.callee.request("INVITE", &audio("192.0.2.9", 6600));
    let reinvite = world.caller.expect("INVITE");
    world
        .caller
        .answer(&reinvite, "200 OK", &audio("10.0.0.1", 4000));
    let answer = world.callee.expect("200");
    world.callee.acknowledge(&answer, "");
    world.until("the pinhole is replaced", |world| {
        world.open() == ["10.0.0.1:4000 192.0.2.9:6600 2"]
    });
    world.hang_up(Side::Caller);
}

/// RFC 3261, section 12.2.2
#[test]
fn info_is_forwarded_in_order_and_bounded() {
    let mut world = World::new();
    world.established();
    for n in 0..40 {
        world.caller.request("INFO", &format!("digit {n}"));
    }
    let refused = world.caller.expect("500");
    assert_eq!(refused.header("Retry-After"), "2");
    let forwarded: Vec<Message> = (0..16).map(|_| world.callee.expect_next("INFO")).collect();
    assert!(world.callee.next_within(SOON).is_none());
    let bodies: Vec<&str> = forwarded.iter().map(Message::body).collect();
    let first: Vec<String> = (0..16).map(|n| format!("digit {n}")).collect();
    assert_eq!(bodies, first);
    for info in &forwarded {
        world.callee.answer(info, "200 OK", "");
    }
    world.hang_up(Side::Caller);
}
