//! The second address of the near host is removed and added again, and a route leads away from its path for
//! a while. Then the first path fails for good, and the second one carries all data.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc;

use carrick::{Association, ConnectOptions, Event, Events, Notification, PathId, Transport};

use super::moving::bind;
use super::network::{Network, Side, address, addresses};
use super::transfer::{LIMIT, PORT, on_runtime, pattern, receive, send_one, wait_for};

const MESSAGES: usize = 64;

pub(crate) fn run(transport: Transport) {
    let network = Arc::new(Network::new());
    let (ready, is_ready) = mpsc::channel();
    let receiver = network.on(Side::Far, move || {
        on_runtime(async move {
            let endpoint = bind(transport, PORT, &addresses(Side::Far));
            ready.send(()).unwrap();
            receive(endpoint.accept().await.unwrap().accept(), MESSAGES).await;
            let report = endpoint.close().await;
            assert!(report.is_empty(), "{report}");
        });
    });
    is_ready.recv_timeout(LIMIT).unwrap();
    let host = Arc::clone(&network);
    let sender = network.on(Side::Near, move || {
        on_runtime(async move {
            let endpoint = bind(transport, PORT + 1, &[]);
            let options = ConnectOptions::new();
            let peers = [address(Side::Far, 0)];
            let association = endpoint
                .connect_with((&peers, PORT), options)
                .await
                .unwrap();
            send(association, &host).await;
            let report = endpoint.close().await;
            assert!(report.is_empty(), "{report}");
        });
    });
    let (sent, received) = (sender.join(), receiver.join());
    sent.unwrap();
    received.unwrap();
}

async fn send(mut association: Association, network: &Network) {
    let mut events = association.take_events().unwrap();
    let [first, second] = addresses(Side::Near);
    source_is(&association, &mut events, second).await;
    network.leave(Side::Near, 1);
    source_is(&association, &mut events, first).await;
    network.arrive(Side::Near, 1);
    source_is(&association, &mut events, second).await;
    eprintln!("the address has returned");
    network.detour(true);
    source_is(&association, &mut events, first).await;
    network.detour(false);
    source_is(&association, &mut events, second).await;
    eprintln!("the route has returned");
    let pattern = pattern();
    for number in 0..MESSAGES {
        if number == MESSAGES / 2 {
            network.set_link(Side::Far, 0, false);
            wait_for(&mut events, &Event::PathFailed(PathId(0))).await;
        }
        send_one(&association, number, &pattern).await;
    }
    association.shutdown().await.unwrap();
}

/// Waits until the path to the second address of the far host has this source.
async fn source_is(association: &Association, events: &mut Events, source: IpAddr) {
    loop {
        let paths = association.control().paths().await.unwrap();
        let path = paths.iter().find(|p| p.remote == address(Side::Far, 1));
        if path.is_some_and(|p| p.local == Some(source)) {
            return;
        }
        match events.next().await {
            Some(Notification::Event(Event::Closed(reason))) => panic!("{reason:?}"),
            Some(_) => {}
            None => panic!("the source is never {source}"),
        }
    }
}
