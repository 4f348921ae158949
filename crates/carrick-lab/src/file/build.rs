//! Construction of the network of a model, with its programs and scheduled changes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use carrick_netsim::{
    self as netsim, Direction, LinkId, Network, NetworkBuilder, NodeId, Random, Time,
};
use carrick_proto::{AssociationConfig, Endpoint, EndpointConfig};

use super::measure::FlowRecord;
use super::model::{ChangeAction, Flow, Model, NodeStack};
use super::program::{
    Receiver, SctpProgram, Sender, Session, SessionState, TcpProgram, UdpProgram,
};
use crate::sctp_host::{SctpHost, SharedEventLog};
use crate::seed::{derive, derive_bytes};
use crate::tcp_host::{TcpConfig, TcpHost};

/// SCTP and TCP port of all hosts.
const PORT: u16 = 5001;
/// Directions of a link, in the order of the model.
const DIRECTIONS: [Direction; 2] = [Direction::Forward, Direction::Backward];

/// A network ready to run, with the simulator's identifiers of its parts.
pub(super) struct World {
    pub(super) net: Network,
    pub(super) nodes: Vec<NodeId>,
    pub(super) links: Vec<LinkId>,
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
    fn own_seed(self) -> u64 {
        derive(self.seed, &[1, self.number])
    }
}

/// Builds the network; with `log` every host records the events of its core.
pub(super) fn build(model: &Model, repetition: Repetition, log: bool) -> Result<World, String> {
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
    let mut links = Vec::new();
    for (number, link) in model.links.iter().enumerate() {
        let [a, b] = link.ends.map(|end| {
            let address = model.address(end, number);
            builder.add_interface(nodes[end], address)
        });
        let [forward, backward] = link.config.clone();
        links.push(builder.connect(a, b, forward, backward));
    }
    for (number, node) in model.nodes.iter().enumerate() {
        if node.source_routing {
            builder.set_source_routing(nodes[number], true);
        }
    }
    let programs = Programs::new(model, seed, log);
    for (number, node) in model.nodes.iter().enumerate() {
        let random = builder.node_random(nodes[number]);
        if let Some(program) = programs.of(number, &node.kind, random)? {
            builder.set_node_program(nodes[number], program);
        }
    }
    let mut net = builder.build().map_err(|error| error.to_string())?;
    schedule(model, repetition, &nodes, &links, &mut net)?;
    Ok(World { net, nodes, links })
}

/// Returns the time of a change in a repetition.
fn moment(at: Duration, spread: Duration, repetition: Repetition) -> Time {
    let part = (repetition.number as f64 + 0.5) / repetition.count.max(1) as f64;
    let later = if spread.is_zero() {
        spread
    } else {
        spread.mul_f64(part)
    };
    Time::ZERO + at + later
}

/// Returns the time of the first change.
pub(super) fn first_change(model: &Model, repetition: Repetition) -> Option<Time> {
    let moments = model
        .schedule
        .iter()
        .map(|c| moment(c.at, c.spread, repetition));
    moments.min()
}

fn schedule(
    model: &Model,
    repetition: Repetition,
    nodes: &[NodeId],
    links: &[LinkId],
    net: &mut Network,
) -> Result<(), String> {
    for change in &model.schedule {
        let link = links[change.link];
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
                // Each link has added one interface to each of its ends, in order.
                let before = model.links[..change.link].iter();
                let place = before.filter(|l| l.ends.contains(node)).count();
                let interface = net.interfaces(nodes[*node])[place];
                let address = *address;
                if *present {
                    netsim::Change::AddAddress { interface, address }
                } else {
                    netsim::Change::RemoveAddress { interface, address }
                }
            }
        };
        let at = moment(change.at, change.spread, repetition);
        net.at(at, what).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Builder of the programs of all hosts.
struct Programs<'m> {
    model: &'m Model,
    seed: u64,
    log: bool,
    /// Set-up time of each flow's association.
    setups: Vec<u64>,
}

impl<'m> Programs<'m> {
    fn new(model: &'m Model, seed: u64, log: bool) -> Self {
        let mut random = Random::new(derive(seed, &[2]), 0);
        let setup = |flow: &Flow| {
            let later = random.duration_up_to(flow.setup_spread);
            (flow.setup + later).as_nanos() as u64
        };
        Self {
            model,
            seed,
            log,
            setups: model.flows.iter().map(setup).collect(),
        }
    }

    fn of(
        &self,
        host: usize,
        kind: &NodeStack,
        random: Random,
    ) -> Result<Option<Box<dyn netsim::Node>>, String> {
        Ok(match kind {
            NodeStack::Router => None,
            NodeStack::Sctp(config) => Some(Box::new(self.sctp(host, config)?)),
            NodeStack::Tcp(_) => self.tcp(host),
            NodeStack::Udp => Some(Box::new(self.udp(host, random))),
        })
    }

    fn flows(&self) -> impl Iterator<Item = (usize, &'m Flow)> {
        self.model.flows.iter().enumerate()
    }

    /// Returns the random numbers for a flow's messages.
    fn random(&self, flow: usize) -> Random {
        Random::new(derive(self.seed, &[3]), flow as u64)
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
        let recording = self
            .model
            .measures
            .iter()
            .any(|measure| measure.needs_trace());
        let mut config = config.clone();
        config.research.trace = recording || self.log;
        let addresses = self.model.addresses(host);
        let seed = derive_bytes(self.seed, &[1 + host as u64]);
        let mut endpoint = EndpointConfig::new(PORT, addresses, seed);
        endpoint.association = config.clone();
        let endpoint = Endpoint::new(endpoint).map_err(|error| error.to_string())?;
        let mut program = SctpProgram {
            sessions: Vec::new(),
            senders: Vec::new(),
            receivers: Vec::new(),
            recording,
            failure: None,
        };
        let config = Arc::new(config);
        let mut peers: Vec<usize> = Vec::new();
        for (number, flow) in self.flows() {
            let Some(end) = flow.ends.iter().position(|end| *end == host) else {
                continue;
            };
            let peer = flow.ends[1 - end];
            let session = peers
                .iter()
                .position(|own| *own == peer)
                .unwrap_or_else(|| {
                    peers.push(peer);
                    program
                        .sessions
                        .push(self.session(number, host, peer, &config));
                    peers.len() - 1
                });
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
                if let Some(mean) = flow.reader {
                    program.sessions[session].reader = Some((mean, self.random(number)));
                }
            }
        }
        let host = SctpHost::new(endpoint, program).with_flow(self.tag(host));
        Ok(if self.log {
            host.with_event_log(SharedEventLog::default())
        } else {
            host
        })
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
        let sets_up = flow.ends[usize::from(flow.setup_by_receiver)] == host;
        let primary = flow.primary.and_then(|link| self.model.address(peer, link));
        let mut addresses = self.model.addresses(peer);
        // The INIT is sent to the first address.
        addresses.sort_by_key(|address| Some(*address) != primary);
        Session {
            peer: addresses,
            setup: sets_up.then(|| self.setups[number]),
            config: config.clone(),
            primary,
            wait_for_paths: flow.wait_for_paths,
            reader: None,
            state: SessionState::default(),
        }
    }

    fn tcp(&self, host: usize) -> Option<Box<dyn netsim::Node>> {
        let (number, flow) = self.flows().find(|(_, flow)| flow.ends.contains(&host))?;
        let NodeStack::Tcp(settings) = &self.model.nodes[host].kind else {
            return None;
        };
        let address = |host: usize| self.model.nodes[host].addresses.first().map(|(_, a)| *a);
        let config = TcpConfig {
            receive_buffer: settings.receive_buffer,
            send_buffer: settings.send_buffer,
            congestion: settings.congestion,
            ack_delay: settings.ack_delay,
            nagle: settings.nagle,
            mtu: settings.mtu,
            ..TcpConfig::new(address(host)?, derive(self.seed, &[4, host as u64]))
        };
        let tag = number as u32 + 1;
        if flow.ends[0] == host {
            let sender = Sender::new(number, flow, self.random(number));
            let peer = (address(flow.ends[1])?, PORT);
            let host = TcpHost::connect(config, peer, TcpProgram::client(sender));
            return Some(Box::new(host.with_flow(tag)));
        }
        let server = TcpProgram::server(number, flow.size, flow.response);
        Some(Box::new(
            TcpHost::listen(config, PORT, server).with_flow(tag),
        ))
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
