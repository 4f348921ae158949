//! How calls end.

use std::time::Duration;

use carrick_calls::CallEnd;

use crate::peer::{World, audio};

#[test]
fn bye_of_either_side_closes_the_pinholes_and_ends_the_other() {
    for caller_ends in [true, false] {
        let mut world = World::new();
        world.established();
        assert_eq!(world.open().len(), 1);
        let (one, other) = if caller_ends {
            (&mut world.caller, &mut world.callee)
        } else {
            (&mut world.callee, &mut world.caller)
        };
        one.request("BYE", "");
        one.expect("200");
        let bye = other.expect("BYE");
        other.answer(&bye, "200 OK", "");
        world.assert_over();
    }
}

#[test]
fn the_pinholes_are_closed_also_when_the_other_side_does_not_answer_bye() {
    let mut world = World::new();
    world.established();
    world.callee.silent();
    world.caller.request("BYE", "");
    world.caller.expect("200");
    world.until("closed", |world| world.open().is_empty());
}

#[test]
fn a_call_whose_pinhole_is_lost_is_ended_on_both_sides_and_the_rest_closed() {
    let mut world = World::new();
    let video = |address, port: u16| {
        format!(
            "{}m=video {} RTP/AVP 96\r\n",
            audio(address, port),
            port + 2
        )
    };
    world.caller.invite(&video("10.0.0.1", 4000));
    let invite = world.callee.expect("INVITE");
    world
        .callee
        .answer(&invite, "200 OK", &video("192.0.2.1", 6000));
    let answer = world.caller.expect("200");
    world.caller.confirm(&answer);
    world.until("established", |world| world.counts().established == 1);
    assert_eq!(world.open().len(), 2);
    world.lose_one();
    for peer in [&mut world.caller, &mut world.callee] {
        let bye = peer.expect("BYE");
        assert!(bye.header("Reason").contains("cause=503"), "{bye:?}");
        peer.answer(&bye, "200 OK", "");
    }
    world.assert_over();
    assert_eq!(world.counts().lost, 1);
}

#[test]
fn a_pinhole_that_is_lost_before_the_answer_ends_the_call_when_it_is_there() {
    let mut world = World::new();
    world.caller.invite(&audio("10.0.0.1", 4000));
    let invite = world.callee.expect("INVITE");
    let body = audio("192.0.2.1", 6000);
    world.callee.answer(&invite, "183 Session Progress", &body);
    world.caller.expect("183");
    world.lose_one();
    world.callee.answer(&invite, "200 OK", &body);
    let answer = world.caller.expect("200");
    world.caller.confirm(&answer);
    for peer in [&mut world.caller, &mut world.callee] {
        let bye = peer.expect("BYE");
        peer.answer(&bye, "200 OK", "");
    }
    world.assert_over();
}

#[test]
fn a_side_that_vanished_is_noticed_and_the_other_ended() {
    for caller_vanishes in [true, false] {
        let mut world = World::with(|config| config.probe = Duration::from_secs(1));
        world.established();
        let (gone, left) = if caller_vanishes {
            (&mut world.caller, &mut world.callee)
        } else {
            (&mut world.callee, &mut world.caller)
        };
        gone.silent();
        let asked = left.expect("OPTIONS");
        left.answer(&asked, "200 OK", "");
        let bye = left.expect("BYE");
        left.answer(&bye, "200 OK", "");
        world.until("closed", |world| world.open().is_empty());
    }
}

#[test]
fn a_side_that_has_no_such_call_any_more_is_noticed() {
    let mut world = World::with(|config| config.probe = Duration::from_millis(500));
    world.established();
    let asked = world.callee.expect("OPTIONS");
    world
        .callee
        .answer(&asked, "481 Call/Transaction Does Not Exist", "");
    let bye = world.caller.expect("BYE");
    world.caller.answer(&bye, "200 OK", "");
    world.until("closed", |world| world.open().is_empty());
}

#[test]
fn a_call_whose_sides_answer_goes_on() {
    let mut world = World::with(|config| config.probe = Duration::from_millis(300));
    world.established();
    for _ in 0..4 {
        for peer in [&mut world.caller, &mut world.callee] {
            let asked = peer.expect("OPTIONS");
            peer.answer(&asked, "200 OK", "");
        }
    }
    assert_eq!((world.open().len(), world.counts().calls), (1, 1));
}

#[test]
fn stopping_ends_all_calls_and_closes_everything() {
    let mut world = World::new();
    world.established();
    let answering = std::thread::scope(|scope| {
        let (caller, callee) = (&mut world.caller, &mut world.callee);
        let peers = [caller, callee].map(|peer| {
            scope.spawn(move || {
                let bye = peer.expect("BYE");
                peer.answer(&bye, "200 OK", "");
            })
        });
        let b2bua = world.b2bua.take().unwrap();
        world.runtime.block_on(b2bua.stop(Duration::from_secs(5)));
        peers.map(|peer| peer.join().is_ok())
    });
    assert_eq!(answering, [true; 2]);
    assert_eq!(world.open(), [""; 0]);
}

#[test]
fn each_call_that_is_over_is_told_of() {
    let mut world = World::new();
    let mut records = world.b2bua.as_ref().unwrap().records();
    world.established();
    world.caller.request("BYE", "");
    world.caller.expect("200");
    let bye = world.callee.expect("BYE");
    world.callee.answer(&bye, "200 OK", "");
    world.assert_over();
    world.caller.fresh();
    world.caller.invite(&audio("host.example.net", 4000));
    world.caller.expect("488");
    for end in [CallEnd::HungUp, CallEnd::NotEstablished] {
        let record = world.runtime.block_on(records.next()).unwrap();
        assert_eq!(record.end, end);
        assert!(record.call_id.starts_with("call-"), "{record:?}");
        assert_eq!(record.caller, format!("sip:anna@{}", world.caller.address));
        assert!(record.callee.starts_with("sip:bert@"), "{record:?}");
    }
}

#[test]
fn a_request_of_no_call_is_answered_so() {
    let mut world = World::new();
    world.established();
    world.caller.forget();
    world.caller.request("BYE", "");
    world.caller.expect("481");
    assert_eq!(world.counts().calls, 1);
    world.caller.request("INVITE", &audio("10.0.0.1", 4000));
    world.caller.expect("481");
}
