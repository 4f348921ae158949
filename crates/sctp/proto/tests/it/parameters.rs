//! Parameters that change while associations exist.

use carrick_proto::{
    AssociationConfig, Event, OperationError, ParameterChanges, PathId, SendError, SendOptions,
};
use carrick_wire::ChunkType;

use crate::common::*;

/// RFC 9260, section 11.1.13
#[test]
fn rto_bounds_of_an_association_change() {
    let mut w = World::single_homed();
    let (a, _) = w.connect();
    w.send(0, a, 0, pattern(100));
    w.run(secs(5));
    assert_eq!(w.path(0, a, 0).rto, secs(1));
    let changes = ParameterChanges::new().rto(ms(300), ms(250), secs(2));
    w.change(0, a).change_parameters(&changes).unwrap();
    w.send(0, a, 0, pattern(100));
    w.run(secs(5));
    assert!(w.path(0, a, 0).rto < secs(1));
    let config = w.read(0, a).config();
    assert_eq!(
        (config.timers.rto_min, config.timers.rto_max),
        (ms(250), secs(2))
    );
    assert_eq!(w.ends[0].default_config().timers.rto_min, secs(1));
}

#[test]
fn parameters_out_of_range_change_nothing() {
    let mut w = World::single_homed();
    let (a, _) = w.connect();
    let changes = ParameterChanges::new().max_burst(9).sack(secs(1), 2);
    let refused = w.change(0, a).change_parameters(&changes);
    let Err(OperationError::InvalidConfig(error)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(error.field(), "sack_delay");
    assert_eq!(error.reason(), "must not exceed 500 ms");
    assert_eq!(w.read(0, a).config().transmission.max_burst, 4);
    assert_eq!(w.ends[0].change_default_parameters(&changes), Err(error));
    assert_eq!(w.ends[0].default_config().transmission.max_burst, 4);
}

/// RFC 9260, section 6.2: a SACK for every packet instead of every second one.
#[test]
fn sack_frequency_of_later_associations_changes() {
    let mut w = World::single_homed();
    let changes = ParameterChanges::new().sack(ms(200), 1);
    w.ends[1].change_default_parameters(&changes).unwrap();
    let (a, b) = w.connect();
    let sacks = |w: &mut World, messages: u64| {
        let before = w.stats(1, b).counters.sacks_sent;
        for _ in 0..messages {
            w.send_with(0, a, SendOptions::default().no_delay(), pattern(1000));
            w.run(ms(10));
        }
        w.stats(1, b).counters.sacks_sent - before
    };
    assert_eq!(sacks(&mut w, 6), 6);
    let changes = ParameterChanges::new().sack(ms(200), 3);
    w.change(1, b).change_parameters(&changes).unwrap();
    assert_eq!(sacks(&mut w, 6), 2);
}

/// RFC 6458, sections 8.1.11 and 8.1.16
#[test]
fn fragmentation_of_an_association_changes() {
    let mut w = World::single_homed();
    let (a, _) = w.connect();
    let changes = ParameterChanges::new()
        .max_payload(Some(100))
        .fragment(false);
    w.change(0, a).change_parameters(&changes).unwrap();
    let refused = w.ends[0].send(w.now, a, SendOptions::default(), pattern(101));
    assert_eq!(refused, Err(SendError::TooLarge { limit: 100 }));
    let changes = ParameterChanges::new().fragment(true);
    w.change(0, a).change_parameters(&changes).unwrap();
    w.send(0, a, 0, pattern(101));
    w.run(secs(1));
    assert_eq!(w.stats(0, a).counters.data_chunks_sent, 2);
}

/// RFC 6458, section 8.1: options of future associations
#[test]
fn default_config_of_later_associations_changes() {
    let mut w = World::single_homed();
    let config = AssociationConfig::rfc9260().with(|c| c.streams.max_inbound_streams = 3);
    w.ends[1].set_default_config(config.clone()).unwrap();
    let (_, b) = w.connect();
    assert_eq!(w.stats(1, b).inbound_streams, 3);
    let wrong = config.with(|c| c.streams.max_inbound_streams = 0);
    assert!(w.ends[1].set_default_config(wrong).is_err());
    assert_eq!(w.ends[1].default_config().streams.max_inbound_streams, 3);
}

/// RFC 9260, section 11.1.5
#[test]
fn send_room_is_reported_without_a_refusal() {
    let mut w = World::single_homed();
    w.config.buffers.send_buffer = 1000;
    let (a, _) = w.connect();
    assert!(w.ends[0].has_send_room(a));
    w.send(0, a, 0, pattern(1000));
    assert!(!w.ends[0].has_send_room(a));
    w.events(0);
    w.run(secs(1));
    assert!(w.events(0).contains(&Event::SendBufferFree));
    assert!(w.ends[0].has_send_room(a));
}

/// RFC 6458, section 8.1.12
#[test]
fn the_heartbeat_interval_of_one_path_changes() {
    let mut w = World::new();
    let (a, _) = w.connect();
    w.run(secs(10));
    w.log.clear();
    let (idle, changed) = (PathId(0), PathId(1));
    let begin = w.now;
    let set = w.change(0, a).set_heartbeat_interval(changed, secs(5));
    assert_eq!(set, Ok(()));
    w.run(secs(600));
    let times = |w: &World, path: usize| -> Vec<_> {
        let sent = w.sent(0, ChunkType::HEARTBEAT);
        let on_path = sent.iter().filter(|p| p.to() == addresses(1)[path]);
        on_path.map(|p| p.time).collect()
    };
    let short = times(&w, 1);
    assert!(
        short[0] < begin + ms(6500),
        "a waiting heartbeat is scheduled again"
    );
    // The interval and an RTO of a second with jitter.
    let gaps: Vec<_> = short.windows(2).map(|t| t[1] - t[0]).collect();
    assert!(
        gaps.iter().all(|g| *g >= ms(5500) && *g < ms(6500)),
        "{gaps:?}"
    );
    assert!((18..=20).contains(&times(&w, 0).len()));
    let interval = |w: &World, path| w.read(0, a).heartbeat_interval(path);
    assert_eq!(
        [idle, changed].map(|path| interval(&w, path)),
        [Some(secs(30)), Some(secs(5))]
    );
    let changes = ParameterChanges::new().hb_interval(secs(60));
    w.change(0, a).change_parameters(&changes).unwrap();
    assert_eq!(
        [idle, changed].map(|path| interval(&w, path)),
        [Some(secs(60)); 2]
    );
    let unknown = PathId(7);
    assert_eq!(interval(&w, unknown), None);
    assert_eq!(
        w.change(0, a).set_heartbeat_interval(unknown, secs(5)),
        Err(OperationError::UnknownPath)
    );
}
