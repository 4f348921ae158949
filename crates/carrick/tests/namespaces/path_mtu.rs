//! Path MTU discovery over a router whose far link is narrow, which tells what it dropped.

use std::time::Duration;

use carrick::{
    AssociationConfig, Config, ConnectOptions, Endpoint, PathMtuDiscovery, PathMtuState,
    SendOptions, Transport,
};

use super::network::{Network, Side, address};

const PORT: u16 = 5000;
const MESSAGE: usize = 200_000;

/// Both hosts, and what the near one found.
pub(crate) fn found(transport: Transport, mtus: [u32; 2]) -> usize {
    let network = Network::routed(mtus);
    let near = network.on(Side::Near, move || on_runtime(connect(transport)));
    let far = network.on(Side::Far, move || on_runtime(accept(transport)));
    let found = near.join().unwrap();
    far.join().unwrap();
    found
}

fn on_runtime<R>(work: impl Future<Output = R>) -> R {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let limit = Duration::from_secs(60);
    runtime.block_on(async { tokio::time::timeout(limit, work).await.unwrap() })
}

fn bind(transport: Transport, side: Side, path: usize, port: u16) -> Endpoint {
    Endpoint::bind(Config {
        transport,
        port,
        association: AssociationConfig {
            path_mtu_discovery: Some(PathMtuDiscovery::default()),
            ..AssociationConfig::default()
        },
        ..Config::udp([address(side, path)])
    })
    .unwrap()
}

async fn connect(transport: Transport) -> usize {
    let endpoint = bind(transport, Side::Near, 0, 0);
    let peer = address(Side::Far, 1);
    let options = ConnectOptions::to_port(PORT);
    let association = loop {
        // The other host may not be there yet.
        if let Ok(association) = endpoint.connect(&[peer], options.clone()).await {
            break association;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let found = loop {
        let paths = association.paths().await.unwrap();
        if paths[0].mtu_discovery == Some(PathMtuState::SearchComplete) {
            break paths[0].mtu;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let data = vec![7; MESSAGE];
    association
        .send(data, SendOptions::default())
        .await
        .unwrap();
    association.shutdown().await.unwrap();
    found
}

async fn accept(transport: Transport) {
    let endpoint = bind(transport, Side::Far, 1, PORT);
    let mut association = endpoint.accept().await.unwrap();
    let message = association.recv().await.unwrap().unwrap();
    assert_eq!(message.payload.len(), MESSAGE);
    assert_eq!(association.recv().await.unwrap(), None);
}
