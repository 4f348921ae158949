//! Path MTU discovery over a router whose far link is narrow, or becomes narrow under load, with or without
//! ICMP messages about dropped packets.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use carrick::{
    Association, AssociationConfig, Config, ConnectOptions, Endpoint, PathMtuDiscovery,
    PathMtuState, PathStats, SendOptions, Transport,
};

use super::network::{Network, Side};
use super::transfer::{pattern, receive, send_one};

const PORT: u16 = 5000;
const MESSAGE: usize = 200_000;

/// Number of messages of 64 KiB, over a link whose MTU is lowered after half of them.
const MESSAGES: usize = 256;
const NARROW: u32 = 1400;

/// Runs both hosts, and returns the path MTU that the near one found.
pub(crate) fn found(transport: Transport, mtus: [u32; 2]) -> usize {
    let network = Network::routed(mtus);
    let [near, far] = addresses(false);
    let sender = network.on(Side::Near, move || {
        on_runtime(async move {
            let (_endpoint, association) = connect(transport, near, far).await;
            let found = searched(&association).await.mtu;
            let data = vec![7; MESSAGE];
            association
                .send(data, SendOptions::default())
                .await
                .unwrap();
            association.shutdown().await.unwrap();
            found
        })
    });
    let receiver = network.on(Side::Far, move || {
        on_runtime(async move {
            let endpoint = bind(transport, far, PORT);
            let mut association = endpoint.accept().await.unwrap().accept();
            let message = association.recv().await.unwrap().unwrap();
            assert_eq!(message.payload.len(), MESSAGE);
            assert_eq!(association.recv().await.unwrap(), None);
        })
    });
    let found = sender.join().unwrap();
    receiver.join().unwrap();
    found
}

/// Lowers the MTU of the far link during a transfer; all messages arrive.
pub(crate) fn narrowed(transport: Transport, v6: bool, silent: bool) {
    let network = Arc::new(Network::in_both_families());
    if silent {
        network.silence();
    }
    let [near, far] = addresses(v6);
    let receiver = network.on(Side::Far, move || {
        on_runtime(async move {
            let endpoint = bind(transport, far, PORT);
            receive(endpoint.accept().await.unwrap().accept(), MESSAGES).await;
        })
    });
    let links = Arc::clone(&network);
    let sender = network.on(Side::Near, move || {
        on_runtime(async move {
            let (endpoint, association) = connect(transport, near, far).await;
            assert_eq!(searched(&association).await.mtu, 1500);
            let before = endpoint.stats().await.unwrap().protocol.icmp_accepted;
            let pattern = pattern();
            for number in 0..MESSAGES {
                if number == MESSAGES / 2 {
                    links.narrow(NARROW);
                }
                send_one(&association, number, &pattern).await;
            }
            while association
                .control()
                .stats()
                .await
                .unwrap()
                .send_buffer_bytes
                > 0
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let path = &association.control().paths().await.unwrap()[0];
            let icmp = endpoint.stats().await.unwrap().protocol.icmp_accepted - before;
            eprintln!("MTU {}, {icmp} ICMP messages from the router", path.mtu);
            assert!(path.mtu <= NARROW as usize, "{path:?}");
            assert_eq!(icmp == 0, silent, "{icmp} ICMP messages");
            association.shutdown().await.unwrap();
        })
    });
    let (sent, received) = (sender.join(), receiver.join());
    sent.unwrap();
    received.unwrap();
}

fn addresses(v6: bool) -> [IpAddr; 2] {
    [Side::Near, Side::Far].map(|side| Network::routed_address(side, v6))
}

fn on_runtime<R>(work: impl Future<Output = R>) -> R {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let limit = Duration::from_secs(60);
    runtime.block_on(async { tokio::time::timeout(limit, work).await.unwrap() })
}

fn bind(transport: Transport, address: IpAddr, port: u16) -> Endpoint {
    let association = AssociationConfig::rfc9260()
        .with(|c| c.mtu.path_mtu_discovery = Some(PathMtuDiscovery::default()));
    let config = Config::udp([address])
        .transport(transport)
        .port(port)
        .association(association);
    Endpoint::bind(config).unwrap()
}

async fn connect(transport: Transport, near: IpAddr, far: IpAddr) -> (Endpoint, Association) {
    let endpoint = bind(transport, near, 0);
    let options = ConnectOptions::new();
    loop {
        // The other host may not exist yet.
        if let Ok(association) = endpoint.connect_with((&[far], PORT), options.clone()).await {
            return (endpoint, association);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns the path when the search is complete.
async fn searched(association: &Association) -> PathStats {
    loop {
        let mut paths = association.control().paths().await.unwrap();
        if paths[0].mtu_discovery == Some(PathMtuState::SearchComplete) {
            return paths.swap_remove(0);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
