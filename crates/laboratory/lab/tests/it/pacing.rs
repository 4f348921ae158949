//! Rate-based, paced transfers in virtual time. `--nocapture` prints what they carry.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carrick_hosts::sctp::{Application, SctpHost};
use carrick_netsim::{LinkConfig, NetworkBuilder, Queue, Time};
use carrick_proto::cc::{Algorithm, Cubic, RateBased};
use carrick_proto::research::Policies;
use carrick_proto::{AssociationId, Endpoint, EndpointConfig, Event, PathId, SendOptions};

use crate::bulk::{BulkSink, fill};
use crate::multipath::support::{self, MESSAGE, Path, Transfer};

fn policies(congestion: Arc<dyn Algorithm>) -> Policies {
    Policies {
        congestion,
        ..Policies::modern()
    }
}

#[test]
fn random_loss_does_not_slow_a_rate_based_sender() {
    let path = Path::new(10, 20).lossy(0.01);
    let carried = |congestion| {
        let outcome = Transfer::new(policies(congestion), &[path]).measure(5, 35);
        println!("{:.2} Mbit/s, {:?}", outcome.mbits, outcome.paths[0]);
        outcome.mbits
    };
    let (rate_based, cubic) = (carried(Arc::new(RateBased)), carried(Arc::new(Cubic)));
    assert!(rate_based >= 9.0, "{rate_based}");
    assert!(cubic < 9.0, "{cubic}");
}

#[test]
fn the_queue_stays_below_a_bandwidth_delay_product() {
    let mut world = Transfer::new(policies(Arc::new(RateBased)), &[Path::new(10, 20)]).build();
    world.net.run_until(Time::from_secs(5));
    let path = world.path(PathId(0));
    let rtt = path.srtt.expect("measured");
    assert!(rtt < Duration::from_millis(80), "{rtt:?} of 40 ms");
    let rate = path.pacing_rate.expect("samples") as f64 * 8.0 / 1e6;
    assert!((6.5..=13.0).contains(&rate), "{rate} of 10 Mbit/s");
}

#[test]
fn two_paced_paths_have_a_rate_each() {
    let paths = [Path::new(10, 20), Path::new(4, 50)];
    let transfer = Transfer::new(support::concurrent(policies(Arc::new(RateBased))), &paths);
    let outcome = transfer.measure(5, 35);
    println!("{:.2} Mbit/s", outcome.mbits);
    assert!(outcome.mbits >= 0.9 * 14.0, "{}", outcome.mbits);
    for (path, mbits) in outcome.paths.iter().zip([10.0, 4.0]) {
        let rate = path.pacing_rate.expect("samples") as f64 * 8.0 / 1e6;
        let expected = 0.65 * mbits..=1.3 * mbits;
        assert!(expected.contains(&rate), "{rate} of {mbits} Mbit/s");
    }
}

/// Fills the send buffer for 3 s, then sends a message each 20 ms.
struct Trickle {
    peer: IpAddr,
    next: Option<carrick_proto::Time>,
    association: Option<AssociationId>,
    bulk_until: carrick_proto::Time,
}

impl Application for Trickle {
    fn next_timer(&self) -> Option<carrick_proto::Time> {
        self.next
    }

    fn on_timer(&mut self, now: carrick_proto::Time, endpoint: &mut Endpoint) {
        let Some(id) = self.association else {
            let config = support::config(policies(Arc::new(RateBased))).with(|c| {
                c.buffers.send_buffer = 1 << 20;
            });
            let id = endpoint.connect(now, &[self.peer], 5001, None, config);
            self.association = Some(id.expect("a valid address"));
            self.next = Some(self.bulk_until);
            return;
        };
        let message = Bytes::from(vec![0; MESSAGE]);
        endpoint
            .send(now, id, SendOptions::default(), message)
            .expect("room");
        self.next = Some(now + Duration::from_millis(20));
    }

    fn on_event(
        &mut self,
        now: carrick_proto::Time,
        endpoint: &mut Endpoint,
        id: AssociationId,
        event: Event,
    ) {
        let has_room = matches!(event, Event::Established { .. } | Event::SendBufferFree);
        if has_room && now < self.bulk_until {
            fill(now, endpoint, id, &Bytes::from(vec![0; MESSAGE]));
        }
    }
}

#[test]
fn an_app_limited_sender_keeps_its_rate() {
    let addresses: [IpAddr; 2] = [[10, 1, 0, 1].into(), [10, 1, 0, 2].into()];
    let mut net = NetworkBuilder::new(1);
    let hosts = ["source", "sink"].map(|name| net.add_host(name));
    let ends = [0, 1].map(|n| net.add_interface(hosts[n], [addresses[n]]));
    let link = LinkConfig::new(10_000_000, Duration::from_millis(20));
    net.connect_both(ends[0], ends[1], link.with_queue(Queue::packets(100)));
    let endpoint = |n: usize| {
        let mut config = EndpointConfig::new(5001, vec![addresses[n]], [n as u8 + 1; 32]);
        config.association = support::config(policies(Arc::new(RateBased)));
        Endpoint::new(config).expect("a valid configuration")
    };
    let source = Trickle {
        peer: addresses[1],
        next: Some(carrick_proto::Time::ZERO),
        association: None,
        bulk_until: carrick_proto::Time::from_millis(3000),
    };
    net.set_node_program(hosts[0], Box::new(SctpHost::new(endpoint(0), source)));
    net.set_node_program(
        hosts[1],
        Box::new(SctpHost::new(endpoint(1), BulkSink::default())),
    );
    let mut net = net.build().expect("a valid network");
    let mut rate_at = |seconds| {
        net.run_until(Time::from_secs(seconds));
        let endpoint = net.node::<SctpHost<Trickle>>(hosts[0]).endpoint();
        let id = endpoint.associations().next().expect("it is up");
        let path = endpoint
            .association(id)
            .and_then(|a| a.path_stats(PathId(0)));
        path.expect("a path").pacing_rate.expect("samples")
    };
    // The trickle has 6 % of the rate of the link.
    let (bulk, trickle) = (rate_at(3), rate_at(20));
    println!("{bulk} and {trickle} bytes/s");
    assert!(bulk < 2_000_000, "start-up is over: {bulk}");
    assert!(trickle * 10 >= bulk * 6, "only the gain differs");
}
