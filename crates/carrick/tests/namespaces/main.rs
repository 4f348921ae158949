//! Two hosts with two disjoint paths between them, in network namespaces: a transfer outlives each
//! path in turn, and every reply leaves from the address that was addressed.
//!
//! Needs root and iproute2: `cargo test -p carrick --release --test namespaces -- --ignored`.
#![cfg(target_os = "linux")]

mod capture;
mod moving;
mod network;
mod replies;
mod transfer;

use carrick::Transport;

use transfer::{Plan, run};

#[test]
#[ignore = "needs root for network namespaces"]
fn namespaces_a_transfer_follows_the_address_to_another_interface_5061() {
    moving::run(Transport::Udp { port: 9899 });
}

#[test]
#[ignore = "needs root for network namespaces"]
fn namespaces_plain_ip_follows_the_address_to_another_interface_5061() {
    moving::run(Transport::Raw);
}

#[test]
#[ignore = "needs root for network namespaces"]
fn namespaces_a_gibibyte_outlives_each_path() {
    run(&Plan {
        transport: Transport::Udp { port: 9899 },
        bytes: 1 << 30,
    });
}

#[test]
#[ignore = "needs root for network namespaces"]
fn namespaces_plain_ip_outlives_each_path() {
    run(&Plan {
        transport: Transport::Raw,
        bytes: 1 << 28,
    });
}
