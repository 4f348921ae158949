//! Memory that all peers together can occupy.

use carrick_proto::{AssociationId, EndpointStats};

use crate::common::*;

const BUDGET: usize = 1 << 20;

/// Bytes that each association may always hold.
const LEAST: usize = 4096;

fn limited() -> World {
    let mut w = World::with(1, |_, c| c.receive_memory = BUDGET);
    w.discard_log = true;
    w
}

fn stats(w: &World) -> EndpointStats {
    w.ends[0].stats()
}

/// Sets up an association from this host and port.
fn join(w: &mut World, host: u8, port: u16) -> (Puppet, AssociationId) {
    let before: Vec<_> = w.ends[0].associations().collect();
    let mut puppet = Puppet::new();
    puppet.link.from = [10, 0, 9, host].into();
    puppet.port = port;
    let (puppet, _) = puppet.connect(w);
    let new = w.ends[0].associations().find(|id| !before.contains(id));
    (puppet, new.expect("another association"))
}

/// Sends this many messages, whatever window is advertised.
fn flood(w: &mut World, puppet: &mut Puppet, count: u16) {
    for ssn in 0..count {
        puppet.data(w, 0, ssn, &[7; 1400]);
    }
}

/// Data above the memory limit is dropped.
///
/// RFC 9260, section 6.2
#[test]
fn received_data_of_all_peers_has_one_budget() {
    let mut w = limited();
    let mut all = Vec::new();
    for host in 1..=40 {
        for port in 1..=2 {
            let (mut puppet, id) = join(&mut w, host, port);
            flood(&mut w, &mut puppet, 100);
            all.push(id);
        }
    }
    let held = |w: &World| -> usize {
        let all = w.ends[0].associations();
        all.map(|id| w.stats(0, id).receive_buffer_bytes).sum()
    };
    let one = 1400 + 128;
    let limit = BUDGET + all.len() * (LEAST + one);
    let taken = held(&w);
    assert!(taken <= limit && taken >= BUDGET / 2, "{taken} of {limit}");
    assert_eq!(stats(&w).receive_memory, taken);
    // Each has something, and the rest comes when that is read.
    for id in &all {
        assert!(!w.receive(0, *id).is_empty());
    }
    let id = all[3];
    w.ends[0].abort(w.now, id, b"").unwrap();
    all.retain(|other| *other != id);
    assert_eq!(stats(&w).receive_memory, held(&w));
    for id in all {
        w.ends[0].abort(w.now, id, b"").unwrap();
    }
    assert_eq!(stats(&w).receive_memory, 0);
}

/// One source cannot take the memory of other sources.
///
/// RFC 9260, section 6.2
#[test]
fn a_flood_leaves_receive_memory_to_other_sources() {
    let mut w = limited();
    for port in 1..=30 {
        let (mut puppet, _) = join(&mut w, 66, port);
        flood(&mut w, &mut puppet, 60);
    }
    let taken = stats(&w).receive_memory;
    assert!(taken <= BUDGET / 2 + 30 * (LEAST + 1528), "{taken}");
    // A peer whose user reads.
    let (mut puppet, id) = join(&mut w, 1, 1);
    for ssn in 0..300 {
        puppet.data(&mut w, 0, ssn, &[7; 1400]);
        assert_eq!(w.receive_lengths(0, id), [1400]);
    }
    // And one whose user is slow.
    let (mut puppet, id) = join(&mut w, 2, 1);
    flood(&mut w, &mut puppet, 200);
    let held = w.stats(0, id).receive_buffer_bytes;
    assert!(held >= BUDGET / 8, "{held}");
    // A message larger than what is left is delivered in parts and not stuck.
    let (puppet, id) = join(&mut w, 66, 31);
    let first = puppet.tsn;
    let mut read = 0;
    for n in 0..40_u32 {
        // E for the last, B for the first.
        let flags = carrick_wire::DataFlags::from_bits(match n {
            0 => 2,
            39 => 1,
            _ => 0,
        });
        let header = carrick_wire::DataHeader {
            flags,
            ..Puppet::data_header(first.plus(n), 0, 0)
        };
        puppet.send(&mut w, |p| p.data(&header, &[7; 1400]));
        read += w.receive_lengths(0, id).iter().sum::<usize>();
    }
    assert_eq!(read, 40 * 1400);
}
