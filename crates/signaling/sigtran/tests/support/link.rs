//! Arbitrary octets as messages to a link of M2PA, for tests and the fuzz target.

use std::time::Duration;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::SctpNotification;
use carrick_sigtran::m2pa::link::{Link, LinkConfig};
use carrick_sigtran::m2pa::{Message, Msu};

/// Splits octets into messages, each behind an octet with its length and one with its stream and the request that
/// follows, and gives them to a link. Every message that decodes is equal after a round trip, and every output can be
/// encoded.
pub(crate) fn run(octets: &[u8]) {
    let mut now = Time::from_millis(1);
    let mut link = Link::new(LinkConfig::default()).expect("a valid configuration");
    let up = SctpNotification::Up {
        outbound_streams: 2,
    };
    link.handle_sctp(now, up);
    link.start(now).expect("out of service");
    let mut rest = octets;
    while let Some((&[length, control], tail)) = rest.split_first_chunk() {
        let (message, tail) = tail.split_at(usize::from(length).min(tail.len()));
        rest = tail;
        if let Ok(message) = Message::decode(&Bytes::copy_from_slice(message)) {
            let encoded = message.encode().expect("a message that was received");
            assert_eq!(Message::decode(&encoded).as_ref(), Ok(&message));
            link.handle_message(now, u16::from(control & 1), message);
        }
        request(&mut link, now, control >> 1);
        now += Duration::from_millis(300);
        link.handle_timeout(now);
        while let Some(transmit) = link.poll_transmit() {
            transmit.message.encode().expect("a message that fits");
        }
        while link.poll_indication().is_some() {}
    }
}

/// Makes a request of MTP3. One that is not possible has no effect.
fn request(link: &mut Link, now: Time, number: u8) {
    match number {
        0 => drop(link.send(now, Msu::new(0x83, Bytes::from_static(b"fuzz")))),
        1 => link.local_processor_outage(),
        2 => link.local_processor_recovered(now),
        3 => link.local_busy(),
        4 => link.local_busy_ended(now),
        5 => link.flush_buffers(),
        6 => drop(link.start(now)),
        7 => link.stop(),
        _ => {}
    }
}
