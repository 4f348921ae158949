//! Three hosts in a row, and packets between the outer two.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use carrick_nftables::{NftablesBackend, NftablesConfig};
use carrick_simco::Time;
use carrick_simco::backend::{Backend as _, Element, Flow};
use carrick_simco::message::{Direction, Lifetime};
use nix::sched::{CloneFlags, setns};

use crate::hosts::{Host, Hosts};

pub(crate) const UDP: u8 = 17;
pub(crate) const TCP: u8 = 6;

/// Port that the administrator's chain always accepts: a packet sent before one to this port has arrived
/// or was dropped.
const WITNESS: u16 = 9;

/// End of a packet's path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Inside,
    Outside,
}

/// Three hosts, removed when dropped.
pub(crate) struct Network {
    hosts: Hosts,
}

pub(crate) fn inside(v6: bool, port: u16) -> SocketAddr {
    address(v6, "10.81.1.2", "fd81:1::2", port)
}

pub(crate) fn outside(v6: bool, port: u16) -> SocketAddr {
    address(v6, "10.81.2.2", "fd81:2::2", port)
}

/// Address of the firewall on the outer side.
pub(crate) fn translator(v6: bool, port: u16) -> SocketAddr {
    address(v6, "10.81.2.1", "fd81:2::1", port)
}

fn address(v6: bool, four: &str, six: &str, port: u16) -> SocketAddr {
    let address = if v6 { six } else { four };
    SocketAddr::new(address.parse().unwrap(), port)
}

impl Network {
    pub(crate) fn new() -> Self {
        Self {
            hosts: Hosts::new("pinhole", 81),
        }
    }

    /// Opens a backend on the firewall without elements.
    pub(crate) fn filter(&self, config: NftablesConfig) -> NftablesBackend {
        let mut backend = self.open(config);
        backend.reconcile(Time::ZERO, &[]).unwrap();
        backend
    }

    /// Opens a backend on the firewall with the elements that it finds.
    pub(crate) fn open(&self, config: NftablesConfig) -> NftablesBackend {
        let table = config.table.clone();
        let backend = within(self.hosts.path(Host::Firewall), move || {
            NftablesBackend::open(config).unwrap()
        });
        let site = self.nft(&format!("list chain inet {table} site"));
        if !site.contains("accept") {
            self.nft(&format!(
                "add rule inet {table} site udp dport {WITNESS} accept"
            ));
        }
        backend
    }

    /// Output of `nft` on the firewall.
    pub(crate) fn nft(&self, command: &str) -> String {
        self.hosts.nft(Host::Firewall, command)
    }

    /// Network namespace of a host.
    pub(crate) fn path(&self, host: Host) -> PathBuf {
        self.hosts.path(host)
    }

    pub(crate) fn host(&self, side: Side) -> PathBuf {
        self.hosts.path(match side {
            Side::Inside => Host::Inside,
            Side::Outside => Host::Outside,
        })
    }

    pub(crate) fn udp(&self, side: Side, address: SocketAddr) -> UdpSocket {
        within(self.host(side), move || {
            let socket = UdpSocket::bind(address).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        })
    }

    /// Waits until all packets sent from a side before have arrived or were dropped.
    pub(crate) fn settle(&self, from: Side, v6: bool) {
        let (source, sink) = match from {
            Side::Inside => (inside(v6, 0), outside(v6, WITNESS)),
            Side::Outside => (outside(v6, 0), inside(v6, WITNESS)),
        };
        let to = match from {
            Side::Inside => Side::Outside,
            Side::Outside => Side::Inside,
        };
        let (receiver, sender) = (self.udp(to, sink), self.udp(from, source));
        receiver.set_nonblocking(false).unwrap();
        let timeout = Duration::from_millis(200);
        receiver.set_read_timeout(Some(timeout)).unwrap();
        for _ in 0..100 {
            sender.send_to(b"witness", sink).unwrap();
            if receiver.recv(&mut [0; 16]).is_ok() {
                return;
            }
        }
        panic!("no packet passes the administrator's chain from {from:?}");
    }

    /// Returns whether a datagram passes between these ends, and its apparent source.
    pub(crate) fn datagram(
        &self,
        from: Side,
        source: SocketAddr,
        to: SocketAddr,
        sink: SocketAddr,
    ) -> Option<SocketAddr> {
        let other = match from {
            Side::Inside => Side::Outside,
            Side::Outside => Side::Inside,
        };
        let (receiver, sender) = (self.udp(other, sink), self.udp(from, source));
        let v6 = source.is_ipv6();
        // Neighbour discovery is complete then, so that no packet overtakes another.
        self.settle(from, v6);
        sender.send_to(b"packet", to).unwrap();
        self.settle(from, v6);
        match receiver.recv_from(&mut [0; 16]) {
            Ok((_, seen)) => Some(seen),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns whether a datagram passes outwards and inwards.
    pub(crate) fn both_ways(&self, internal: SocketAddr, external: SocketAddr) -> [bool; 2] {
        [
            self.datagram(Side::Inside, internal, external, external),
            self.datagram(Side::Outside, external, internal, internal),
        ]
        .map(|seen| seen.is_some())
    }

    /// Returns whether an echo request (ICMP) of the inner host is answered.
    pub(crate) fn echoes(&self) -> bool {
        use nix::sys::socket::{
            AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, recv,
            sendto, socket,
        };
        use std::os::fd::AsRawFd as _;
        let raw = within(self.host(Side::Inside), || {
            let flags = SockFlag::SOCK_NONBLOCK;
            socket(
                AddressFamily::Inet,
                SockType::Raw,
                flags,
                SockProtocol::Icmp,
            )
            .unwrap()
        });
        self.settle(Side::Inside, false);
        // Echo request (type 8) with its checksum and no data.
        let request = [8, 0, 0xf7, 0xff, 0, 0, 0, 0];
        let to = SockaddrStorage::from(outside(false, 0));
        sendto(raw.as_raw_fd(), &request, &to, MsgFlags::empty()).unwrap();
        for from in [Side::Inside, Side::Outside] {
            self.settle(from, false);
        }
        let mut answer = [0; 64];
        while let Ok(length) = recv(raw.as_raw_fd(), &mut answer, MsgFlags::empty()) {
            // Behind the IP header: an echo reply.
            if answer[20..length].first() == Some(&0) {
                return true;
            }
        }
        false
    }

    /// Opens a TCP connection from the inner host; `None` if it can't be established.
    pub(crate) fn connect(
        &self,
        internal: SocketAddr,
        external: SocketAddr,
    ) -> Option<[TcpStream; 2]> {
        let listener = within(self.host(Side::Outside), move || {
            TcpListener::bind(external).unwrap()
        });
        listener.set_nonblocking(true).unwrap();
        let client = within(self.host(Side::Inside), move || {
            connect_from(internal, external)
        });
        let v6 = internal.is_ipv6();
        // SYN, SYN ACK, ACK.
        for from in [Side::Inside, Side::Outside, Side::Inside] {
            self.settle(from, v6);
        }
        match listener.accept() {
            Ok((server, _)) => Some([client, server]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns whether octets pass over a connection of the inner host.
    pub(crate) fn carries(&self, streams: &mut [TcpStream; 2], from: Side, v6: bool) -> bool {
        let [client, server] = streams;
        let (sender, receiver) = match from {
            Side::Inside => (client, server),
            Side::Outside => (server, client),
        };
        sender.write_all(b"octets").unwrap();
        receiver.set_nonblocking(true).unwrap();
        self.settle(from, v6);
        receiver.read(&mut [0; 16]).is_ok()
    }
}

fn connect_from(internal: SocketAddr, external: SocketAddr) -> TcpStream {
    use nix::sys::socket::{
        AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, setsockopt, socket,
        sockopt,
    };
    use std::os::fd::AsRawFd as _;
    let family = if internal.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    let fd = socket(family, SockType::Stream, SockFlag::SOCK_NONBLOCK, None).unwrap();
    setsockopt(&fd, sockopt::ReuseAddr, &true).unwrap();
    bind(fd.as_raw_fd(), &SockaddrStorage::from(internal)).unwrap();
    let begun = connect(fd.as_raw_fd(), &SockaddrStorage::from(external));
    assert_eq!(begun, Err(nix::errno::Errno::EINPROGRESS));
    TcpStream::from(fd)
}

/// Runs a function in a network namespace.
pub(crate) fn within<T: Send + 'static>(
    namespace: PathBuf,
    act: impl FnOnce() -> T + Send + 'static,
) -> T {
    let inside = move || {
        setns(File::open(namespace).unwrap(), CloneFlags::CLONE_NEWNET).unwrap();
        act()
    };
    thread::spawn(inside).join().unwrap()
}

pub(crate) fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

pub(crate) const LONG: Lifetime = Lifetime(600);

/// A flow between the hosts.
pub(crate) fn flow(v6: bool, protocol: u8, port: u16, direction: Direction) -> Element {
    Element::Flow(Flow {
        protocol,
        internal: inside(v6, port),
        external: outside(v6, port),
        outside: None,
        direction,
    })
}
