//! Interruption of data when its path fails, with and without potentially failed paths (RFC 7829).
//! `--nocapture` prints the table.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carrick_hosts::sctp::{Application, SctpHost};
use carrick_netsim::{Change, LinkConfig, NetworkBuilder, Time};
use carrick_proto::{
    AssociationConfig, AssociationId, Endpoint, EndpointConfig, Event, PathId, SendOptions,
};

const PORT: u16 = 5001;
const EVERY: Duration = Duration::from_millis(10);
const SIZE: usize = 250;
const BREAK: Duration = Duration::from_secs(8);
const END: Duration = Duration::from_secs(16);

/// Sends a message every 10 ms that contains its sending time.
struct MessageSource {
    peers: Vec<IpAddr>,
    config: AssociationConfig,
    next: Option<carrick_proto::Time>,
    id: Option<AssociationId>,
    sent: u64,
    /// Time at which new data moved to the second path.
    moved: Option<carrick_proto::Time>,
}

impl Application for MessageSource {
    fn next_timer(&self) -> Option<carrick_proto::Time> {
        self.next
    }

    fn on_timer(&mut self, now: carrick_proto::Time, endpoint: &mut Endpoint) {
        let Some(id) = self.id else {
            self.next = None;
            endpoint
                .connect(now, &self.peers, PORT, None, self.config.clone())
                .expect("a valid address");
            return;
        };
        let mut message = vec![0; SIZE];
        message[..8].copy_from_slice(&now.as_nanos().to_be_bytes());
        endpoint
            .send(now, id, SendOptions::default(), Bytes::from(message))
            .expect("space in the send buffer");
        self.sent += 1;
        self.next = Some(now + EVERY).filter(|at| at.as_nanos() < END.as_nanos() as u64);
    }

    fn on_event(
        &mut self,
        now: carrick_proto::Time,
        _: &mut Endpoint,
        id: AssociationId,
        event: Event,
    ) {
        match event {
            Event::Established { .. } => {
                self.id = Some(id);
                self.next = Some(now);
            }
            Event::PrimaryChanged(PathId(1)) => self.moved = self.moved.or(Some(now)),
            _ => {}
        }
    }
}

/// Records the age of delivered messages and the longest delivery gap.
#[derive(Default)]
struct MessageSink {
    received: u64,
    last: Option<u64>,
    silence: Duration,
    oldest: Duration,
}

impl Application for MessageSink {
    fn on_readable(
        &mut self,
        now: carrick_proto::Time,
        endpoint: &mut Endpoint,
        id: AssociationId,
    ) {
        let now = now.as_nanos();
        while let Some(message) = endpoint.receive(id) {
            let bytes = message.payload.into_bytes();
            let sent = u64::from_be_bytes(*bytes.first_chunk().expect("a time"));
            let gap = now - self.last.replace(now).unwrap_or(now);
            self.silence = self.silence.max(Duration::from_nanos(gap));
            self.oldest = self.oldest.max(Duration::from_nanos(now - sent));
            self.received += 1;
        }
    }
}

/// Result of one run.
#[derive(Clone, Copy, Debug)]
struct FailoverOutcome {
    /// Time from the failure until new data uses the other path.
    moved: Duration,
    /// Longest time without a delivery.
    silence: Duration,
    /// Longest delay of a message.
    oldest: Duration,
}

fn measure(path_max_retrans: u32, potentially_failed: Option<u32>) -> FailoverOutcome {
    let millis = Duration::from_millis;
    let config = AssociationConfig::rfc9260().with(|c| {
        c.timers.rto_initial = millis(80);
        c.timers.rto_min = millis(80);
        c.timers.rto_max = millis(150);
        c.transmission.nagle = false;
        c.paths.path_max_retrans = path_max_retrans;
        c.paths.potentially_failed_max_retrans = potentially_failed;
    });
    let mut builder = NetworkBuilder::new(1);
    let [source, sink] = ["source", "sink"].map(|name| builder.add_host(name));
    let mut links = Vec::new();
    let mut addresses = [Vec::new(), Vec::new()];
    for path in 1..=2 {
        let ips = [1, 2].map(|host| IpAddr::from([10, path, 0, host]));
        let ends = [(source, ips[0]), (sink, ips[1])];
        let ends = ends.map(|(node, ip)| builder.add_interface(node, [ip]));
        let link = LinkConfig::new(1_000_000, millis(20));
        links.push(builder.connect_both(ends[0], ends[1], link));
        (0..2).for_each(|host| addresses[host].push(ips[host]));
    }
    let endpoint = |host: usize| {
        let seed = [host as u8 + 1; 32];
        let mut own = EndpointConfig::new(PORT, addresses[host].clone(), seed);
        own.association = config.clone();
        Endpoint::new(own).expect("a valid configuration")
    };
    let program = MessageSource {
        peers: addresses[1].clone(),
        config: config.clone(),
        next: Some(carrick_proto::Time::ZERO),
        id: None,
        sent: 0,
        moved: None,
    };
    builder.set_node_program(source, Box::new(SctpHost::new(endpoint(0), program)));
    builder.set_node_program(
        sink,
        Box::new(SctpHost::new(endpoint(1), MessageSink::default())),
    );
    let mut net = builder.build().expect("a valid network");
    net.at(Time::ZERO + BREAK, Change::LinkDown(links[0]))
        .expect("a moment ahead");
    net.run_until(Time::ZERO + END + Duration::from_secs(1));
    let sent = net.node::<SctpHost<MessageSource>>(source).application();
    let got = net.node::<SctpHost<MessageSink>>(sink).application();
    assert_eq!(got.received, sent.sent, "all messages arrive");
    let moved = sent.moved.expect("a failover").as_nanos();
    FailoverOutcome {
        moved: Duration::from_nanos(moved).saturating_sub(BREAK),
        silence: got.silence,
        oldest: got.oldest,
    }
}

/// RFC 7829, section 3.2
#[test]
fn pf_moves_data_at_the_first_timeout() {
    let show =
        |o: FailoverOutcome| [o.moved, o.silence, o.oldest].map(|d| d.as_micros() as f64 / 1000.0);
    println!("Path.Max.Retrans, PFMR: data moves after, longest silence, oldest message (ms)");
    let mut before = Duration::ZERO;
    for retrans in 2..=5 {
        let standard = measure(retrans, None);
        let quick = measure(retrans, Some(0));
        println!("{retrans}, none: {:?}", show(standard));
        println!("{retrans}, 0:    {:?}", show(quick));
        let rto = Duration::from_millis(80);
        assert!(
            quick.moved >= rto / 2 && quick.moved <= 2 * rto,
            "one RTO: {quick:?}"
        );
        // RTO.Max is reached in steps: 80, 150, 150 ms.
        let least = rto / 2 + retrans * Duration::from_millis(150);
        assert!(standard.moved >= least, "{standard:?}");
        assert!(standard.moved > before, "each retransmission costs one RTO");
        before = standard.moved;
        assert!(quick.silence <= standard.silence);
    }
}

/// RFC 7829, section 3.2
#[test]
fn each_permitted_error_costs_one_timeout() {
    let moved: Vec<Duration> = (0..4).map(|pfmr| measure(5, Some(pfmr)).moved).collect();
    assert!(moved.windows(2).all(|m| m[1] > m[0]), "{moved:?}");
    assert!(moved[3] < measure(5, None).moved);
}
