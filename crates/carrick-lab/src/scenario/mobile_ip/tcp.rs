//! The transfer over TCP, to the home address.

use std::net::IpAddr;
use std::time::Duration;

use carrick_netsim::Time;
use carrick_netsim::mobile::MobileNode;

use super::network::build;
use super::run::{Configuration, Measures, PATIENCE, layout};
use super::setup::{CORRESPONDENT, HOME, PAPER_WINDOW, PATH_MTU, PORT, Stack};
use crate::capture::Capture;
use crate::seed::derive;
use crate::tcp_host::{BulkSink, BulkSource, Connection, TcpApplication, TcpConfig, TcpHost};

/// Length of a pause in deliveries that only a retransmission timeout of a second causes.
pub(super) const PAUSE: Duration = Duration::from_millis(900);

/// Receiver that records pauses.
#[derive(Default)]
struct Sink {
    bulk: BulkSink,
    pauses: (u64, f64),
}

impl TcpApplication for Sink {
    fn on_progress(&mut self, now: Time, connection: &mut Connection<'_>) {
        let before = self.bulk.last;
        self.bulk.on_progress(now, connection);
        let (Some(before), Some(after)) = (before, self.bulk.last) else {
            return;
        };
        let pause = after - before;
        if pause >= PAUSE {
            self.pauses.0 += 1;
            self.pauses.1 += pause.as_secs_f64();
        }
    }
}

/// Runs a transfer of `bytes` with random loss in the tunnel.
pub(super) fn transfer(
    loss: f64,
    bytes: u64,
    seed: u64,
    capture: Capture<'_>,
) -> Result<Measures, String> {
    let config = |address: std::net::Ipv4Addr, end| TcpConfig {
        receive_buffer: PAPER_WINDOW,
        send_buffer: 4 * PAPER_WINDOW,
        mtu: PATH_MTU,
        ..TcpConfig::new(IpAddr::V4(address), derive(seed, &[3, end]))
    };
    let peer = (IpAddr::V4(HOME), PORT);
    let source = TcpHost::connect(config(CORRESPONDENT[0], 0), peer, BulkSource::new(bytes));
    let sink = TcpHost::listen(config(HOME, 1), PORT, Sink::default());
    let layout = layout(Configuration::One, Stack::Paper, loss);
    let seed = derive(seed, &[0]);
    let mut built =
        build(layout, seed, Box::new(source), sink).map_err(|error| error.to_string())?;
    capture.begin(&mut built.net)?;
    while built.net.now() < Time::ZERO + PATIENCE {
        built
            .net
            .run_until(built.net.now() + Duration::from_secs(1));
        let node = built.net.node::<MobileNode<TcpHost<Sink>>>(built.mobile);
        let sink = node.program().application();
        if sink.bulk.received < bytes {
            continue;
        }
        let source = built
            .net
            .node::<TcpHost<BulkSource>>(built.correspondent)
            .application();
        let start = source.started.ok_or("TCP sent nothing")?;
        let rate = sink.bulk.goodput(start).ok_or("TCP took no time")?;
        let pauses = sink.pauses;
        capture.end(&mut built.net)?;
        return Ok(Measures {
            throughput: rate / 1e6,
            delivered: 1.0,
            pauses,
            ..Measures::default()
        });
    }
    Err(format!("TCP at {loss}: the transfer did not end in time"))
}
