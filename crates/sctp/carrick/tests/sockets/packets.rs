//! Observers of packets.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use carrick::{Endpoint, ObservedPacket, PacketObserver};

use crate::support::{associate, config, on, soon};

/// Source, destination and bytes of packets in one direction.
type Packets = Vec<(SocketAddr, SocketAddr, Vec<u8>)>;

#[derive(Debug, Default)]
struct Recorder {
    sent: Mutex<Packets>,
    received: Mutex<Packets>,
}

impl PacketObserver for Recorder {
    fn packet(&self, packet: &ObservedPacket<'_>) {
        assert!(packet.is_udp);
        let direction = if packet.is_sent {
            &self.sent
        } else {
            &self.received
        };
        let copy = (packet.source, packet.destination, packet.bytes.to_vec());
        direction.lock().unwrap().push(copy);
    }
}

impl Recorder {
    fn sorted(of: &Mutex<Packets>) -> Packets {
        let mut packets = of.lock().unwrap().clone();
        packets.sort();
        packets
    }
}

/// Packets have the same addresses, ports and bytes at both ends.
#[tokio::test]
async fn observers_get_each_packet_once() {
    let recorders = [(); 2].map(|()| Arc::new(Recorder::default()));
    let [client, server] = recorders.each_ref().map(|recorder| {
        let observer = Arc::clone(recorder) as Arc<dyn PacketObserver>;
        Endpoint::bind(config(&["127.0.0.1"]).packets(observer)).unwrap()
    });
    let (a, mut b) = associate(&client, &server, &["127.0.0.1"]).await;
    // Several packets in one system call.
    a.send(vec![7; 100_000], on(0)).await.unwrap();
    soon("message", b.recv()).await.unwrap();
    drop((a, b));
    for endpoint in [client, server] {
        let report = soon("end", endpoint.close()).await;
        assert!(report.is_empty(), "{report}");
    }
    let [client, server] = recorders;
    for (from, to) in [(&client, &server), (&server, &client)] {
        let sent = Recorder::sorted(&from.sent);
        assert!(sent.len() > 3, "{sent:?}");
        assert_eq!(sent, Recorder::sorted(&to.received));
    }
}
