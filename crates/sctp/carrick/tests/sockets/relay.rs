//! Relay between two endpoints in UDP that inspects datagrams with their ECN field, and may change them. It
//! needs no privileges.

use std::io::IoSliceMut;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use carrick::{Association, ConnectOptions, Endpoint};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};

use crate::support::soon;

/// Time without a datagram after which the relay ends.
const QUIET: Duration = Duration::from_secs(5);

/// Datagram in transit.
#[derive(Clone, Debug)]
pub(crate) struct RelayedDatagram {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) from_server: bool,
}

/// Opens a relay to a server on this address and returns its UDP port. The relay forwards the datagrams
/// that `carry` returns.
pub(crate) fn open(
    server: &Endpoint,
    address: IpAddr,
    mut carry: impl FnMut(RelayedDatagram) -> Vec<RelayedDatagram> + Send + 'static,
) -> u16 {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    let port = socket.local_addr().unwrap().port();
    let server = SocketAddr::new(address, server.encapsulation_port().unwrap());
    let state = UdpSocketState::new((&socket).into()).unwrap();
    // With the time of arrival, the ECN field would not fit into the control message.
    #[cfg(target_os = "linux")]
    nix::sys::socket::setsockopt(
        &socket,
        nix::sys::socket::sockopt::ReceiveTimestampns,
        &false,
    )
    .unwrap();
    socket.set_nonblocking(false).unwrap();
    socket.set_read_timeout(Some(QUIET)).unwrap();
    std::thread::spawn(move || {
        let (mut buffer, mut client) = (vec![0; 65_536], None);
        loop {
            let mut meta = [RecvMeta::default()];
            let mut slices = [IoSliceMut::new(&mut buffer)];
            if !matches!(state.recv((&socket).into(), &mut slices, &mut meta), Ok(1)) {
                return;
            }
            let [meta] = meta;
            // Of any of its addresses.
            let from_server = meta.addr.port() == server.port();
            if !from_server {
                client = Some(meta.addr);
            }
            let to = if from_server { client } else { Some(server) };
            let Some(to) = to else { continue };
            let datagrams = buffer[..meta.len].chunks(meta.stride.max(1));
            let carried = datagrams.flat_map(|bytes| {
                carry(RelayedDatagram {
                    bytes: bytes.to_vec(),
                    ecn: meta.ecn,
                    from_server,
                })
            });
            let carried: Vec<RelayedDatagram> = carried.collect();
            for together in
                carried.chunk_by(|a, b| a.ecn == b.ecn && a.bytes.len() == b.bytes.len())
            {
                send(&state, &socket, to, together);
            }
        }
    });
    port
}

/// Sets up an association over the relay with this port, and returns both ends.
pub(crate) async fn associate(
    client: &Endpoint,
    server: &Endpoint,
    address: IpAddr,
    port: u16,
) -> (Association, Association) {
    let options = ConnectOptions::new().encapsulation_port(port);
    let peers = [address];
    let (connected, accepted) = soon("set-up", async {
        tokio::join!(
            client.connect_with((&peers, server.port()), options),
            server.accept()
        )
    })
    .await;
    (connected.unwrap(), accepted.unwrap().accept())
}

/// Sends datagrams of one size and ECN field with segmentation offload, so that they arrive together.
fn send(state: &UdpSocketState, socket: &UdpSocket, to: SocketAddr, together: &[RelayedDatagram]) {
    for part in together.chunks(state.max_gso_segments().clamp(1, 32)) {
        let contents: Vec<u8> = part.iter().flat_map(|c| c.bytes.iter().copied()).collect();
        let out = Transmit {
            destination: to,
            ecn: part[0].ecn,
            contents: &contents,
            segment_size: (part.len() > 1).then_some(part[0].bytes.len()),
            src_ip: None,
        };
        // Lost datagrams are retransmitted.
        let _ = state.try_send(socket.into(), &out);
    }
}
