//! Experiments over every stack.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use carrick_lab::file::Experiment;
use carrick_lab::live::{
    Below, Connection, LivePlan, LiveRun, LiveWorld, MultipathTcp, OutgoingMessage, PacketData,
    PacketRecording, Program, RunOutcome, RunRecord, Stack,
};
use carrick_lab::{LiveResult, RunOptions};
use carrick_live::{Error, RunProgress, run_experiment, running_networks};
use carrick_netsim::{Change, ConfigError, Direction, LinkConfig, Loss, NetworkBuilder};
use carrick_proto::{AssociationConfig, Time};

/// Number and size of the messages of a flow, and the interval between them.
const COUNT: u64 = 200;
const SIZE: usize = 1000;
const INTERVAL: Duration = Duration::from_millis(5);
/// Duration of a flow.
const LENGTH: Duration = Duration::from_millis(5 * (COUNT - 1));

/// Sender of messages that begin with their numbers, at an interval or, if that is zero, without pause and end.
#[derive(Default)]
struct TestSource {
    interval: Duration,
    next: Option<Time>,
    sends: Vec<Time>,
    /// Messages passed to the stack.
    passed: u64,
    /// Number of streams that the messages take in turn; 0 for one.
    streams: u64,
}

impl TestSource {
    fn paced() -> Self {
        Self {
            interval: INTERVAL,
            ..Self::default()
        }
    }
}

impl Program for TestSource {
    fn connected(&mut self, now: Time, _: u16) {
        self.next = Some(now);
    }

    fn poll_transmit(&mut self, now: Time) -> Option<OutgoingMessage> {
        if self.interval.is_zero() {
            self.sends.push(now);
        } else if self.passed == self.sends.len() as u64 {
            return None;
        }
        let mut payload = vec![0; SIZE];
        payload[..8].copy_from_slice(&self.passed.to_be_bytes());
        self.passed += 1;
        Some(OutgoingMessage {
            stream: ((self.passed - 1) % self.streams.max(1)) as u16,
            ppid: 0,
            payload: payload.into(),
        })
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.next.filter(|_| !self.interval.is_zero())
    }

    fn handle_timeout(&mut self, now: Time) {
        if let Some(due) = self.next.take_if(|due| *due <= now) {
            self.sends.push(now);
            self.next = Some(due + self.interval).filter(|_| (self.sends.len() as u64) < COUNT);
        }
    }

    fn is_done(&self) -> bool {
        self.passed == COUNT && !self.interval.is_zero()
    }
}

/// Receiver of messages or, over TCP, of a byte stream.
#[derive(Default)]
struct TestSink {
    is_stream: bool,
    bytes: usize,
    deliveries: Vec<(u64, Time)>,
    /// Stream of each received message.
    streams: Vec<u16>,
}

impl Program for TestSink {
    fn handle_message(&mut self, now: Time, stream: u16, message: Bytes) {
        self.bytes += message.len();
        self.streams.push(stream);
        if self.is_stream {
            let before = self.deliveries.len() as u64;
            let complete = before..(self.bytes / SIZE) as u64;
            self.deliveries.extend(complete.map(|number| (number, now)));
        } else {
            let number = message.first_chunk().expect("a message with its number");
            self.deliveries.push((u64::from_be_bytes(*number), now));
        }
    }

    fn is_done(&self) -> bool {
        self.deliveries.len() as u64 >= COUNT
    }
}

/// Two hosts with two paths of 10 and 30 ms. The first path loses every 20th packet of the sender and, if
/// `breaks`, all of them from half of the flow on.
fn world(breaks: bool) -> Result<LiveWorld, ConfigError> {
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
    let failure = Change::SetLoss {
        link: links[0],
        direction: Direction::Forward,
        loss: Loss::Random(1.0),
    };
    Ok(LiveWorld {
        network: builder.build()?,
        hosts: hosts.to_vec(),
        changes: Vec::from_iter(breaks.then_some((LENGTH / 2, failure))),
    })
}

fn sctp(below: Below) -> Stack {
    Stack::Sctp {
        below,
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
        send_buffer: None,
        multipath: None,
    }
}

fn multipath_tcp() -> Stack {
    Stack::Tcp {
        congestion: "cubic",
        port: 5001,
        segment: None,
        window: None,
        send_buffer: None,
        multipath: Some(MultipathTcp {
            backup: true,
            stale_loss_count: 1,
        }),
    }
}

/// Returns a connection between hosts that use all their addresses.
fn connection(stack: Stack, client: usize, programs: [Box<dyn Program>; 2]) -> Connection {
    Connection {
        stack,
        client,
        programs,
        addresses: None,
        roams: None,
        may_be_lost: false,
    }
}

fn flow(name: &str, stack: Stack, client: usize, breaks: bool) -> LiveRun {
    let sink = TestSink {
        is_stream: matches!(stack, Stack::Tcp { .. }),
        ..TestSink::default()
    };
    LiveRun {
        name: name.to_string(),
        world: Box::new(move || world(breaks)),
        flows: vec![connection(
            stack,
            client,
            [Box::new(TestSource::paced()), Box::new(sink)],
        )],
        watch: PacketRecording::Data,
        expected: LENGTH,
        limit: Duration::from_secs(120),
        capture: None,
    }
}

/// Prefix of the names of this process's networks.
fn prefix(scenario: &str) -> String {
    format!("{scenario}-{}.", std::process::id())
}

struct NoProgress;

impl RunProgress for NoProgress {
    fn begin(&self, _: &str, _: usize, _: Duration) {}
    fn built(&self) {}
    fn running(&self, _: Duration, _: Duration, _: usize) {}
    fn end(&self) {}
}

fn outcomes(runs: Vec<LiveRun>) -> (Vec<RunOutcome>, LiveResult) {
    let stored = Arc::new(Mutex::new(Vec::new()));
    let store = stored.clone();
    let plan = LivePlan {
        at_once: runs.len(),
        runs,
        conclude: Box::new(move |outcomes| {
            *store.lock().unwrap() = outcomes;
            Ok(LiveResult::default())
        }),
    };
    let result = run_experiment("test", plan, &NoProgress, &AtomicBool::new(false)).unwrap();
    let outcomes = std::mem::take(&mut *stored.lock().unwrap());
    (outcomes, result)
}

fn record(outcome: &RunOutcome) -> &RunRecord {
    match outcome {
        RunOutcome::Ran(record) => record,
        RunOutcome::Missing(what) | RunOutcome::Failed(what) => panic!("{what}"),
    }
}

/// Asserts that each message was sent once, in order, and delivered once, after at least the path's delay.
fn check_messages(record: &RunRecord) {
    let source: &TestSource = record.program(0).unwrap();
    let sink: &TestSink = record.program(1).unwrap();
    assert_eq!(source.sends.len() as u64, COUNT);
    assert!(source.sends.is_sorted() && source.sends[0] >= record.begin);
    let mut numbers: Vec<u64> = sink.deliveries.iter().map(|(number, _)| *number).collect();
    assert!(numbers.is_sorted());
    numbers.dedup();
    assert_eq!(numbers.len() as u64, COUNT);
    for (number, delivery) in &sink.deliveries {
        let delay = *delivery - source.sends[*number as usize];
        assert!(delay >= Duration::from_millis(10), "{number}: {delay:?}");
    }
    assert_eq!(record.refused, 0);
}

/// Numbers of the messages in the packets that left the first host, and in those that entered the second.
fn packets(record: &RunRecord) -> [Vec<u64>; 2] {
    [(0, true), (1, false)].map(|(host, out)| {
        let seen = record.seen.iter();
        let here = seen.filter(|seen| (seen.host, seen.out) == (host, out));
        here.map(|seen| match seen.data {
            PacketData::Chunk { message, .. } => message,
            PacketData::Segment { offset, .. } => offset / SIZE as u64,
            PacketData::Packet { .. } => panic!("the run records no lengths"),
        })
        .collect()
    })
}

#[test]
#[ignore = "needs root"]
fn packets_of_every_stack_are_recorded() {
    let names = ["udp", "raw", "reno", "cubic", "bbr"];
    let stacks = [
        sctp(Below::Udp),
        sctp(Below::Ip),
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
        // Every 20th packet is lost and retransmitted.
        assert!(
            sent.len() > arrived.len(),
            "{name}: {} {}",
            sent.len(),
            arrived.len()
        );
        assert!(sent.len() as u64 > COUNT, "{name}: {}", sent.len());
        for number in 0..COUNT {
            assert!(arrived.contains(&number), "{name}: {number} arrived");
        }
        assert!(
            record.seen.iter().map(|seen| seen.time).is_sorted(),
            "{name}"
        );
    }
    let accuracy = result.accuracy.expect("packets were measured");
    assert!(accuracy.packets > 1000 && accuracy.late_median >= 0.0);
    assert!(
        running_networks()
            .iter()
            .all(|(name, _)| !name.starts_with(&prefix("test")))
    );
}

#[test]
#[ignore = "needs root"]
fn data_uses_the_other_path_after_a_failure() {
    // The receiver sets the association up.
    let (outcomes, _) = outcomes(vec![flow("breaks", sctp(Below::Udp), 1, true)]);
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
        paths(COUNT - 1).contains(&1),
        "the first path has failed at the end"
    );
}

#[test]
#[ignore = "needs root"]
fn dtls_hides_the_chunks_of_an_association() {
    let runs = [("dtls", Below::Dtls), ("udp", Below::Udp)];
    let runs = runs.map(|(name, below)| flow(name, sctp(below), 0, false));
    let (outcomes, _) = outcomes(runs.into());
    let [hidden, plain] = [0, 1].map(|run| record(&outcomes[run]));
    check_messages(hidden);
    check_messages(plain);
    assert!(!plain.seen.is_empty());
    // No packet on the links of the other association has a DATA chunk that can be read.
    assert_eq!(hidden.seen.len(), 0);
}

#[test]
#[ignore = "needs root"]
fn new_data_of_multipath_tcp_uses_the_backup() {
    let (outcomes, _) = outcomes(vec![flow("backup", multipath_tcp(), 1, true)]);
    if let RunOutcome::Missing(what) = &outcomes[0] {
        assert!(
            what.contains("mptcp") || what.contains("Multipath TCP"),
            "{what}"
        );
        return;
    }
    let record = record(&outcomes[0]);
    check_messages(record);
    let sent = record.seen.iter().filter(|seen| seen.host == 0 && seen.out);
    let interfaces: Vec<usize> = sent.map(|seen| seen.interface).collect();
    assert_eq!(
        interfaces[0], 0,
        "the backup is not used before the failure"
    );
    assert!(interfaces.contains(&1), "the backup carries data after it");
}

#[test]
#[ignore = "needs root"]
fn quic_delivers_the_messages_of_all_streams() {
    let stack = Stack::Quic {
        port: 5001,
        streams: 3,
    };
    for client in [0, 1] {
        let mut run = flow("quic", stack.clone(), client, false);
        let source = TestSource {
            streams: 3,
            ..TestSource::paced()
        };
        run.flows[0].programs[0] = Box::new(source);
        let (outcomes, _) = outcomes(vec![run]);
        let record = record(&outcomes[0]);
        let sink: &TestSink = record.program(1).unwrap();
        for stream in 0..3 {
            let of_stream = sink.streams.iter().zip(&sink.deliveries);
            let numbers: Vec<u64> = of_stream
                .filter(|(own, _)| **own == stream)
                .map(|(_, (number, _))| *number)
                .collect();
            let expected = (0..COUNT).filter(|number| number % 3 == u64::from(stream));
            assert_eq!(
                numbers,
                expected.collect::<Vec<_>>(),
                "in order on a stream"
            );
        }
    }
}

#[test]
#[ignore = "needs root"]
fn a_flow_that_may_be_lost_ends_at_its_limit() {
    for stack in [
        tcp("cubic"),
        Stack::Quic {
            port: 5001,
            streams: 1,
        },
    ] {
        let mut run = flow("limit", stack, 0, true);
        run.limit = Duration::from_secs(3);
        run.flows[0].may_be_lost = true;
        let (outcomes, _) = outcomes(vec![run]);
        let record = record(&outcomes[0]);
        assert!(record.lost.is_some_and(|lost| lost > record.begin));
        let sink: &TestSink = record.program(1).unwrap();
        assert!((1..COUNT).contains(&(sink.deliveries.len() as u64)));
    }
}

/// Starts the runs, stops them when all their networks and that of the probes are running, and asserts that
/// no network remains.
fn stop_and_check(scenario: &str, runs: Vec<LiveRun>) {
    let running = |prefix: &str| {
        let all = running_networks().into_iter();
        all.filter(|(name, _)| name.starts_with(prefix)).count()
    };
    let stop = Arc::new(AtomicBool::new(false));
    let (flag, networks, expected) = (stop.clone(), prefix(scenario), runs.len());
    let stopping = thread::spawn(move || {
        while running(&networks) < expected || running(&prefix("accuracy")) == 0 {
            thread::sleep(Duration::from_millis(10));
        }
        // Some programs have started by then, others have not.
        thread::sleep(Duration::from_millis(1500));
        flag.store(true, Ordering::Relaxed);
    });
    let plan = LivePlan {
        at_once: runs.len(),
        runs,
        conclude: Box::new(|_| panic!("stopped runs have no result")),
    };
    let ended = run_experiment(scenario, plan, &NoProgress, &stop);
    assert!(matches!(ended, Err(Error::Stopped)), "{scenario}");
    stopping.join().unwrap();
    assert_eq!(running(&prefix(scenario)), 0, "{scenario}");
    assert_eq!(running(&prefix("accuracy")), 0, "{scenario}: probes");
}

#[test]
#[ignore = "needs root"]
fn stopped_runs_leave_no_network() {
    let long = LiveRun {
        flows: vec![connection(
            sctp(Below::Udp),
            0,
            [Box::<TestSource>::default(), Box::<TestSink>::default()],
        )],
        ..flow("stop", sctp(Below::Udp), 0, false)
    };
    stop_and_check("stop", vec![long]);
    for name in ["overhead", "mobile-ip"] {
        let experiment = Experiment::published(name).unwrap();
        let plan = experiment.live(&RunOptions::default()).unwrap();
        stop_and_check(name, plan.runs.into_iter().take(3).collect());
    }
}

#[test]
#[ignore = "needs root"]
fn an_unknown_congestion_control_is_missing() {
    let (outcomes, _) = outcomes(vec![flow("none", tcp("none-such"), 0, false)]);
    assert!(matches!(&outcomes[0], RunOutcome::Missing(what) if what.contains("none-such")));
}

fn of_scenario(name: &str, repetitions: u64) -> LiveResult {
    let experiment = Experiment::published(name).unwrap();
    let options = RunOptions {
        reps: Some(repetitions),
        ..RunOptions::default()
    };
    let plan = experiment.live(&options).unwrap();
    run_experiment(name, plan, &NoProgress, &AtomicBool::new(false)).unwrap()
}

/// Options of a run with one repetition.
fn once() -> RunOptions {
    RunOptions {
        reps: Some(1),
        ..RunOptions::default()
    }
}

/// Runs some of a scenario's cells once; the outcome of all other cells is `Missing`.
fn cells_of(name: &str, wanted: &[&str]) -> LiveResult {
    let experiment = Experiment::published(name).unwrap();
    let options = once();
    let plan = experiment.live(&options).unwrap();
    let is_wanted = |run: &LiveRun| wanted.contains(&run.name.as_str());
    let selected: Vec<bool> = plan.runs.iter().map(is_wanted).collect();
    let runs: Vec<LiveRun> = plan.runs.into_iter().filter(is_wanted).collect();
    assert_eq!(runs.len(), wanted.len(), "all cells exist");
    let (ran, result) = outcomes(runs);
    let mut ran = ran.into_iter();
    let all = selected.iter().map(|selected| match selected {
        true => ran.next().unwrap(),
        false => RunOutcome::Missing("not part of the test".into()),
    });
    let mut concluded = (plan.conclude)(all.collect()).unwrap();
    concluded.accuracy = result.accuracy;
    concluded
}

/// Mean of a live row.
fn live(result: &LiveResult, id: &str) -> f64 {
    let row = result.rows.iter().find(|row| row.id == id);
    row.and_then(|row| row.live)
        .unwrap_or_else(|| panic!("no row {id}: {:?}", result.notes))
}

#[test]
#[ignore = "needs root"]
fn satellite_recovers_faster_with_gap_reports() {
    // A single repetition has few losses.
    let result = of_scenario("satellite", 3);
    for carrier in ["udp", "raw"] {
        let recovery = |variant: &str| live(&result, &format!("{variant}.recovery.{carrier}"));
        assert!(recovery("modified") < recovery("standard"), "{carrier}");
        assert!(recovery("best") < recovery("standard"), "{carrier}");
    }
    assert!(live(&result, "tcp.recovery.reno") > live(&result, "standard.recovery.udp"));
    // 29,000 bytes in a round trip of half a second are 58 KByte/s.
    for carrier in ["udp", "raw"] {
        let rate = live(&result, &format!("lossy.throughput.{carrier}"));
        assert!((5.0..58.5).contains(&rate), "{carrier}: {rate}");
    }
    assert!(live(&result, "tcp.lossy.throughput.reno") > 5.0);
    assert!(result.rows.iter().all(|row| row.simulated.is_some()));
}

#[test]
#[ignore = "needs root"]
fn firewall_transactions_complete_over_every_stack() {
    let result = of_scenario("firewall", 1);
    assert!(
        result.notes.iter().all(|note| !note.contains(" failed: ")),
        "{:?}",
        result.notes
    );
    // The minimum: one round trip and the processing.
    let bound = 20.5;
    for row in result.rows.iter().filter(|row| row.id.contains(".mean.")) {
        let missing = result.notes.iter().any(|note| note.contains("Not run"));
        assert!(
            row.live.is_some_and(|mean| mean >= bound) || missing,
            "{row:?}"
        );
    }
    for carrier in ["udp", "raw"] {
        let mean = |cell: &str| live(&result, &format!("{cell}.mean.{carrier}"));
        assert!(
            mean("sctp.p0.n1") < mean("sctp.p5.n1"),
            "{carrier}: losses delay"
        );
        assert!(
            mean("sctp.p5.n6") < mean("sctp.p5.n1"),
            "{carrier}: streams reduce the delay"
        );
    }
}

#[test]
#[ignore = "needs root"]
fn flows_share_a_link_and_a_rwnd_limits_a_sender() {
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
    // Both flows ran at the same time.
    for share in [counted, uncounted, live(&result, "counted.100.share.cubic")] {
        assert!((5.0..95.0).contains(&share), "{share}");
    }
    let hidden = live(&result, "extra250.100.raw");
    assert!(hidden > 1.2, "memory that a_rwnd does not count: {hidden}");
    let shown = live(&result, "best.100.udp");
    assert!((0.9..1.1).contains(&shown), "{shown}");
}

#[test]
#[ignore = "needs root"]
fn a_mobile_node_communicates_over_its_agents() {
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
    // The node was unreachable for 200 ms and then registered through the other agent.
    let interruption = live(&result, "best.re-registration.interruption.raw");
    assert!((256.0..5000.0).contains(&interruption), "{interruption}");
}

#[test]
#[ignore = "needs root"]
fn make_before_break_shortens_the_interruption() {
    let cells = ["udp", "raw"].map(|carrier| {
        ["best.make-before-break", "best.asconf"].map(|cell| format!("{cell}.{carrier}.0"))
    });
    let cells: Vec<&str> = cells.iter().flatten().map(String::as_str).collect();
    let result = cells_of("mobile-ip", &cells);
    let failed = result.notes.iter().any(|note| note.contains(" failed: "));
    assert!(!failed, "{:?}", result.notes);
    for carrier in ["udp", "raw"] {
        let interruption =
            |cell: &str| live(&result, &format!("best.{cell}.interruption.{carrier}"));
        let (soft, hard) = (interruption("make-before-break"), interruption("asconf"));
        // The node had no network for 200 ms; ASCONF and data take a round trip after that.
        assert!(hard >= 300.0, "{carrier}: {hard}");
        assert!(soft < hard, "{carrier}: {soft}, {hard}");
    }
}

#[test]
#[ignore = "needs root"]
fn todays_means_resume_after_a_handover() {
    let name = "mobile-ip-means";
    let resuming = ["best", "mptcp", "quic"];
    let suffixes = ["raw", "mptcp", "quic", "cubic"];
    let cells = ["best", "mptcp", "quic", "cubic"].iter().zip(suffixes);
    let cells = cells.map(|(cell, suffix)| format!("{cell}.make-before-break.{suffix}.0"));
    let cells: Vec<String> = cells.collect();
    let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
    let live = cells_of(name, &cells);
    let result = Experiment::published(name)
        .unwrap()
        .live_result(&once(), live);
    let row = |means: &str| {
        let id = format!("{means}.make-before-break");
        result.rows.iter().find(|row| row.id == id).unwrap()
    };
    for means in resuming {
        let is_missing = row(means).note.contains("Not run: ") && means == "mptcp";
        assert!(row(means).n == 1 || is_missing, "{:?}", row(means));
    }
    assert_eq!(row("cubic").n, 0);
    assert!(
        row("cubic").note.contains("did not resume"),
        "{:?}",
        row("cubic")
    );
}

#[test]
#[ignore = "needs root"]
fn only_the_old_sack_rule_loses_the_association() {
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
    // RFC 9260, section 8.1: Association.Max.Retrans timeouts, each of at least RTO.Min.
    assert!(delivered("old-rule.lost-after.raw") > 10.0);
}
