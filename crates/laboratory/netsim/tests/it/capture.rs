//! Captures: their contents, and their validation by tshark.

use crate::common;

use std::cell::RefCell;
use std::io::{self, Write};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use carrick_netsim::icmp::{self, IcmpError};
use carrick_netsim::{
    Ecn, Jitter, LinkConfig, Loss, Network, NetworkBuilder, NodeId, Packet, Protocol, Queue, Time,
};
use common::{Recorder, ip};

/// Memory that outlives the network that writes to it.
#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Computed bit by bit, independently of any other implementation.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82F6_3B78 * (crc & 1));
        }
    }
    !crc
}

/// An SCTP packet with one DATA chunk.
fn sctp(tsn: u32, user_data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for port in [5000_u16, 5001] {
        bytes.extend_from_slice(&port.to_be_bytes());
    }
    bytes.extend_from_slice(&0xCAFE_0001_u32.to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&[0, 3]);
    bytes.extend_from_slice(&(16 + user_data.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&tsn.to_be_bytes());
    bytes.extend_from_slice(&[0, 1, 0, tsn as u8, 0, 0, 0, 0]);
    bytes.extend_from_slice(user_data);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let crc = crc32c(&bytes);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Packets of every protocol, of both IP versions.
fn sample_packets() -> Vec<Packet> {
    let addresses = [("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "2001:db8::2")];
    let mut packets = Vec::new();
    for (source, destination) in addresses {
        let packet =
            |protocol, payload| Packet::new(ip(source), ip(destination), protocol, payload);
        let encapsulated = Protocol::UdpEncapsulated {
            source_port: 9899,
            destination_port: 9899,
        };
        let udp = Protocol::Udp {
            source_port: 9,
            destination_port: 9,
        };
        for (tsn, len) in (1..).zip([1, 2, 3, 4, 700, 1400]) {
            let payload = sctp(tsn, &vec![0x55; len]);
            packets.push(packet(Protocol::Sctp, payload.clone()).with_ecn(Ecn::Ect0));
            packets.push(packet(encapsulated, payload).with_ecn(Ecn::Ce));
        }
        let plain = packet(Protocol::Sctp, sctp(9, b"quoted"));
        packets.push(packet(udp, vec![7; 33]));
        packets.push(plain.encapsulate(ip("10.0.0.1"), ip("10.0.0.2")));
        packets.push(plain.encapsulate(ip("2001:db8::1"), ip("2001:db8::2")));
        // The quoted packet is one of the peer, so that the error is sent in the same direction as
        // the other packets; it is short, so that the quotation is complete and its checksum valid.
        let about = Packet::new(
            ip(destination),
            ip(source),
            Protocol::Sctp,
            sctp(8, &[1; 300]),
        );
        for error in [
            IcmpError::TooBig { mtu: 1300 },
            IcmpError::Unreachable { code: 1 },
        ] {
            packets.push(icmp::report(&about, error, ip(source)).expect("a report"));
        }
    }
    packets
}

fn network(packets: Vec<Packet>, link: LinkConfig) -> (Network, [NodeId; 2]) {
    let mut builder = NetworkBuilder::new(3);
    let hosts = ["a", "b"].map(|name| builder.add_host(name));
    let near = builder.add_interface(hosts[0], [ip("10.0.0.1"), ip("2001:db8::1")]);
    let far = builder.add_interface(hosts[1], [ip("10.0.0.2"), ip("2001:db8::2")]);
    builder.connect_both(near, far, link);
    let script = packets
        .into_iter()
        .map(|packet| (Time::from_millis(5), packet));
    builder.set_node_program(hosts[0], Box::new(Recorder::sending(script)));
    builder.set_node_program(hosts[1], Box::new(Recorder::default()));
    (builder.build().expect("a valid network"), hosts)
}

/// One packet of a capture: interface, nanoseconds, inbound or not, bytes.
type Record = (u32, u64, bool, Vec<u8>);

fn records(bytes: &[u8]) -> Vec<Record> {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let mut records = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let total = word(at + 4) as usize;
        assert_eq!(word(at + total - 4) as usize, total);
        if word(at) == 6 {
            let len = word(at + 20) as usize;
            assert_eq!(word(at + 24) as usize, len);
            let nanos = u64::from(word(at + 12)) << 32 | u64::from(word(at + 16));
            let flags = word(at + 28 + len.next_multiple_of(4) + 4);
            assert!(flags == 1 || flags == 2);
            let packet = bytes[at + 28..at + 28 + len].to_vec();
            records.push((word(at + 8), nanos, flags == 1, packet));
        }
        at += total;
    }
    records
}

#[test]
fn both_ends_are_captured_at_their_own_times() {
    let packets = sample_packets();
    let link = LinkConfig::new(8_000_000, Duration::from_millis(20))
        .with_queue(Queue::packets(packets.len()));
    let (mut net, hosts) = network(packets.clone(), link);
    let ports = hosts.map(|host| net.interfaces(host)[0]);
    let capture = Shared::default();
    net.capture_all(&ports, capture.clone()).expect("memory");
    net.run_while(|_| true);
    net.finish_captures().expect("memory");

    let mut expected: Vec<Record> = Vec::new();
    let mut begin = 5_000_000;
    for packet in &packets {
        let bytes = packet.to_ip_bytes().to_vec();
        let end = begin + packet.wire_len() as u64 * 1000;
        expected.push((0, begin, false, bytes.clone()));
        expected.push((1, end + 20_000_000, true, bytes));
        begin = end;
    }
    expected.sort_by_key(|(_, nanos, ..)| *nanos);
    let mut records = records(&capture.0.borrow());
    assert!(records.is_sorted_by_key(|(_, nanos, ..)| *nanos));
    // Events of one moment on different links are not ordered.
    records.sort_by_key(|(interface, nanos, ..)| (*nanos, *interface));
    expected.sort_by_key(|(interface, nanos, ..)| (*nanos, *interface));
    assert_eq!(records, expected);
}

#[test]
fn packets_are_captured_after_the_queue() {
    let packets: Vec<Packet> = sample_packets().into_iter().take(10).collect();
    let link = LinkConfig::new(8_000_000, Duration::ZERO)
        .with_queue(Queue::packets(4))
        .with_loss(Loss::Every(2));
    let (mut net, hosts) = network(packets, link);
    let captures = hosts.map(|host| {
        let capture = Shared::default();
        let port = net.interfaces(host)[0];
        net.capture(port, capture.clone()).expect("memory");
        capture
    });
    net.run_while(|_| true);
    drop(net);
    let seen = captures.map(|capture| records(&capture.0.borrow()).len());
    assert_eq!(seen, [5, 3]);
}

#[test]
fn write_errors_are_reported_once() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self
                .0
                .checked_sub(bytes.len())
                .ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (mut net, hosts) = network(sample_packets(), LinkConfig::default());
    let port = net.interfaces(hosts[0])[0];
    net.capture(port, Full(4_000)).expect("room for the header");
    net.run_while(|_| true);
    let error = net.finish_captures().expect_err("the disk is full");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    net.finish_captures().expect("no error left to report");
}

#[test]
fn tshark_accepts_the_capture() {
    if Command::new("tshark").arg("--version").output().is_err() {
        assert!(
            std::env::var_os("CI").is_none(),
            "install the package tshark"
        );
        eprintln!("not run: tshark is not installed");
        return;
    }
    let packets = sample_packets();
    let link = LinkConfig {
        jitter: Jitter::Uniform(Duration::from_millis(3)),
        ..LinkConfig::new(8_000_000, Duration::from_millis(20))
    };
    let (mut net, hosts) = network(packets.clone(), link);
    let ports = hosts.map(|host| net.interfaces(host)[0]);
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("netsim.pcapng");
    let file = std::fs::File::create(&path).expect("a file in the target folder");
    net.capture_all(&ports, file).expect("room on the disk");
    net.run_while(|_| true);
    net.finish_captures().expect("room on the disk");

    let tshark = |more: &[&str]| -> Vec<String> {
        let checks = [
            "ip.check_checksum:TRUE",
            "udp.check_checksum:TRUE",
            "sctp.checksum:crc-32c",
        ];
        let mut command = Command::new("tshark");
        command.arg("-n").arg("-r").arg(&path);
        for check in checks {
            command.args(["-o", check]);
        }
        let output = command.args(more).output().expect("tshark runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{errors}");
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().map(str::to_owned).collect()
    };
    assert_eq!(tshark(&[]).len(), 2 * packets.len());
    let complaints = "_ws.malformed || ip.checksum.status == 0 || udp.checksum.status == 0 \
                      || sctp.checksum.status == 0 || icmp.checksum.status == 0 \
                      || icmpv6.checksum.status == 0 || _ws.expert.severity >= error";
    assert_eq!(tshark(&["-Y", complaints]), Vec::<String>::new());
    // The checks were applied: 6 plain and 6 encapsulated packets, and more inside tunnels, per
    // version.
    let good = "sctp.checksum.status == 1 && sctp.data_tsn_raw <= 6";
    assert_eq!(tshark(&["-Y", good]).len(), 2 * 24);
    let encapsulated = "udp.checksum.status == 1 && sctp && udp.port == 9899";
    assert_eq!(tshark(&["-Y", encapsulated]).len(), 2 * 12);
    assert_eq!(
        tshark(&["-Y", "frame.interface_name == \"b-0\""]).len(),
        packets.len()
    );
    assert_eq!(
        tshark(&["-Y", "frame.packet_flags_direction == 2"]).len(),
        packets.len()
    );
}
