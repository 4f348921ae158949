//! Transitions at the ASP: the states as it knows them by acknowledgements, T(ack), and the return to the wanted state.

use std::time::Duration;

use carrick_sigtran::SctpNotification;
use carrick_sigtran::aspm::{AsIds, AspState, Maintenance};
use carrick_sigtran::message::{AspDown, AspUp, ErrorCode, Heartbeat, Status, TrafficMode};

use super::{RESTARTED, TestAsp, Tested, UP, for_every_layer};

/// Event at the ASP.
#[derive(Clone, Copy, Debug)]
enum Event {
    Associated,
    Lost,
    Restart,
    RequestUp,
    RequestDown,
    RequestActive,
    RequestInactive,
    UpAck,
    DownAck,
    ActiveAck,
    InactiveAck,
    Alternate,
    Blocked,
    Expiry,
    Beat,
}

use AspState as S;
use Event::{
    ActiveAck, Alternate, Associated, Beat, Blocked, DownAck, Expiry, InactiveAck, Lost,
    RequestActive, RequestDown, RequestInactive, RequestUp, Restart, UpAck,
};

/// Transition: index of its section, the events before, the event, the state behind it, and the messages to the gateway.
type Row = (
    usize,
    &'static [Event],
    Event,
    AspState,
    &'static [&'static str],
);

const GOING_UP: &[Event] = &[Associated, RequestUp];
const INACTIVE: &[Event] = &[Associated, RequestUp, UpAck];
const ACTIVATING: &[Event] = &[Associated, RequestUp, UpAck, RequestActive];
const ACTIVE: &[Event] = &[Associated, RequestUp, UpAck, RequestActive, ActiveAck];
const OVERRIDDEN: &[Event] = &[
    Associated,
    RequestUp,
    UpAck,
    RequestActive,
    ActiveAck,
    Alternate,
];
const LEAVING: &[Event] = &[
    Associated,
    RequestUp,
    UpAck,
    RequestActive,
    ActiveAck,
    RequestInactive,
];
const GOING_DOWN: &[Event] = &[Associated, RequestUp, UpAck, RequestDown];

#[rustfmt::skip]
const ROWS: &[Row] = &[
    (2, &[Associated], RequestUp, S::Down, &["ASPUP"]),
    (2, GOING_UP, UpAck, S::Inactive, &[]),
    (2, GOING_UP, Expiry, S::Down, &["ASPUP"]),
    (2, GOING_UP, Blocked, S::Down, &[]),
    (3, INACTIVE, RequestDown, S::Inactive, &["ASPDN"]),
    (3, GOING_DOWN, DownAck, S::Down, &[]),
    (3, GOING_DOWN, Expiry, S::Inactive, &["ASPDN"]),
    (3, INACTIVE, DownAck, S::Down, &["ASPUP"]),
    (3, ACTIVE, DownAck, S::Down, &["ASPUP"]),
    (4, INACTIVE, RequestActive, S::Inactive, &["ASPAC"]),
    (4, ACTIVATING, ActiveAck, S::Active, &[]),
    (4, ACTIVATING, Expiry, S::Inactive, &["ASPAC"]),
    (4, ACTIVE, Alternate, S::Inactive, &[]),
    (4, OVERRIDDEN, RequestActive, S::Inactive, &["ASPAC"]),
    (5, ACTIVE, RequestInactive, S::Active, &["ASPIA"]),
    (5, LEAVING, InactiveAck, S::Inactive, &[]),
    (5, LEAVING, Expiry, S::Active, &["ASPIA"]),
    (5, ACTIVE, InactiveAck, S::Inactive, &["ASPAC"]),
    (0, ACTIVE, Lost, S::Down, &[]),
    (0, ACTIVE, Restart, S::Down, &["ASPUP"]),
    (0, INACTIVE, ActiveAck, S::Active, &["ASPIA"]),
    (0, ACTIVE, UpAck, S::Inactive, &["ERR Unexpected Message", "ASPAC"]),
    (7, ACTIVE, Beat, S::Active, &["BEAT ACK"]),
];

fn apply<L: Tested>(test: &mut TestAsp<L>, event: Event) {
    let now = test.now;
    let ids = AsIds::new([L::id(1)]);
    let over = Some(TrafficMode::OVERRIDE);
    match event {
        Event::Associated => test.asp.handle_sctp(now, UP),
        Event::Lost => test.asp.handle_sctp(now, SctpNotification::Down),
        Event::Restart => test.asp.handle_sctp(now, RESTARTED),
        Event::RequestUp => test.asp.asp_up(now).expect("possible"),
        Event::RequestDown => test.asp.asp_down(now).expect("possible"),
        Event::RequestActive => test.asp.asp_active(now, &[]).expect("possible"),
        Event::RequestInactive => test.asp.asp_inactive(now, &[]).expect("possible"),
        Event::UpAck => test.receive(Maintenance::AspUpAck(AspUp::default())),
        Event::DownAck => test.receive(Maintenance::AspDownAck(AspDown::default())),
        Event::ActiveAck => test.receive(Maintenance::AspActiveAck(over, ids)),
        Event::InactiveAck => test.receive(Maintenance::AspInactiveAck(ids)),
        Event::Alternate => {
            let notify = L::notify(Status::AlternateAspActive, None, ids);
            test.receive(Maintenance::Notify(notify));
        }
        Event::Blocked => {
            let error = L::error(ErrorCode::MANAGEMENT_BLOCKING, None, &[]);
            test.receive(Maintenance::Error(error));
        }
        Event::Expiry => {
            test.now += Duration::from_secs(2);
            assert_eq!(test.asp.poll_timeout(), Some(test.now));
            test.asp.handle_timeout(test.now);
        }
        Event::Beat => test.receive(Maintenance::Heartbeat(Heartbeat::default())),
    }
}

fn transitions<L: Tested>() {
    for (section, before, event, state, messages) in ROWS {
        let mut test = TestAsp::<L>::new();
        for event in *before {
            apply(&mut test, *event);
        }
        test.sent();
        apply(&mut test, *event);
        let section = L::SECTIONS[*section];
        let row = format!("{}, section {section}: {event:?} after {before:?}", L::RFC);
        assert_eq!(test.sent(), *messages, "{row}");
        assert_eq!(test.asp.state(Some(L::id(1))), Some(*state), "{row}");
    }
}

/// RFC 4666, section 4.3.4.1: a request fails after its last transmission, and no timer is left
fn unanswered_requests<L: Tested>() {
    for before in [GOING_UP, ACTIVATING] {
        let mut test = TestAsp::<L>::new();
        for event in before {
            apply(&mut test, *event);
        }
        assert_eq!(test.sent().len(), before.len().div_ceil(3));
        let mut sent = 0;
        while let Some(at) = test.asp.poll_timeout() {
            test.now = at;
            test.asp.handle_timeout(at);
            sent += test.sent().len();
        }
        assert_eq!(sent, 4, "the first transmission was before");
    }
}

/// RFC 4666, sections 4.3.1, 4.3.4.1, 4.3.4.2, 4.3.4.3, 4.3.4.4 and 4.3.4.6
#[test]
fn m3ua_asp_has_every_transition() {
    transitions::<carrick_sigtran::m3ua::M3ua>();
}

/// RFC 3868, sections 4.3.1, 4.3.4.1, 4.3.4.2, 4.3.4.3, 4.3.4.4 and 4.3.4.6
#[test]
fn sua_asp_has_every_transition() {
    transitions::<carrick_sigtran::sua::Sua>();
}

/// RFC 3331, sections 4.3.1, 4.3.4.1, 4.3.4.2, 4.3.4.3, 4.3.4.4 and 4.3.4.6
#[test]
fn m2ua_asp_has_every_transition() {
    transitions::<carrick_sigtran::m2ua::M2ua>();
}

/// RFC 4233, sections 4.3.1.1, 4.3.3.1, 4.3.3.2, 4.3.3.4, 4.3.3.5 and 4.3.3.7
#[test]
fn iua_asp_has_every_transition() {
    transitions::<carrick_sigtran::iua::Iua>();
}

for_every_layer! {
    unanswered_requests
}
