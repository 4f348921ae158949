//! Two hosts with two disjoint paths between them, in network namespaces: a transfer survives the failure
//! of each path in turn, and every reply uses the packet's destination address as source (RFC 9260, section
//! 6.4).
//!
//! In a separate binary, since it needs root and iproute2: `cargo test -p carrick --release --test namespaces -- --ignored`.
#![cfg(target_os = "linux")]

mod capture;
mod marks;
mod moving;
mod network;
mod path_mtu;
mod replies;
mod returning;
mod transfer;
mod translator;
mod unroutable;

use carrick::Transport;

use transfer::{TransferPlan, run};

/// RFC 5061
#[test]
#[ignore = "needs root for network namespaces"]
fn udp_follows_a_moving_address() {
    moving::run(Transport::Udp { port: 9899 });
}

/// RFC 5061
#[test]
#[ignore = "needs root for network namespaces"]
fn plain_ip_follows_a_moving_address() {
    moving::run(Transport::Raw);
}

/// RFC 9260, section 6.4
#[test]
#[ignore = "needs root for network namespaces"]
fn redundancy_survives_a_returning_address() {
    for transport in [Transport::Udp { port: 9899 }, Transport::Raw] {
        returning::run(transport);
    }
}

/// RFC 9260, section 5.1
#[test]
#[ignore = "needs root for network namespaces"]
fn an_address_without_a_route_is_passed_over() {
    for transport in [Transport::Udp { port: 9899 }, Transport::Raw] {
        unroutable::run(transport);
    }
}

#[test]
#[ignore = "needs root for network namespaces"]
fn a_gibibyte_outlives_each_path() {
    run(&TransferPlan {
        transport: Transport::Udp { port: 9899 },
        bytes: 1 << 30,
    });
}

#[test]
#[ignore = "needs root for network namespaces"]
fn plain_ip_outlives_each_path() {
    run(&TransferPlan {
        transport: Transport::Raw,
        bytes: 1 << 28,
    });
}

/// RFC 6951
#[test]
#[ignore = "needs root for network namespaces"]
fn paths_in_udp_and_on_plain_ip_fail_over() {
    run(&TransferPlan {
        transport: Transport::Both { port: 9899 },
        bytes: 1 << 28,
    });
}

/// RFC 6951, section 5.4
#[test]
#[ignore = "needs root for network namespaces"]
fn ports_of_a_translator_change() {
    translator::run();
}

/// RFC 8899, section 6.2
#[test]
#[ignore = "needs root for network namespaces"]
fn the_path_mtu_is_that_of_the_narrow_link() {
    for transport in [Transport::Udp { port: 9899 }, Transport::Raw] {
        for mtus in [[9000, 1400], [9000, 4000], [1500, 9000]] {
            let narrow = mtus[0].min(mtus[1]) as usize;
            let found = path_mtu::found(transport, mtus);
            assert_eq!(found, narrow, "{transport:?} over {mtus:?}");
        }
    }
}

/// RFC 8899, section 4
#[test]
#[ignore = "needs root for network namespaces"]
fn a_smaller_link_mtu_is_found() {
    for transport in [Transport::Udp { port: 9899 }, Transport::Raw] {
        for v6 in [false, true] {
            for silent in [false, true] {
                eprintln!("{transport:?}, IPv6: {v6}, without ICMP: {silent}");
                path_mtu::narrowed(transport, v6, silent);
            }
        }
    }
}

/// RFC 4960, appendix A
#[test]
#[ignore = "needs root for network namespaces"]
fn an_ecn_mark_reaches_the_association() {
    for transport in [Transport::Udp { port: 9899 }, Transport::Raw] {
        for v6 in [false, true] {
            for offload in [false, true] {
                eprintln!("{transport:?}, IPv6: {v6}, offload: {offload}");
                marks::run(transport, v6, offload);
            }
        }
    }
}
