//! A set-up whose first address the near host has no route to: the next one is tried at once.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use carrick::{AssociationConfig, Config, ConnectOptions, Endpoint, Transport};

use super::moving::bind;
use super::network::{Network, Side, address, addresses};
use super::transfer::{LIMIT, PORT, on_runtime};

pub(crate) fn run(transport: Transport) {
    let network = Arc::new(Network::new());
    let (ready, is_ready) = mpsc::channel();
    let far = network.on(Side::Far, move || {
        on_runtime(async move {
            let endpoint = bind(transport, PORT, &addresses(Side::Far));
            ready.send(()).unwrap();
            let accepted = endpoint.accept().await.unwrap().accept();
            accepted.closed().await;
        });
    });
    is_ready.recv_timeout(LIMIT).unwrap();
    let near = network.on(Side::Near, move || {
        on_runtime(async move {
            // Without the error of the system, T1-init would expire after an hour.
            let hour = Duration::from_secs(3600);
            let config = AssociationConfig::default().with(|c| {
                c.timers.rto_initial = hour;
                c.timers.rto_max = hour;
            });
            let own = Config::udp(addresses(Side::Near)).transport(transport);
            let endpoint = Endpoint::bind(own.port(PORT + 1).association(config)).unwrap();
            let peers = ["203.0.113.1".parse().unwrap(), address(Side::Far, 1)];
            let connected = endpoint.connect_with((&peers, PORT), ConnectOptions::new());
            connected.await.unwrap().shutdown().await.unwrap();
        });
    });
    near.join().unwrap();
    far.join().unwrap();
}
