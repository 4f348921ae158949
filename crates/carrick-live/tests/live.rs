//! Runs in real time on this host; they need root and run with `--ignored`.
#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use carrick_lab::live::{
    Bulk, Drain, Flow, LivePlan, LiveRun, Messages, PacketData, PacketRecording, RunOutcome,
    RunRecord, Sink, Source, Stack, World,
};
use carrick_lab::{LiveResult, RunOptions, scenario};
use carrick_live::{Error, Progress, run};
use carrick_livenet::running;
use carrick_netsim::{Change, ConfigError, Direction, LinkConfig, Loss, NetworkBuilder};
use carrick_proto::AssociationConfig;

const FLOW: Messages = Messages {
    count: 200,
    size: 1000,
    interval: Duration::from_millis(5),
};

/// Two hosts with two paths of 10 and 30 ms; the first loses every 20th packet of the sender, and all
/// of them after a while, if `breaks`.
fn world(breaks: bool) -> Result<World, ConfigError> {
    let mut builder = NetworkBuilder::new(1);
    let hosts = ["sender", "receiver"].map(|name| builder.add_host(name));
    let mut links = Vec::new();
    for (path, ms) in [(1, 10), (2, 30)] {
        let ends = [0, 1]
            .map(|n| builder.add_interface(hosts[usize::from(n)], [[10, path, 0, n + 1].into()]));
        let link = LinkConfig::delay(Duration::from_millis(ms));
        let lossy = if path == 1 {
            Loss::Every(20)
        } else {
            Loss::None
        };
        let forward = link.clone().with_loss(lossy);
        links.push(builder.connect(ends[0], ends[1], forward, link));
    }
    let gone = Change::SetLoss {
        link: links[0],
        direction: Direction::Forward,
        loss: Loss::Random(1.0),
    };
    Ok(World {
        network: builder.build()?,
        hosts: vec![hosts],
        changes: Vec::from_iter(breaks.then_some((FLOW.length() / 2, gone))),
    })
}

fn sctp(encapsulated: bool) -> Stack {
    Stack::Sctp {
        encapsulated,
        port: 5001,
        config: Box::new(AssociationConfig::rfc9260().with(|c| {
            c.timers.rto_initial = Duration::from_millis(200);
            c.timers.rto_min = Duration::from_millis(200);
            c.paths.path_max_retrans = 1;
        })),
    }
}

fn tcp(congestion: &'static str) -> Stack {
    Stack::Tcp {
        congestion,
        port: 5001,
        segment: Some(1012),
        window: Some(29_000),
    }
}

fn flow(name: &str, stack: Stack, client: usize, breaks: bool) -> LiveRun {
    let sink = match stack {
        Stack::Sctp { .. } => Sink::new(FLOW),
        Stack::Tcp { .. } => Sink::of_stream(FLOW),
    };
    LiveRun {
        name: name.to_string(),
        world: Box::new(move || world(breaks)),
        flows: vec![Flow::new(
            stack,
            client,
            [Box::new(Source::new(FLOW)), Box::new(sink)],
        )],
        watch: PacketRecording::Data,
        expected: FLOW.length(),
        limit: Duration::from_secs(120),
        capture: None,
    }
}

/// What the names of this process's networks begin with.
fn own(scenario: &str) -> String {
    format!("{scenario}-{}.", std::process::id())
}

struct Quiet;

impl Progress for Quiet {
    fn begin(&self, _: &str, _: usize, _: Duration) {}
    fn built(&self) {}
    fn running(&self, _: Duration, _: Duration, _: usize) {}
    fn end(&self) {}
}

fn outcomes(runs: Vec<LiveRun>) -> (Vec<RunOutcome>, LiveResult) {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = kept.clone();
    let plan = LivePlan {
        at_once: runs.len(),
        runs,
        conclude: Box::new(move |outcomes| {
            *keep.lock().unwrap() = outcomes;
            Ok(LiveResult::default())
        }),
    };
    let result = run("test", plan, &Quiet, &AtomicBool::new(false)).unwrap();
    let outcomes = std::mem::take(&mut *kept.lock().unwrap());
    (outcomes, result)
}

fn record(outcome: &RunOutcome) -> &RunRecord {
    match outcome {
        RunOutcome::Ran(record) => record,
        RunOutcome::Missing(what) | RunOutcome::Failed(what) => panic!("{what}"),
    }
}

/// Each message was sent once, in order, and delivered once, no sooner than the network allows.
fn check_messages(record: &RunRecord) {
    let source: &Source = record.program(0).unwrap();
    let sink: &Sink = record.program(1).unwrap();
    assert_eq!(source.sends.len() as u64, FLOW.count);
    assert!(source.sends.is_sorted() && source.sends[0] >= record.begin);
    let mut numbers: Vec<u64> = sink.deliveries.iter().map(|(number, _)| *number).collect();
    assert!(numbers.is_sorted());
    numbers.dedup();
    assert_eq!(numbers.len() as u64, FLOW.count);
    for (number, delivery) in &sink.deliveries {
        let took = *delivery - source.sends[*number as usize];
        assert!(took >= Duration::from_millis(10), "{number}: {took:?}");
    }
    assert_eq!(record.refused, 0);
}

/// Messages by their number that left the first host, and those that entered the second, one entry a
/// packet.
fn packets(record: &RunRecord) -> [Vec<u64>; 2] {
    [(0, true), (1, false)].map(|(host, out)| {
        let seen = record.seen.iter();
        let here = seen.filter(|seen| (seen.host, seen.out) == (host, out));
        here.map(|seen| match seen.data {
            PacketData::Chunk { message, .. } => message,
            PacketData::Segment { offset, .. } => offset / FLOW.size as u64,
            PacketData::Packet { .. } => panic!("lengths are not asked for"),
        })
        .collect()
    })
}

#[test]
#[ignore = "needs root"]
fn live_flows_of_every_stack_are_seen_packet_by_packet() {
    let names = ["udp", "raw", "reno", "cubic", "bbr"];
    let stacks = [
        sctp(true),
        sctp(false),
        tcp("reno"),
        tcp("cubic"),
        tcp("bbr"),
    ];
    let runs = names.into_iter().zip(stacks);
    let runs = runs.map(|(name, stack)| flow(name, stack, 0, false));
    let (outcomes, result) = outcomes(runs.collect());
    for (name, outcome) in names.iter().zip(&outcomes) {
        if let RunOutcome::Missing(what) = outcome {
            assert!(
                what.contains(name) && !["udp", "raw"].contains(name),
                "{what}"
            );
            continue;
        }
        let record = record(outcome);
        check_messages(record);
        let [sent, arrived] = packets(record);
        // Every 20th packet is lost, so that some are sent again and come then.
        assert!(sent.len() > arrived.len(), "{name}");
        assert!(sent.len() as u64 > FLOW.count, "{name}");
        for number in 0..FLOW.count {
            assert!(arrived.contains(&number), "{name}: {number} came somehow");
        }
        assert!(
            record.seen.iter().map(|seen| seen.time).is_sorted(),
            "{name}"
        );
    }
    let accuracy = result.accuracy.expect("packets were measured");
    assert!(accuracy.packets > 1000 && accuracy.late_median >= 0.0);
    assert!(
        running()
            .iter()
            .all(|(name, _)| !name.starts_with(&own("test")))
    );
}

#[test]
#[ignore = "needs root"]
fn live_changes_come_in_mid_flow_and_data_takes_the_other_path() {
    // The receiver sets the association up.
    let (outcomes, _) = outcomes(vec![flow("breaks", sctp(true), 1, true)]);
    let record = record(&outcomes[0]);
    check_messages(record);
    assert!(record.timeouts > 0);
    let paths = |number: u64| -> Vec<usize> {
        let of = |data| matches!(data, PacketData::Chunk { message, .. } if message == number);
        let seen = record.seen.iter().filter(|s| s.host == 0 && s.out);
        seen.filter(|s| of(s.data)).map(|s| s.interface).collect()
    };
    assert_eq!(paths(0)[0], 0, "the first path is the primary one");
    assert!(
        paths(FLOW.count - 1).contains(&1),
        "it is broken at the end"
    );
}

/// Runs until all networks of a scenario stand and the one that measures links, then says stop.
fn stopped(scenario: &str, runs: Vec<LiveRun>) {
    let prefix = own(scenario);
    let standing = |prefix: &str| {
        let all = running().into_iter();
        all.filter(|(name, _)| name.starts_with(prefix)).count()
    };
    let stop = Arc::new(AtomicBool::new(false));
    let (ask, networks, wanted) = (stop.clone(), prefix.clone(), runs.len());
    let asking = thread::spawn(move || {
        while standing(&networks) < wanted || standing(&own("accuracy")) == 0 {
            thread::sleep(Duration::from_millis(10));
        }
        // Some have begun then, some have not.
        thread::sleep(Duration::from_millis(1500));
        ask.store(true, Ordering::Relaxed);
    });
    let plan = LivePlan {
        at_once: runs.len(),
        runs,
        conclude: Box::new(|_| panic!("nothing is to be concluded")),
    };
    let ended = run(scenario, plan, &Quiet, &stop);
    assert!(matches!(ended, Err(Error::Stopped)), "{scenario}");
    asking.join().unwrap();
    assert_eq!(standing(&prefix), 0, "{scenario}");
    assert_eq!(standing(&own("accuracy")), 0, "{scenario}: what measures");
}

#[test]
#[ignore = "needs root"]
fn live_runs_end_when_they_are_told_to_and_leave_nothing() {
    let long = LiveRun {
        flows: vec![Flow::new(
            sctp(true),
            0,
            [
                Box::new(Bulk::lasting(Duration::from_secs(60), Duration::ZERO, 1000)),
                Box::new(Drain::new(0)),
            ],
        )],
        ..flow("stop", sctp(true), 0, false)
    };
    stopped("stop", vec![long]);
    for name in ["overhead", "mobile-ip"] {
        let scenarios = scenario::select(&[name.to_string()]).unwrap();
        let plan = scenarios[0].live(&RunOptions::default()).unwrap();
        stopped(name, plan.runs.into_iter().take(3).collect());
    }
}

#[test]
#[ignore = "needs root"]
fn live_a_congestion_control_that_is_not_there_is_missing_and_not_wrong() {
    let (outcomes, _) = outcomes(vec![flow("none", tcp("none-such"), 0, false)]);
    assert!(matches!(&outcomes[0], RunOutcome::Missing(what) if what.contains("none-such")));
}

fn of_scenario(name: &str, repetitions: u64) -> LiveResult {
    let scenarios = scenario::select(&[name.to_string()]).unwrap();
    let options = RunOptions {
        reps: Some(repetitions),
        ..RunOptions::default()
    };
    let plan = scenarios[0].live(&options).unwrap();
    run(name, plan, &Quiet, &AtomicBool::new(false)).unwrap()
}

/// Some of a scenario's cells, once; the others are said to be missing.
fn cells_of(name: &str, wanted: &[&str]) -> LiveResult {
    let scenarios = scenario::select(&[name.to_string()]).unwrap();
    let options = RunOptions {
        reps: Some(1),
        ..RunOptions::default()
    };
    let plan = scenarios[0].live(&options).unwrap();
    let is_wanted = |run: &LiveRun| wanted.contains(&run.name.as_str());
    let places: Vec<bool> = plan.runs.iter().map(is_wanted).collect();
    let runs: Vec<LiveRun> = plan.runs.into_iter().filter(is_wanted).collect();
    assert_eq!(runs.len(), wanted.len(), "there are such cells");
    let (ran, result) = outcomes(runs);
    let mut ran = ran.into_iter();
    let all = places.iter().map(|wanted| match wanted {
        true => ran.next().unwrap(),
        false => RunOutcome::Missing("not part of the test".into()),
    });
    let concluded = (plan.conclude)(all.collect()).unwrap();
    LiveResult {
        accuracy: result.accuracy,
        ..concluded
    }
}

/// The mean of a live row.
fn live(result: &LiveResult, id: &str) -> f64 {
    let row = result.rows.iter().find(|row| row.id == id);
    row.and_then(|row| row.live)
        .unwrap_or_else(|| panic!("no row {id}: {:?}", result.notes))
}

#[test]
#[ignore = "needs root"]
fn live_satellite_recovers_faster_with_gap_reports_on_the_backup() {
    // They run at the same time; one has few losses.
    let result = of_scenario("satellite", 3);
    for way in ["udp", "raw"] {
        let recovery = |variant: &str| live(&result, &format!("{variant}.recovery.{way}"));
        assert!(recovery("modified") < recovery("standard"), "{way}");
        assert!(recovery("best") < recovery("standard"), "{way}");
    }
    assert!(live(&result, "tcp.recovery.reno") > live(&result, "standard.recovery.udp"));
    // 29,000 bytes in a round trip of half a second are 58 KByte/s.
    for way in ["udp", "raw"] {
        let rate = live(&result, &format!("lossy.throughput.{way}"));
        assert!((5.0..58.5).contains(&rate), "{way}: {rate}");
    }
    assert!(live(&result, "tcp.lossy.throughput.reno") > 5.0);
    assert!(result.rows.iter().all(|row| row.simulated.is_some()));
}

#[test]
#[ignore = "needs root"]
fn live_firewall_carries_its_transactions_over_every_stack() {
    let result = of_scenario("firewall", 1);
    assert!(
        result.notes.iter().all(|note| !note.contains(" failed: ")),
        "{:?}",
        result.notes
    );
    // A round trip and the processing, which no clock can shorten.
    let bound = 20.5;
    for row in result.rows.iter().filter(|row| row.id.contains(".mean.")) {
        let missing = result.notes.iter().any(|note| note.contains("Not run"));
        assert!(
            row.live.is_some_and(|mean| mean >= bound) || missing,
            "{row:?}"
        );
    }
    for way in ["udp", "raw"] {
        let mean = |cell: &str| live(&result, &format!("{cell}.mean.{way}"));
        assert!(
            mean("sctp.p0.n1") < mean("sctp.p5.n1"),
            "{way}: losses delay"
        );
        assert!(
            mean("sctp.p5.n6") < mean("sctp.p5.n1"),
            "{way}: streams help"
        );
    }
}

#[test]
#[ignore = "needs root"]
fn live_flows_share_a_link_and_a_slow_reader_is_sent_what_it_can_take() {
    let result = cells_of(
        "overhead",
        &[
            "counted.20.raw.0",
            "uncounted.20.udp.0",
            "counted.100.cubic.0",
            "extra250.100.raw.0",
            "best.100.udp.0",
        ],
    );
    let (counted, uncounted) = (
        live(&result, "counted.20.share.raw"),
        live(&result, "uncounted.20.share.udp"),
    );
    // Both flows were there at the same time.
    for share in [counted, uncounted, live(&result, "counted.100.share.cubic")] {
        assert!((5.0..95.0).contains(&share), "{share}");
    }
    let hidden = live(&result, "extra250.100.raw");
    assert!(hidden > 1.2, "memory that is not shown: {hidden}");
    let shown = live(&result, "best.100.udp");
    assert!((0.9..1.1).contains(&shown), "{shown}");
}

#[test]
#[ignore = "needs root"]
fn live_a_mobile_node_is_reached_through_simulated_agents() {
    let result = cells_of(
        "mobile-ip",
        &[
            "config1.0.udp.0",
            "config2.1.raw.0",
            "tcp.0.cubic.0",
            "best.re-registration.raw.0",
        ],
    );
    // The bottleneck carries 1.53 Mbit/s of user data in tunnel packets.
    let rate = live(&result, "config1.0.throughput.udp");
    assert!((1.3..1.53).contains(&rate), "{rate}");
    let lossy = live(&result, "config2.1.throughput.raw");
    assert!((0.4..1.5).contains(&lossy), "{lossy}");
    assert!((0.5..1.53).contains(&live(&result, "tcp.0.throughput.cubic")));
    // It was out of reach for 200 ms, and registered through the other agent after that.
    let silent = live(&result, "best.re-registration.interruption.raw");
    assert!((256.0..5000.0).contains(&silent), "{silent}");
}

#[test]
#[ignore = "needs root"]
fn live_a_node_moves_by_asconf_and_before_the_break_without_a_gap() {
    let cells = ["udp", "raw"]
        .map(|way| ["best.make-before-break", "best.asconf"].map(|cell| format!("{cell}.{way}.0")));
    let cells: Vec<&str> = cells.iter().flatten().map(String::as_str).collect();
    let result = cells_of("mobile-ip", &cells);
    let failed = result.notes.iter().any(|note| note.contains(" failed: "));
    assert!(!failed, "{:?}", result.notes);
    for way in ["udp", "raw"] {
        let silent = |cell: &str| live(&result, &format!("best.{cell}.interruption.{way}"));
        let (soft, hard) = (silent("make-before-break"), silent("asconf"));
        // It was in no network for 200 ms; the news and the data take a round trip after that.
        assert!(hard >= 300.0, "{way}: {hard}");
        assert!(soft < hard, "{way}: {soft}, {hard}");
    }
}

#[test]
#[ignore = "needs root"]
fn live_the_old_sack_rule_loses_the_association_and_the_standard_one_does_not() {
    let result = cells_of(
        "mobile-ip",
        &["config3.old-rule.raw.0", "config3.paper.udp.0"],
    );
    let failed = result.notes.iter().any(|note| note.contains(" failed: "));
    assert!(!failed, "{:?}", result.notes);
    let delivered = |cell: &str| live(&result, &format!("config3.{cell}"));
    assert!(delivered("paper.delivered.udp") > 99.999);
    let share = delivered("old-rule.delivered.raw");
    assert!((10.0..90.0).contains(&share), "{share}");
    // RFC 9260 section 8.1: after Association.Max.Retrans timeouts, none of which is shorter than RTO.Min.
    assert!(delivered("old-rule.lost-after.raw") > 10.0);
}
