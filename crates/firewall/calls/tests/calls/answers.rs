//! Responses of the callee, as forwarded to the caller.

use std::time::Duration;

use crate::peer::audio;
use crate::world::{Side, World};

const SOON: Duration = Duration::from_millis(300);

/// RFC 3261, section 13.2.2.1
#[test]
fn provisional_responses_are_forwarded_unchanged() {
    let mut world = World::new();
    let invite = world.invited();
    let mut tags = Vec::new();
    for status in [
        "180 Ringing",
        "181 Call Is Being Forwarded",
        "182 Queued",
        "183 Session Progress",
        "187 Something New",
    ] {
        world.callee.answer(&invite, status, "");
        let response = world.caller.expect(&status[..3]);
        assert_eq!(response.body(), "");
        let contact = format!("<sip:{}>", world.caller.b2bua);
        assert_eq!(response.header("Contact"), contact);
        tags.push(response.header("To").to_owned());
    }
    tags.dedup();
    assert!(tags.len() == 1 && tags[0].contains(";tag="), "{tags:?}");
    assert_eq!(world.open(), [""; 0]);
    let early = audio("192.0.2.7", 7000);
    world.callee.answer(&invite, "180 Ringing", &early);
    let response = world.caller.expect_again("180");
    assert_eq!(response.body(), early);
    assert_eq!(response.header("Content-Type"), "application/sdp");
    assert_eq!(world.open(), ["10.0.0.1:4000 192.0.2.7:7000 2"]);
    // A 199 has no meaning for a caller with one early dialog.
    world
        .callee
        .answer(&invite, "199 Early Dialog Terminated", "");
    assert!(!world.caller.receives("199", SOON));
    world.answered(&invite);
    let answer = world.caller.expect("200");
    assert_eq!(answer.header("To"), tags[0]);
    world.caller.confirm(&answer);
    world.callee.expect("ACK");
    world.hang_up(Side::Callee);
}

/// RFC 3261, section 8.1.3.4
#[test]
fn redirection_is_forwarded_with_own_contacts() {
    for status in [
        "300 Multiple Choices",
        "301 Moved Permanently",
        "302 Moved Temporarily",
    ] {
        let mut world = World::new();
        let invite = world.invited();
        let (callee, b2bua) = (world.callee.address, world.caller.b2bua);
        let elsewhere = "<sip:carla@elsewhere.example>;q=0.5";
        let number = format!("<sip:777@{callee};user=phone>;q=0.2, <tel:+15550100>");
        world.callee.more = vec![
            format!("Contact: {elsewhere}"),
            format!("Contact: {number}"),
        ];
        world.callee.answer(&invite, status, "");
        let response = world.caller.expect(&status[..3]);
        let contacts = response
            .0
            .lines()
            .filter_map(|line| line.strip_prefix("Contact: "));
        let contacts: Vec<&str> = contacts.collect();
        assert_eq!(
            contacts,
            [
                &format!("<sip:me@{b2bua}>"),
                elsewhere,
                &format!("<sip:777@{b2bua}>;q=0.2"),
                "<tel:+15550100>"
            ]
        );
        world.caller.request("ACK", "");
        world.assert_over();
    }
}
