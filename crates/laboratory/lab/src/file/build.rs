//! Construction of the network of a model, with its programs and scheduled changes.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use carrick_netsim::mobile::{
    ForeignAgent, ForeignAgentConfig, HomeAgent, HomeAgentConfig, MobileNode, MobileNodeConfig,
    MobilityEvent, SecurityAssociation,
};
use carrick_netsim::{
    self as netsim, ConfigError, Direction, ExternalHost, InterfaceId, LinkId, Network,
    NetworkBuilder, NodeId, Random, Time,
};
use carrick_proto::{AssociationConfig, Endpoint, EndpointConfig};

use super::live::Carrier;
use super::measure::FlowRecord;
use super::model::{
    Change, ChangeAction, Flow, Layer, Mobility, Model, Node, NodeStack, Pattern, ReceiverSpeed,
};
use super::program::{
    Carried, FlowSink, FlowSource, Load, LoadAgent, LoadMiddlebox, Receiver, SctpProgram, Sender,
    Session, SessionState, Signaling, TcpProgram, UdpProgram,
};
use crate::live::Program;
use crate::seed::{derive, derive_bytes};
use carrick_hosts::sctp::SctpHost;
use carrick_hosts::tcp::{TcpConfig, TcpHost};

/// SCTP and TCP port of all hosts without SIMCO.
const PORT: u16 = 5001;
/// SPI of the security association of a mobile node and its home agent.
const SPI: u32 = 1000;
/// Directions of a link, in the order of the model.
const DIRECTIONS: [Direction; 2] = [Direction::Forward, Direction::Backward];

/// An event of Mobile IP at a mobile node, and its time.
pub(super) type MobilityRecord = (Time, MobilityEvent);

/// A network ready to run, with the simulator's identifiers of its parts.
pub(super) struct SimulatedWorld {
    pub(super) net: Network,
    pub(super) nodes: Vec<NodeId>,
    pub(super) links: Vec<LinkId>,
    /// Interfaces of the two ends of each link.
    interfaces: Vec<[InterfaceId; 2]>,
}

impl SimulatedWorld {
    /// Returns the program of a host if it is of this type, and the events of Mobile IP around it.
    pub(super) fn host<T: netsim::Node>(&self, host: usize) -> Option<(&T, &[MobilityRecord])> {
        let node = self.nodes[host];
        if self.net.runs::<MobileNode<T>>(node) {
            let mobile: &MobileNode<T> = self.net.node(node);
            return Some((mobile.program(), mobile.events()));
        }
        let is_own = self.net.runs::<T>(node);
        is_own.then(|| (self.net.node(node), &[][..]))
    }
}

/// Identification of a run of a cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repetition {
    pub(super) seed: u64,
    pub(super) number: u64,
    /// Number of repetitions.
    pub(super) count: u64,
}

impl Repetition {
    /// Returns the seed of the network, which is the same for every cell.
    pub(super) fn own_seed(self) -> u64 {
        derive(self.seed, &[1, self.number])
    }
}

/// Builds the network; with `log` every host records the events of its core.
pub(super) fn build(
    model: &Model,
    repetition: Repetition,
    log: bool,
) -> Result<SimulatedWorld, String> {
    let mut parts = Parts::new(model, repetition, log);
    parts.set_programs(|_| true)?;
    let mut world = parts.world().map_err(|error| error.to_string())?;
    for (at, change) in changes(model, repetition, &world) {
        let scheduled = world.net.at(at, change);
        scheduled.map_err(|error| error.to_string())?;
    }
    Ok(world)
}

/// Builds the network without its schedule; only hosts with UDP have programs.
pub(super) fn build_without_stacks(
    model: &Model,
    repetition: Repetition,
) -> Result<SimulatedWorld, ConfigError> {
    let mut parts = Parts::new(model, repetition, false);
    // Programs of UDP cannot fail.
    let _ = parts.set_programs(|kind| matches!(kind, NodeStack::Udp));
    for (number, node) in model.nodes.iter().enumerate() {
        let udp = matches!(node.kind, NodeStack::Udp);
        if let Some(config) = parts.mobile_node(number)?.filter(|_| !udp) {
            let id = parts.nodes[number];
            let random = parts.builder.node_random(id);
            let program = MobileNode::new(config, [], ExternalHost::default(), random);
            parts.builder.set_node_program(id, Box::new(program));
        }
    }
    parts.world()
}

/// A network before it is complete.
struct Parts<'m> {
    model: &'m Model,
    builder: NetworkBuilder,
    nodes: Vec<NodeId>,
    links: Vec<LinkId>,
    interfaces: Vec<[InterfaceId; 2]>,
    seed: u64,
    /// Every host records the events of its core.
    log: bool,
    /// Set-up time of each flow's association.
    setups: Vec<u64>,
}

/// Returns the first IPv4 address of a node.
fn ipv4(node: &Node) -> Option<Ipv4Addr> {
    let mut all = node.addresses.iter().map(|(_, address)| *address);
    all.find_map(|address| match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    })
}

impl<'m> Parts<'m> {
    fn new(model: &'m Model, repetition: Repetition, log: bool) -> Self {
        let seed = repetition.own_seed();
        let mut builder = NetworkBuilder::new(derive(seed, &[0]));
        let nodes: Vec<NodeId> = model
            .nodes
            .iter()
            .map(|node| match node.kind {
                NodeStack::Router => builder.add_router(&node.name),
                _ => builder.add_host(&node.name),
            })
            .collect();
        let (mut links, mut interfaces) = (Vec::new(), Vec::new());
        for (number, link) in model.links.iter().enumerate() {
            let [a, b] = link.ends.map(|end| {
                let address = model.address(end, number);
                builder.add_interface(nodes[end], address)
            });
            let [forward, backward] = link.config.clone();
            links.push(builder.connect(a, b, forward, backward));
            interfaces.push([a, b]);
        }
        for (number, node) in model.nodes.iter().enumerate() {
            builder.set_routing(nodes[number], node.routing);
        }
        let setups = model.flows.iter().zip(setup_delays(model, seed));
        let setups = setups.map(|(flow, later)| (flow.setup + later).as_nanos() as u64);
        Self {
            model,
            builder,
            nodes,
            links,
            interfaces,
            seed,
            log,
            setups: setups.collect(),
        }
    }

    /// Returns the interfaces of a node on links that are wanted by their index and their other end, in the
    /// order of the links.
    fn interfaces(&self, node: usize, wanted: impl Fn(usize, usize) -> bool) -> Vec<InterfaceId> {
        let links = self.model.links.iter().enumerate();
        let own = links.filter_map(|(number, link)| {
            let place = link.ends.iter().position(|end| *end == node)?;
            let other = link.ends[1 - place];
            wanted(number, other).then(|| self.interfaces[number][place])
        });
        own.collect()
    }

    /// Returns the security association of a mobile node with its home agent.
    fn security(&self, host: usize) -> Result<SecurityAssociation, ConfigError> {
        SecurityAssociation::new(SPI, &derive_bytes(self.seed, &[5, host as u64]))
    }

    /// Returns the configuration of a mobile node; `None` for any other node.
    fn mobile_node(&self, host: usize) -> Result<Option<MobileNodeConfig>, ConfigError> {
        let model = self.model;
        let node = &model.nodes[host];
        let Some(Mobility::MobileNode {
            home,
            reverse_tunnel,
            ..
        }) = node.mobility
        else {
            return Ok(None);
        };
        let agent = model.links[home].other_end(host);
        let agent = agent.and_then(|agent| ipv4(&model.nodes[agent]));
        let (Some(agent), Some(IpAddr::V4(address))) = (agent, model.address(host, home)) else {
            return Ok(None);
        };
        let interfaces = self.interfaces(host, |link, other| {
            let foreign = model.nodes[other].mobility == Some(Mobility::ForeignAgent);
            link == home || foreign && node.registers_over(link)
        });
        let security = self.security(host)?;
        let mut config = MobileNodeConfig::new(address, agent, security, interfaces);
        config.reverse_tunnel = reverse_tunnel;
        Ok(Some(config))
    }

    /// Sets the programs of the mobility agents that have mobile nodes; other agents are plain routers.
    fn set_agents(&mut self) -> Result<(), ConfigError> {
        let model = self.model;
        for (number, node) in model.nodes.iter().enumerate() {
            let (Some(role), Some(address)) = (&node.mobility, ipv4(node)) else {
                continue;
            };
            let id = self.nodes[number];
            let random = self.builder.node_random(id);
            let program: Box<dyn netsim::Node> = match role {
                Mobility::MobileNode { .. } => continue,
                Mobility::HomeAgent => {
                    let home = |link: usize, host: usize| model.nodes[host].home() == Some(link);
                    let Some(interface) = self.interfaces(number, home).first().copied() else {
                        continue;
                    };
                    let mut clients = Vec::new();
                    for (link, own) in model.links.iter().enumerate() {
                        if let Some(host) = own.other_end(number).filter(|host| home(link, *host))
                            && let Some(IpAddr::V4(address)) = model.address(host, link)
                        {
                            clients.push((address, self.security(host)?));
                        }
                    }
                    let config = HomeAgentConfig::new(address, interface);
                    Box::new(HomeAgent::new(config, clients, random)?)
                }
                Mobility::ForeignAgent => {
                    let registers =
                        |link: usize, host: usize| model.nodes[host].registers_over(link);
                    let visited = self.interfaces(number, registers);
                    if visited.is_empty() {
                        continue;
                    }
                    let config = ForeignAgentConfig::new(address, visited);
                    Box::new(ForeignAgent::new(config, random))
                }
            };
            self.builder.set_node_program(id, program);
        }
        Ok(())
    }

    /// Sets the programs of the hosts with a stack for which `runs` returns true.
    fn set_programs(&mut self, runs: impl Fn(&NodeStack) -> bool) -> Result<(), String> {
        let nodes = self.model.nodes.iter().enumerate();
        for (number, node) in nodes.filter(|(_, node)| runs(&node.kind)) {
            let random = self.builder.node_random(self.nodes[number]);
            let mobile = self
                .mobile_node(number)
                .map_err(|error| error.to_string())?;
            let program = match &node.kind {
                NodeStack::Router => None,
                NodeStack::Live(_) | NodeStack::Dtls(_) => {
                    let name = node.kind.real_time_only().map_or("", Carrier::suffix);
                    return Err(format!("stack \"{name}\" runs in real time only"));
                }
                NodeStack::Sctp(config) => Some(moving(self.sctp(number, config)?, mobile, random)),
                NodeStack::Tcp(_) => self.tcp(number)?.map(|own| moving(own, mobile, random)),
                NodeStack::Udp => Some(moving(self.udp(number, random.clone()), mobile, random)),
            };
            if let Some(program) = program {
                self.builder.set_node_program(self.nodes[number], program);
            }
        }
        Ok(())
    }

    fn world(mut self) -> Result<SimulatedWorld, ConfigError> {
        self.set_agents()?;
        let mut net = self.builder.build()?;
        for (link, own) in self.links.iter().zip(&self.model.links) {
            if own.down {
                net.apply(netsim::Change::LinkDown(*link))?;
            }
        }
        Ok(SimulatedWorld {
            net,
            nodes: self.nodes,
            links: self.links,
            interfaces: self.interfaces,
        })
    }
}

/// Returns the time of a change in a repetition.
fn moment(at: Duration, spread: Duration, repetition: Repetition) -> Time {
    let part = (repetition.number as f64 + 0.5) / repetition.count.max(1) as f64;
    Time::ZERO + at + spread.mul_f64(part)
}

/// Returns the time of the first change of this kind.
pub(super) fn first_change(
    model: &Model,
    repetition: Repetition,
    is: fn(&ChangeAction) -> bool,
) -> Option<Time> {
    let changes = model.schedule.iter().filter(|change| is(&change.what));
    let moments = changes.map(|change| moment(change.at, change.spread, repetition));
    moments.min()
}

/// Returns the scheduled changes of a repetition with their times.
pub(super) fn changes(
    model: &Model,
    repetition: Repetition,
    world: &SimulatedWorld,
) -> Vec<(Time, netsim::Change)> {
    let change = |change: &Change| {
        let link = world.links[change.link];
        let what = match &change.what {
            ChangeAction::Down => netsim::Change::LinkDown(link),
            ChangeAction::Up => netsim::Change::LinkUp(link),
            ChangeAction::Config(direction, config) => netsim::Change::SetLink {
                link,
                direction: DIRECTIONS[*direction],
                config: (**config).clone(),
            },
            ChangeAction::Loss(direction, loss) => netsim::Change::SetLoss {
                link,
                direction: DIRECTIONS[*direction],
                loss: loss.clone(),
            },
            ChangeAction::Address {
                node,
                address,
                present,
            } => {
                let place = usize::from(model.links[change.link].ends[1] == *node);
                let interface = world.interfaces[change.link][place];
                let address = *address;
                if *present {
                    netsim::Change::AddAddress { interface, address }
                } else {
                    netsim::Change::RemoveAddress { interface, address }
                }
            }
        };
        (moment(change.at, change.spread, repetition), what)
    };
    model.schedule.iter().map(change).collect()
}

/// Returns the SCTP or TCP port of a host.
pub(super) fn port(model: &Model, host: usize) -> u16 {
    let mut flows = model.flows.iter().filter(|flow| flow.ends.contains(&host));
    if flows.any(Flow::is_simco) {
        carrick_simco::PORT
    } else {
        PORT
    }
}

/// Returns the program at an end of a flow if it has its own messages; `seed` is that of the repetition.
pub(super) fn carried(
    model: &Model,
    flow: usize,
    end: usize,
    seed: u64,
) -> Result<Option<Box<dyn Program>>, String> {
    let own = &model.flows[flow];
    let Pattern::Simco(workload) = own.pattern else {
        return Ok(None);
    };
    if !own.active {
        return Ok(None);
    }
    let load = Load {
        workload,
        processing: own.processing,
        warmup: model.warmup,
        measured: model.duration.saturating_sub(model.warmup),
        stream: matches!(model.nodes[own.ends[end]].kind, NodeStack::Tcp(_)),
        seed,
    };
    Ok(Some(if end == 0 {
        Box::new(LoadAgent::new(load))
    } else {
        Box::new(LoadMiddlebox::new(&load)?)
    }))
}

/// Returns the program of a host, inside of Mobile IP if the host is a mobile node.
fn moving<P: netsim::Node>(
    program: P,
    mobile: Option<MobileNodeConfig>,
    random: Random,
) -> Box<dyn netsim::Node> {
    match mobile {
        Some(config) => Box::new(MobileNode::new(config, [], program, random)),
        None => Box::new(program),
    }
}

/// Returns the random part of the set-up time of each flow's association.
pub(super) fn setup_delays(model: &Model, seed: u64) -> Vec<Duration> {
    let mut random = Random::new(derive(seed, &[2]), 0);
    let flows = model.flows.iter();
    flows
        .map(|flow| random.duration_up_to(flow.setup_spread))
        .collect()
}

/// Returns the random numbers for a flow's messages.
pub(super) fn random(seed: u64, flow: usize) -> Random {
    Random::new(derive(seed, &[3]), flow as u64)
}

/// Programs of the hosts.
impl<'m> Parts<'m> {
    fn flows(&self) -> impl Iterator<Item = (usize, &'m Flow)> {
        self.model.flows.iter().enumerate()
    }

    fn random(&self, flow: usize) -> Random {
        random(self.seed, flow)
    }

    /// Returns the flow tag of a host's packets: the first flow of the host, counted from 1.
    fn tag(&self, host: usize) -> u32 {
        let first = self.flows().find(|(_, flow)| flow.ends.contains(&host));
        first.map_or(0, |(number, _)| number as u32 + 1)
    }

    fn sctp(
        &self,
        host: usize,
        config: &AssociationConfig,
    ) -> Result<SctpHost<SctpProgram>, String> {
        let measures = &self.model.measures;
        let recording =
            self.model.until_last_send || measures.iter().any(|measure| measure.needs_trace());
        let mut config = config.clone();
        let layered = |(_, flow): &(usize, &'m Flow)| {
            flow.active && flow.layer != Layer::Sctp && flow.ends.contains(&host)
        };
        let layered = self.flows().find(layered).map(|(_, flow)| flow);
        // A link has the address of the peer to which it was set up.
        config.paths.ignore_peer_addresses |=
            layered.is_some_and(|flow| flow.layer == Layer::M2paLinks);
        let addresses = self.model.addresses(host);
        let seed = derive_bytes(self.seed, &[1 + host as u64]);
        let mut endpoint = EndpointConfig::new(port(self.model, host), addresses, seed);
        endpoint.association = config.clone();
        let endpoint = Endpoint::new(endpoint).map_err(|error| error.to_string())?;
        let mut program = SctpProgram {
            recording,
            set_peer_primary: self.model.nodes[host].set_peer_primary,
            ..SctpProgram::default()
        };
        if let Some(flow) = layered {
            program.signaling = Signaling::new(flow.layer, usize::from(flow.ends[0] != host))?;
        }
        let config = Arc::new(config);
        // Peers with their first sessions.
        let mut peers: Vec<(usize, usize)> = Vec::new();
        for (number, flow) in self.flows() {
            let Some(end) = flow.ends.iter().position(|end| *end == host) else {
                continue;
            };
            let peer = flow.ends[1 - end];
            let known = peers.iter().find(|(own, _)| *own == peer);
            let session = if let Some((_, session)) = known {
                *session
            } else {
                let sessions = self.sessions(number, host, peer, &config, layered);
                let first = program.sessions.len();
                program.sessions.extend(sessions);
                peers.push((peer, first));
                first
            };
            if let Some(carried) = carried(self.model, number, end, self.seed)? {
                program.sessions[session].carried = Some(Carried::new(carried));
            }
            if end == 0 {
                let sender = Sender::new(number, flow, self.random(number));
                program.senders.push((session, sender));
            } else {
                program.receivers.push(Receiver {
                    session,
                    number,
                    response: flow.response,
                    processing: flow.processing,
                    pending: VecDeque::new(),
                    record: FlowRecord::default(),
                });
                if flow.reader != ReceiverSpeed::Fast {
                    program.sessions[session].reader = flow.reader;
                    program.sessions[session].random = self.random(number);
                }
            }
        }
        let host = SctpHost::new(endpoint, program).with_flow(self.tag(host));
        Ok(if self.log {
            host.with_event_log()
        } else {
            host
        })
    }

    /// Returns the association of two hosts, or that of each link between them.
    fn sessions(
        &self,
        number: usize,
        host: usize,
        peer: usize,
        config: &Arc<AssociationConfig>,
        layered: Option<&Flow>,
    ) -> Vec<Session> {
        let session = Session {
            link: layered.map(|_| 0),
            ..self.session(number, host, peer, config)
        };
        if layered.is_none_or(|flow| flow.layer != Layer::M2paLinks) {
            return vec![session];
        }
        let links = session.peer.into_iter().enumerate();
        let links = links.map(|(link, address)| Session {
            peer: vec![address],
            link: Some(link),
            ..self.session(number, host, peer, config)
        });
        links.collect()
    }

    /// The association of two hosts is configured by their first flow.
    fn session(
        &self,
        number: usize,
        host: usize,
        peer: usize,
        config: &Arc<AssociationConfig>,
    ) -> Session {
        let flow = &self.model.flows[number];
        // Hosts without an active flow between them set up no association.
        let used = self
            .flows()
            .any(|(_, own)| own.active && own.ends.contains(&host) && own.ends.contains(&peer));
        let sets_up = used && flow.ends[usize::from(flow.setup_by_receiver)] == host;
        let primary = flow.primary.and_then(|link| self.model.address(peer, link));
        let mut addresses = self.model.addresses(peer);
        // The INIT is sent to the first address.
        addresses.sort_by_key(|address| Some(*address) != primary);
        Session {
            given: if flow.first_address_only {
                1
            } else {
                addresses.len()
            },
            peer: addresses,
            setup: sets_up.then(|| self.setups[number]),
            port: port(self.model, peer),
            config: config.clone(),
            primary,
            wait_for_paths: flow.wait_for_paths,
            reader: ReceiverSpeed::Fast,
            random: self.random(number),
            carried: None,
            link: None,
            state: SessionState::default(),
        }
    }

    fn tcp(&self, host: usize) -> Result<Option<TcpHost<TcpProgram>>, String> {
        let own = self.flows().filter(|(_, flow)| flow.ends.contains(&host));
        // At most one flow of the host is active.
        let chosen = own.min_by_key(|(_, flow)| !flow.active);
        let address = |host: usize| self.model.nodes[host].addresses.first().map(|(_, a)| *a);
        let (Some((number, flow)), NodeStack::Tcp(settings), Some(own_address)) =
            (chosen, &self.model.nodes[host].kind, address(host))
        else {
            return Ok(None);
        };
        let config = TcpConfig {
            address: own_address,
            seed: derive(self.seed, &[4, host as u64]),
            ..*settings
        };
        let end = usize::from(flow.ends[0] != host);
        let program = match carried(self.model, number, end, self.seed)? {
            Some(program) => program,
            None if end == 0 => {
                let sender = Sender::new(number, flow, self.random(number));
                Box::new(FlowSource::new(sender))
            }
            None => {
                // The simulated TCP passes data to its program at once.
                let flow = Flow {
                    reader: ReceiverSpeed::Fast,
                    ..flow.clone()
                };
                Box::new(FlowSink::new(number, &flow, true, self.random(number)))
            }
        };
        let program = TcpProgram::new(program);
        let host = match address(flow.ends[1]).filter(|_| end == 0) {
            Some(peer) => TcpHost::connect(config, (peer, port(self.model, flow.ends[1])), program),
            None => TcpHost::listen(config, port(self.model, host), program),
        };
        Ok(Some(host.with_flow(number as u32 + 1)))
    }

    fn udp(&self, host: usize, random: Random) -> UdpProgram {
        let mut program = UdpProgram::default();
        let address = |host: usize| self.model.nodes[host].addresses.first().map(|(_, a)| *a);
        let mut random = random;
        for (number, flow) in self.flows() {
            let addresses = [address(flow.ends[0]), address(flow.ends[1])];
            let [Some(from), Some(to)] = addresses else {
                continue;
            };
            if flow.ends[0] == host {
                // Seeds are drawn, so that the flows of a host differ.
                let own = Random::new(random.next_u64(), number as u64);
                program
                    .senders
                    .push((from, to, Sender::new(number, flow, own)));
            } else if flow.ends[1] == host {
                program.receivers.push((number, FlowRecord::default()));
            }
        }
        program.begin();
        program
    }
}
