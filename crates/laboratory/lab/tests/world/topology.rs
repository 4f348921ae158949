//! Network of a world: addresses, routers, links with their impairments, and changes at run time.
//!
//! Only the links next to side 0 lose packets, so that no packet has a loss probability above 20 %
//! in one direction. Every outage of a world that is to survive ends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use carrick_netsim::{
    Change, Direction, GilbertElliott, HostRouting, InterfaceId, Jitter, LinkConfig, LinkId, Loss,
    Network, NetworkBuilder, NodeId, Queue, QueueLimit, QueueManagement, Red, Reorder, Time,
};

use super::dice::{Dice, Part};
use super::interface_failure::InterfaceFailure;
use super::plan::{Ending, WorldPlan};

/// Proportion of links, in each direction, with queue management.
const MARKING: f64 = 0.33;

/// Connection of the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Links between the hosts, one for each pair of addresses with the same number.
    Direct,
    /// All interfaces at one router.
    Star,
    /// The interfaces of each host at a separate router; one link for all.
    Bottleneck,
    /// Two routers, with the even and the odd interfaces of both hosts; a link between the routers.
    Planes,
}

/// Addresses and links before they are built.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    shape: Shape,
    /// Addresses by side; the first ones of both sides are of one IP version.
    pub(crate) addresses: [Vec<IpAddr>; 2],
    /// Configurations of the links next to side 0, in both directions, by interface.
    access: Vec<(LinkConfig, LinkConfig)>,
    /// All other links.
    inner: Vec<LinkConfig>,
    outages: Vec<Outage>,
    /// Removal of an address of a side, given by its number; never the first. It may be added
    /// again.
    removal: Option<Removal>,
    routing: HostRouting,
    /// The hosts select source addresses by their routes, which interfaces that are down change.
    pub(crate) follows_routes: bool,
    /// Failures at the interfaces of both hosts with this number.
    interface_failures: Vec<(usize, Duration, Duration, InterfaceFailure)>,
    /// MTU of the links next to side 0, reported by ICMP. No packet of one chunk exceeds it,
    /// because the simulator does not fragment.
    pub(crate) link_mtu: Option<usize>,
    pub(crate) corrupts: bool,
}

#[derive(Clone, Copy, Debug)]
struct Outage {
    link: usize,
    from: Duration,
    to: Duration,
    kind: OutageKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutageKind {
    /// The hosts are notified.
    Cut,
    /// All packets are lost silently.
    Silent,
    /// All packets in this direction are lost silently.
    Half(Direction),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Removal {
    side: usize,
    number: usize,
    from: Duration,
    to: Option<Duration>,
}

/// The running network.
pub(crate) struct Built {
    pub(crate) net: Network,
    pub(crate) hosts: [NodeId; 2],
    /// All interfaces of both hosts.
    pub(crate) interfaces: Vec<InterfaceId>,
    pub(crate) links: Vec<LinkId>,
    /// Interface of each address, by side.
    pub(crate) owners: [Vec<InterfaceId>; 2],
}

impl Topology {
    pub(crate) fn new(seed: u64, plan: &WorldPlan) -> Self {
        let mut dice = Dice::new(seed, Part::Topology);
        let dice = &mut dice;
        let addresses = addresses(dice);
        let shape = dice.pick(&[
            Shape::Direct,
            Shape::Direct,
            Shape::Star,
            Shape::Bottleneck,
            Shape::Planes,
        ]);
        let links = match shape {
            Shape::Direct => addresses[0].len().min(addresses[1].len()),
            _ => addresses[0].len(),
        };
        let quality = Quality::new(dice);
        let mut access: Vec<_> = (0..links)
            .map(|_| (quality.link(dice), quality.link(dice)))
            .collect();
        // A corrupted ICMP message may contain any MTU.
        let link_mtu = (dice.chance(0.2) && !quality.corrupts)
            .then(|| dice.size(smallest_mtu(&addresses) + 24, 1480));
        for (there, back) in &mut access {
            (there.mtu, back.mtu) = (link_mtu, link_mtu);
        }
        let mut inner: Vec<_> = (0..=addresses[1].len())
            .map(|_| LinkConfig {
                delay: dice.log_millis(1, 40),
                rate: dice
                    .chance(0.5)
                    .then(|| dice.log_size(500_000, 1_000_000_000) as u64),
                queue: Queue::packets(dice.size(20, 200)),
                ..LinkConfig::default()
            })
            .collect();
        let there = access.iter_mut().flat_map(|(there, back)| [there, back]);
        let mut marking = Dice::new(seed, Part::Marking);
        for link in there.chain(&mut inner) {
            if marking.chance(MARKING) {
                link.queue = link.queue.with_management(management(&mut marking));
            }
        }
        let removal = removal(dice, &addresses, plan);
        let mut own = Dice::new(seed, Part::Interfaces);
        let follows_routes = own.chance(0.3);
        let interface_failures = match follows_routes {
            true => interface_failures(&mut own, &addresses, plan),
            false => Vec::new(),
        };
        // Over each link, both IP versions of its ends reach each other.
        let matches = addresses[0].len() == addresses[1].len()
            && addresses[0]
                .iter()
                .zip(&addresses[1])
                .all(|(a, b)| a.is_ipv4() == b.is_ipv4());
        let strict = follows_routes && own.chance(0.3) && (shape != Shape::Direct || matches);
        Self {
            shape,
            removal,
            inner,
            outages: outages(seed, links, plan),
            link_mtu,
            routing: match dice.chance(0.7) {
                _ if strict => HostRouting::BySource,
                true => HostRouting::PreferSource,
                false => HostRouting::ByDestination,
            },
            follows_routes,
            interface_failures,
            corrupts: access
                .iter()
                .any(|(there, back)| there.corrupt + back.corrupt > 0.0),
            access,
            addresses,
        }
    }

    /// Returns whether a side may lose the address with this number.
    pub(crate) fn loses_addresses(&self) -> bool {
        self.removal.is_some()
    }

    /// Returns an address that a side does not have yet, in the network of its first one.
    pub(crate) fn new_address(&self, side: usize) -> IpAddr {
        match self.addresses[side][0] {
            IpAddr::V4(first) => IpAddr::V4(Ipv4Addr::from_bits(first.to_bits() + 16)),
            IpAddr::V6(first) => IpAddr::V6(Ipv6Addr::from_bits(first.to_bits() + 16)),
        }
    }

    /// Returns the minimum MTU for all IP versions in use.
    pub(crate) fn smallest_mtu(&self) -> usize {
        smallest_mtu(&self.addresses)
    }

    /// Returns the addresses of `side` of the IP versions of the other side.
    /// Returns the time that a packet of `bytes` takes on the slowest link.
    pub(crate) fn longest_transmission(&self, bytes: u64) -> Duration {
        let access = self.access.iter().flat_map(|(there, back)| [there, back]);
        let rates = access.chain(&self.inner).filter_map(|link| link.rate);
        let slowest = rates.min();
        slowest.map_or(Duration::ZERO, |rate| {
            Duration::from_nanos(bytes * 8_000_000_000 / rate)
        })
    }

    pub(crate) fn reachable(&self, side: usize) -> Vec<IpAddr> {
        let other = &self.addresses[1 - side];
        let mine = self.addresses[side].iter().copied();
        mine.filter(|a| other.iter().any(|b| b.is_ipv4() == a.is_ipv4()))
            .collect()
    }

    /// Builds the network, with all scheduled changes.
    pub(crate) fn build(&self, seed: u64, ending: &Ending) -> Built {
        let mut builder = NetworkBuilder::new(seed);
        let hosts = ["left", "right"].map(|name| builder.add_host(name));
        for host in hosts {
            builder.set_routing(host, self.routing);
        }
        let (owners, links) = match self.shape {
            Shape::Direct => self.build_direct(&mut builder, hosts),
            _ => self.build_routed(&mut builder, hosts),
        };
        let interfaces: Vec<_> = {
            let mut all: Vec<_> = owners.iter().flatten().copied().collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        let mut net = builder.build().expect("a valid network");
        let access = &links[..self.access.len()];
        self.schedule_outages(&mut net, access);
        for (number, from, to, kind) in &self.interface_failures {
            let ports = [0, 1].map(|side| owners[side][*number]);
            for [begins, ends] in kind.changes(ports) {
                net.at(time(*from), begins).expect("a time ahead");
                net.at(time(*to), ends).expect("a time ahead");
            }
        }
        if let Ending::Death { at } = ending {
            for link in access {
                // Silently: without notification of the hosts.
                for direction in [Direction::Forward, Direction::Backward] {
                    let loss = Loss::Random(1.0);
                    let change = Change::SetLoss {
                        link: *link,
                        direction,
                        loss,
                    };
                    net.at(time(*at), change).expect("a time ahead");
                }
            }
        }
        if let Some(removal) = self.removal {
            let address = self.addresses[removal.side][removal.number];
            let interface = owners[removal.side][removal.number];
            let remove = Change::RemoveAddress { interface, address };
            net.at(time(removal.from), remove).expect("a time ahead");
            if let Some(to) = removal.to {
                let add = Change::AddAddress { interface, address };
                net.at(time(to), add).expect("a time ahead");
            }
        }
        Built {
            net,
            hosts,
            interfaces,
            links,
            owners,
        }
    }

    /// Connects the hosts; returns interfaces by side and address number, and the links, those next
    /// to side 0 first.
    fn build_direct(
        &self,
        builder: &mut NetworkBuilder,
        hosts: [NodeId; 2],
    ) -> ([Vec<InterfaceId>; 2], Vec<LinkId>) {
        let pairs = self.access.len();
        let owners = [0, 1].map(|side| {
            let addresses = &self.addresses[side];
            let ports: Vec<_> = (0..pairs)
                .map(|port| {
                    // A side with more addresses than links has several of them on some links.
                    let here = addresses.iter().enumerate();
                    let here = here.filter(|(number, _)| number % pairs == port);
                    builder.add_interface(hosts[side], here.map(|(_, a)| *a).collect::<Vec<_>>())
                })
                .collect();
            (0..addresses.len())
                .map(|number| ports[number % pairs])
                .collect::<Vec<_>>()
        });
        let links = self.access.iter().enumerate();
        let links = links.map(|(n, (there, back))| {
            builder.connect(owners[0][n], owners[1][n], there.clone(), back.clone())
        });
        let links = links.collect();
        (owners, links)
    }

    fn build_routed(
        &self,
        builder: &mut NetworkBuilder,
        hosts: [NodeId; 2],
    ) -> ([Vec<InterfaceId>; 2], Vec<LinkId>) {
        // Routers send ICMP from an address that no other node has.
        let mut ports = 0;
        let mut next_port = |builder: &mut NetworkBuilder, router: NodeId| {
            ports += 1;
            let v6 = Ipv6Addr::new(0xfd00, 0xff, 0, 0, 0, 0, 0, ports);
            builder.add_interface(router, [IpAddr::V6(v6)])
        };
        let first = builder.add_router("r1");
        let second = match self.shape {
            Shape::Star => first,
            _ => builder.add_router("r2"),
        };
        let router = |side: usize, number: usize| match self.shape {
            Shape::Star => first,
            Shape::Planes => [first, second][number % 2],
            _ => [first, second][side],
        };
        let mut links = Vec::new();
        let owners = [0, 1].map(|side| {
            let mut mine = Vec::new();
            for (number, address) in self.addresses[side].iter().enumerate() {
                let port = builder.add_interface(hosts[side], [*address]);
                let far = next_port(builder, router(side, number));
                let (there, back) = if side == 0 {
                    self.access[number].clone()
                } else {
                    (self.inner[number].clone(), self.inner[number].clone())
                };
                links.push(builder.connect(port, far, there, back));
                mine.push(port);
            }
            mine
        });
        if first != second {
            let [a, b] = [first, second].map(|router| next_port(builder, router));
            let config = self.inner[self.addresses[1].len()].clone();
            links.push(builder.connect_both(a, b, config));
        }
        (owners, links)
    }

    /// Returns whether hosts have policy routing.
    pub(crate) fn has_policy_routing(&self) -> bool {
        self.routing == HostRouting::BySource
    }

    /// Replaces policy routing, with which no packet leaves from an address of another link: where
    /// sources are not selected by routes, or the only address of a side has moved to another link.
    pub(crate) fn route_without_policy(&mut self) {
        if self.has_policy_routing() {
            self.routing = HostRouting::PreferSource;
        }
    }

    fn schedule_outages(&self, net: &mut Network, links: &[LinkId]) {
        for outage in &self.outages {
            let link = links[outage.link];
            let (from, to) = (time(outage.from), time(outage.to));
            let (there, back) = &self.access[outage.link];
            let directions = [
                (Direction::Forward, there.loss.clone()),
                (Direction::Backward, back.loss.clone()),
            ];
            match outage.kind {
                OutageKind::Cut => {
                    net.at(from, Change::LinkDown(link)).expect("a time ahead");
                    net.at(to, Change::LinkUp(link)).expect("a time ahead");
                }
                OutageKind::Silent | OutageKind::Half(_) => {
                    for (direction, before) in directions {
                        if outage.kind == OutageKind::Half(direction) {
                            continue;
                        }
                        let set = |loss| Change::SetLoss {
                            link,
                            direction,
                            loss,
                        };
                        net.at(from, set(Loss::Random(1.0))).expect("a time ahead");
                        net.at(to, set(before)).expect("a time ahead");
                    }
                }
            }
        }
    }
}

/// Converts the time after the start to the simulator's time.
pub(crate) fn time(since_start: Duration) -> Time {
    Time::ZERO + since_start
}

fn smallest_mtu(addresses: &[Vec<IpAddr>; 2]) -> usize {
    let v6 = addresses.iter().flatten().any(IpAddr::is_ipv6);
    if v6 { 1280 } else { 576 }
}

/// Draws one to four addresses per side; those with the same number are of one IP version.
fn addresses(dice: &mut Dice) -> [Vec<IpAddr>; 2] {
    let counts = if dice.chance(0.3) {
        [1, 1]
    } else {
        [dice.size(1, 4), dice.size(1, 4)]
    };
    let family = dice.range(0, 2);
    let families: Vec<bool> = (0..4)
        .map(|_| match family {
            0 => true,
            1 => false,
            _ => dice.chance(0.5),
        })
        .collect();
    // Prefixes that do not identify pairs make senders select unexpected source addresses.
    let mut subnets = [[1, 2, 3, 4], [1, 2, 3, 4]];
    if dice.chance(0.2) {
        dice.shuffle(&mut subnets[1]);
    }
    [0, 1].map(|side| {
        (0..counts[side])
            .map(|number| {
                let (subnet, host) = (subnets[side][number], side as u8 + 1);
                if families[number] {
                    IpAddr::V4(Ipv4Addr::new(10, subnet, 0, host))
                } else {
                    let (subnet, host) = (u16::from(subnet), u16::from(host));
                    IpAddr::V6(Ipv6Addr::new(0xfd00, subnet, 0, 0, 0, 0, 0, host))
                }
            })
            .collect()
    })
}

/// Impairments of a world; their values are drawn for each direction.
struct Quality {
    fast: bool,
    far: bool,
    loss: u64,
    reorders: bool,
    jitters: bool,
    duplicates: bool,
    corrupts: bool,
}

impl Quality {
    fn new(dice: &mut Dice) -> Self {
        Self {
            fast: dice.chance(0.3),
            far: dice.chance(0.2),
            loss: dice.range(0, 9),
            reorders: dice.chance(0.3),
            jitters: dice.chance(0.3),
            duplicates: dice.chance(0.25),
            corrupts: dice.chance(0.25),
        }
    }

    fn link(&self, dice: &mut Dice) -> LinkConfig {
        let queue = match dice.range(0, 3) {
            0 => Queue::default(),
            1 => Queue::bytes(dice.log_size(20_000, 500_000)),
            _ => Queue::packets(dice.log_size(3, 300)),
        };
        LinkConfig {
            rate: match (self.fast, dice.chance(0.2)) {
                (_, true) => None,
                (true, _) => Some(dice.log_size(10_000_000, 1_000_000_000) as u64),
                _ => Some(dice.log_size(64_000, 20_000_000) as u64),
            },
            delay: dice.log_millis(1, if self.far { 600 } else { 60 }),
            queue,
            loss: self.loss(dice),
            jitter: match (self.jitters, dice.chance(0.5)) {
                (false, _) => Jitter::None,
                (true, false) => Jitter::Uniform(dice.log_millis(1, 50)),
                (true, true) => Jitter::Normal {
                    standard_deviation: dice.log_millis(1, 20),
                },
            },
            jitter_overtakes: dice.chance(0.5),
            reorder: self.reorders.then(|| Reorder {
                probability: dice.probability_up_to(0.2),
                extra_delay: dice.log_millis(1, 200),
            }),
            duplicate: if self.duplicates {
                dice.probability_up_to(0.1)
            } else {
                0.0
            },
            corrupt: if self.corrupts {
                dice.probability_up_to(0.05)
            } else {
                0.0
            },
            ..LinkConfig::default()
        }
    }

    /// Draws a loss of at most 20 % in either direction.
    fn loss(&self, dice: &mut Dice) -> Loss {
        match self.loss {
            0..=3 => Loss::None,
            4..=6 => Loss::Random(dice.probability_up_to(0.2)),
            7 | 8 => {
                let mean_burst = dice.range(10, 50) as f64 / 10.0;
                Loss::GilbertElliott(GilbertElliott::bursts(
                    dice.probability_up_to(0.2),
                    mean_burst,
                ))
            }
            _ => Loss::Every(dice.range(5, 50)),
        }
    }
}

/// Draws a queue that marks, or drops packets that cannot be marked, above a few packets.
fn management(dice: &mut Dice) -> QueueManagement {
    if dice.chance(0.75) {
        return QueueManagement::MarkAbove(QueueLimit::Packets(dice.size(1, 5)));
    }
    let minimum = dice.range(1, 5) as f64;
    QueueManagement::Red(Red {
        minimum,
        maximum: minimum + dice.range(5, 30) as f64,
        max_probability: 0.02 + dice.probability_up_to(0.2),
        weight: 0.02 + dice.probability_up_to(0.3),
        ecn: dice.chance(0.8),
    })
}

fn outages(seed: u64, links: usize, plan: &WorldPlan) -> Vec<Outage> {
    let mut dice = Dice::new(seed, Part::Outages);
    let kind = |dice: &mut Dice| {
        dice.pick(&[
            OutageKind::Cut,
            OutageKind::Silent,
            OutageKind::Half(Direction::Forward),
            OutageKind::Half(Direction::Backward),
        ])
    };
    // After a permanent failure of the network nothing recovers.
    if matches!(plan.ending, Ending::Death { .. }) {
        return Vec::new();
    }
    let mut all = Vec::new();
    match dice.range(0, 9) {
        0..=3 => {}
        4..=7 => {
            // One outage per link, so that none ends another.
            for link in 0..links {
                if dice.chance(0.6) {
                    let from = dice.log_millis(1, 20_000);
                    let to = from + dice.log_millis(20, 40_000);
                    let kind = kind(&mut dice);
                    all.push(Outage {
                        link,
                        from,
                        to,
                        kind,
                    });
                }
            }
        }
        _ => {
            let link = dice.size(0, links - 1);
            let kind = kind(&mut dice);
            let mut at = dice.log_millis(1, 5000);
            for _ in 0..dice.range(3, 30) {
                let to = at + dice.log_millis(20, 5000);
                all.push(Outage {
                    link,
                    from: at,
                    to,
                    kind,
                });
                at = to + dice.log_millis(20, 5000);
            }
        }
    }
    all
}

/// Draws failures at the interfaces of both hosts with one number, which all end.
fn interface_failures(
    dice: &mut Dice,
    addresses: &[Vec<IpAddr>; 2],
    plan: &WorldPlan,
) -> Vec<(usize, Duration, Duration, InterfaceFailure)> {
    if matches!(plan.ending, Ending::Death { .. }) {
        return Vec::new();
    }
    let last = addresses[0].len().min(addresses[1].len()) - 1;
    (0..dice.range(0, 6))
        .map(|_| {
            let from = dice.log_millis(1, 20_000);
            let to = from + dice.log_millis(20, 20_000);
            (dice.size(0, last), from, to, InterfaceFailure::new(dice))
        })
        .collect()
}

fn removal(dice: &mut Dice, addresses: &[Vec<IpAddr>; 2], plan: &WorldPlan) -> Option<Removal> {
    let side = dice.size(0, 1);
    let count = addresses[side].len();
    // If INITs collide, one that still lists the address is refused, as required.
    let collides = plan.connects.iter().all(Option::is_some);
    let wanted = dice.chance(0.15) && plan.ending.is_graceful() && !collides;
    (wanted && count > 1).then(|| {
        let from = dice.log_millis(1, 10_000);
        Removal {
            side,
            number: dice.size(1, count - 1),
            from,
            to: dice
                .chance(0.5)
                .then(|| from + dice.log_millis(100, 10_000)),
        }
    })
}
