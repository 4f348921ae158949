//! Two hosts with two disjoint paths between them, in network namespaces: a transfer outlives each
//! path in turn, and every reply leaves from the address that was addressed.
//!
//! Needs root and iproute2: `cargo test -p carrick --release --test namespaces -- --ignored`.
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

/// RFC 9260, section 6.4
#[test]
#[ignore = "needs root for network namespaces"]
fn namespaces_redundancy_survives_a_returning_address() {
    for transport in [Transport::Udp { port: 9899 }, Transport::Raw] {
        returning::run(transport);
    }
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

#[test]
#[ignore = "needs root for network namespaces"]
fn namespaces_one_path_in_udp_and_one_on_plain_ip_outlive_each_other_rfc_6951() {
    run(&Plan {
        transport: Transport::Both { port: 9899 },
        bytes: 1 << 28,
    });
}

#[test]
#[ignore = "needs root for network namespaces"]
fn namespaces_two_hosts_behind_a_translator_whose_ports_change_rfc_6951_5_4() {
    translator::run();
}

#[test]
#[ignore = "needs root for network namespaces"]
fn namespaces_the_path_mtu_is_that_of_the_narrow_link_rfc_8899_6_2() {
    for transport in [Transport::Udp { port: 9899 }, Transport::Raw] {
        for mtus in [[9000, 1400], [9000, 4000], [1500, 9000]] {
            let narrow = mtus[0].min(mtus[1]) as usize;
            let found = path_mtu::found(transport, mtus);
            assert_eq!(found, narrow, "{transport:?} over {mtus:?}");
        }
    }
}

#[test]
#[ignore = "needs root for network namespaces"]
fn namespaces_a_link_that_becomes_narrow_is_passed_with_icmp_and_without_rfc_8899_4() {
    for transport in [Transport::Udp { port: 9899 }, Transport::Raw] {
        for v6 in [false, true] {
            for silent in [false, true] {
                eprintln!("{transport:?}, IPv6: {v6}, without ICMP: {silent}");
                path_mtu::narrowed(transport, v6, silent);
            }
        }
    }
}

#[test]
#[ignore = "needs root for network namespaces"]
fn namespaces_a_mark_on_the_wire_reaches_the_association_3168_a() {
    for transport in [Transport::Udp { port: 9899 }, Transport::Raw] {
        for v6 in [false, true] {
            for offload in [false, true] {
                eprintln!("{transport:?}, IPv6: {v6}, offload: {offload}");
                marks::run(transport, v6, offload);
            }
        }
    }
}
