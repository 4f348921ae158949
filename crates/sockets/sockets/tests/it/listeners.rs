//! Listening sockets that another process restores from their records.

use std::net::SocketAddr;

use carrick_sockets::linux::*;
use carrick_sockets::{Errno, ListenerState, SocketId, Style};

use crate::world::*;

const NODELAY: (i32, i32) = (IPPROTO_SCTP, SCTP_NODELAY);

/// Returns a listening socket of host B with its record.
fn listener(w: &mut World, addresses: &[SocketAddr]) -> (SocketId, Vec<u8>) {
    let socket = w.one_to_one(B);
    w.look(B).bindx_add(socket, addresses).unwrap();
    w.set_int(B, socket, NODELAY, 1).unwrap();
    assert_eq!(w.look(B).export_listener(socket), None);
    w.look(B).listen(socket, 7).unwrap();
    let record = w.look(B).export_listener(socket).unwrap();
    (socket, record)
}

fn read(w: &mut World, record: &[u8]) -> ListenerState {
    w.look(B).read_listener(record).unwrap()
}

/// The same state has the same record, and a restored socket accepts associations with the options of before.
#[test]
fn a_listener_is_restored_from_its_record() {
    let mut w = World::new();
    w.keep_sockets();
    let addresses = [0, 1].map(|link| SocketAddr::new(ip(B, link), PORT));
    let (old, record) = listener(&mut w, &addresses);
    assert_eq!(w.look(B).export_listener(old).unwrap(), record);
    w.on(B, |s, now| s.close(now, old)).unwrap();
    let state = read(&mut w, &record);
    assert_eq!((state.port(), state.style()), (PORT, Style::OneToOne));
    assert_eq!(state.addresses(), addresses);
    let new = w.look(B).restore_listener(state).unwrap();
    assert_eq!(w.look(B).export_listener(new).unwrap(), record);
    assert_eq!(w.look(B).local_addresses(new).unwrap(), addresses);
    let client = w.one_to_one(A);
    let started = w.connect(client, addresses[1]);
    assert_eq!(started, Err(Errno::EINPROGRESS));
    w.run(ms(100));
    let (accepted, _) = w.on(B, |s, _| s.accept(new)).unwrap();
    assert_eq!(w.get_int(B, accepted, NODELAY), Ok(1));
}

#[test]
fn a_record_without_its_port_is_refused() {
    let mut w = World::new();
    w.keep_sockets();
    let (old, record) = listener(&mut w, &[at(B, PORT)]);
    let state = read(&mut w, &record);
    let taken = w.look(B).restore_listener(state);
    assert_eq!(taken, Err(Errno::EADDRINUSE));
    w.on(B, |s, now| s.close(now, old)).unwrap();
    w.on(B, |s, now| s.host_address_removed(now, ip(B, 0)));
    let state = read(&mut w, &record);
    let gone = w.look(B).restore_listener(state);
    assert_eq!(gone, Err(Errno::EADDRNOTAVAIL));
    assert!(w.look(B).read_listener(&record[1..]).is_err());
}
