//! The task of an endpoint: owns the protocol and the sockets, and is the only one to touch them.
//!
//! Each round processes commands, datagrams and timeouts, and only then asks the protocol for packets: one
//! SACK per batch, not per packet.
//!
//! - `below`: DTLS between the protocol and the sockets, if any
//! - `backlog`: associations that wait to be accepted
//! - `commands`: commands of the handles
//! - `entry`: state of an association besides the protocol's
//! - `events`: events from the protocol to the handles
//! - `handover`: the end of the task without an end of the associations, and their continuation by another task
//! - `shards`: the other tasks of an endpoint that has several
//! - `end`: the last packets when the runtime ends before the endpoint is closed

mod backlog;
mod below;
mod commands;
mod end;
mod entry;
mod events;
#[cfg(target_os = "linux")]
mod handover;
mod shards;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
#[cfg(target_os = "linux")]
use carrick_proto::CloseReason;
use carrick_proto::{AssociationId, Endpoint as Core, JoinedTransmits, Route, Time};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;

use crate::association::Association;
use crate::close_report::ReportedEnds;
use crate::command::{Command, Commands};
use crate::config::Config;
use crate::error::ConnectError;
use crate::network::{Network, NetworkInput, TransmitOutcome, route_mtu};
use crate::packets::PacketTap;
#[cfg(target_os = "linux")]
use crate::shared::SharedState;
use crate::strays::StrayPackets;
use crate::unread_memory::UnreadMemory;
pub(crate) use backlog::{Backlog, WaitingAssociation, backlog};
pub(crate) use below::LowerLayer;
use entry::AssociationEntry;
pub(crate) use entry::Handles;
pub(crate) use shards::ShardLink;

/// Maximum number of rounds before other tasks run.
const ROUNDS: usize = 8;

/// Maximum number of commands processed in a round.
const COMMANDS: usize = 256;

/// Lengths of queues; see [`Config`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    send_queue: usize,
    receive_queue: usize,
    receive_queue_messages: usize,
    notifications: usize,
    linger: Duration,
}

impl Limits {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            send_queue: config.send_queue,
            receive_queue: config.receive_queue,
            receive_queue_messages: config.receive_queue_messages,
            notifications: config.notifications,
            linger: config.linger,
        }
    }
}

type ConnectAnswer = oneshot::Sender<Result<Association, ConnectError>>;

/// State of the task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    BetweenRounds,
    /// A round runs, or has panicked.
    InRound,
    /// Another task has the associations.
    #[cfg(target_os = "linux")]
    HandedOver,
}

/// Task of an endpoint: owns the protocol and its sockets.
pub(crate) struct Driver {
    core: Core,
    below: LowerLayer,
    network: Network,
    packets: Option<PacketTap>,
    /// The other tasks of the endpoint, if there are any.
    shards: Option<ShardLink>,
    strays: StrayPackets,
    /// Why the network has failed, for the handles.
    failure: Arc<OnceLock<String>>,
    limits: Limits,
    unread: Arc<UnreadMemory>,
    /// For the handles of new associations; weak, so that the task detects that all handles were dropped.
    commands: mpsc::WeakUnboundedSender<Command>,
    orders: mpsc::UnboundedReceiver<Command>,
    batch: Vec<Command>,
    /// `None` when no peer is accepted any more.
    accepted: Option<Backlog>,
    entries: BTreeMap<AssociationId, AssociationEntry>,
    /// Associations that have ended while a program has their handles, which may have unread messages.
    #[cfg(target_os = "linux")]
    ended: BTreeMap<AssociationId, (Arc<SharedState>, CloseReason)>,
    connecting: BTreeMap<AssociationId, ConnectAnswer>,
    /// Times at which associations are aborted that are to shut down until then.
    lingering: BTreeSet<(Time, AssociationId)>,
    outgoing: JoinedTransmits,
    epoch: Instant,
    sleep: Pin<Box<Sleep>>,
    armed: Option<Time>,
    /// No handle is left, or the endpoint was closed: the task ends with the last association.
    ending: bool,
    orphaned: bool,
    #[cfg(target_os = "linux")]
    hand_over: handover::HandOver,
    /// Of all associations: handles discard nothing any more.
    handed_over: Arc<AtomicBool>,
    phase: Phase,
    /// Ends for the report of [`Endpoint::close`](crate::Endpoint::close); dropped after the sockets.
    ends: ReportedEnds,
}

impl Driver {
    pub(crate) fn new(
        (core, below): (Core, LowerLayer),
        (network, packets, shards): (Network, Option<PacketTap>, Option<ShardLink>),
        (limits, unread): (Limits, Arc<UnreadMemory>),
        (commands, orders, accepted): (&Commands, mpsc::UnboundedReceiver<Command>, Backlog),
        (failure, ends): (Arc<OnceLock<String>>, ReportedEnds),
    ) -> Self {
        Self {
            core,
            below,
            network,
            packets,
            shards,
            strays: StrayPackets::default(),
            failure,
            limits,
            unread,
            commands: commands.downgrade(),
            orders,
            batch: Vec::with_capacity(COMMANDS),
            accepted: Some(accepted),
            entries: BTreeMap::new(),
            #[cfg(target_os = "linux")]
            ended: BTreeMap::new(),
            connecting: BTreeMap::new(),
            lingering: BTreeSet::new(),
            outgoing: JoinedTransmits::default(),
            epoch: Instant::now(),
            sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
            armed: None,
            ending: false,
            orphaned: false,
            #[cfg(target_os = "linux")]
            hand_over: handover::HandOver::default(),
            handed_over: Arc::default(),
            phase: Phase::BetweenRounds,
            ends,
        }
    }

    fn now(&self) -> Time {
        let nanos = u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Time::from_nanos(nanos)
    }

    /// Processes commands of the handles. Returns true if more may wait.
    fn take_commands(&mut self, cx: &mut Context<'_>, now: Time) -> bool {
        if self.orphaned {
            return false;
        }
        let mut taken = 0;
        let mut batch = std::mem::take(&mut self.batch);
        while taken < COMMANDS
            && let Poll::Ready(count) = self.orders.poll_recv_many(cx, &mut batch, COMMANDS)
        {
            if count == 0 {
                self.orphaned = true;
                self.end();
                break;
            }
            taken += count;
            for command in batch.drain(..) {
                self.execute(command, now);
            }
        }
        self.batch = batch;
        taken >= COMMANDS
    }

    /// Processes received datagrams. Returns true if more may wait.
    fn receive(&mut self, cx: &mut Context<'_>, now: Time) -> bool {
        let port = self.core.port();
        let (core, below, strays) = (&mut self.core, &mut self.below, &mut self.strays);
        let shards = &mut self.shards;
        let tap = self.packets.as_ref();
        let observe = |route: &Route, packet: &Bytes| {
            if let Some(tap) = tap {
                tap.received(route, packet);
            }
        };
        self.network.poll_receive(cx, |arrival| match arrival {
            NetworkInput::Packets(route, packets) if route.encapsulation.is_some() => {
                let packets = &mut packets.inspect(|packet| observe(route, packet));
                match shards {
                    Some(shards) => {
                        let mut own = packets.filter(|packet| shards.keeps(route, packet));
                        below.handle_datagrams(now, core, route, &mut own);
                        shards.pass_on(route);
                    }
                    None => below.handle_datagrams(now, core, route, packets),
                }
            }
            NetworkInput::Packets(route, packets) => {
                // A raw socket gets the packets for all SCTP ports of its address.
                let mut ours = packets.filter(|packet| {
                    destination_port(packet) == Some(port)
                        || strays.answers(now, port, route.local, packet)
                });
                let mut ours = ours.by_ref().inspect(|packet| observe(route, packet));
                below.handle_datagrams(now, core, route, &mut ours);
            }
            NetworkInput::Icmp(icmp) => {
                if shards
                    .as_mut()
                    .is_none_or(|shards| shards.keeps_icmp(&icmp))
                {
                    below.handle_icmp(now, core, &icmp);
                }
            }
        })
    }

    /// Ends all associations if the network has failed. Returns true once.
    fn follow_failure(&mut self, now: Time) -> bool {
        let Some(reason) = self.network.failure() else {
            return false;
        };
        if self.failure.set(reason.into()).is_err() {
            return false;
        }
        self.end();
        let ids: Vec<AssociationId> = self.core.associations().collect();
        for id in ids {
            if let Some(association) = self.core.association_mut(now, id) {
                association.lower_layer_lost();
            }
        }
        true
    }

    /// Follows changes of the host's addresses and routes. Returns true if it checked a table.
    fn follow_host(&mut self, cx: &mut Context<'_>, now: Time) -> bool {
        let changes = self.network.poll_host(cx, self.core.local_addresses());
        if changes.routes {
            self.core.local_routes_changed();
            self.share_routes_changed();
        }
        for address in changes.added {
            self.core.local_address_added(address);
        }
        self.share_added();
        for address in changes.removed {
            self.core.local_address_removed(now, address);
            self.share_removed(address);
        }
        changes.checked
    }

    /// Processes expired timers. Returns true if any was due.
    fn expire(&mut self, now: Time) -> bool {
        let mut any = false;
        while let Some(&(at, id)) = self.lingering.first() {
            if at > now {
                break;
            }
            self.lingering.pop_first();
            self.abort_lingering(id, now);
            any = true;
        }
        if self
            .below
            .poll_timeout(&self.core)
            .is_some_and(|at| at <= now)
        {
            self.below.handle_timeout(now, &mut self.core);
            any = true;
        }
        any
    }

    /// Sends the packets that the protocol has.
    fn transmit(&mut self, cx: &mut Context<'_>, now: Time) {
        self.network.flush(cx);
        while let Some((transmit, bytes)) = self
            .outgoing
            .poll(|out| self.below.poll_transmit(now, &mut self.core, out))
        {
            if let Some(tap) = &self.packets {
                tap.sent(&transmit, bytes);
            }
            let sent = self.network.send(cx, &transmit, bytes);
            // Over DTLS a refused probe is lost; the search continues when it times out. A packet that the host cannot
            // route is as good as lost there, too: the quoted bytes are no SCTP packet.
            if sent == TransmitOutcome::Done || self.below.is_protected() {
                continue;
            }
            if let Some(icmp) = sent.as_icmp(&transmit, bytes) {
                self.core.handle_icmp(now, &icmp);
            }
            if sent == TransmitOutcome::TooBig {
                let route = &transmit.route;
                let mtu = route_mtu(route.local, route.remote);
                // Packets of several associations may be joined.
                for packet in transmit.packets_in(bytes) {
                    self.core.handle_oversized(now, &transmit, packet, mtu);
                }
            }
        }
    }

    /// Waits for the next timer. Ready if it is already due.
    fn arm(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let lingering = self.lingering.first().map(|(at, _)| *at);
        let next = match (self.below.poll_timeout(&self.core), lingering) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => match a.or(b) {
                Some(at) => at,
                None => return Poll::Pending,
            },
        };
        // A timer that moved to a later time, as T3-rtx does with every SACK, is set again when it fires.
        if self.armed.is_none_or(|at| next < at) {
            self.armed = Some(next);
            let at = self.epoch + Duration::from_nanos(next.as_nanos());
            self.sleep.as_mut().reset(at.into());
        }
        let fired = self.sleep.as_mut().poll(cx);
        if fired.is_ready() {
            self.armed = None;
        }
        fired
    }

    fn is_done(&self) -> bool {
        self.ending && self.connecting.is_empty() && self.core.associations().next().is_none()
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        this.phase = Phase::InRound;
        let polled = this.run(cx);
        if this.phase == Phase::InRound {
            this.phase = Phase::BetweenRounds;
        }
        polled
    }
}

impl Driver {
    fn run(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let this = self;
        #[cfg(target_os = "linux")]
        if this.is_handing_over() {
            return this.poll_hand_over(cx, this.now());
        }
        for _ in 0..ROUNDS {
            let now = this.now();
            let mut more = this.take_commands(cx, now);
            more |= this.receive(cx, now);
            more |= this.receive_passed_on(cx, now);
            more |= this.follow_failure(now);
            more |= this.expire(now);
            more |= this.follow_host(cx, now);
            this.dispatch_events(now);
            this.transmit(cx, now);
            more |= this.dispatch_events(now);
            #[cfg(target_os = "linux")]
            {
                let handed_over = this.poll_hand_over(cx, now);
                if handed_over.is_ready() || this.is_handing_over() {
                    return handed_over;
                }
            }
            if this.is_done() && this.all_shards_are_done(cx) {
                this.below.close(now, &mut this.core);
                this.transmit(cx, now);
                return Poll::Ready(());
            }
            if !more && this.arm(cx).is_pending() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The destination port in the common header (RFC 9260 section 3.1).
fn destination_port(packet: &[u8]) -> Option<u16> {
    packet
        .get(2..4)
        .and_then(|port| Some(u16::from_be_bytes(port.try_into().ok()?)))
}
