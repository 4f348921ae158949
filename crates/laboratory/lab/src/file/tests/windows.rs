//! Measurement window: from the warm-up to the end of the run or of all flows.

use super::super::measure::{FlowMeasure, FlowRecord, Window};
use super::*;

/// Nanoseconds per second.
const S: u64 = 1_000_000_000;

#[test]
fn utilization_is_relative_to_the_window() {
    let text = between("sctp", "kind = \"bulk\"\nmessages = 1000")
        .replace("warmup = \"10 s\"", "warmup = \"0 s\"");
    let rows = measured(&text);
    assert!((value(&rows, "f.delivered") - 1000.0).abs() < 1e-9);
    let used = value(&rows, "links.wire.utilization");
    // With the headers of each message, from the set-up on.
    let goodput = value(&rows, "f.goodput");
    assert!(
        (used - goodput / 20.0).abs() < 0.1 * used,
        "{used} %, {goodput} kbit/s"
    );
    assert!(used > 80.0, "{used}");
}

#[test]
fn flows_that_end_in_the_warm_up_are_not_measured() {
    let rows = measured(&between("sctp", "kind = \"bulk\"\nmessages = 10"));
    assert!(value(&rows, "f.delivered").abs() < 1e-9);
    let used = rows.iter().find(|(id, _)| id == "links.wire.utilization");
    assert_eq!(used, None);
}

#[test]
fn an_association_without_delivery_is_interrupted() {
    let down = "[[schedule]]\nat = \"5 s\"\nlink = \"wire\"\nstate = \"down\"\n";
    let text = between("sctp", "kind = \"constant\"\ninterval = \"20 ms\"") + down;
    let pause = value(&measured(&text), "f.interruption");
    assert!((pause - 50_000.0).abs() < 1e-6, "{pause}");
}

#[test]
fn interruptions_are_limited_by_window_and_flow() {
    let window = Window {
        from: 10 * S,
        to: 60 * S,
        change: None,
        up: None,
        pause: S,
    };
    let pause = |sends: &[u64], deliveries: &[u64], closed| {
        let numbered = deliveries.iter().enumerate();
        let record = FlowRecord {
            sends: sends.to_vec(),
            deliveries: numbered.map(|(n, time)| (n as u64, *time)).collect(),
            closed,
            ..FlowRecord::default()
        };
        record.measure(FlowMeasure::Interruption, 1000, false, &window)
    };
    assert_eq!(pause(&[S], &[], true), Some(50_000.0), "dead before");
    assert_eq!(pause(&[], &[], true), Some(50_000.0), "never set up");
    assert_eq!(pause(&[], &[], false), None, "not begun");
    assert_eq!(pause(&[S], &[2 * S], false), None, "over before");
    let late = [S, 14 * S, 15 * S];
    assert_eq!(pause(&late, &[2 * S, 15 * S, 16 * S], false), Some(5_000.0));
    // A flow that starts in the window is not interrupted before its start.
    assert_eq!(
        pause(&[30 * S, 31 * S], &[32 * S, 33 * S], false),
        Some(2_000.0)
    );
    assert_eq!(pause(&[30 * S], &[31 * S], true), Some(29_000.0));
}

#[test]
fn the_configured_end_of_a_flow_is_no_interruption() {
    let flow = |kind: &str| format!("{kind}\nstart = \"20 s\"\nstop = \"30 s\"");
    // The first message at 20 s, and none at 30 s.
    let rows = measured(&between(
        "udp",
        &flow("kind = \"constant\"\ninterval = \"20 ms\""),
    ));
    assert!(
        (value(&rows, "f.delivered") - 500.0).abs() < 1e-9,
        "{rows:?}"
    );
    let pause = value(&rows, "f.interruption");
    assert!(pause < 100.0, "the flow had ended: {pause}");
    for kind in [
        "kind = \"poisson\"\ninterval = \"20 ms\"",
        "kind = \"on-off\"\nrate = \"400 kbit/s\"\non = \"100 ms\"\noff = \"100 ms\"",
    ] {
        let stopped = value(&measured(&between("udp", &flow(kind))), "f.delivered");
        let whole = value(&measured(&between("udp", kind)), "f.delivered");
        // 10 of the 50 seconds of the window.
        let share = stopped / whole;
        assert!((share - 0.2).abs() < 0.05, "{kind}: {stopped} of {whole}");
    }
}
