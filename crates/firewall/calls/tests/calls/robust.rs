//! Requests that are invalid, early, merged or forked.

use std::net::UdpSocket;
use std::time::Duration;

use crate::flood::flood;
use crate::peer::audio;
use crate::world::{Side, World};

const SOON: Duration = Duration::from_millis(300);

/// RFC 3261, section 8.2
#[test]
fn invalid_requests_get_their_status() {
    let mut world = World::new();
    let offer = audio("10.0.0.1", 4000);
    for (header, status, reported) in [
        ("Require: 100rel, timer", "420", ("Unsupported", "100rel")),
        (
            "Content-Type: multipart/mixed;boundary=x",
            "415",
            ("Accept", "application/sdp"),
        ),
        (
            "Content-Encoding: gzip",
            "415",
            ("Accept-Encoding", "identity"),
        ),
    ] {
        world.caller.more = vec![header.to_owned()];
        world.caller.invite(&offer);
        let refused = world.caller.expect(status);
        let (name, value) = reported;
        assert!(refused.header(name).contains(value), "{refused:?}");
        world.caller.request("ACK", "");
        world.caller.fresh();
    }
    let many = format!("{offer}{}", "m=video 4002 RTP/AVP 96\r\n".repeat(16));
    world.caller.invite(&many);
    let refused = world.caller.expect("488");
    assert!(refused.header("Reason").contains("17 streams"));
    world.caller.request("ACK", "");
    world.caller.fresh();
    world.caller.hops = 0;
    world.caller.invite(&offer);
    world.caller.expect("483");
    assert!(!world.callee.receives("INVITE", SOON));
    world.assert_over();
}

/// RFC 3261, section 21.4.11
#[test]
fn a_request_beyond_a_datagram_is_refused() {
    let mut world = World::new();
    let offer = audio("10.0.0.1", 4000);
    for octets in [8_150, 15_500, 20_000] {
        let more = "a=x\r\n".repeat((octets - offer.len()) / 5);
        world.caller.invite(&format!("{offer}{more}"));
        world.caller.expect("413");
        world.caller.request("ACK", "");
        world.caller.fresh();
    }
    // Smaller ones are forwarded.
    let more = "a=x\r\n".repeat((7_000 - offer.len()) / 5);
    world.caller.invite(&format!("{offer}{more}"));
    let invite = world.callee.expect("INVITE");
    world.callee.answer(&invite, "486 Busy Here", "");
    world.caller.expect("486");
    world.caller.request("ACK", "");
    world.assert_over();
}

/// RFC 3261, section 16.3
#[test]
fn loops_are_refused() {
    // The agent's own address is inside, so that an INVITE that it sends to itself is forwarded
    // again. No other test uses this address, so its port is free.
    let mut world = World::on("127.0.7.1", |config| {
        config.listen.set_port(5060);
        config.outer = Some(config.listen.into());
        config.inner = Some(config.listen.into());
    });
    world.caller.invite(&audio("192.0.2.1", 4000));
    world.caller.expect("482");
    world.caller.request("ACK", "");
    world.assert_over();
    // The caller's INVITE and the agent's own. A retransmitted INVITE may count again on a slow machine.
    assert!((2..=4).contains(&world.counts().offered));
}

#[test]
fn outside_sender_names_no_internal_host() {
    let inside = |port: u16| format!("{}m=x {port} TCP/MSRP *\r\n", audio("10.0.0.5", 4000));
    let outside = format!("{}m=x 4000 TCP/MSRP *\r\n", audio("203.0.113.9", 4000));
    // By an offer from outside, whatever the answer would be: media would go from host to host inside.
    let mut world = World::new();
    for offer in [inside(2200), audio("10.0.0.11", 6000)] {
        world.callee.invite(&offer);
        let refused = world.callee.expect("488");
        assert!(
            refused.header("Reason").contains("other side"),
            "{refused:?}"
        );
        world.callee.request("ACK", "");
        world.callee.fresh();
    }
    assert!(!world.caller.receives("INVITE", SOON));
    world.assert_over();
    assert_eq!(world.opened(), 0);
    // By a new offer in a call, which continues; by the answer to one, and by an answer in an ACK.
    let mut world = World::new();
    world.established();
    world.callee.request("INVITE", &inside(2200));
    world.callee.expect("488");
    world.callee.request("ACK", "");
    world.hang_up(Side::Caller);
    assert_eq!(world.opened(), 1, "only the pinhole of the first offer");
    let mut world = World::new();
    world.caller.invite(&outside);
    let invite = world.callee.expect("INVITE");
    world.callee.answer(&invite, "200 OK", &inside(2200));
    world.caller.expect("488");
    world.caller.request("ACK", "");
    world.callee.expect_bye();
    world.assert_over();
    assert_eq!(world.opened(), 0);
    let mut world = World::new();
    world.callee.invite("");
    let invite = world.caller.expect("INVITE");
    world.caller.answer(&invite, "200 OK", &outside);
    let offer = world.callee.expect("200");
    world.callee.confirm_with(&offer, &inside(2200));
    world.expect_bye_at_both();
    assert_eq!(world.opened(), 0);
    // A host that is neither of the servers is outside, too.
    let mut world = World::new();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    flood("INVITE", &stranger, &world, 0..1);
    world.caller.expect("INVITE");
    assert!(
        !world.callee.receives("INVITE", SOON),
        "no relay to outside"
    );
}

/// RFC 3261, section 8.2.2.2
#[test]
fn merged_invites_are_refused() {
    let mut world = World::new();
    let invite = world.invited();
    world.caller.repeat_with_other_branch();
    world.caller.expect("482");
    assert!(!world.callee.receives("INVITE", SOON));
    assert_eq!(world.counts().calls, 1);
    world.answered(&invite);
    let answer = world.caller.expect("200");
    world.caller.confirm(&answer);
    world.callee.expect("ACK");
    world.hang_up(Side::Caller);
}

/// RFC 3261, section 8.2.1
#[test]
fn unsupported_methods_are_refused() {
    let mut world = World::new();
    for (method, status) in [
        ("MESSAGE", "405"),
        ("REGISTER", "405"),
        ("SUBSCRIBE", "405"),
        ("PUBLISH", "405"),
        ("INFO", "481"),
        ("UPDATE", "481"),
        ("BYE", "481"),
        ("OPTIONS", "200"),
    ] {
        world.caller.begin(method, "");
        let answer = world.caller.expect(status);
        let allowed = ["405", "200"].contains(&status);
        let reported = answer.0.contains("\r\nAllow: INVITE, ACK,");
        assert_eq!(reported, allowed, "{answer:?}");
        world.caller.fresh();
    }
    assert_eq!(world.counts().offered, 0);
}

/// RFC 3311, section 5.2
#[test]
fn requests_before_the_answer_are_refused() {
    let mut world = World::new();
    let invite = world.invited();
    world.callee.answer(&invite, "180 Ringing", "");
    let ringing = world.caller.expect("180");
    world.caller.join(&ringing);
    for method in ["UPDATE", "INVITE", "INFO"] {
        world.caller.request(method, &audio("10.0.0.1", 4400));
        let refused = world.caller.expect("500");
        assert_eq!(refused.header("Retry-After"), "2");
        if method == "INVITE" {
            world.caller.request("ACK", "");
        }
    }
    // BYE is not too early (RFC 3261, section 15).
    world.caller.request("BYE", "");
    world.caller.expect("200");
    world.caller.expect("487");
    let cancel = world.callee.expect("CANCEL");
    world.callee.answer(&cancel, "200 OK", "");
    world.callee.answer(&invite, "487 Request Terminated", "");
    world.assert_over();
}

#[test]
fn retransmitted_invite_is_the_same_call() {
    let mut world = World::new();
    let invite = world.invited();
    world.caller.repeat();
    world.caller.repeat();
    assert!(!world.callee.receives("INVITE", SOON));
    assert_eq!(world.counts().offered, 1);
    world.callee.answer(&invite, "486 Busy Here", "");
    world.caller.expect("486");
}

#[test]
fn latest_early_branch_has_the_pinholes() {
    let mut world = World::new();
    let invite = world.invited();
    for (tag, port) in [("one", 7000), ("two", 7100), ("three", 7200)] {
        world.callee.branch = Some(tag.to_owned());
        let body = audio("192.0.2.7", port);
        world.callee.answer(&invite, "183 Session Progress", &body);
        let early = world.caller.expect_again("183");
        assert_eq!(early.body(), body);
        world.until(tag, |world| {
            world.open() == [format!("10.0.0.1:4000 192.0.2.7:{port} 2")]
        });
    }
    world.answered(&invite);
    let answer = world.caller.expect("200");
    world.caller.confirm(&answer);
    world.until("only the pinhole of the answer is open", |world| {
        world.open() == ["10.0.0.1:4000 192.0.2.1:6000 2"]
    });
    // A second branch that answers is ended (RFC 3261, section 13.2.2.4).
    world.callee.expect("ACK");
    world.callee.branch = Some("two".to_owned());
    world
        .callee
        .answer(&invite, "200 OK", &audio("192.0.2.7", 7100));
    let bye = world.callee.expect("BYE");
    assert!(bye.header("To").contains("tag=two"), "{bye:?}");
    world.callee.answer(&bye, "200 OK", "");
    assert_eq!(world.counts().calls, 1);
}

#[test]
fn challenge_and_credentials_are_forwarded() {
    let mut world = World::new();
    let offer = audio("10.0.0.1", 4000);
    world.caller.invite(&offer);
    let invite = world.callee.expect("INVITE");
    let challenge = "Digest realm=\"there\", nonce=\"7\"";
    world.callee.more = vec![format!("WWW-Authenticate: {challenge}")];
    world.callee.answer(&invite, "401 Unauthorized", "");
    let challenged = world.caller.expect("401");
    assert_eq!(challenged.header("WWW-Authenticate"), challenge);
    world.caller.request("ACK", "");
    let credentials = "Digest username=\"anna\", realm=\"there\", nonce=\"7\", uri=\"sip:bert@there\", response=\"0\"";
    world.caller.more = vec![format!("Authorization: {credentials}")];
    world.caller.request("INVITE", &offer);
    let invite = world.callee.expect("INVITE");
    assert_eq!(invite.header("Authorization"), credentials);
    world.answered(&invite);
    let answer = world.caller.expect("200");
    world.caller.confirm(&answer);
    world.until("established", |world| world.counts().established == 1);
}

#[test]
fn malformed_datagrams_are_ignored() {
    let mut world = World::new();
    let to = world.caller.b2bua;
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let start = format!("INVITE sip:bert@{to} SIP/2.0\r\n");
    for octets in [
        b"".to_vec(),
        vec![0; 4000],
        vec![0xff; 4000],
        b"\r\n\r\n".to_vec(),
        start.clone().into_bytes(),
        format!("{start}Via: ;;;\r\nFrom: \r\nTo: <\r\nCall-ID: \r\nCSeq: x\r\n\r\n").into_bytes(),
        format!("{start}Via: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:c@d>\r\nCall-ID: 1\r\nCSeq: 99999999999 INVITE\r\nContent-Length: 4294967295\r\n\r\nv=0\r\n").into_bytes(),
        format!("{start}{}\r\n", "X: y\r\n".repeat(1000)).into_bytes(),
        start.replace("INVITE", "DANCE").into_bytes(),
        b"SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:c@d>;tag=2\r\nCall-ID: 1\r\nCSeq: 1 INVITE\r\n\r\n".to_vec(),
    ] {
        stranger.send_to(&octets, to).unwrap();
    }
    // Without a Contact, requests have no target (RFC 3261, section 8.1.1.8).
    let from = world.caller.address;
    world.caller.send(format!("{start}Via: SIP/2.0/UDP {from};branch=z9hG4bK2\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:c@d>\r\nCall-ID: 2\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n").as_bytes());
    world.caller.expect("400");
    world.established();
    assert_eq!(world.open().len(), 1);
}

#[test]
fn calls_over_ipv6_get_pinholes() {
    let mut world = World::on("::1", |config| {
        config.internal.push("fd00::/16".parse().unwrap());
    });
    let six = |address: &str, port: u16| audio(address, port).replace("IP4", "IP6");
    world.caller.invite(&six("fd00::1", 4000));
    let invite = world.callee.expect("INVITE");
    world
        .callee
        .answer(&invite, "200 OK", &six("2001:db8::1", 6000));
    let answer = world.caller.expect("200");
    world.caller.confirm(&answer);
    assert_eq!(world.open(), ["[fd00::1]:4000 [2001:db8::1]:6000 2"]);
    world.hang_up(Side::Callee);
}
