//! The near host's only address moves from one interface to the other and back by `ip` during a transfer.
//! The endpoints are not notified by the test.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use carrick::{Association, AssociationConfig, Config, ConnectOptions, Endpoint, Transport};

use super::network::{Network, Side, address, addresses};
use super::transfer::{LIMIT, PORT, on_runtime, pattern, receive, send_one};

const MESSAGES: usize = 4096;

pub(crate) fn run(transport: Transport) {
    let network = Arc::new(Network::new());
    network.leave(Side::Near, 1);
    network.arrive(Side::Near, 0);
    let (ready, is_ready) = mpsc::channel();
    let receiver = network.on(Side::Far, move || {
        on_runtime(async move {
            let endpoint = bind(transport, PORT, &addresses(Side::Far));
            ready.send(()).unwrap();
            let association = endpoint.accept().await.unwrap().accept();
            assert!(
                association
                    .control()
                    .stats()
                    .await
                    .unwrap()
                    .extensions
                    .dynamic_addresses
            );
            receive(association, MESSAGES).await;
            let report = endpoint.close().await;
            assert!(report.is_empty(), "{report}");
        });
    });
    is_ready.recv_timeout(LIMIT).unwrap();
    let host = Arc::clone(&network);
    let sender = network.on(Side::Near, move || {
        on_runtime(async move {
            // The endpoint uses all addresses of the host, which change.
            let endpoint = bind(transport, PORT + 1, &[]);
            let options = ConnectOptions::new();
            let peers = [address(Side::Far, 0)];
            let association = endpoint
                .connect_with((&peers, PORT), options)
                .await
                .unwrap();
            send(association, &host).await;
            let mut last = endpoint.local_addresses().await.unwrap();
            last.retain(|a| !a.is_loopback());
            assert_eq!(last, [address(Side::Near, 0)]);
            let report = endpoint.close().await;
            assert!(report.is_empty(), "{report}");
        });
    });
    let (sent, received) = (sender.join(), receiver.join());
    sent.unwrap();
    received.unwrap();
}

pub(crate) fn bind(transport: Transport, port: u16, addresses: &[std::net::IpAddr]) -> Endpoint {
    let mut association = AssociationConfig::modern().with(|c| {
        c.timers.rto_initial = Duration::from_millis(200);
        c.timers.rto_min = Duration::from_millis(50);
        c.timers.rto_max = Duration::from_millis(500);
        c.paths.association_max_retrans = 50;
        c.paths.hb_interval = Duration::from_millis(200);
    });
    association.extensions.authentication = true;
    association.extensions.dynamic_addresses = true;
    let config = Config::udp(addresses.iter().copied())
        .transport(transport)
        .port(port)
        .association(association)
        .auto_addresses(true);
    Endpoint::bind(config).unwrap()
}

/// Sends all messages; the address is removed before the new one is added, twice.
async fn send(association: Association, network: &Network) {
    let pattern = pattern();
    let quarter = MESSAGES / 4;
    for number in 0..MESSAGES {
        if number % quarter == 0 && number / quarter % 2 == 1 {
            let to = 1 - number / quarter / 2;
            network.leave(Side::Near, 1 - to);
            network.arrive(Side::Near, to);
            eprintln!("moved to path {to}");
        }
        send_one(&association, number, &pattern).await;
    }
    let stats = association.control().stats().await.unwrap();
    assert_eq!(stats.authentication.forged_packets, 0);
    association.shutdown().await.unwrap();
}
