//! Events that an observer of an endpoint is passed.

use crate::common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use carrick_proto::{
    AssociationConfig, AssociationId, Event, ObservedDetail, ObservedEvent, Observer,
    PathErrorCause, PathId, StateName, Time,
};
use common::*;

/// Keeps all events.
#[derive(Debug, Default)]
struct Recorder(Mutex<Vec<(AssociationId, Time, ObservedEvent)>>);

impl Observer for Recorder {
    fn observe(&self, association: AssociationId, time: Time, event: &ObservedEvent) {
        let record = (association, time, event.clone());
        self.0.lock().unwrap().push(record);
    }
}

impl Recorder {
    fn take(&self) -> Vec<ObservedEvent> {
        let records = std::mem::take(&mut *self.0.lock().unwrap());
        assert!(records.is_sorted_by_key(|(_, time, _)| *time));
        records.into_iter().map(|(_, _, event)| event).collect()
    }
}

fn observed() -> (World, Arc<Recorder>) {
    let config = AssociationConfig::default();
    let mut w = World::with(2, |_, c| c.association = config.clone());
    w.config = config;
    let recorder = Arc::new(Recorder::default());
    w.ends[0].set_observer(w.now, Some(recorder.clone()));
    (w, recorder)
}

/// Returns the states that the association has had.
fn states(events: &[ObservedEvent]) -> Vec<StateName> {
    let state = |event: &ObservedEvent| match event {
        ObservedEvent::StateChanged { to, .. } => Some(*to),
        _ => None,
    };
    events.iter().filter_map(state).collect()
}

/// RFC 9260, section 4
#[test]
fn an_observer_is_passed_each_state() {
    let (mut w, recorder) = observed();
    let (a, _) = w.connect();
    w.ends[0].shutdown(w.now, a).unwrap();
    w.run(secs(1));
    let events = recorder.take();
    assert!(matches!(
        events[0],
        ObservedEvent::Begun {
            accepted: false,
            ..
        }
    ));
    assert_eq!(
        states(&events),
        [
            StateName::CookieWait,
            StateName::CookieEchoed,
            StateName::Established,
            StateName::ShutdownSent,
            StateName::Closed
        ]
    );
    let ends = |event: &&ObservedEvent| matches!(event, ObservedEvent::Notified(Event::Closed(_)));
    assert_eq!(events.iter().filter(ends).count(), 1);
}

/// The silence check, its error and what follows from it: the answer to "why did it fail over".
#[test]
fn a_failover_has_its_reason() {
    let (mut w, recorder) = observed();
    let (a, _) = w.connect();
    for _ in 0..100 {
        w.send(0, a, 0, pattern(100));
        w.run(ms(20));
    }
    w.block(addresses(1)[0]);
    recorder.take();
    for _ in 0..50 {
        w.send(0, a, 0, pattern(100));
        w.run(ms(20));
    }
    let first = PathId(0);
    let reasons = |event: &ObservedEvent| {
        let of_paths = matches!(
            event,
            ObservedEvent::SilenceCheckBegun { .. }
                | ObservedEvent::PathError { .. }
                | ObservedEvent::Notified(
                    Event::PathPotentiallyFailed(_) | Event::PrimaryChanged(_)
                )
        );
        of_paths.then(|| event.clone())
    };
    let reasons: Vec<_> = recorder.take().iter().filter_map(reasons).collect();
    assert_eq!(
        reasons[..4],
        [
            ObservedEvent::SilenceCheckBegun { path: first },
            ObservedEvent::PathError {
                path: first,
                cause: PathErrorCause::OthersAnswer,
                error_count: 1
            },
            ObservedEvent::Notified(Event::PathPotentiallyFailed(first)),
            ObservedEvent::Notified(Event::PrimaryChanged(PathId(1))),
        ]
    );
    assert_eq!(
        w.path(0, a, 0).last_error,
        Some(PathErrorCause::OthersAnswer)
    );
}

/// An association that exists begins with its paths and its state.
#[test]
fn an_observer_may_come_later() {
    let (mut w, a, _) = World::new().connected();
    let recorder = Arc::new(Recorder::default());
    w.ends[0].set_observer(w.now, Some(recorder.clone()));
    let events = recorder.take();
    let paths = |event: &&ObservedEvent| matches!(event, ObservedEvent::PathChanged { .. });
    assert_eq!(events.iter().filter(paths).count(), 2);
    assert_eq!(states(&events), [StateName::Established]);
    w.send(0, a, 0, pattern(10));
    w.run(secs(1));
    assert!(
        recorder
            .take()
            .iter()
            .any(|event| matches!(event, ObservedEvent::ChunkAcknowledged { .. }))
    );
    w.ends[0].set_observer(w.now, None);
    w.send(0, a, 0, pattern(10));
    w.run(secs(1));
    assert_eq!(recorder.take(), []);
}

/// Counts events, those of single chunks apart, which it takes or not.
#[derive(Debug, Default)]
struct Levels {
    takes_chunks: AtomicBool,
    of_chunks: AtomicUsize,
    others: AtomicUsize,
}

impl Observer for Levels {
    fn detail(&self) -> ObservedDetail {
        if self.takes_chunks.load(Ordering::Relaxed) {
            ObservedDetail::Chunk
        } else {
            ObservedDetail::Decision
        }
    }

    fn observe(&self, _: AssociationId, _: Time, event: &ObservedEvent) {
        let count = match event.detail() {
            ObservedDetail::Chunk => &self.of_chunks,
            _ => &self.others,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// So that `tracing` at level info costs next to nothing, and may be set to trace while the program runs.
#[test]
fn chunks_are_observed_if_the_observer_takes_them() {
    let mut w = World::new();
    let levels = Arc::new(Levels::default());
    for end in &mut w.ends {
        end.set_observer(w.now, Some(levels.clone()));
    }
    let (a, b) = w.connect();
    let mut pass = |takes: bool| {
        levels.takes_chunks.store(takes, Ordering::Relaxed);
        // The level is asked after an input.
        w.run(secs(60));
        levels.of_chunks.store(0, Ordering::Relaxed);
        for _ in 0..10 {
            w.send(0, a, 0, pattern(3000));
            w.run(ms(500));
            w.receive(1, b);
        }
        levels.of_chunks.load(Ordering::Relaxed)
    };
    let counts = [pass(false), pass(true), pass(false)];
    assert_eq!((counts[0], counts[2]), (0, 0));
    assert!(counts[1] > 100, "{}", counts[1]);
    assert!(levels.others.load(Ordering::Relaxed) > 0);
}
