//! Link sets over M2PA (RFC 4165).

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::stp::{active_asp, start, status_with, with_one_asp};
use super::support::{LOOPBACK, check_order, messages, receive, send};

fn free_udp_port() -> u16 {
    let socket = UdpSocket::bind((LOOPBACK, 0)).unwrap();
    socket.local_addr().unwrap().port()
}

/// Forwards datagrams between a client and a port until it is cut. Returns its port.
async fn relay(to: u16, is_cut: Arc<AtomicBool>) -> u16 {
    let socket = tokio::net::UdpSocket::bind((LOOPBACK, 0)).await.unwrap();
    let port = socket.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (server, mut client) = (SocketAddr::new(LOOPBACK, to), None);
        let mut buffer = vec![0; 65_536];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            if from != server {
                client = Some(from);
            }
            let to = if from == server { client } else { Some(server) };
            let to = to.filter(|_| !is_cut.load(Ordering::Relaxed));
            if let Some(to) = to {
                // What can't be sent is lost, as in a network.
                let _ = socket.send_to(&buffer[..length], to).await;
            }
        }
    });
    port
}

/// Signal transfer point with one ASP and two links to the other one.
fn side(own: u32, adjacent: u32, links: [String; 2]) -> String {
    let [first, second] = links;
    let stp = with_one_asp(own, "\"127.0.0.1\"");
    format!(
        "point-code = {own}0
{stp}[[link-set]]
name = \"east\"
point-code = {adjacent}0
emergency-alignment = true
links = [
  {{ addresses = [\"127.0.0.1\"], {first} }},
  {{ addresses = [\"127.0.0.1\"], {second} }},
]
[[route]]
dpc = {adjacent}
link-set = \"east\"
"
    )
}

/// RFC 4165, section 4.2.3
#[tokio::test]
async fn a_failed_link_loses_and_repeats_nothing() {
    let is_cut = Arc::new(AtomicBool::new(false));
    let ports = [free_udp_port(), free_udp_port()];
    let accepting = ports.map(|port| format!("accept = true, local-udp-port = {port}"));
    let relayed = relay(ports[1], Arc::clone(&is_cut)).await;
    let connecting = [ports[0], relayed].map(|port| format!("udp-port = {port}"));
    let (a, gateway_a) = start(&side(1, 2, accepting)).await;
    let (b, gateway_b) = start(&side(2, 1, connecting)).await;
    let mut one = active_asp(&gateway_a, 1, 1).await;
    let mut two = active_asp(&gateway_b, 2, 1).await;
    let both_links_are = async |states: [&str; 2]| {
        for stp in [&a, &b] {
            for (link, state) in states.iter().enumerate() {
                status_with(stp, &format!("gateway east/{link}: {state}")).await;
            }
        }
    };
    both_links_are(["active", "active"]).await;
    send(&one, messages(1, 2, 1000)).await;
    check_order(&receive(&mut two, 1000).await, 1000);
    // The second link fails under load.
    let failing = async {
        let mut received = receive(&mut two, 1000).await;
        is_cut.store(true, Ordering::Relaxed);
        let rest = 8000 - received.len();
        received.extend(receive(&mut two, rest).await);
        received
    };
    let ((), received) = tokio::join!(send(&one, messages(1, 2, 8000)), failing);
    check_order(&received, 8000);
    send(&two, messages(2, 1, 1000)).await;
    check_order(&receive(&mut one, 1000).await, 1000);
    both_links_are(["active", "not active"]).await;
    // The link returns, and its SLSs to it.
    is_cut.store(false, Ordering::Relaxed);
    both_links_are(["active", "active"]).await;
    send(&one, messages(1, 2, 1000)).await;
    check_order(&receive(&mut two, 1000).await, 1000);
    let status = a.status().await.unwrap();
    assert!(!status.contains("discarded"), "{status}");
}
