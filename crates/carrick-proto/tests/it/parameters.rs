//! Parameters that change while associations exist.

use carrick_proto::{OperationError, ParameterChanges, SendOptions};

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
    w.ends[0].change_parameters(w.now, a, &changes).unwrap();
    w.send(0, a, 0, pattern(100));
    w.run(secs(5));
    assert!(w.path(0, a, 0).rto < secs(1));
    let config = w.ends[0].association_config(a).unwrap();
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
    let refused = w.ends[0].change_parameters(w.now, a, &changes);
    let Err(OperationError::InvalidConfig(error)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(error.field(), "sack_delay");
    assert_eq!(error.reason(), "must not exceed 500 ms");
    assert_eq!(
        w.ends[0]
            .association_config(a)
            .unwrap()
            .transmission
            .max_burst,
        4
    );
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
    w.ends[1].change_parameters(w.now, b, &changes).unwrap();
    assert_eq!(sacks(&mut w, 6), 2);
}
