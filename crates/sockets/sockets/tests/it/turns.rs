//! Turns of the owners of sockets.

use carrick_proto::Time;
use carrick_sockets::{OutgoingMessage, SocketId, Sockets, Style};

use crate::world::*;

/// Messages that an association of the busy owner has to send: more than its congestion window.
const MESSAGES: usize = 20;

fn send(s: &mut Sockets, now: Time, socket: SocketId, peer: Option<u16>) {
    let message = OutgoingMessage {
        address: peer.map(|port| at(B, port)),
        data: vec![7; 1000].into(),
        control: &[],
    };
    s.sendmsg(now, socket, &message).unwrap();
}

/// Returns the number of transmits of other owners before the first one of a port.
fn transmits_before(s: &mut Sockets, now: Time, port: u16) -> usize {
    let mut packets = Vec::new();
    let mut before = 0;
    while s.poll_transmit(now, &mut packets).is_some() {
        if packets[..2] == port.to_be_bytes() {
            return before;
        }
        before += 1;
        packets.clear();
    }
    panic!("port {port} has sent nothing after {before} transmits");
}

/// A user with 50 ports and a port with 50 associations delays another user by one transmit.
#[test]
fn owners_send_in_turn() {
    let mut w = World::new();
    let many = w.one_to_many(A);
    w.look(A).set_owner(many, 7).unwrap();
    let peers: Vec<u16> = (0..50).map(|n| PORT + 1 + n).collect();
    for port in &peers {
        let peer = w.one_to_many(B);
        w.look(B).bind(peer, at(B, *port)).unwrap();
        w.on(B, |s, _| s.listen(peer, 1)).unwrap();
        w.send_to(A, many, at(B, *port), &[0]).unwrap();
    }
    w.listener(Style::OneToOne, 60);
    let connect = |w: &mut World, owner, port| {
        let socket = w.one_to_one(A);
        w.look(A).set_owner(socket, owner).unwrap();
        w.look(A).bind(socket, at(A, port)).unwrap();
        w.connect(socket, at(B, PORT)).unwrap_err();
        socket
    };
    let ports: Vec<SocketId> = (0..50).map(|n| connect(&mut w, 7, 6000 + n)).collect();
    let quiet = connect(&mut w, 8, 7000);
    w.run(ms(500));
    for handed_over in [false, true] {
        if handed_over {
            w.hand_over(A);
        }
        let before = w.on(A, |s, now| {
            for _ in 0..MESSAGES {
                for port in &peers {
                    send(s, now, many, Some(*port));
                }
                for socket in &ports {
                    send(s, now, *socket, None);
                }
            }
            send(s, now, quiet, None);
            transmits_before(s, now, 7000)
        });
        assert!(before <= 1, "{before} transmits of another owner");
        w.run(secs(5));
    }
}
