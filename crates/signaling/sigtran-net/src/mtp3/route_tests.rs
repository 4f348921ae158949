//! Route management and restart between two signalling points in virtual time.

use std::time::Duration;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::m2pa::{self, Body, SequenceNumber};
use carrick_sigtran::m3ua::route::Availability::{self, Available, Restricted, Unavailable};
use carrick_sigtran::m3ua::{PointCode, ProtocolData};

use super::label::LabelFormat;
use super::route_message::RouteMessage;
use super::{AdjacentPoint, AdjacentRoutes};

#[path = "../../../sigtran/tests/support/capture.rs"]
mod capture;

fn code(code: u32) -> PointCode {
    PointCode::new(code).unwrap()
}

const FAR: u32 = 0x1234;

/// Both ends, each with its own availability of the destination, over links without delay.
struct Pair {
    ends: [AdjacentRoutes; 2],
    own: [Availability; 2],
    now: Time,
    /// Messages with their senders.
    log: Vec<(usize, RouteMessage)>,
}

impl Pair {
    fn new() -> Self {
        let end = |own, adjacent| {
            AdjacentRoutes::new(AdjacentPoint {
                format: LabelFormat::new(14),
                own: code(own),
                adjacent: code(adjacent),
                network_indicator: 2,
            })
        };
        Self {
            ends: [end(1, 2), end(2, 1)],
            own: [Available; 2],
            now: Time::ZERO,
            log: Vec::new(),
        }
    }

    /// Pair after the restart of both ends.
    fn ready() -> Self {
        let mut pair = Self::new();
        pair.set_available(true);
        pair.log.clear();
        pair
    }

    fn set_available(&mut self, is_available: bool) {
        for end in 0..2 {
            if self.ends[end].set_available(self.now, is_available) {
                self.ends[end].announce(self.now, code(FAR), self.own[end]);
                self.ends[end].allow_restart();
            }
        }
        self.exchange();
    }

    fn exchange(&mut self) {
        for end in [0, 1, 0, 1] {
            while let Some(data) = self.ends[end].poll_transmit() {
                let peer = &mut self.ends[1 - end];
                let message = peer.parse(&data).expect("a message about routes");
                self.log.push((end, message));
                peer.handle_message(self.now, message, self.own[1 - end]);
            }
        }
    }

    fn set(&mut self, end: usize, availability: Availability) {
        self.own[end] = availability;
        self.ends[end].announce(self.now, code(FAR), availability);
        self.exchange();
    }

    fn run(&mut self, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        loop {
            let timeouts = self.ends.iter().filter_map(AdjacentRoutes::poll_timeout);
            let Some(at) = timeouts.min().filter(|at| *at <= end) else {
                break;
            };
            self.now = at;
            for end in &mut self.ends {
                end.handle_timeout(at);
            }
            self.exchange();
        }
        self.now = end;
    }

    /// Availability of the destination over the other end.
    fn over_peer(&self, end: usize) -> Availability {
        self.ends[end].availability(code(FAR))
    }
}

fn transfer(availability: Availability) -> RouteMessage {
    RouteMessage::Transfer(code(FAR), availability)
}

/// Heading codes, and the destination behind them.
#[test]
fn messages_have_the_octets_of_their_format() {
    let messages = [
        (transfer(Unavailable), 0x14),
        (transfer(Restricted), 0x34),
        (transfer(Available), 0x54),
        (RouteMessage::Test(code(FAR), Unavailable), 0x15),
        (RouteMessage::Test(code(FAR), Restricted), 0x25),
    ];
    for (bits, destination) in [
        (14, &[0x34, 0x12][..]),
        (16, &[0x34, 0x12]),
        (24, &[0x34, 0x12, 0]),
    ] {
        let format = LabelFormat::new(bits);
        let ends = [code(1), code(2)];
        for (message, heading) in messages {
            let data = format.route_message(ends, 2, message);
            assert_eq!(data.user_data, [&[heading], destination].concat());
            assert_eq!((data.si, data.ni, data.sls), (0, 2, 0));
            assert_eq!(format.parse_route_message(&data), Some(message));
            let with = |user_data| ProtocolData {
                user_data,
                ..data.clone()
            };
            let short = with(data.user_data.slice(..destination.len()));
            assert_eq!(format.parse_route_message(&short), None);
            let user = ProtocolData {
                si: 3,
                ..data.clone()
            };
            assert_eq!(format.parse_route_message(&user), None);
        }
        let data = format.route_message(ends, 2, RouteMessage::RestartAllowed);
        assert_eq!(data.user_data, Bytes::from_static(&[0x17]));
        let read = format.parse_route_message(&data);
        assert_eq!(read, Some(RouteMessage::RestartAllowed));
    }
    // Spare bits of 14-bit point codes are ignored.
    let format = LabelFormat::new(14);
    let mut data = format.route_message([code(1), code(2)], 2, transfer(Available));
    data.user_data = Bytes::from_static(&[0x54, 0x34, 0xd2]);
    assert_eq!(format.parse_route_message(&data), Some(transfer(Available)));
}

/// Returns the fields that tshark finds in messages with point codes of this number of bits.
fn dissected(
    bits: u8,
    preferences: &'static [&'static str],
    messages: &[RouteMessage],
    fields: &[&str],
) -> Vec<String> {
    let format = LabelFormat::new(bits);
    let octets = messages.iter().map(|message| {
        let data = format.route_message([code(1), code(2)], 2, *message);
        let message = m2pa::Message {
            bsn: SequenceNumber::MAX,
            fsn: SequenceNumber::MAX,
            body: Body::UserData(Some(format.encode(&data))),
        };
        message.encode().expect("a message that fits")
    });
    let name = format!("carrick-route-management-{bits}");
    let folder = std::env::temp_dir();
    let folder = folder.to_str().expect("a path in UTF-8");
    let capture = capture::Capture::new([folder, &name], 3565, 5, octets, preferences);
    assert_eq!(capture.complaints(), Vec::<String>::new());
    capture.fields("mtp3mg", fields)
}

#[test]
#[ignore = "needs tshark (interop/install.sh)"]
fn tshark_accepts_every_route_message() {
    let mut messages: Vec<_> = [Unavailable, Restricted, Available].map(transfer).into();
    messages.extend([Unavailable, Restricted].map(|tested| RouteMessage::Test(code(FAR), tested)));
    messages.push(RouteMessage::RestartAllowed);
    let headings = [[4, 1], [4, 3], [4, 5], [5, 1], [5, 2], [7, 1]];
    for (bits, preferences, field, value) in [
        (14, &["mtp3.standard:ITU"][..], "mtp3mg.apc", "4660"),
        (
            24,
            &["mtp3.standard:ANSI"],
            "mtp3mg.ansi_apc",
            "0-18-52,4660,0x1234",
        ),
    ] {
        let fields = ["mtp3mg.h0", "mtp3mg.h1", field];
        let found = dissected(bits, preferences, &messages, &fields);
        let expected = headings.map(|[h0, h1]| {
            let destination = if h0 == 7 { "" } else { value };
            format!("{h0:#04x}\t{h1:#04x}\t{destination}")
        });
        assert_eq!(found, expected, "{bits} bits");
    }
}

/// Q.704, section 9: reports, then TRA; routes wait for that of the other end.
#[test]
fn restart_reports_before_it_allows_traffic() {
    let mut pair = Pair::new();
    pair.own = [Unavailable, Restricted];
    assert_eq!(pair.over_peer(0), Unavailable);
    pair.set_available(true);
    assert_eq!(
        pair.log,
        [
            (0, transfer(Unavailable)),
            (0, RouteMessage::RestartAllowed),
            (1, transfer(Restricted)),
            (1, RouteMessage::RestartAllowed),
        ]
    );
    assert_eq!(
        (pair.over_peer(0), pair.over_peer(1)),
        (Restricted, Unavailable)
    );
    // What was reported ends with the link set.
    pair.set_available(false);
    assert_eq!(
        (pair.over_peer(0), pair.over_peer(1)),
        (Unavailable, Unavailable)
    );
    pair.own = [Available; 2];
    pair.set_available(true);
    assert_eq!(
        (pair.over_peer(0), pair.over_peer(1)),
        (Available, Available)
    );
}

/// Q.704, section 9: T21 ends the wait for a TRA.
#[test]
fn restart_without_tra_ends_with_t21() {
    let mut pair = Pair::new();
    let end = &mut pair.ends[0];
    assert!(end.set_available(pair.now, true));
    assert!(!end.set_available(pair.now, true), "it was before");
    assert_eq!(end.availability(code(2)), Available, "the adjacent one");
    assert_eq!(end.availability(code(FAR)), Unavailable);
    assert_eq!(end.poll_timeout(), Some(pair.now + Duration::from_secs(63)));
    pair.run(63);
    assert_eq!(pair.over_peer(0), Available);
    assert_eq!(pair.ends[0].poll_timeout(), None);
}

/// Q.704, sections 13.2 to 13.4: TFP, TFR and TFA
#[test]
fn changes_of_destinations_are_reported_once() {
    let mut pair = Pair::ready();
    for availability in [Unavailable, Restricted, Available] {
        pair.set(0, availability);
        assert_eq!(pair.over_peer(1), availability);
        assert_eq!(pair.over_peer(0), Available, "the other direction");
        pair.set(0, availability);
    }
    let expected = [Unavailable, Restricted, Available].map(|a| (0, transfer(a)));
    assert_eq!(pair.log, expected);
    // The adjacent signalling point itself is not reported to it.
    pair.ends[0].announce(pair.now, code(2), Unavailable);
    assert_eq!(pair.ends[0].poll_transmit(), None);
}

/// Q.704, section 13.5: a test finds a TFA that was lost.
#[test]
fn tests_find_lost_reports() {
    let mut pair = Pair::ready();
    pair.set(0, Unavailable);
    pair.log.clear();
    // While nothing changes, tests have no answer.
    pair.run(60);
    let test = RouteMessage::Test(code(FAR), Unavailable);
    assert_eq!(pair.log, [(1, test), (1, test)]);
    pair.log.clear();
    pair.own[0] = Restricted;
    pair.run(30);
    assert_eq!(pair.log, [(1, test), (0, transfer(Restricted))]);
    pair.log.clear();
    pair.own[0] = Available;
    pair.run(60);
    let test = RouteMessage::Test(code(FAR), Restricted);
    assert_eq!(pair.log, [(1, test), (0, transfer(Available))]);
    assert_eq!(pair.over_peer(1), Available);
}

/// Q.704, section 13.2.2: a TFP answers messages for a destination that can't be reached, once in T8.
#[test]
fn messages_for_prohibited_ones_are_answered() {
    let mut pair = Pair::ready();
    for _ in 0..3 {
        pair.ends[0].refuse(pair.now, code(FAR));
        pair.exchange();
    }
    assert_eq!(pair.log, [(0, transfer(Unavailable))]);
    pair.run(1);
    pair.ends[0].refuse(pair.now, code(FAR));
    pair.exchange();
    assert_eq!(pair.log.len(), 2);
    assert_eq!(pair.ends[0].announced().collect::<Vec<_>>(), [code(FAR)]);
}

#[test]
fn reported_destinations_are_bounded() {
    let mut pair = Pair::ready();
    for number in 0..20_000 {
        let message = RouteMessage::Transfer(code(number), Unavailable);
        pair.ends[0].handle_message(pair.now, message, Available);
        pair.ends[0].announce(pair.now, code(number), Unavailable);
    }
    let sent = std::iter::from_fn(|| pair.ends[0].poll_transmit()).count();
    assert_eq!(sent, 16_384);
    assert_eq!(pair.ends[0].announced().count(), 16_384);
    assert_eq!(pair.ends[0].availability(code(16_000)), Unavailable);
    assert_eq!(pair.ends[0].availability(code(19_999)), Available);
}
