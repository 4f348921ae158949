//! The simulated TCP against smoltcp, an independent implementation.

use std::net::IpAddr;

use carrick_hosts::tcp::{TcpConfig, TcpHost};
use carrick_netsim::{Node, Time};

use super::smoltcp_host::SmoltcpHost;
use super::support::{Transfer, link, network, nodes};

const BYTES: usize = 200_000;

/// Transfers in the given directions with smoltcp as server or as client.
fn transfer(addresses: [&str; 2], bytes: [usize; 2], smoltcp_connects: bool, loss: f64, seed: u64) {
    let addresses: [IpAddr; 2] = addresses.map(|text| text.parse().expect("an address"));
    let own = usize::from(smoltcp_connects);
    let peer = (addresses[1], 80);
    let config = TcpConfig::new(addresses[own], seed);
    let program = Transfer::new(bytes[own]);
    let (client, server): (Box<dyn Node>, Box<dyn Node>) = if smoltcp_connects {
        let client = SmoltcpHost::new(addresses[0], Some(peer), bytes[0]);
        (
            Box::new(client),
            Box::new(TcpHost::listen(config, 80, program)),
        )
    } else {
        let server = SmoltcpHost::new(addresses[1], None, bytes[1]);
        (
            Box::new(TcpHost::connect(config, peer, program)),
            Box::new(server),
        )
    };
    let mut net = network(addresses, [&link(loss); 2], seed, client, server);
    net.run_until(Time::from_secs(1000));
    let nodes = nodes(&net);
    let own_host = net.node::<TcpHost<Transfer>>(nodes[own]).application();
    let other = net.node::<SmoltcpHost>(nodes[1 - own]);
    let received = (own_host.received, other.received);
    assert_eq!(
        received,
        (bytes[1 - own], bytes[own]),
        "{addresses:?}, seed {seed}"
    );
    assert!(own_host.is_acknowledged);
}

/// RFC 9293, section 3.5
#[test]
fn smoltcp_transfers_in_both_roles() {
    for addresses in [["10.0.0.1", "10.0.0.2"], ["fd00::1", "fd00::2"]] {
        for smoltcp_connects in [false, true] {
            for bytes in [[BYTES, 0], [0, BYTES]] {
                transfer(addresses, bytes, smoltcp_connects, 0.0, 1);
            }
        }
    }
}

/// RFC 2018, section 3
#[test]
fn smoltcp_transfers_with_loss() {
    for seed in 0..20 {
        for smoltcp_connects in [false, true] {
            for bytes in [[BYTES, 0], [0, BYTES]] {
                transfer(
                    ["10.0.0.1", "10.0.0.2"],
                    bytes,
                    smoltcp_connects,
                    0.03,
                    seed,
                );
            }
        }
    }
}
