//! A gateway and two ASPs of its application servers, in any layer.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::SctpNotification;
use carrick_sigtran::aspm::asp::{Asp, AspConfig, AspState};
use carrick_sigtran::aspm::sgp::{AspKey, Gateway, GatewayConfig, SgpAspConfig};
use carrick_sigtran::aspm::{LayerMessage, Transmit};
use carrick_sigtran::message::{AspIdentifier, TrafficMode};

use super::host::{Machine, Outgoing, Program, World};
use super::layers::{FLOWS, UserEvent, WorldLayer, server_of};

/// Side of an association: the gateway's or the ASP's.
type Side = usize;
const GATEWAY: Side = 0;
const ASP: Side = 1;

/// Association of an ASP, as a side knows it; each restart begins the next incarnation.
type Incarnation = (Side, usize, u32);

/// Message that a side received.
struct Delivery {
    number: u32,
    flow: u8,
    receiver: Incarnation,
}

/// Fate of the messages, whose content is their flow and their number.
#[derive(Default)]
struct Ledger {
    incarnations: [[u32; 2]; 2],
    lost: BTreeSet<Incarnation>,
    accepted: Vec<u32>,
    carried: BTreeMap<u32, Vec<Incarnation>>,
    delivered: Vec<Delivery>,
    /// Messages that reached a machine in which the ASP was not active, or without a data link.
    inactive: BTreeSet<u32>,
    /// Number of messages that T(r) discarded, or that a restart of the gateway lost from its buffers.
    discarded: usize,
}

type SharedLedger = Rc<RefCell<Ledger>>;

/// Returns the flow and the number of a message.
fn split(content: &Bytes) -> (u8, u32) {
    let number = content[1..].try_into().expect("a number");
    (content[0], u32::from_be_bytes(number))
}

impl Ledger {
    fn incarnation(&self, side: Side, asp: usize) -> Incarnation {
        (side, asp, self.incarnations[side][asp])
    }

    /// Ends an incarnation of an association.
    fn lose(&mut self, side: Side, asp: usize) {
        let incarnation = self.incarnation(side, asp);
        self.lost.insert(incarnation);
        self.incarnations[side][asp] += 1;
    }

    fn notify(&mut self, side: Side, asp: usize, notification: SctpNotification) {
        if !matches!(notification, SctpNotification::PathStatus { .. }) {
            self.lose(side, asp);
        }
    }

    fn carry(&mut self, side: Side, asp: usize, content: Option<Bytes>) {
        if let Some(content) = content {
            let incarnation = self.incarnation(side, asp);
            let (_, number) = split(&content);
            self.carried.entry(number).or_default().push(incarnation);
        }
    }

    fn deliver(&mut self, side: Side, asp: usize, content: &Bytes) {
        let receiver = self.incarnation(side, asp);
        let (flow, number) = split(content);
        self.delivered.push(Delivery {
            number,
            flow,
            receiver,
        });
    }
}

/// Numbers of the application servers.
fn servers<L: WorldLayer>() -> std::ops::RangeInclusive<u32> {
    1..=L::SERVERS.into()
}

struct SignallingGateway<L: WorldLayer> {
    gateway: Gateway<L>,
    keys: Vec<AspKey>,
    ledger: SharedLedger,
}

impl<L: WorldLayer> SignallingGateway<L> {
    fn new(mode: TrafficMode, ledger: SharedLedger) -> Self {
        let mut gateway = Gateway::new(GatewayConfig::default());
        for number in servers::<L>() {
            gateway
                .add_application_server(L::server(number, Some(mode), 1))
                .expect("a valid application server");
        }
        L::prepare(&mut gateway);
        let keys = [1, 2].map(|identifier| {
            let asp = gateway.add_asp(SgpAspConfig {
                identifier: Some(AspIdentifier(identifier)),
                application_servers: servers::<L>().map(L::id).collect(),
            });
            asp.expect("a valid ASP")
        });
        let keys = keys.to_vec();
        Self {
            gateway,
            keys,
            ledger,
        }
    }

    /// Takes the indications, those with a message at the input that brought it.
    fn collect(&mut self, sender: Option<usize>) {
        while let Some(indication) = self.gateway.poll_indication() {
            let event = L::on_gateway(&mut self.gateway, indication);
            let mut ledger = self.ledger.borrow_mut();
            match event {
                UserEvent::Data(content) => {
                    ledger.deliver(GATEWAY, sender.expect("a sender"), &content);
                }
                UserEvent::Discarded(count) => ledger.discarded += count,
                UserEvent::Up | UserEvent::Other => {}
            }
        }
    }

    /// Returns the number of messages in the buffers of AS-PENDING.
    fn buffered(&self) -> usize {
        let buffered = servers::<L>().filter_map(|number| self.gateway.buffered(L::id(number)));
        buffered.map(|(messages, _)| messages).sum()
    }
}

impl<L: WorldLayer> Machine for SignallingGateway<L> {
    fn notify(&mut self, now: Time, peer: usize, notification: SctpNotification) {
        self.ledger.borrow_mut().notify(GATEWAY, peer, notification);
        self.gateway.handle_sctp(now, self.keys[peer], notification);
    }

    fn receive(&mut self, now: Time, peer: usize, stream: u16, octets: &Bytes) {
        let message = L::decode(octets).expect("a valid message");
        let key = self.keys[peer];
        if let Some(content) = L::content(&message) {
            let (flow, number) = split(&content);
            let state = self.gateway.asp_state(key, L::id(server_of::<L>(flow)));
            if state != Some(AspState::Active) {
                self.ledger.borrow_mut().inactive.insert(number);
            }
        }
        self.gateway.handle_message(now, key, stream, &message);
        self.collect(Some(peer));
    }

    fn poll_outgoing(&mut self, _: Time) -> Option<Outgoing> {
        self.collect(None);
        let (key, transmit) = self.gateway.poll_transmit()?;
        let peer = self.keys.iter().position(|known| *known == key)?;
        let mut ledger = self.ledger.borrow_mut();
        ledger.carry(GATEWAY, peer, L::content(&transmit.message));
        Some(outgoing::<L>(peer, &transmit))
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.gateway.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.gateway.handle_timeout(now);
    }
}

struct Process<L: WorldLayer> {
    asp: Asp<L>,
    index: usize,
    /// Layer management wants the ASP to be active when it is up.
    wants_traffic: bool,
    ledger: SharedLedger,
}

impl<L: WorldLayer> Process<L> {
    fn new(index: usize, mode: TrafficMode, ledger: SharedLedger) -> Self {
        let served = servers::<L>().map(|number| L::served(number, Some(mode)));
        let asp = Asp::new(AspConfig {
            identifier: Some(AspIdentifier(index as u32 + 1)),
            application_servers: served.collect(),
            ..AspConfig::default()
        });
        Self {
            asp: asp.expect("a valid configuration"),
            index,
            wants_traffic: true,
            ledger,
        }
    }

    fn up(&mut self, now: Time) {
        // Without an association it is requested when there is one.
        let _ = self.asp.asp_up(now);
    }
}

impl<L: WorldLayer> Machine for Process<L> {
    fn notify(&mut self, now: Time, _: usize, notification: SctpNotification) {
        self.ledger
            .borrow_mut()
            .notify(ASP, self.index, notification);
        self.asp.handle_sctp(now, notification);
        if matches!(notification, SctpNotification::Up { .. }) {
            self.up(now);
        }
    }

    fn receive(&mut self, now: Time, _: usize, stream: u16, octets: &Bytes) {
        let message = L::decode(octets).expect("a valid message");
        if let Some(content) = L::content(&message) {
            let (flow, number) = split(&content);
            if !L::takes(&mut self.asp, flow) {
                self.ledger.borrow_mut().inactive.insert(number);
            }
        }
        self.asp.handle_message(now, stream, &message);
    }

    fn poll_outgoing(&mut self, now: Time) -> Option<Outgoing> {
        while let Some(indication) = self.asp.poll_indication() {
            match L::on_asp(&mut self.asp, now, indication) {
                UserEvent::Data(content) => {
                    self.ledger.borrow_mut().deliver(ASP, self.index, &content);
                }
                UserEvent::Up if self.wants_traffic => {
                    // It can have gone down since then.
                    let _ = self.asp.asp_active(now, &[]);
                }
                _ => {}
            }
        }
        let transmit = self.asp.poll_transmit()?;
        let mut ledger = self.ledger.borrow_mut();
        ledger.carry(ASP, self.index, L::content(&transmit.message));
        Some(outgoing::<L>(0, &transmit))
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.asp.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.asp.handle_timeout(now);
    }
}

fn outgoing<L: WorldLayer>(peer: usize, transmit: &Transmit<L::Message>) -> Outgoing {
    Outgoing {
        peer,
        stream: transmit.stream,
        unordered: transmit.unordered,
        ppid: L::PPID,
        octets: transmit.message.encode().expect("a message that fits"),
    }
}

/// World with the number of the next message.
struct Subject<L> {
    world: World,
    mode: TrafficMode,
    ledger: SharedLedger,
    next: u32,
    layer: PhantomData<L>,
}

impl<L: WorldLayer> Subject<L> {
    fn new(seed: u64) -> Self {
        let ledger = SharedLedger::default();
        let mut world = World::new(seed);
        let mode = L::TRAFFIC_MODES[world.below(L::TRAFFIC_MODES.len())];
        let mut subject = Self {
            world,
            mode,
            ledger,
            next: 0,
            layer: PhantomData,
        };
        subject.start_gateway();
        subject.start_asp(0);
        subject.start_asp(1);
        subject
    }

    fn start_gateway(&mut self) {
        let gateway = SignallingGateway::<L>::new(self.mode, Rc::clone(&self.ledger));
        self.world.start(0, gateway);
    }

    fn start_asp(&mut self, asp: usize) {
        let process = Process::<L>::new(asp, self.mode, Rc::clone(&self.ledger));
        self.world.start(1 + asp, process);
    }

    fn content(&mut self, flow: u8) -> Bytes {
        self.next += 1;
        [&[flow], &self.next.to_be_bytes()[..]].concat().into()
    }

    /// Sends a message of the lower layer; returns its number if the gateway accepts it.
    fn send_to_asps(&mut self, flow: u8) -> Option<u32> {
        let content = self.content(flow);
        let send = |host: &mut SignallingGateway<L>, _| L::send_to_asps(&mut host.gateway, content);
        let accepted = self.world.with(0, send);
        self.accept(accepted)
    }

    /// Sends a message from an ASP.
    fn send_to_gateway(&mut self, asp: usize, flow: u8) -> Option<u32> {
        let content = self.content(flow);
        let send = |host: &mut Process<L>, _| L::send_to_gateway(&mut host.asp, content);
        let accepted = self.world.with(1 + asp, send);
        self.accept(accepted)
    }

    fn accept(&mut self, accepted: bool) -> Option<u32> {
        accepted.then(|| {
            self.ledger.borrow_mut().accepted.push(self.next);
            self.next
        })
    }

    fn restart_asp(&mut self, asp: usize) {
        self.ledger.borrow_mut().lose(ASP, asp);
        self.start_asp(asp);
    }

    fn restart_gateway(&mut self) {
        let buffered = |host: &mut SignallingGateway<L>, _| host.buffered();
        let buffered = self.world.with(0, buffered);
        let mut ledger = self.ledger.borrow_mut();
        ledger.discarded += buffered;
        ledger.lose(GATEWAY, 0);
        ledger.lose(GATEWAY, 1);
        drop(ledger);
        self.start_gateway();
    }

    /// Makes a request of layer management at an ASP, for the application server of a flow, or for all.
    fn manage(&mut self, asp: usize, choice: usize, flow: Option<u8>) {
        let ids: Vec<_> = flow
            .map(|flow| L::id(server_of::<L>(flow)))
            .into_iter()
            .collect();
        self.world.with(1 + asp, |process: &mut Process<L>, now| {
            process.wants_traffic = choice != 1;
            // A request that is not possible in this state has no effect.
            let _ = match choice {
                0 => process.asp.asp_down(now),
                1 => process.asp.asp_inactive(now, &ids),
                2 => process.asp.asp_active(now, &ids),
                _ => process.asp.asp_up(now),
            };
        });
    }

    fn flow(&mut self) -> u8 {
        self.world.below(FLOWS.into()) as u8
    }

    fn act(&mut self) {
        for _ in 0..self.world.below(20) {
            let flow = self.flow();
            match self.world.below(5) {
                0 => drop(self.send_to_gateway(0, flow)),
                1 => drop(self.send_to_gateway(1, flow)),
                _ => drop(self.send_to_asps(flow)),
            }
        }
        let (asp, path) = (self.world.below(2), self.world.below(2));
        match self.world.below(40) {
            0 | 1 => self.world.set_link(1 + asp, path, false),
            2 => (0..2).for_each(|path| self.world.set_link(1 + asp, path, false)),
            3..=6 => (0..2).for_each(|path| self.world.set_link(1 + asp, path, true)),
            7 => self.restart_asp(asp),
            8 => self.world.with_program(
                0,
                |program: &mut Program<SignallingGateway<L>>, now, endpoint| {
                    program.abort(now, endpoint, asp);
                },
            ),
            9..=12 => {
                let choice = self.world.below(5);
                let flow = self.flow();
                self.manage(asp, choice, (path == 0).then_some(flow));
            }
            13 if self.world.below(4) == 0 => self.restart_gateway(),
            _ => {}
        }
    }

    /// Checks what section 4.3 and SCTP allow to happen to messages.
    fn check(&self) {
        let ledger = self.ledger.borrow();
        let mut copies: BTreeMap<u32, BTreeSet<(Side, usize)>> = BTreeMap::new();
        let mut last: BTreeMap<(Incarnation, u8), u32> = BTreeMap::new();
        for delivery in &ledger.delivered {
            let (side, asp, _) = delivery.receiver;
            let receivers = copies.entry(delivery.number).or_default();
            assert!(receivers.insert((side, asp)), "{} twice", delivery.number);
            assert!(
                receivers.len() == 1 || self.mode == TrafficMode::BROADCAST,
                "{} at both ASPs",
                delivery.number
            );
            let flow = (delivery.receiver, delivery.flow);
            if let Some(previous) = last.insert(flow, delivery.number) {
                assert!(previous < delivery.number, "{flow:?}: order");
            }
        }
        let mut never_sent = 0;
        for number in &ledger.accepted {
            if copies.contains_key(number) || ledger.inactive.contains(number) {
                continue;
            }
            let Some(carried) = ledger.carried.get(number) else {
                never_sent += 1;
                continue;
            };
            let lost = carried.iter().any(|on| ledger.lost.contains(on));
            assert!(lost, "{number} was lost on {carried:?}, which are not");
        }
        assert_eq!(never_sent, ledger.discarded, "discarded after T(r)");
    }

    /// Sends a message of each flow to the ASPs, and one from each ASP that is active: all arrive, at both ASPs if they
    /// share the load of an application server.
    fn probe(&mut self) {
        let probes: Vec<_> = (0..FLOWS)
            .map(|flow| {
                self.send_to_asps(flow)
                    .expect("an active application server")
            })
            .collect();
        let answers: Vec<_> = (0..2).map(|asp| self.send_to_gateway(asp, 0)).collect();
        self.world.run(Duration::from_secs(30));
        self.check();
        assert!(answers.iter().any(Option::is_some), "an active ASP");
        let ledger = self.ledger.borrow();
        let receivers = |number: u32| {
            let delivered = ledger.delivered.iter();
            let own = delivered.filter(move |delivery| delivery.number == number);
            own.map(|delivery| delivery.receiver.1)
        };
        for probe in probes.iter().chain(answers.iter().flatten()) {
            assert!(receivers(*probe).next().is_some(), "{probe} is lost");
        }
        if self.mode == TrafficMode::LOADSHARE && L::SERVERS == 1 {
            let asps: BTreeSet<_> = probes.into_iter().flat_map(receivers).collect();
            assert_eq!(asps, BTreeSet::from([0, 1]), "the ASPs share the load");
        }
    }
}

/// Runs a world; returns the number of deliveries and of associations that were lost.
pub(super) fn run<L: WorldLayer>(seed: u64) -> (usize, usize) {
    let mut subject = Subject::<L>::new(seed);
    for _ in 0..250 {
        subject.act();
        let pause = 1 + subject.world.below(200) as u64;
        subject.world.run(Duration::from_millis(pause));
    }
    // In the end the ASPs return, and everything arrives.
    subject.world.heal();
    subject.world.run(Duration::from_secs(30));
    for choice in [3, 2] {
        for asp in 0..2 {
            subject.manage(asp, choice, None);
        }
        subject.world.run(Duration::from_secs(30));
    }
    subject.probe();
    let ledger = subject.ledger.borrow();
    (ledger.delivered.len(), ledger.lost.len())
}
