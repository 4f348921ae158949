//! SCTP over queues that mark packets (RFC 4960, appendix A; RFC 3168): losses avoided by ECN,
//! compared with the same queues if one side does not support ECN. `--nocapture` prints the table.

use crate::multipath::support;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use carrick_hosts::sctp::SctpHost;
use carrick_netsim::{
    Change, Direction, Ecn, Queue, QueueLimit, QueueManagement, Red, Time, TraceEvent, TraceStep,
};
use carrick_proto::cc::RateBased;
use carrick_proto::research::Policies;
use carrick_proto::{AssociationStats, Endpoint};
use carrick_wire::{ChunkType, Packet};

use support::{MessageSink, MessageSource, Path, Transfer};

/// Messages of a transfer; it takes about ten seconds.
const MESSAGES: u64 = 8000;
/// Time in seconds at which counters are read, during the transfer.
const MEASURED: u64 = 8;
/// Capacity of the queue in packets: more than the bandwidth-delay product of 35.
const QUEUE: usize = 80;

const RED: QueueManagement = QueueManagement::Red(Red {
    minimum: 10.0,
    maximum: 60.0,
    max_probability: 0.1,
    weight: 0.02,
    ecn: true,
});
const MARK_ABOVE: QueueManagement = QueueManagement::MarkAbove(QueueLimit::Packets(20));

/// Chunks and codepoints received, in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Wire {
    capable: u64,
    ecne: u64,
    cwr: u64,
}

impl Wire {
    fn count(&mut self, event: &TraceEvent<'_>, packet: &Packet<'_>) {
        let count = |kind| packet.chunks().flatten().filter(|c| c.kind == kind).count() as u64;
        self.capable += u64::from(event.packet.ecn != Ecn::NotEct);
        self.ecne += count(ChunkType::ECNE);
        self.cwr += count(ChunkType::CWR);
    }
}

#[derive(Debug)]
struct EcnRun {
    sender: AssociationStats,
    receiver: AssociationStats,
    wire: Wire,
    /// Packets marked by the queue.
    marked: u64,
    /// Packets with DATA dropped by the queue.
    lost: u64,
    /// Maximum number of waiting packets.
    longest: usize,
}

impl EcnRun {
    fn sent_again(&self) -> u64 {
        let counters = self.sender.counters;
        counters.fast_retransmissions + counters.timeout_retransmissions
    }
}

/// Runs a transfer over 10 Mbit/s and 20 ms one way through this queue; `ecn` of sender and
/// receiver.
fn run(management: QueueManagement, policies: Policies, ecn: [bool; 2]) -> EcnRun {
    let path = Path {
        queue: QUEUE,
        ..Path::new(10, 20)
    };
    let mut transfer = Transfer::new(policies, &[path]);
    transfer.limit = MESSAGES;
    let mut receiver = transfer.config.clone();
    transfer.config.extensions.ecn = ecn[0];
    receiver.extensions.ecn = ecn[1];
    transfer.receiver = Some(receiver);
    let mut world = transfer.build();
    let (link, there) = (world.links[0], Direction::Forward);
    let mut config = world.net.link_config(link, there).clone();
    config.queue = Queue::packets(QUEUE).with_management(management);
    let change = Change::SetLink {
        link,
        direction: there,
        config,
    };
    world.net.apply(change).expect("a valid link");
    let seen = Rc::new(Cell::new((Wire::default(), 0)));
    let tracer = Rc::clone(&seen);
    world.net.set_tracer(move |event| {
        let packet = Packet::parse(&event.packet.payload).expect("a packet of SCTP");
        let (mut wire, mut lost) = tracer.get();
        match event.step {
            TraceStep::Arrived => wire.count(event, &packet),
            TraceStep::Dropped(_) => {
                let mut chunks = packet.chunks().flatten();
                lost += u64::from(chunks.any(|c| c.kind == ChunkType::DATA));
            }
            TraceStep::Sent => {}
        }
        tracer.set((wire, lost));
    });
    world.net.run_until(Time::from_secs(MEASURED));
    let of = |endpoint: &Endpoint| {
        let id = endpoint
            .associations()
            .next()
            .expect("the association is established");
        endpoint
            .association(id)
            .expect("the association is established")
            .stats()
    };
    let sender = of(world
        .net
        .node::<SctpHost<MessageSource>>(world.source)
        .endpoint());
    let receiver = of(world
        .net
        .node::<SctpHost<MessageSink>>(world.sink)
        .endpoint());
    world.net.run_until(Time::from_secs(60));
    assert!(world.application().closed, "by shutdown");
    assert_eq!(world.sink().complete(), MESSAGES, "all messages arrived");
    assert_eq!(world.sink().disordered, 0);
    let stats = world.net.link_stats(link, there);
    let (wire, lost) = seen.get();
    EcnRun {
        sender,
        receiver,
        wire,
        marked: stats.marked,
        lost,
        longest: stats.max_queue_packets,
    }
}

/// Runs a transfer with ECN on both sides, and one with a peer that does not support it.
fn compare(name: &str, management: QueueManagement, policies: fn() -> Policies) -> [EcnRun; 2] {
    let runs = [true, false].map(|peer| run(management, policies(), [true, peer]));
    for (ecn, run) in ["both", "sender only"].iter().zip(&runs) {
        let (marks, cuts) = (run.marked, run.sender.counters.congestion_mark_reductions);
        println!(
            "| {name} | {ecn} | {marks} | {cuts} | {} | {} | {} | {} |",
            run.wire.ecne,
            run.lost,
            run.sent_again(),
            run.longest
        );
    }
    runs
}

fn assert_marks_replace_losses([with, without]: &[EcnRun; 2]) {
    let (at_sender, at_receiver) = (with.sender.counters, with.receiver.counters);
    assert!(with.sender.extensions.ecn && with.receiver.extensions.ecn);
    assert!(with.marked > 0, "the queue marks: {with:?}");
    let marked = at_receiver.congestion_marks_received;
    assert!(marked > 0 && marked <= with.marked, "{with:?}");
    assert!(with.wire.ecne > 0 && with.wire.cwr > 0, "{with:?}");
    let cuts = at_sender.congestion_mark_reductions;
    assert!(cuts > 0 && cuts <= marked, "once per window: {with:?}");
    assert!(with.lost < without.lost, "{with:?} {without:?}");
    assert!(
        with.sent_again() < without.sent_again(),
        "{with:?} {without:?}"
    );
    assert_eq!(at_sender.t3_expirations, 0);
}

fn assert_there_is_no_ecn(without: &EcnRun) {
    assert!(!without.sender.extensions.ecn && !without.receiver.extensions.ecn);
    assert_eq!(without.wire, Wire::default(), "no ECN on the wire");
    assert_eq!(without.marked, 0, "no packet is ECN-capable");
    let (sender, receiver) = (without.sender.counters, without.receiver.counters);
    assert_eq!(sender.congestion_mark_reductions, 0);
    assert_eq!(receiver.congestion_marks_received, 0);
    assert!(without.lost > 0 && without.sent_again() > 0, "{without:?}");
}

type Named = (&'static str, fn() -> Policies);

const POLICIES: [Named; 2] = [
    ("RFC 9260", Policies::default),
    ("modern", Policies::modern),
];

/// RFC 4960, appendix A
#[test]
fn red_marking_avoids_losses() {
    for (name, policies) in POLICIES {
        let runs = compare(&format!("RED, {name}"), RED, policies);
        assert_marks_replace_losses(&runs);
    }
}

/// RFC 4960, appendix A
#[test]
fn step_marking_avoids_losses() {
    for (name, policies) in POLICIES {
        let runs = compare(&format!("above 20, {name}"), MARK_ABOVE, policies);
        assert_marks_replace_losses(&runs);
        assert!(runs[0].longest < runs[1].longest, "the queue is shorter");
    }
}

/// RFC 3168, section 6.1.2
#[test]
fn a_rate_based_sender_responds_to_marks() {
    let policies = || Policies {
        congestion: Arc::new(RateBased),
        ..Policies::modern()
    };
    let runs = compare("above 20, rate-based", MARK_ABOVE, policies);
    let cuts = runs[0].sender.counters.congestion_mark_reductions;
    assert!(runs[0].marked > 0 && cuts > 0, "{:?}", runs[0]);
    // The queue is longest in start-up, before the first ECNE arrives.
    assert!(runs[0].longest <= runs[1].longest, "{runs:?}");
    assert_eq!(runs[0].lost, 0, "{:?}", runs[0]);
}

/// RFC 4960, appendix A
#[test]
fn packets_are_dropped_if_the_peer_lacks_ecn() {
    for management in [RED, MARK_ABOVE] {
        for ecn in [[true, false], [false, true]] {
            assert_there_is_no_ecn(&run(management, Policies::default(), ecn));
        }
    }
}

/// RFC 4960, appendix A
#[test]
fn drop_tail_queues_mark_nothing() {
    let run = run(QueueManagement::DropTail, Policies::default(), [true, true]);
    assert!(run.sender.extensions.ecn && run.wire.capable > 0);
    assert_eq!((run.marked, run.wire.ecne, run.wire.cwr), (0, 0, 0));
    assert_eq!(run.sender.counters.congestion_mark_reductions, 0);
    assert!(run.lost > 0 && run.sent_again() > 0, "{run:?}");
}
