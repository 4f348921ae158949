//! Calls whose offer is in the answer to the INVITE, and whose answer is in the ACK.

use std::time::Duration;

use crate::peer::{Message, audio};
use crate::world::{MiddleboxMode, Side, World};

const AUDIO: &str = "10.0.0.1:4000 192.0.2.1:6000 2";
const SOON: Duration = Duration::from_millis(300);

/// World whose caller is inside by the source address of its INVITE, since the INVITE has no description.
fn world() -> World {
    World::with(|config| config.internal.push("127.0.0.1".parse().unwrap()))
}

/// Runs a call until the caller has the callee's offer. Returns the INVITE and the 2xx with the offer.
fn offer_in_2xx(world: &mut World) -> (Message, Message) {
    world.caller.invite("");
    let invite = world.callee.expect("INVITE");
    assert_eq!(invite.body(), "");
    assert!(!invite.0.contains("Content-Type"), "{invite:?}");
    world.answered(&invite);
    let offer = world.caller.expect("200");
    assert_eq!(offer.body(), audio("192.0.2.1", 6000));
    assert_eq!(offer.header("Content-Type"), "application/sdp");
    (invite, offer)
}

/// RFC 3261, section 13.2.1
#[test]
fn answer_in_ack_waits_for_the_pinholes() {
    let mut world = world();
    world.mode(MiddleboxMode::Hang);
    let (invite, offer) = offer_in_2xx(&mut world);
    assert!(!world.callee.receives("ACK", SOON), "no answer yet");
    world.caller.confirm_with(&offer, &audio("10.0.0.1", 4000));
    assert!(!world.callee.receives("ACK", SOON), "no pinhole yet");
    assert_eq!(world.open(), [""; 0]);
    world.mode(MiddleboxMode::Grant);
    let ack = world.callee.expect("ACK");
    assert_eq!(ack.body(), audio("10.0.0.1", 4000));
    assert_eq!(ack.header("Content-Type"), "application/sdp");
    assert_eq!(
        ack.header("CSeq").split(' ').next(),
        invite.header("CSeq").split(' ').next()
    );
    assert_eq!(ack.0.matches("Via:").count(), 1, "{ack:?}");
    assert_eq!(world.open(), [AUDIO]);
    // The callee repeats its 2xx if the ACK is lost.
    world.answered(&invite);
    let again = world.callee.expect_again("ACK");
    assert_eq!(again.0, ack.0);
    world.hang_up(Side::Callee);
}

#[test]
fn unusable_answer_in_ack_ends_the_call() {
    for (mode, body) in [
        (MiddleboxMode::Refuse, audio("10.0.0.1", 4000)),
        (MiddleboxMode::Grant, String::new()),
        (MiddleboxMode::Grant, audio("host.example.net", 4000)),
    ] {
        let mut world = world();
        world.mode(mode);
        let (_, offer) = offer_in_2xx(&mut world);
        world.caller.confirm_with(&offer, &body);
        let ack = world.callee.expect("ACK");
        assert!(ack.body().contains("m=audio 0 RTP/AVP 0"), "{ack:?}");
        world.expect_bye_at_both();
    }
}

#[test]
fn bye_before_the_answer_in_ack_ends_the_call() {
    let mut world = world();
    offer_in_2xx(&mut world);
    world.callee.request("BYE", "");
    world.callee.expect("200");
    world.callee.expect("ACK");
    world.caller.expect_bye();
    world.assert_over();
}

#[test]
fn unusable_offer_in_2xx_is_acknowledged_and_ended() {
    let mut world = world();
    world.caller.invite("");
    let invite = world.callee.expect("INVITE");
    world.callee.answer(&invite, "200 OK", "");
    world.caller.expect("502");
    world.caller.request("ACK", "");
    world.callee.expect("ACK");
    world.callee.expect_bye();
    world.assert_over();
}

#[test]
fn cancelled_call_without_offer_is_acknowledged() {
    let mut world = world();
    world.caller.invite("");
    let invite = world.callee.expect("INVITE");
    world.callee.answer(&invite, "180 Ringing", "");
    world.caller.expect("180");
    world.caller.request("CANCEL", "");
    let cancel = world.callee.expect("CANCEL");
    world.answered(&invite);
    world.callee.answer(&cancel, "200 OK", "");
    world.callee.expect("ACK");
    world.callee.expect_bye();
    world.caller.expect("487");
    world.assert_over();
}

/// RFC 3261, section 14.1
#[test]
fn reinvite_without_offer_replaces_the_pinholes() {
    let mut world = World::new();
    world.established();
    world.callee.request("INVITE", "");
    let reinvite = world.caller.expect("INVITE");
    assert_eq!(reinvite.body(), "");
    world
        .caller
        .answer(&reinvite, "200 OK", &audio("10.0.0.1", 4000));
    let offer = world.callee.expect("200");
    assert_eq!(offer.body(), audio("10.0.0.1", 4000));
    assert!(!world.caller.receives("ACK", SOON), "no answer yet");
    // Another offer in the meantime is refused.
    world.caller.request("UPDATE", &audio("10.0.0.1", 4800));
    world.caller.expect("491");
    world.callee.acknowledge(&offer, &audio("192.0.2.1", 6600));
    let ack = world.caller.expect("ACK");
    assert_eq!(ack.body(), audio("192.0.2.1", 6600));
    world.until("the pinhole is replaced", |world| {
        world.open() == ["10.0.0.1:4000 192.0.2.1:6600 2"]
    });
    world.hang_up(Side::Caller);
}
