//! Resident memory of a process whose peer sends packets that occupy as much as possible. In a separate
//! binary, since that is the memory of the whole process.
#![cfg(target_os = "linux")]

#[expect(dead_code, reason = "`memory.rs` uses all of it")]
mod attacker;

use std::time::Duration;

use attacker::Attacker;
use carrick::{AssociationConfig, Config, Endpoint};

const BUFFER: usize = 4 << 20;
/// Bytes of payload of a chunk, and those that the receive buffer counts for it.
const PAYLOAD: usize = 100;
const COUNTED: usize = PAYLOAD + 128;
/// Packets that leave with one call, and arrive as one if the system can offload them.
const BURST: usize = 8;

/// Resident memory of this process in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    kib.unwrap().parse::<usize>().unwrap() << 10
}

/// A full receive buffer of small chunks above a gap, in packets that were received eight at a time.
///
/// RFC 9260, section 6.2
#[test]
fn a_full_buffer_occupies_three_times_its_size() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (endpoint, at) = runtime.block_on(async {
        let address = std::net::IpAddr::from([127, 0, 0, 1]);
        let association = AssociationConfig::default().with(|c| c.buffers.receive_buffer = BUFFER);
        let config = Config::udp([address]).encapsulation_port(0);
        let endpoint = Endpoint::bind(config.association(association)).unwrap();
        let at = (address, endpoint.encapsulation_port().unwrap()).into();
        (endpoint, at)
    });
    let port = endpoint.port();
    let attacker = std::thread::spawn(move || {
        let attacker = Attacker::connect(at, port);
        let mut before = 0;
        let bursts = BUFFER * 15 / 16 / COUNTED / BURST;
        for burst in 0..bursts {
            let first = (2 + burst * BURST) as u32;
            let tsns = first..first + BURST as u32;
            let packets: Vec<_> = tsns.map(|tsn| attacker.data(tsn, PAYLOAD, 748)).collect();
            attacker.send(&packets, first + BURST as u32 - 1);
            if burst == 0 {
                before = resident();
            }
        }
        (resident().saturating_sub(before), (bursts - 1) * BURST)
    });
    let (more, chunks) = runtime.block_on(async {
        let association = endpoint.accept().await.unwrap().accept();
        while !attacker.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let stats = association.control().stats().await.unwrap();
        let (more, chunks) = attacker.join().unwrap();
        assert_eq!(stats.receive_buffer_bytes, (chunks + BURST) * COUNTED);
        (more, chunks)
    });
    let factor = more as f64 / (chunks * COUNTED) as f64;
    println!(
        "measured: {} KiB more resident memory, {factor:.1} times what is counted",
        more >> 10
    );
    assert!(factor <= 3.0, "{factor:.1}");
}
