//! Two hosts, each with the sockets of both crates, and a network that loses, delays and reorders packets.

use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::{IcmpKind, Route, Time, Transmit};

use crate::input::{Input, Outputs};
use crate::numbers::Numbers;
use crate::{base, current};

/// Most inputs of one run of the network, so that a storm of packets ends.
const MAX_INPUTS: usize = 400;

/// End of a sequence before its last input.
pub(crate) enum Stop {
    /// The outputs of the crates differ.
    Difference(Box<Difference>),
    /// Both crates panic, which is a defect of the core.
    Panic(Input),
}

/// Difference between the crates.
pub(crate) struct Difference {
    pub(crate) input: Input,
    pub(crate) base: Outputs,
    pub(crate) current: Outputs,
}

struct Hosts {
    base: base::Host,
    current: current::Host,
}

struct Flying {
    arrival: Time,
    host: usize,
    route: Route,
    packet: Bytes,
}

/// Inputs after which the exports are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExportComparison {
    /// None: the exports of the crates have different layouts.
    None,
    /// Inputs after which all sockets are listed.
    Listed,
    All,
}

pub(crate) struct Network {
    hosts: [Hosts; 2],
    exports: ExportComparison,
    now: Time,
    flying: Vec<Flying>,
    /// Packets of 1,000 that are lost.
    loss: usize,
    last_sent: Option<(usize, Transmit, Vec<u8>)>,
    inputs: u64,
}

/// Address of a host on a link.
pub(crate) fn ip(host: usize, link: u8) -> IpAddr {
    [10, 0, link, 1 + host as u8].into()
}

/// IPv6 address of a host on a link.
pub(crate) fn ip6(host: usize, link: u8) -> IpAddr {
    [0xfd00, link.into(), 0, 0, 0, 0, 0, 1 + host as u16].into()
}

impl Network {
    pub(crate) fn new(numbers: &mut Numbers, exports: ExportComparison) -> Self {
        let has_limits = numbers.below(3) == 0;
        let hosts = [0, 1].map(|host| {
            let addresses = [ip(host, 0), ip6(host, 0), ip(host, 1), ip6(host, 1)];
            let (seed, addresses) = (1 + host as u8, addresses.to_vec());
            Hosts {
                base: base::Host::new(addresses.clone(), seed, has_limits),
                current: current::Host::new(addresses, seed, has_limits),
            }
        });
        Self {
            hosts,
            exports,
            now: Time::from_millis(1000),
            flying: Vec::new(),
            loss: [0, 20, 100, 300][numbers.below(4)],
            last_sent: None,
            inputs: 0,
        }
    }

    pub(crate) fn inputs(&self) -> u64 {
        self.inputs
    }

    pub(crate) fn socket_count(&self, host: usize) -> usize {
        self.hosts[host].current.socket_count()
    }

    /// Returns a random message about a packet that a host has sent.
    pub(crate) fn icmp(&self, numbers: &mut Numbers) -> Option<(usize, Input)> {
        let (host, transmit, bytes) = self.last_sent.clone()?;
        let kinds = [
            IcmpKind::PacketTooBig {
                mtu: 600 + numbers.below(900),
            },
            IcmpKind::ProtocolUnreachable,
            IcmpKind::PortUnreachable,
            IcmpKind::DestinationUnreachable,
        ];
        let input = if numbers.below(2) == 0 {
            Input::Oversized(transmit, bytes, 600 + numbers.below(900))
        } else {
            Input::Icmp(kinds[numbers.below(4)], transmit.route.remote, bytes)
        };
        Some((host, input))
    }

    /// Passes an input to both crates, compares their outputs, and sends the packets.
    pub(crate) fn input(
        &mut self,
        numbers: &mut Numbers,
        host: usize,
        input: Input,
    ) -> Result<(), Stop> {
        self.inputs += 1;
        let is_listed = self.inputs % 16 == 0;
        let is_exported = match self.exports {
            ExportComparison::None => false,
            ExportComparison::Listed => is_listed,
            ExportComparison::All => true,
        };
        let hosts = &mut self.hosts[host];
        let now = self.now;
        let base = || hosts.base.process(now, &input, is_listed, is_exported);
        let base = catch_unwind(AssertUnwindSafe(base));
        let current = || hosts.current.process(now, &input, is_listed, is_exported);
        let (base, current) = match (base, catch_unwind(AssertUnwindSafe(current))) {
            (Err(_), Err(_)) => return Err(Stop::Panic(input)),
            (base, current) => (base.unwrap_or_default(), current.unwrap_or_default()),
        };
        if base != current {
            return Err(Stop::Difference(Box::new(Difference {
                input,
                base,
                current,
            })));
        }
        let addresses = hosts.current.addresses();
        for (transmit, bytes) in current.packets {
            for packet in transmit.packets_in(&bytes) {
                self.send(numbers, &addresses, transmit.route, packet);
            }
            self.last_sent = Some((host, transmit, bytes));
        }
        Ok(())
    }

    fn send(&mut self, numbers: &mut Numbers, addresses: &[IpAddr], route: Route, packet: &[u8]) {
        let same_family = |ip: &&IpAddr| ip.is_ipv4() == route.remote.is_ipv4();
        let choice = || addresses.iter().find(same_family).copied();
        let owner = [0, 1].into_iter().find(|host| {
            (0..3).any(|link| [ip(*host, link), ip6(*host, link)].contains(&route.remote))
        });
        let (Some(source), Some(host)) = (route.local.or_else(choice), owner) else {
            return;
        };
        let is_repeated = numbers.below(50) == 0;
        for _ in 0..=usize::from(is_repeated) {
            if numbers.below(1000) < self.loss {
                continue;
            }
            // Some packets overtake others.
            let delay = if numbers.below(10) == 0 {
                10 + numbers.below(100)
            } else {
                10
            };
            self.flying.push(Flying {
                arrival: self.now + Duration::from_millis(delay as u64),
                host,
                route: Route {
                    local: Some(route.remote),
                    remote: source,
                    ..route
                },
                packet: Bytes::copy_from_slice(packet),
            });
        }
    }

    /// Delivers packets and expires timers for a time.
    pub(crate) fn run(&mut self, numbers: &mut Numbers, time: Duration) -> Result<(), Stop> {
        let end = self.now + time;
        for _ in 0..MAX_INPUTS {
            let arrival = self.flying.iter().map(|flying| flying.arrival).min();
            let timeouts = [0, 1].map(|host| self.hosts[host].current.next_timeout());
            let next = timeouts.into_iter().chain([arrival]).flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else {
                break;
            };
            self.now = self.now.max(next);
            if arrival == Some(next) {
                let is_first = |flying: &Flying| flying.arrival == next;
                let first = self.flying.iter().position(is_first).unwrap_or(0);
                let (host, route) = (self.flying[first].host, self.flying[first].route);
                let joined = |flying: &mut Flying| {
                    flying.arrival == next && flying.host == host && flying.route == route
                };
                let packets = self
                    .flying
                    .extract_if(.., joined)
                    .map(|flying| flying.packet);
                let packets = packets.collect();
                self.input(numbers, host, Input::Packets(route, packets))?;
            } else {
                let host = usize::from(timeouts[0] != Some(next));
                self.input(numbers, host, Input::Timeout)?;
            }
        }
        self.now = self.now.max(end);
        Ok(())
    }
}
