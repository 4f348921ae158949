//! An SGP and two ASPs of an application server.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::m3ua::asp::*;
use carrick_sigtran::m3ua::sgp::*;
use carrick_sigtran::m3ua::*;

use super::host::{Machine, Outgoing, Program, World};
use crate::samples::{code, data};

const CONTEXT: RoutingContext = RoutingContext(1);
const SLS_VALUES: usize = 4;

/// Side of an association: the gateway's or the ASP's.
type Side = usize;
const GATEWAY: Side = 0;
const ASP: Side = 1;

/// Association of an ASP, as a side knows it; each restart begins the next incarnation.
type Incarnation = (Side, usize, u32);

/// Message that a side received.
struct Delivery {
    number: u32,
    sls: u8,
    receiver: Incarnation,
}

/// Fate of the messages, whose user data is their number.
#[derive(Default)]
struct Ledger {
    incarnations: [[u32; 2]; 2],
    lost: BTreeSet<Incarnation>,
    accepted: Vec<u32>,
    carried: BTreeMap<u32, Vec<Incarnation>>,
    delivered: Vec<Delivery>,
    /// Messages that reached a machine in which the ASP was not active (section 3.8.1).
    inactive: BTreeSet<u32>,
    /// Number of messages that T(r) discarded.
    discarded: usize,
}

type SharedLedger = Rc<RefCell<Ledger>>;

fn number(data: &Data) -> u32 {
    let octets = data.protocol_data.user_data[..].try_into();
    u32::from_be_bytes(octets.expect("a number"))
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

    fn carry(&mut self, side: Side, asp: usize, message: &Message) {
        if let Message::Data(data) = message {
            let incarnation = self.incarnation(side, asp);
            self.carried
                .entry(number(data))
                .or_default()
                .push(incarnation);
        }
    }

    fn deliver(&mut self, side: Side, asp: usize, data: &Data) {
        let receiver = self.incarnation(side, asp);
        self.delivered.push(Delivery {
            number: number(data),
            sls: data.protocol_data.sls,
            receiver,
        });
    }
}

struct Gateway {
    sgp: SignallingGatewayProcess,
    keys: Vec<AspKey>,
    ledger: SharedLedger,
}

impl Gateway {
    fn new(mode: TrafficMode, ledger: SharedLedger) -> Self {
        let mut sgp = SignallingGatewayProcess::new(SgpConfig::default());
        let destinations = vec![RoutingKeyDestination::all(code(5))];
        sgp.add_application_server(ApplicationServerConfig {
            traffic_mode: Some(mode),
            ..ApplicationServerConfig::new(CONTEXT, destinations)
        })
        .expect("a valid application server");
        let keys = [1, 2].map(|identifier| {
            sgp.add_asp(SgpAspConfig {
                identifier: Some(AspIdentifier(identifier)),
                application_servers: vec![CONTEXT],
            })
            .expect("a valid ASP")
        });
        let keys = keys.to_vec();
        Self { sgp, keys, ledger }
    }

    fn collect(&mut self) {
        let mut ledger = self.ledger.borrow_mut();
        while let Some(indication) = self.sgp.poll_indication() {
            match indication {
                SgpIndication::Transfer(key, _, data) => {
                    let asp = self.keys.iter().position(|known| *known == key);
                    ledger.deliver(GATEWAY, asp.expect("a known ASP"), &data);
                }
                SgpIndication::Discarded(_, count) => ledger.discarded += count,
                _ => {}
            }
        }
    }
}

impl Machine for Gateway {
    fn notify(&mut self, now: Time, peer: usize, notification: SctpNotification) {
        self.ledger.borrow_mut().notify(GATEWAY, peer, notification);
        self.sgp.handle_sctp(now, self.keys[peer], notification);
    }

    fn receive(&mut self, now: Time, peer: usize, stream: u16, octets: &Bytes) {
        let message = Message::decode(octets).expect("a valid message");
        let active = self.sgp.asp_state(self.keys[peer], CONTEXT) == Some(AspState::Active);
        if let (Message::Data(data), false) = (&message, active) {
            self.ledger.borrow_mut().inactive.insert(number(data));
        }
        self.sgp
            .handle_message(now, self.keys[peer], stream, &message);
    }

    fn poll_outgoing(&mut self, _: Time) -> Option<Outgoing> {
        self.collect();
        let (key, transmit) = self.sgp.poll_transmit()?;
        let peer = self.keys.iter().position(|known| *known == key)?;
        let mut ledger = self.ledger.borrow_mut();
        ledger.carry(GATEWAY, peer, &transmit.message);
        Some(outgoing(peer, &transmit))
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.sgp.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.sgp.handle_timeout(now);
    }
}

struct Process {
    asp: Asp,
    index: usize,
    /// Layer management wants the ASP to be active when it is up.
    wants_traffic: bool,
    ledger: SharedLedger,
}

impl Process {
    fn new(index: usize, ledger: SharedLedger) -> Self {
        let asp = Asp::new(AspConfig {
            identifier: Some(AspIdentifier(index as u32 + 1)),
            application_servers: vec![AspApplicationServer::new(CONTEXT)],
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

impl Machine for Process {
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
        let message = Message::decode(octets).expect("a valid message");
        let active = self.asp.state(Some(CONTEXT)) == Some(AspState::Active);
        if let (Message::Data(data), false) = (&message, active) {
            self.ledger.borrow_mut().inactive.insert(number(data));
        }
        self.asp.handle_message(now, stream, &message);
    }

    fn poll_outgoing(&mut self, now: Time) -> Option<Outgoing> {
        while let Some(indication) = self.asp.poll_indication() {
            match indication {
                AspIndication::Transfer(data) => {
                    self.ledger.borrow_mut().deliver(ASP, self.index, &data);
                }
                AspIndication::AspUp(Ok(())) if self.wants_traffic => {
                    // It can have gone down since then.
                    let _ = self.asp.asp_active(now, &[]);
                }
                _ => {}
            }
        }
        let transmit = self.asp.poll_transmit()?;
        let mut ledger = self.ledger.borrow_mut();
        ledger.carry(ASP, self.index, &transmit.message);
        Some(outgoing(0, &transmit))
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.asp.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.asp.handle_timeout(now);
    }
}

fn outgoing(peer: usize, transmit: &Transmit) -> Outgoing {
    Outgoing {
        peer,
        stream: transmit.stream,
        unordered: transmit.unordered,
        ppid: PAYLOAD_PROTOCOL_ID,
        octets: transmit.message.encode().expect("a message that fits"),
    }
}

/// World with the number of the next message.
struct Subject {
    world: World,
    ledger: SharedLedger,
    next: u32,
}

impl Subject {
    fn protocol_data(&mut self, sls: usize) -> ProtocolData {
        self.next += 1;
        let mut data = data(sls as u8, &self.next.to_be_bytes()).protocol_data;
        data.dpc = code(5);
        data
    }

    /// Sends a message from the SS7 network; returns its number if the gateway accepts it.
    fn send_to_asps(&mut self, sls: usize) -> Option<u32> {
        let data = self.protocol_data(sls);
        let result = self.world.with(0, |gateway: &mut Gateway, _| {
            gateway.sgp.transfer(None, data)
        });
        self.accept(result.is_ok())
    }

    /// Sends a message from an ASP.
    fn send_to_gateway(&mut self, asp: usize, sls: usize) -> Option<u32> {
        let data = self.protocol_data(sls);
        let result = self.world.with(1 + asp, |process: &mut Process, _| {
            process.asp.transfer(Some(CONTEXT), data)
        });
        self.accept(result.is_ok())
    }

    fn accept(&mut self, accepted: bool) -> Option<u32> {
        accepted.then(|| {
            self.ledger.borrow_mut().accepted.push(self.next);
            self.next
        })
    }

    fn restart(&mut self, asp: usize) {
        self.ledger.borrow_mut().lose(ASP, asp);
        self.world
            .start(1 + asp, Process::new(asp, Rc::clone(&self.ledger)));
    }

    /// Makes a request of layer management at an ASP.
    fn manage(&mut self, asp: usize, choice: usize) {
        self.world.with(1 + asp, |process: &mut Process, now| {
            process.wants_traffic = choice != 1;
            // A request that is not possible in this state has no effect.
            let _ = match choice {
                0 => process.asp.asp_down(now),
                1 => process.asp.asp_inactive(now, &[]),
                2 => process.asp.asp_active(now, &[]),
                _ => process.asp.asp_up(now),
            };
        });
    }

    fn act(&mut self) {
        for _ in 0..self.world.below(20) {
            let sls = self.world.below(SLS_VALUES);
            match self.world.below(5) {
                0 => drop(self.send_to_gateway(0, sls)),
                1 => drop(self.send_to_gateway(1, sls)),
                _ => drop(self.send_to_asps(sls)),
            }
        }
        let (asp, path) = (self.world.below(2), self.world.below(2));
        match self.world.below(40) {
            0 | 1 => self.world.set_link(1 + asp, path, false),
            2 => (0..2).for_each(|path| self.world.set_link(1 + asp, path, false)),
            3..=6 => (0..2).for_each(|path| self.world.set_link(1 + asp, path, true)),
            7 => self.restart(asp),
            8 => self
                .world
                .with_program(0, |program: &mut Program<Gateway>, now, endpoint| {
                    program.abort(now, endpoint, asp);
                }),
            9..=12 => {
                let choice = self.world.below(5);
                self.manage(asp, choice);
            }
            _ => {}
        }
    }

    /// Checks what section 4.3 and SCTP allow to happen to messages.
    fn check(&self, mode: TrafficMode) {
        let ledger = self.ledger.borrow();
        let mut copies: BTreeMap<u32, BTreeSet<(Side, usize)>> = BTreeMap::new();
        let mut last: BTreeMap<(Incarnation, u8), u32> = BTreeMap::new();
        for delivery in &ledger.delivered {
            let (side, asp, _) = delivery.receiver;
            let receivers = copies.entry(delivery.number).or_default();
            assert!(receivers.insert((side, asp)), "{} twice", delivery.number);
            assert!(
                receivers.len() == 1 || mode == TrafficMode::BROADCAST,
                "{} at both ASPs",
                delivery.number
            );
            let flow = (delivery.receiver, delivery.sls);
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
}

/// Runs a world; returns the number of deliveries and of associations that were lost.
pub(super) fn run(seed: u64) -> (usize, usize) {
    let ledger = SharedLedger::default();
    let mut world = World::new(seed);
    let mode = TrafficMode(1 + world.below(3) as u32);
    world.start(0, Gateway::new(mode, Rc::clone(&ledger)));
    for asp in 0..2 {
        world.start(1 + asp, Process::new(asp, Rc::clone(&ledger)));
    }
    let mut subject = Subject {
        world,
        ledger,
        next: 0,
    };
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
            subject.manage(asp, choice);
        }
        subject.world.run(Duration::from_secs(30));
    }
    let probes: Vec<_> = (0..SLS_VALUES)
        .map(|sls| {
            subject
                .send_to_asps(sls)
                .expect("an active application server")
        })
        .collect();
    subject.world.run(Duration::from_secs(30));
    subject.check(mode);
    let ledger = subject.ledger.borrow();
    for probe in probes {
        let mut delivered = ledger.delivered.iter();
        assert!(delivered.any(|delivery| delivery.number == probe));
    }
    (ledger.delivered.len(), ledger.lost.len())
}
