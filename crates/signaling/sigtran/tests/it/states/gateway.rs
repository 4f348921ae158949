//! Transitions at the gateway: both figures of each RFC, with the messages that the text demands.

use carrick_sigtran::SctpNotification;
use carrick_sigtran::aspm::sgp::{AsState, GatewayConfig};
use carrick_sigtran::aspm::{AspState, Maintenance};
use carrick_sigtran::message::{AspDown, AspUp, Heartbeat, TrafficMode};

use super::{RESTARTED, T_R, TestGateway, Tested, UP, active, for_every_layer};

/// Event at the gateway; messages are those of the first ASP.
#[derive(Clone, Copy, Debug)]
enum Event {
    Up,
    AspUp,
    AspDown,
    AspActive,
    AspInactive,
    Lost,
    Restart,
    /// The second ASP comes up.
    OtherUp,
    /// The second ASP becomes active.
    OtherActive,
    OtherInactive,
    RecoveryExpires,
    Blocked,
    Beat,
    Traffic,
}

use AsState as As;
use AspState as S;
use Event::{
    AspActive, AspDown as Down, AspInactive, AspUp as AspUpEvent, Beat, Blocked, Lost, OtherActive,
    OtherInactive, OtherUp, RecoveryExpires, Restart, Traffic, Up,
};

/// Transition: index of its section, the events before, the event, both states behind it, and the messages to the first ASP.
type Row = (
    usize,
    &'static [Event],
    Event,
    AspState,
    AsState,
    &'static [&'static str],
);

const INACTIVE: &[Event] = &[Up, AspUpEvent];
const ACTIVE: &[Event] = &[Up, AspUpEvent, AspActive];
const PENDING: &[Event] = &[Up, AspUpEvent, AspActive, AspInactive];
const LEFT: &[Event] = &[Up, AspUpEvent, AspActive, Down];
const BOTH_INACTIVE: &[Event] = &[Up, AspUpEvent, OtherUp];
const FIRST_ACTIVE: &[Event] = &[Up, AspUpEvent, OtherUp, AspActive];
const OVERRIDDEN: &[Event] = &[Up, AspUpEvent, OtherUp, AspActive, OtherActive];

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // ASP states.
    (2, &[Up], AspUpEvent, S::Inactive, As::Inactive, &["ASPUP ACK", "NTFY AsInactive"]),
    (2, INACTIVE, AspUpEvent, S::Inactive, As::Inactive, &["ASPUP ACK"]),
    (2, ACTIVE, AspUpEvent, S::Inactive, As::Pending, &["ASPUP ACK", "ERR Unexpected Message", "NTFY AsPending"]),
    (2, &[Up, Blocked], AspUpEvent, S::Down, As::Down, &["ERR Refused - Management Blocking"]),
    (3, &[Up], Down, S::Down, As::Down, &["ASPDN ACK"]),
    (3, INACTIVE, Down, S::Down, As::Down, &["ASPDN ACK"]),
    (3, ACTIVE, Down, S::Down, As::Pending, &["ASPDN ACK"]),
    (4, &[Up], AspActive, S::Down, As::Down, &["ERR Unexpected Message"]),
    (4, INACTIVE, AspActive, S::Active, As::Active, &["ASPAC ACK", "NTFY AsActive"]),
    (4, ACTIVE, AspActive, S::Active, As::Active, &["ASPAC ACK"]),
    (4, FIRST_ACTIVE, OtherActive, S::Inactive, As::Active, &["NTFY AlternateAspActive"]),
    (4, OVERRIDDEN, AspActive, S::Active, As::Active, &["ASPAC ACK"]),
    (5, ACTIVE, AspInactive, S::Inactive, As::Pending, &["ASPIA ACK", "NTFY AsPending"]),
    (5, INACTIVE, AspInactive, S::Inactive, As::Inactive, &["ASPIA ACK"]),
    (5, OVERRIDDEN, AspInactive, S::Inactive, As::Active, &["ASPIA ACK"]),
    (5, &[Up], AspInactive, S::Down, As::Down, &["ERR Unexpected Message"]),
    (0, INACTIVE, Lost, S::Down, As::Down, &[]),
    (0, ACTIVE, Lost, S::Down, As::Pending, &[]),
    (0, INACTIVE, Restart, S::Down, As::Down, &[]),
    (0, ACTIVE, Restart, S::Down, As::Pending, &[]),
    (0, ACTIVE, Blocked, S::Down, As::Pending, &["ASPDN ACK"]),
    (0, &[Up], Traffic, S::Down, As::Down, &[]),
    (0, INACTIVE, Traffic, S::Inactive, As::Inactive, &[]),
    // AS states.
    (1, PENDING, AspActive, S::Active, As::Active, &["ASPAC ACK", "NTFY AsActive"]),
    (1, PENDING, RecoveryExpires, S::Inactive, As::Inactive, &["NTFY AsInactive"]),
    (1, LEFT, RecoveryExpires, S::Down, As::Down, &[]),
    (1, LEFT, AspUpEvent, S::Inactive, As::Pending, &["ASPUP ACK", "NTFY AsPending"]),
    (1, PENDING, Down, S::Down, As::Pending, &["ASPDN ACK"]),
    (1, BOTH_INACTIVE, Down, S::Down, As::Inactive, &["ASPDN ACK"]),
    (6, BOTH_INACTIVE, OtherActive, S::Inactive, As::Active, &["NTFY AsActive"]),
    (6, OVERRIDDEN, OtherInactive, S::Inactive, As::Pending, &["NTFY AsPending"]),
    (7, &[Up], Beat, S::Down, As::Down, &["BEAT ACK"]),
    (7, ACTIVE, Beat, S::Active, As::Active, &["BEAT ACK"]),
];

fn apply<L: Tested>(test: &mut TestGateway<L>, event: Event) {
    let (now, first) = (test.now, test.asps[0]);
    let id = [L::id(1)];
    let inactive = || L::write(Maintenance::AspInactive(None));
    let over = Some(TrafficMode::OVERRIDE);
    match event {
        Event::Up => test.gateway.handle_sctp(now, first, UP),
        Event::Lost => test.gateway.handle_sctp(now, first, SctpNotification::Down),
        Event::Restart => test.gateway.handle_sctp(now, first, RESTARTED),
        Event::AspUp => test.send(0, &L::write(Maintenance::AspUp(AspUp::default()))),
        Event::AspDown => test.send(0, &L::write(Maintenance::AspDown(AspDown::default()))),
        Event::AspActive => test.send(0, &active::<L>(over, &id)),
        Event::AspInactive => test.send(0, &inactive()),
        Event::OtherUp => test.bring_up(1),
        Event::OtherActive => test.send(1, &active::<L>(over, &id)),
        Event::OtherInactive => test.send(1, &inactive()),
        Event::RecoveryExpires => {
            test.now += T_R;
            assert_eq!(test.gateway.poll_timeout(), Some(test.now));
            test.gateway.handle_timeout(test.now);
        }
        Event::Blocked => {
            let blocked = test.gateway.set_asp_blocked(now, first, true);
            blocked.expect("an ASP");
        }
        Event::Beat => test.send(0, &L::write(Maintenance::Heartbeat(Heartbeat::default()))),
        Event::Traffic => test.send(0, &L::traffic(1)),
    }
}

fn transitions<L: Tested>() {
    for (section, before, event, asp, server, messages) in ROWS {
        let mut test = TestGateway::<L>::new(GatewayConfig::default(), None, 1);
        for event in *before {
            apply(&mut test, *event);
        }
        test.sent(0);
        apply(&mut test, *event);
        let row = format!(
            "{}, section {}: {event:?} after {before:?}",
            L::RFC,
            L::SECTIONS[*section]
        );
        assert_eq!(test.sent(0), *messages, "{row}");
        let state = test.gateway.asp_state(test.asps[0], L::id(1));
        assert_eq!(state, Some(*asp), "{row}");
        assert_eq!(test.gateway.as_state(L::id(1)), Some(*server), "{row}");
    }
}

/// RFC 4666, section 4.3.2 and 4.3.4.3: minimum of ASPs, insufficient resources, modes that do not fit
fn load_sharing<L: Tested>() {
    let share = Some(TrafficMode::LOADSHARE);
    let mut test = TestGateway::<L>::new(GatewayConfig::default(), share, 2);
    test.bring_up(0);
    test.bring_up(1);
    test.sent(0);
    test.send(0, &active::<L>(share, &[L::id(1)]));
    assert_eq!(test.sent(0), ["ASPAC ACK"]);
    assert_eq!(test.gateway.as_state(L::id(1)), Some(AsState::Inactive));
    test.send(1, &active::<L>(Some(TrafficMode::OVERRIDE), &[L::id(1)]));
    assert_eq!(test.sent(1), ["ERR Unsupported Traffic Mode Type"]);
    test.send(1, &active::<L>(share, &[L::id(1)]));
    assert_eq!(test.sent(0), ["NTFY AsActive"]);
    test.send(1, &L::write(Maintenance::AspInactive(None)));
    let expected = ["ASPIA ACK", "NTFY InsufficientAspResources"];
    assert_eq!(test.sent(1), expected);
    assert_eq!(test.gateway.as_state(L::id(1)), Some(AsState::Active));
}

/// RFC 4666, section 4.3.2: messages wait in AS-PENDING, within the limits
fn pending_buffers<L: Tested>() {
    let config = GatewayConfig {
        max_buffered_messages: 3,
        ..GatewayConfig::default()
    };
    let mut test = TestGateway::<L>::new(config, None, 1);
    let deliver = |test: &mut TestGateway<L>| test.gateway.deliver(&L::id(1), L::payload(1));
    assert!(deliver(&mut test).is_err());
    test.bring_up(0);
    test.send(0, &active::<L>(Some(TrafficMode::OVERRIDE), &[L::id(1)]));
    test.sent(0);
    deliver(&mut test).expect("an active ASP");
    assert_eq!(test.sent(0), ["traffic"]);
    test.send(0, &L::write(Maintenance::AspInactive(None)));
    test.sent(0);
    for _ in 0..3 {
        deliver(&mut test).expect("room");
    }
    assert!(deliver(&mut test).is_err());
    assert_eq!(test.sent(0), [""; 0]);
    let (count, octets) = test.gateway.buffered(L::id(1)).expect("a server");
    assert_eq!((count, octets), (3, 12));
    test.send(0, &active::<L>(Some(TrafficMode::OVERRIDE), &[L::id(1)]));
    let expected = [
        "ASPAC ACK",
        "NTFY AsActive",
        "traffic",
        "traffic",
        "traffic",
    ];
    assert_eq!(test.sent(0), expected);
    test.send(0, &L::write(Maintenance::AspInactive(None)));
    deliver(&mut test).expect("room");
    test.now += T_R;
    test.gateway.handle_timeout(test.now);
    assert_eq!(test.gateway.buffered(L::id(1)), Some((0, 0)));
}

/// RFC 4666, sections 4.3.1, 4.3.2, 4.3.4.1, 4.3.4.2, 4.3.4.3, 4.3.4.4, 4.3.4.5 and 4.3.4.6
#[test]
fn m3ua_gateway_has_every_transition() {
    transitions::<carrick_sigtran::m3ua::M3ua>();
}

/// RFC 3868, sections 4.3.1, 4.3.2, 4.3.4.1, 4.3.4.2, 4.3.4.3, 4.3.4.4, 4.3.4.5 and 4.3.4.6
#[test]
fn sua_gateway_has_every_transition() {
    transitions::<carrick_sigtran::sua::Sua>();
}

/// RFC 3331, sections 4.3.1, 4.3.2, 4.3.4.1, 4.3.4.2, 4.3.4.3, 4.3.4.4, 4.3.4.5 and 4.3.4.6
#[test]
fn m2ua_gateway_has_every_transition() {
    transitions::<carrick_sigtran::m2ua::M2ua>();
}

/// RFC 4233, sections 4.3.1.1, 4.3.1.2, 4.3.3.1, 4.3.3.2, 4.3.3.4, 4.3.3.5, 4.3.3.6 and 4.3.3.7
#[test]
fn iua_gateway_has_every_transition() {
    transitions::<carrick_sigtran::iua::Iua>();
}

for_every_layer! {
    load_sharing
    pending_buffers
}
