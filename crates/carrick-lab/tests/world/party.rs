//! The program of one side: plays its script, keeps the books.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use carrick_lab::sctp_host::Application;
use carrick_proto::{
    AssociationConfig, AssociationId, CloseReason, Endpoint, Event, OperationError, PathId,
    PeerAddress, Ppid, ReconfigError, Reliability, SendError, SendOptions, StreamDirection,
    StreamId, Time,
};

use super::content;
use super::ledger::{Instance, Ledger, Record};
use super::plan::Side;
use super::script::{Operation, Planned, Reading, Script, Wish};

/// The reason that an aborting side gives.
pub(crate) const REASON: &[u8] = b"the script says so";

/// Facts told at one moment at most, besides one for each message.
const MAX_FACTS_AT_ONCE: usize = 200;

/// What waits for the set-up is tried again after this time, so often at most.
const RETRY: Duration = Duration::from_millis(100);
const MAX_RETRIES: u32 = 20_000;

/// How long after the set-up no packet of it is on its way any more.
const SETTLING: Duration = Duration::from_secs(1);

/// What a side needs to know of the world.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) seed: u64,
    pub(crate) side: Side,
    pub(crate) peer_port: u16,
    pub(crate) peer_encapsulation: Option<u16>,
    /// The addresses, by their place in the list to connect to, that are on plain IP all the same.
    pub(crate) plain: u8,
    pub(crate) peer_addresses: Vec<IpAddr>,
    pub(crate) config: AssociationConfig,
    /// What the receive buffer may hold beyond its size: one chunk of the peer, with its cost. A
    /// chunk is taken as long as the buffer isn't full.
    pub(crate) slack: usize,
}

/// The association that the script is about.
#[derive(Clone, Copy, Debug)]
struct Current {
    id: AssociationId,
    established: bool,
    closed: bool,
    streams: u16,
    /// When its messages began to count.
    start: Time,
}

pub(crate) struct Party {
    setting: Setting,
    ledger: Rc<RefCell<Ledger>>,
    script: Script,
    /// 0, or 1 after a restart of this side.
    incarnation: usize,
    /// 0, or 1 after a restart of either side: which messages are sent.
    life: usize,
    current: Option<Current>,
    /// Associations that came up beside or after the one of the script, and are still there.
    ghosts: Vec<AssociationId>,
    /// The next message to send.
    cursor: usize,
    /// Its record, once it was refused.
    waiting: Option<usize>,
    /// The send buffer was full.
    blocked: bool,
    operation: usize,
    wish: usize,
    read_at: Option<Time>,
    /// How the association ended.
    pub(crate) outcome: Option<CloseReason>,
    /// It is time for this side to restart: the runner does it.
    pub(crate) restart_due: bool,
    /// All messages of the present life were handed over, or refused for good.
    sent_all: bool,
    facts: (Time, usize),
    retries: u32,
}

impl Party {
    pub(crate) fn new(setting: Setting, script: Script, ledger: Rc<RefCell<Ledger>>) -> Self {
        Self {
            setting,
            ledger,
            script,
            incarnation: 0,
            life: 0,
            current: None,
            ghosts: Vec::new(),
            cursor: 0,
            waiting: None,
            blocked: false,
            operation: 0,
            wish: 0,
            read_at: None,
            outcome: None,
            restart_due: false,
            sent_all: false,
            facts: (Time::ZERO, 0),
            retries: 0,
        }
    }

    /// This side after it forgot everything; it connects at `connect_at`, if at all.
    pub(crate) fn reborn(&self, connect_at: Option<Time>) -> Self {
        let mut script = self.script.clone();
        script.connect_at = connect_at;
        script.restart_at = None;
        let mut new = Self::new(self.setting.clone(), script, Rc::clone(&self.ledger));
        new.incarnation = 1;
        new.life = 1;
        new
    }

    /// Nothing is left to do.
    pub(crate) fn is_over(&self) -> bool {
        self.script.connect_at.is_none()
            && self.current.is_none_or(|current| current.closed)
            && self.ghosts.is_empty()
            && self.read_at.is_none()
            && !self.restart_due
            && self.script.restart_at.is_none()
    }

    /// All was handed over on both sides: this one shuts down, if the script says so.
    pub(crate) fn finish(&mut self, now: Time) {
        if let Some(after) = self.script.shutdown_after.take() {
            let at = now + after;
            self.script.shutdown_at = Some(self.script.shutdown_at.map_or(at, |old| old.min(at)));
        }
    }

    /// There was an association, established here.
    pub(crate) fn was_established(&self) -> bool {
        self.current.is_some_and(|current| current.established)
    }

    /// All messages of this life were handed over, or refused for good.
    pub(crate) fn has_sent_all(&self, life: usize) -> bool {
        self.life == life && self.sent_all
    }

    fn instance(&self, id: AssociationId) -> Instance {
        Instance {
            side: self.setting.side,
            incarnation: self.incarnation,
            id,
        }
    }

    fn log(&self, now: Time, what: impl FnOnce() -> String) {
        self.ledger.borrow().log(now, self.setting.side, what);
    }

    fn fail(&self, what: String) {
        let side = self.setting.side;
        self.ledger
            .borrow_mut()
            .fail(format!("side {side}: {what}"));
    }

    fn messages(&self) -> &[Planned] {
        &self.script.messages[self.life]
    }

    fn sendable(&self) -> Option<Current> {
        let early = self.script.early && self.life == 0;
        self.current
            .filter(|c| !c.closed && !self.blocked && (c.established || early))
    }

    fn connect(&mut self, now: Time, endpoint: &mut Endpoint) {
        if self.current.is_some() {
            // The peer was faster, and may even be done.
            return;
        }
        let Setting {
            peer_port,
            peer_encapsulation,
            plain,
            ref config,
            ..
        } = self.setting;
        // An address that vanished may have been the last of its family.
        let local = endpoint.local_addresses();
        let mut peers = self.script.peers.clone();
        peers.retain(|peer| local.iter().any(|a| a.is_ipv4() == peer.is_ipv4()));
        let way = |(place, &address): (usize, &IpAddr)| PeerAddress {
            address,
            encapsulation: peer_encapsulation.filter(|_| plain >> (place % 8) & 1 == 0),
        };
        let peers: Vec<PeerAddress> = peers.iter().enumerate().map(way).collect();
        let result = endpoint.associate(now, &peers, peer_port, config.clone());
        self.log(now, || format!("connect {peers:?}: {result:?}"));
        match result {
            Ok(id) => {
                self.current = Some(Current {
                    id,
                    established: false,
                    closed: false,
                    streams: config.outbound_streams,
                    start: now,
                });
            }
            Err(error) => self.fail(format!("connect: {error}")),
        }
    }

    fn send_due(&mut self, now: Time, endpoint: &mut Endpoint) {
        while let Some(current) = self.sendable() {
            let Some(planned) = self.messages().get(self.cursor).copied() else {
                break;
            };
            if current.start + planned.at > now {
                break;
            }
            self.send(now, endpoint, current, planned);
        }
        let done = self.cursor >= self.messages().len();
        self.sent_all |= done && self.current.is_some();
    }

    fn send(&mut self, now: Time, endpoint: &mut Endpoint, current: Current, planned: Planned) {
        let Setting { seed, side, .. } = self.setting;
        let number = self.waiting.take().unwrap_or_else(|| {
            let record = Record {
                stream: 0,
                unordered: planned.unordered,
                size: planned.size,
                may_expire: planned.lifetime.is_some(),
                partial: planned.reliability != Reliability::Full,
                early: !current.established,
                life: self.life,
                accepted: None,
                delivered: false,
                begun: false,
                to_ghost: false,
                failed: false,
                expired: false,
                abandoned: false,
                unsent: false,
            };
            self.ledger.borrow_mut().open(side, record)
        });
        // The set-up may have lowered the number since.
        let known = endpoint.association_stats(current.id);
        let streams = known.map_or(current.streams, |stats| stats.outbound_streams);
        let stream = planned.stream % streams.max(1);
        self.ledger.borrow_mut().messages[side][number].stream = stream;
        let paths = endpoint.paths(current.id).count();
        let options = SendOptions {
            stream: StreamId(stream),
            ppid: Ppid(content::ppid(side, number)),
            unordered: planned.unordered,
            immediate: planned.immediate,
            no_delay: planned.no_delay,
            lifetime: planned.lifetime,
            reliability: planned.reliability,
            path: planned
                .path
                .and_then(|path| {
                    endpoint
                        .paths(current.id)
                        .nth(usize::from(path) % paths.max(1))
                })
                .map(|path| path.id),
            context: number as u64,
        };
        let data = content::bytes(seed, side, number, planned.size);
        let result = endpoint.send(now, current.id, options, data);
        self.log(now, || {
            format!(
                "send {number}: stream {stream}, {} bytes: {result:?}",
                planned.size
            )
        });
        match result {
            Ok(()) => self.ledger.borrow_mut().accepted(side, number, now),
            Err(SendError::BufferFull) => {
                self.ledger.borrow_mut().seen.refused_full += 1;
                self.waiting = Some(number);
                self.blocked = true;
                return;
            }
            Err(SendError::TooLarge { limit }) if !self.setting.config.fragment => {
                if planned.size <= limit {
                    self.fail(format!("{} bytes refused, {limit} allowed", planned.size));
                }
            }
            Err(SendError::ShuttingDown | SendError::UnknownAssociation) => {}
            Err(error) => self.fail(format!("send {number}: {error}")),
        }
        self.cursor += 1;
    }

    fn read(&mut self, now: Time, endpoint: &mut Endpoint) {
        self.read_at = None;
        let (batch, pause) = match self.script.reading {
            Reading::Eager => (usize::MAX, None),
            Reading::Slow { batch, pause } => (batch, Some(pause)),
        };
        let Some(current) = self.current else {
            return;
        };
        for _ in 0..batch {
            if !self.read_one(now, endpoint, current.id) {
                return;
            }
        }
        self.read_at = pause.map(|pause| now + pause);
    }

    fn read_one(&self, now: Time, endpoint: &mut Endpoint, id: AssociationId) -> bool {
        let Some(message) = endpoint.receive(id) else {
            return false;
        };
        self.log(now, || {
            format!(
                "received PPID {:?}: stream {}, {:?}, {} bytes",
                content::number_of(message.ppid.0),
                message.stream.0,
                message.part,
                message.payload.len()
            )
        });
        self.ledger
            .borrow_mut()
            .delivered(self.instance(id), &message, now);
        true
    }

    fn operate(&mut self, now: Time, endpoint: &mut Endpoint) {
        let Some(current) = self.current.filter(|c| c.established && !c.closed) else {
            return;
        };
        while let Some(&(at, path, operation)) = self.script.operations.get(self.operation) {
            if current.start + at > now {
                return;
            }
            self.operation += 1;
            let paths = endpoint.paths(current.id).count().max(1);
            let id = current.id;
            let nth = usize::from(path) % paths;
            // Numbers of paths that were removed are left out.
            let path = endpoint.paths(id).nth(nth).map_or(PathId(0), |p| p.id);
            let result = match operation {
                Operation::SetPrimary => endpoint.set_primary(now, id, path),
                Operation::RequestHeartbeat => endpoint.request_heartbeat(now, id, path),
                Operation::SetHeartbeat(on) => endpoint.set_heartbeat(now, id, path, on),
                Operation::SetFailureThreshold(n) => {
                    endpoint.set_failure_threshold(now, id, path, n)
                }
                Operation::SetPathMtu(mtu) => endpoint.set_path_mtu(now, id, path, mtu),
                Operation::SetScheduler(scheduler) => endpoint.set_scheduler(now, id, scheduler),
                Operation::SetStreamValue(stream, value) => {
                    endpoint.set_stream_value(now, id, StreamId(stream), value)
                }
            };
            self.log(now, || format!("{operation:?} {path:?}: {result:?}"));
            if let Err(error @ (OperationError::UnknownPath | OperationError::UnknownAssociation)) =
                result
            {
                self.fail(format!("{operation:?} on {path:?}: {error}"));
            }
        }
    }

    /// Asks for what the script wishes. It may come at a bad moment; then it is refused.
    fn reconfigure(&mut self, now: Time, endpoint: &mut Endpoint) {
        let Some(current) = self.current.filter(|c| c.established && !c.closed) else {
            return;
        };
        while let Some((at, wish)) = self.script.wishes.get(self.wish).cloned() {
            if current.start + at > now {
                return;
            }
            self.wish += 1;
            let id = current.id;
            let Some(stats) = endpoint.association_stats(id) else {
                return;
            };
            let result = match &wish {
                Wish::Reset(direction, streams) => {
                    let both = stats.outbound_streams.min(stats.inbound_streams).max(1);
                    let streams: Vec<_> = streams.iter().map(|s| StreamId(s % both)).collect();
                    endpoint.reset_streams(now, id, *direction, &streams)
                }
                Wish::ResetAssociation => endpoint.reset_association(now, id),
                Wish::Add(outgoing, incoming) => {
                    endpoint.add_streams(now, id, *outgoing, *incoming)
                }
            };
            self.log(now, || format!("{wish:?}: {result:?}"));
            match result {
                Ok(()) => self.ledger.borrow_mut().seen.asked += 1,
                Err(
                    error @ (ReconfigError::UnknownAssociation
                    | ReconfigError::InvalidStream { .. }
                    | ReconfigError::ListTooLong { .. }),
                ) => self.fail(format!("{wish:?}: {error}")),
                Err(_) => {}
            }
        }
    }

    /// When to try again what the set-up has to come before; `None` if it never came.
    fn retry(&mut self, now: Time) -> Option<Time> {
        self.retries += 1;
        (self.retries < MAX_RETRIES).then(|| now + RETRY)
    }

    fn end_due(&mut self, now: Time, endpoint: &mut Endpoint) {
        let due = |at: &mut Option<Time>| at.take_if(|at| *at <= now).is_some();
        if due(&mut self.script.restart_at) {
            // A late COOKIE ECHO must not pass for that of the second life.
            let settled = |since: &Option<Time>| since.is_some_and(|at| at + SETTLING <= now);
            let up = self.ledger.borrow().up.iter().all(settled);
            let ended = self.current.is_some_and(|c| c.closed);
            if up || !self.script.restarts_settled {
                self.restart_due = true;
            } else if !ended {
                self.script.restart_at = self.retry(now);
            }
        }
        let (mut aborts, mut shuts) = (self.script.abort_at, self.script.shutdown_at);
        let (aborts, shuts) = (due(&mut aborts), due(&mut shuts));
        let Some(current) = self.current.filter(|c| !c.closed) else {
            // Perhaps there will be one.
            if aborts || shuts {
                let later = self.retry(now).filter(|_| self.current.is_none());
                self.script.abort_at = later.filter(|_| aborts);
                self.script.shutdown_at = later.filter(|_| shuts);
            }
            return;
        };
        if aborts {
            self.script.abort_at = None;
        }
        if shuts {
            self.script.shutdown_at = None;
        }
        if aborts {
            let result = endpoint.abort(now, current.id, REASON);
            self.log(now, || format!("abort: {result:?}"));
        } else if shuts && !current.established && self.script.patient {
            self.script.shutdown_at = self.retry(now);
        } else if shuts {
            let result = endpoint.shutdown(now, current.id);
            self.log(now, || format!("shutdown: {result:?}"));
        }
    }

    fn on_established(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        id: AssociationId,
        event: &Event,
    ) {
        let Event::Established {
            peer_addresses,
            outbound_streams,
            ..
        } = event
        else {
            return;
        };
        self.ledger.borrow_mut().seen.established += 1;
        self.ledger.borrow_mut().advanced(now);
        let known = |address| self.setting.peer_addresses.contains(address);
        if !peer_addresses.iter().all(known) {
            self.fail(format!(
                "addresses that the peer has not: {peer_addresses:?}"
            ));
        }
        match self.current {
            Some(current) if current.id == id => {}
            Some(current) if current.closed && self.script_goes_on() => {
                while self.read_one(now, endpoint, current.id) {}
                self.begin_next_life();
            }
            None => {}
            Some(current) => {
                // A COOKIE ECHO that was late or came twice: RFC 9260 doesn't know it from a new one.
                if !current.closed {
                    self.fail(format!("{id:?} beside {:?}", current.id));
                }
                self.ledger.borrow_mut().seen.ghosts += 1;
                self.ghosts.push(id);
                let instance = self.instance(id);
                self.ledger.borrow_mut().ghosts.insert(instance);
                let result = endpoint.shutdown(now, id);
                self.log(now, || {
                    format!("shutdown of a belated association: {result:?}")
                });
                return;
            }
        }
        let start = match self.current {
            Some(current) if current.id == id && self.script.early && self.life == 0 => {
                current.start
            }
            _ => now,
        };
        self.current = Some(Current {
            id,
            established: true,
            closed: false,
            streams: *outbound_streams,
            start,
        });
        let side = self.setting.side;
        self.ledger.borrow_mut().agreed_streams[side] = Some(*outbound_streams);
        self.ledger.borrow_mut().up[side] = Some(now);
        self.outcome = None;
    }

    /// The peer restarts in this world, and this side has not yet noticed.
    fn script_goes_on(&self) -> bool {
        self.life == 0 && self.script.second_life
    }

    fn begin_next_life(&mut self) {
        self.life = 1;
        self.cursor = 0;
        self.waiting = None;
        self.blocked = false;
        self.sent_all = false;
    }

    fn on_closed(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        id: AssociationId,
        reason: CloseReason,
    ) {
        if self.ghosts.contains(&id) {
            self.ghosts.retain(|ghost| *ghost != id);
            while self.read_one(now, endpoint, id) {}
            return;
        }
        let Some(current) = self.current.as_mut().filter(|c| c.id == id && !c.closed) else {
            return self.fail(format!("{id:?} ended twice or never began"));
        };
        current.closed = true;
        self.ledger.borrow_mut().advanced(now);
        if self.read_at.is_none() {
            self.read(now, endpoint);
        }
        let seen = &mut self.ledger.borrow_mut().seen;
        match &reason {
            CloseReason::AbortedByPeer(_) => seen.aborted_by_peer += 1,
            CloseReason::PeerUnreachable => seen.lost_peer += 1,
            _ => {}
        }
        self.outcome = Some(reason);
    }

    /// The bounds of memory that hold at any moment.
    pub(crate) fn check(&self, now: Time, endpoint: &Endpoint) {
        let config = &self.setting.config;
        let largest = self.script.messages.iter().flatten().map(|m| m.size).max();
        for id in endpoint.associations() {
            let Some(stats) = endpoint.association_stats(id) else {
                continue;
            };
            let grown = config.max_receive_buffer.unwrap_or(0);
            let receive_buffer = config.receive_buffer.max(grown);
            let (held, limit) = (
                stats.receive_buffer_bytes,
                receive_buffer + self.setting.slack,
            );
            if held > limit {
                self.fail(format!(
                    "{now:?}: {held} bytes in the receive buffer of {limit}"
                ));
            }
            let grown = config.max_send_buffer.unwrap_or(0);
            let limit = config.send_buffer.max(grown).max(largest.unwrap_or(0));
            if stats.send_buffer_bytes > limit {
                let held = stats.send_buffer_bytes;
                self.fail(format!(
                    "{now:?}: {held} bytes in the send buffer of {limit}"
                ));
            }
            if stats.a_rwnd > receive_buffer {
                self.fail(format!("{now:?}: a window of {}", stats.a_rwnd));
            }
            let (chunks, bytes) = (stats.outstanding_chunks, stats.outstanding_bytes);
            if chunks == 0 && bytes > 0 {
                self.fail(format!("{now:?}: {bytes} bytes outstanding in no chunk"));
            }
        }
    }

    fn count_fact(&mut self, now: Time, event: &Event) {
        if self.facts.0 != now {
            self.facts = (now, 0);
        }
        self.facts.1 += usize::from(!matches!(event, Event::SendFailed(_)));
        if self.facts.1 > MAX_FACTS_AT_ONCE {
            self.fail(format!("{now:?}: {} facts at one moment", self.facts.1));
        }
    }

    fn note(&self, event: &Event) {
        let seen = &mut self.ledger.borrow_mut().seen;
        match event {
            Event::PathFailed(_) => seen.path_failed += 1,
            Event::PathRecovered(_) => seen.path_recovered += 1,
            Event::PrimaryChanged(_) => seen.primary_changed += 1,
            Event::PathLocalAddressChanged(_) => seen.local_changed += 1,
            Event::Restarted => seen.restarted += 1,
            Event::StreamsReset { outcome, .. } if outcome.is_success() => seen.reset += 1,
            Event::AssociationReset { outcome, .. } if outcome.is_success() => seen.renumbered += 1,
            Event::StreamsChanged { outcome, .. } if outcome.is_success() => seen.added += 1,
            _ => {}
        }
    }
}

impl Application for Party {
    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId, event: Event) {
        self.log(now, || format!("{id:?} {event:?}"));
        self.count_fact(now, &event);
        self.note(&event);
        let begins_again = match &event {
            Event::StreamsReset {
                direction, outcome, ..
            } => *direction == StreamDirection::Incoming && outcome.is_success(),
            Event::AssociationReset { outcome, .. } => outcome.is_success(),
            _ => false,
        };
        if begins_again {
            let instance = self.instance(id);
            *self.ledger.borrow_mut().resets.entry(instance).or_default() += 1;
        }
        let mine = self.current.is_some_and(|c| c.id == id);
        let ended = mine && self.current.is_some_and(|c| c.closed);
        if ended {
            self.fail(format!("{event:?} after the end"));
        }
        match event {
            Event::Established { .. } => self.on_established(now, endpoint, id, &event),
            Event::Restarted if mine => {
                if !self.script_goes_on() {
                    self.fail("a restart that nobody made".into());
                }
                self.begin_next_life();
                let streams = endpoint.association_stats(id).map(|s| s.outbound_streams);
                if let (Some(current), Some(streams)) = (&mut self.current, streams) {
                    (current.start, current.streams) = (now, streams);
                    current.established = true;
                }
            }
            Event::SendBufferFree if mine => self.blocked = false,
            Event::SendFailed(failure) => {
                let side = self.setting.side;
                self.ledger.borrow_mut().failed(side, &failure, now);
            }
            Event::Closed(reason) => self.on_closed(now, endpoint, id, reason),
            _ => {}
        }
        self.send_due(now, endpoint);
        self.check(now, endpoint);
    }

    fn on_readable(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId) {
        self.check(now, endpoint);
        if self.current.is_none_or(|c| c.id != id) {
            while self.read_one(now, endpoint, id) {}
        } else if self.read_at.is_none() {
            match self.script.reading {
                Reading::Eager => self.read(now, endpoint),
                Reading::Slow { pause, .. } => self.read_at = Some(now + pause),
            }
        }
        self.check(now, endpoint);
    }

    fn next_timer(&self) -> Option<Time> {
        let message = self.sendable().and_then(|current| {
            let planned = self.messages().get(self.cursor)?;
            Some(current.start + planned.at)
        });
        let operation = self
            .current
            .filter(|c| c.established && !c.closed)
            .and_then(|current| {
                let (at, ..) = self.script.operations.get(self.operation)?;
                Some(current.start + *at)
            });
        let wish = self
            .current
            .filter(|c| c.established && !c.closed)
            .and_then(|current| {
                let (at, _) = self.script.wishes.get(self.wish)?;
                Some(current.start + *at)
            });
        let timers = [
            self.script.connect_at,
            self.script.abort_at,
            self.script.restart_at,
            self.script.shutdown_at,
            self.read_at,
            message,
            operation,
            wish,
        ];
        timers.into_iter().flatten().min()
    }

    fn on_timer(&mut self, now: Time, endpoint: &mut Endpoint) {
        if self.script.connect_at.take_if(|at| *at <= now).is_some() {
            self.connect(now, endpoint);
        }
        self.send_due(now, endpoint);
        self.operate(now, endpoint);
        self.reconfigure(now, endpoint);
        if self.read_at.is_some_and(|at| at <= now) {
            self.read(now, endpoint);
        }
        self.end_due(now, endpoint);
        self.check(now, endpoint);
    }
}
