//! Two networks between two endpoints, emulated in this process on loopback.
//!
//! In each network two UDP sockets represent the far endpoint to the near one: endpoint A sends to a socket that has
//! the address of B, and the datagrams reach B from a socket that has the address of A. Between the two sockets
//! they are delayed, and discarded while the network is cut.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Delay of a datagram in each direction.
pub(super) const DELAY: Duration = Duration::from_millis(10);

/// Maximum number of datagrams under way in one direction of a network; further ones are discarded.
const QUEUE: usize = 4096;

/// Maximum number of UDP ports tried until one is free on both addresses of an endpoint.
const PORT_ATTEMPTS: usize = 16;

/// Addresses of the two endpoints in one network.
#[derive(Clone, Copy, Debug)]
pub(super) struct NetworkAddresses {
    pub(super) a: IpAddr,
    pub(super) b: IpAddr,
}

/// Returns the addresses of the two networks. Linux has all addresses of 127.0.0.0/8 on loopback; other systems have
/// one of each family, which both endpoints use with different UDP ports.
pub(super) fn addresses() -> [NetworkAddresses; 2] {
    if cfg!(target_os = "linux") {
        [1, 2].map(|network| NetworkAddresses {
            a: Ipv4Addr::new(127, network, 0, 1).into(),
            b: Ipv4Addr::new(127, network, 0, 2).into(),
        })
    } else {
        shared_addresses()
    }
}

/// Returns networks in which both endpoints have the same address.
fn shared_addresses() -> [NetworkAddresses; 2] {
    let loopback = [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
    ];
    loopback.map(|address| NetworkAddresses {
        a: address,
        b: address,
    })
}

/// State of a network as its tasks see it.
#[derive(Debug, Default)]
struct CutState {
    is_cut: AtomicBool,
    /// Datagrams discarded while the network was cut.
    discarded: AtomicU64,
}

/// The two networks. Their tasks end with this value.
#[derive(Debug)]
pub(super) struct EmulatedNetworks {
    states: [Arc<CutState>; 2],
    /// UDP port at which A reaches B.
    port_of_b: u16,
    _tasks: JoinSet<()>,
}

impl EmulatedNetworks {
    /// Joins the endpoints that have these UDP ports on their addresses.
    pub(super) async fn open(
        addresses: [NetworkAddresses; 2],
        port_a: u16,
        port_b: u16,
    ) -> io::Result<Self> {
        let towards_a = bind(addresses.map(|network| network.b)).await?;
        let towards_b = bind(addresses.map(|network| network.a)).await?;
        let port_of_b = towards_a[0].local_addr()?.port();
        let states = [Arc::default(), Arc::default()];
        let mut tasks = JoinSet::new();
        for (index, network) in addresses.into_iter().enumerate() {
            let state: &Arc<CutState> = &states[index];
            for (from, port, to, destination) in [
                (&towards_a, port_a, &towards_b, (network.b, port_b)),
                (&towards_b, port_b, &towards_a, (network.a, port_a)),
            ] {
                let direction = NetworkDirection {
                    from: Arc::clone(&from[index]),
                    sender_port: port,
                    to: Arc::clone(&to[index]),
                    destination: destination.into(),
                    state: Arc::clone(state),
                };
                tasks.spawn(direction.forward());
            }
        }
        Ok(Self {
            states,
            port_of_b,
            _tasks: tasks,
        })
    }

    /// Returns the UDP port at which A reaches B, the same on both addresses.
    pub(super) fn port_of_b(&self) -> u16 {
        self.port_of_b
    }

    /// Cuts a network or repairs it. Datagrams under way in a network that is cut are lost.
    pub(super) fn set_cut(&self, network: usize, is_cut: bool) {
        self.states[network].is_cut.store(is_cut, Ordering::Relaxed);
    }

    pub(super) fn is_cut(&self, network: usize) -> bool {
        self.states[network].is_cut.load(Ordering::Relaxed)
    }

    /// Returns the number of datagrams that a network has discarded while it was cut.
    pub(super) fn discarded(&self, network: usize) -> u64 {
        self.states[network].discarded.load(Ordering::Relaxed)
    }
}

/// Opens a socket on each address, both with one UDP port: an endpoint assumes one port for all addresses of its peer
/// until it receives packets from another one (RFC 6951, section 5.4).
async fn bind(addresses: [IpAddr; 2]) -> io::Result<[Arc<UdpSocket>; 2]> {
    let mut attempts = 0;
    loop {
        let first = UdpSocket::bind((addresses[0], 0)).await?;
        let port = first.local_addr()?.port();
        attempts += 1;
        match UdpSocket::bind((addresses[1], port)).await {
            Ok(second) => return Ok([Arc::new(first), Arc::new(second)]),
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => return Err(error),
            Err(error) if attempts == PORT_ATTEMPTS => return Err(error),
            Err(_) => {}
        }
    }
}

/// One direction of a network.
struct NetworkDirection {
    /// Socket to which the sender sends.
    from: Arc<UdpSocket>,
    /// UDP port of the sender; datagrams from other ports are ignored.
    sender_port: u16,
    /// Socket from which the receiver gets the datagrams.
    to: Arc<UdpSocket>,
    destination: SocketAddr,
    state: Arc<CutState>,
}

impl NetworkDirection {
    /// Forwards datagrams until the task is aborted.
    async fn forward(self) {
        let mut under_way: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
        let mut buffer = vec![0; usize::from(u16::MAX)];
        loop {
            let due = under_way.front().map(|(due, _)| *due);
            let delivery = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = delivery => {
                    if let Some((_, datagram)) = under_way.pop_front() {
                        self.deliver(&datagram).await;
                    }
                }
                received = self.from.recv_from(&mut buffer) => match received {
                    Ok((length, source)) if source.port() == self.sender_port => {
                        if self.state.is_cut.load(Ordering::Relaxed) {
                            self.state.discarded.fetch_add(1, Ordering::Relaxed);
                        } else if under_way.len() < QUEUE {
                            under_way.push_back((Instant::now() + DELAY, buffer[..length].to_vec()));
                        }
                    }
                    Ok(_) => {}
                    // Does not occupy the thread if the error persists.
                    Err(_) => tokio::time::sleep(DELAY).await,
                },
            }
        }
    }

    async fn deliver(&self, datagram: &[u8]) {
        if self.state.is_cut.load(Ordering::Relaxed) {
            self.state.discarded.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // A datagram that the system does not send is lost, as in a network.
        let _ = self.to.send_to(datagram, self.destination).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Endpoint {
        sockets: [UdpSocket; 2],
        port: u16,
    }

    impl Endpoint {
        async fn new(addresses: [IpAddr; 2]) -> Self {
            let sockets = bind(addresses).await.unwrap();
            let port = sockets[0].local_addr().unwrap().port();
            Self {
                sockets: sockets.map(|socket| Arc::into_inner(socket).unwrap()),
                port,
            }
        }

        async fn receive(&self, network: usize) -> (Vec<u8>, SocketAddr) {
            let mut buffer = [0; 100];
            let (length, source) = self.sockets[network].recv_from(&mut buffer).await.unwrap();
            (buffer[..length].to_vec(), source)
        }
    }

    async fn a_cut_loses_datagrams_of_one_network(addresses: [NetworkAddresses; 2]) {
        let a = Endpoint::new(addresses.map(|network| network.a)).await;
        let b = Endpoint::new(addresses.map(|network| network.b)).await;
        let networks = EmulatedNetworks::open(addresses, a.port, b.port);
        let networks = networks.await.unwrap();
        let send = async |network: usize, bytes: &[u8]| {
            let to = (addresses[network].b, networks.port_of_b());
            a.sockets[network].send_to(bytes, to).await.unwrap();
        };
        for (network, of_network) in addresses.iter().enumerate() {
            send(network, b"before").await;
            let (bytes, source) = b.receive(network).await;
            assert_eq!(bytes, b"before");
            assert_eq!(source.ip(), of_network.a);
            b.sockets[network].send_to(b"reply", source).await.unwrap();
            let (bytes, source) = a.receive(network).await;
            assert_eq!(bytes, b"reply");
            assert_eq!(source.ip(), of_network.b);

            networks.set_cut(network, true);
            assert!(networks.is_cut(network) && !networks.is_cut(1 - network));
            send(network, b"lost").await;
            send(1 - network, b"other").await;
            assert_eq!(b.receive(1 - network).await.0, b"other");
            while networks.discarded(network) == 0 {
                tokio::time::sleep(DELAY).await;
            }
            networks.set_cut(network, false);
            send(network, b"after").await;
            assert_eq!(b.receive(network).await.0, b"after");
            assert_eq!(networks.discarded(network), 1);
        }
    }

    #[tokio::test]
    async fn a_cut_is_of_one_network() {
        a_cut_loses_datagrams_of_one_network(addresses()).await;
    }

    #[tokio::test]
    async fn the_endpoints_may_share_their_addresses() {
        let mut addresses = shared_addresses();
        if std::net::UdpSocket::bind((addresses[1].a, 0)).is_err() {
            // A host without IPv6.
            let second = Ipv4Addr::new(127, 0, 0, 2).into();
            addresses[1] = NetworkAddresses {
                a: second,
                b: second,
            };
        }
        a_cut_loses_datagrams_of_one_network(addresses).await;
    }

    #[tokio::test]
    async fn datagrams_of_other_programs_are_ignored() {
        let addresses = addresses();
        let a = Endpoint::new(addresses.map(|network| network.a)).await;
        let b = Endpoint::new(addresses.map(|network| network.b)).await;
        let networks = EmulatedNetworks::open(addresses, a.port, b.port);
        let networks = networks.await.unwrap();
        let to = (addresses[0].b, networks.port_of_b());
        let other = UdpSocket::bind((addresses[0].a, 0)).await.unwrap();
        other.send_to(b"other", to).await.unwrap();
        a.sockets[0].send_to(b"own", to).await.unwrap();
        assert_eq!(b.receive(0).await.0, b"own");
    }
}
