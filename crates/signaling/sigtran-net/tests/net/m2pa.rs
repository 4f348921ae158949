//! Link sets over M2PA (RFC 4165).

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use carrick_sigtran::m3ua::asp::AspIndication;
use carrick_sigtran_net::{EventKind, Session};

use super::stp::{active_asp, start, status_with, with_one_asp};
use super::support::{LOOPBACK, check_order, messages, receive, send, wait_for};

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

/// Link set with one link to the signalling point with the code `adjacent`, and the route to a destination over it.
fn link_set(adjacent: u32, link: &str, destination: u32) -> String {
    format!(
        "[[link-set]]
name = \"to-{adjacent}\"
point-code = {adjacent}
emergency-alignment = true
links = [{{ addresses = [\"127.0.0.1\"], {link} }}]
[[route]]
dpc = {destination}
link-set = \"to-{adjacent}\"
"
    )
}

/// Waits until the ASP has a DUNA or a DAVA about a destination.
async fn reported(session: &mut Session, code: u32, is_available: bool) {
    wait_for(session, |kind| {
        let state = match kind {
            EventKind::Asp(AspIndication::MtpPause(state)) if !is_available => state,
            EventKind::Asp(AspIndication::MtpResume(state)) if is_available => state,
            _ => return false,
        };
        let mut affected = state.affected.0.iter();
        affected.any(|affected| affected.point_code.value() == code)
    })
    .await;
}

/// RFC 4666, section 4.5.1: TFP and TFA of an adjacent STP, passed on over another one, are DUNA and DAVA
/// RFC 4666, section 4.6: so is the restart of MTP3
#[tokio::test]
async fn transfer_prohibited_reaches_the_asps() {
    let [west, east] = [free_udp_port(), free_udp_port()];
    let accept = |port| format!("accept = true, local-udp-port = {port}");
    let connect = |port| format!("udp-port = {port}");
    let with_code = |code: u32, text: &str| format!("point-code = {code}\n{text}");
    let a = with_one_asp(1, "\"127.0.0.1\"") + &link_set(50, &connect(west), 3);
    let (_a, gateway_a) = start(&with_code(10, &a)).await;
    let c = with_one_asp(3, "\"127.0.0.1\"") + &link_set(50, &connect(east), 1);
    let (_c, gateway_c) = start(&with_code(30, &c)).await;
    let mut one = active_asp(&gateway_a, 1, 1).await;
    let far = active_asp(&gateway_c, 3, 1).await;
    // The STP in the middle starts last: both destinations become available with its TRA.
    let (listen, _) = a.split_once("[[asp]]").unwrap();
    let middle =
        listen.to_owned() + &link_set(10, &accept(west), 1) + &link_set(30, &accept(east), 3);
    let (middle, _) = start(&with_code(50, &middle)).await;
    reported(&mut one, 3, true).await;
    send(&one, messages(1, 3, 100)).await;
    // The far ASP ends, and with it its application server after T(r).
    drop(far);
    reported(&mut one, 3, false).await;
    status_with(&middle, "destination 0-0-3: unavailable").await;
    let mut far = active_asp(&gateway_c, 3, 1).await;
    reported(&mut one, 3, true).await;
    send(&one, messages(1, 3, 100)).await;
    check_order(&receive(&mut far, 100).await, 100);
}
