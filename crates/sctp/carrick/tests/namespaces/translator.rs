//! Two clients behind an address translator share its outside address and one SCTP port. During their
//! transfers the translator loses its state several times.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use carrick::{AssociationStats, Config, ConnectOptions, Endpoint, PathStats};

use super::network::{Network, Side, address, second_inside};
use super::transfer::{LIMIT, PORT, bind, on_runtime, pattern, receive, send_one};

/// Number of messages of 64 KiB of each client.
const MESSAGES: usize = 1024;

/// Number of times that the translator loses its state.
const TIMES: usize = 4;

/// Observations of the server.
#[derive(Default)]
struct ServerObservations {
    /// UDP ports of each association.
    ports: [BTreeSet<u16>; 2],
    /// Number of changes of the ports.
    changes: [u64; 2],
}

impl ServerObservations {
    fn note(&mut self, client: usize, paths: &[PathStats], stats: &AssociationStats) {
        assert_eq!(paths.len(), 1);
        self.ports[client].extend(paths[0].encapsulation);
        self.changes[client] = stats.counters.encapsulation_changes;
    }
}

pub(crate) fn run() {
    let network = Arc::new(Network::translated());
    let (ready, is_ready) = mpsc::channel();
    let seen = Arc::new(Mutex::new(ServerObservations::default()));
    let noted = Arc::clone(&seen);
    let server = network.on(Side::Far, move || {
        on_runtime(async move {
            let server = [address(Side::Far, 1)];
            let endpoint = bind(Config::udp(server).port(PORT));
            ready.send(()).unwrap();
            let mut work = Vec::new();
            for number in 0..2 {
                work.push(serve(&endpoint, number, Arc::clone(&noted)).await);
            }
            for work in work {
                work.await.unwrap();
            }
            let report = endpoint.close().await;
            assert!(report.is_empty(), "{report}");
        });
    });
    is_ready.recv_timeout(LIMIT).unwrap();
    let clients = [address(Side::Near, 0), second_inside()].map(|inside| {
        let translator = Arc::clone(&network);
        network.on(Side::Near, move || {
            on_runtime(transfer(inside, translator));
        })
    });
    for client in clients {
        client.join().unwrap();
    }
    server.join().unwrap();
    let seen = seen.lock().unwrap();
    for client in 0..2 {
        let ports = &seen.ports[client];
        assert!(
            ports.iter().all(|p| (40_000..=60_000).contains(p)),
            "{ports:?}"
        );
        assert!(ports.len() > 1, "the ports changed: {ports:?}");
        assert!(seen.changes[client] > 0);
    }
    // A client may get the port that the other one had before the loss of state.
    assert_ne!(seen.ports[0], seen.ports[1]);
}

/// Receives the messages of one client and records its ports.
async fn serve(
    endpoint: &Endpoint,
    number: usize,
    seen: Arc<Mutex<ServerObservations>>,
) -> tokio::task::JoinHandle<()> {
    let association = endpoint.accept().await.unwrap().accept();
    let watched = association.sender();
    let watch = tokio::spawn(async move {
        while let (Ok(paths), Ok(stats)) = (
            watched.control().paths().await,
            watched.control().stats().await,
        ) {
            seen.lock().unwrap().note(number, &paths, &stats);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    tokio::spawn(async move {
        receive(association, MESSAGES).await;
        watch.abort();
    })
}

/// Runs one of the clients: in UDP from the default port, as the other one.
async fn transfer(inside: IpAddr, translator: Arc<Network>) {
    let endpoint = bind(Config::udp([inside]).port(PORT + 1));
    let peers = [address(Side::Far, 1)];
    let options = ConnectOptions::new();
    let association = endpoint
        .connect_with((&peers, PORT), options)
        .await
        .unwrap();
    let pattern = pattern();
    for number in 0..MESSAGES {
        let part = MESSAGES / (TIMES + 1);
        // Each loss of state concerns both clients.
        if number % part == 0 && number > 0 {
            translator.forget_ports();
            eprintln!("the translator forgot its ports");
        }
        send_one(&association, number, &pattern).await;
    }
    association.shutdown().await.unwrap();
    let report = endpoint.close().await;
    assert!(report.is_empty(), "{report}");
}
