//! Program of one side: runs its script and records the results.

mod acting;
mod checks;
mod course;
mod sending;

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use carrick_hosts::sctp::{Application, HostRoutes};
use carrick_proto::{
    AssociationConfig, AssociationId, CloseReason, Endpoint, Event, StateName, StreamDirection,
    Time,
};

use super::content;
use super::handover::Handovers;
use super::ledger::{Instance, Ledger};
use super::plan::Side;
use super::script::{Planned, Reading, Script};
use super::sessions::Layer;

/// The reason that an aborting side gives.
pub(crate) const REASON: &[u8] = b"aborted by the script";

/// Maximum number of events at one moment, in addition to one per message.
const MAX_FACTS_AT_ONCE: usize = 200;

/// Interval and maximum number of attempts of operations that need the association.
const RETRY: Duration = Duration::from_millis(100);
const MAX_RETRIES: u32 = 20_000;

/// Time after the set-up in which its last packets arrive.
const SETTLING: Duration = Duration::from_secs(1);

/// Parameters of a side.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) seed: u64,
    pub(crate) side: Side,
    pub(crate) peer_port: u16,
    pub(crate) peer_encapsulation: Option<u16>,
    /// Indices, in the list of addresses to connect to, of those on plain IP instead of UDP.
    pub(crate) plain: u8,
    pub(crate) peer_addresses: Vec<IpAddr>,
    pub(crate) config: AssociationConfig,
    /// Routes by which source addresses are selected.
    pub(crate) routes: Option<HostRoutes>,
    /// Endpoints of this side hand over.
    pub(crate) hands_over: bool,
    /// Excess of the receive buffer over its size: one chunk of the peer, with its memory cost. A
    /// chunk is accepted as long as the buffer is not full.
    pub(crate) slack: usize,
}

/// The association of the script.
#[derive(Clone, Copy, Debug)]
struct Current {
    id: AssociationId,
    established: bool,
    closed: bool,
    streams: u16,
    /// Time at which its messages start.
    start: Time,
}

pub(crate) struct Party {
    setting: Setting,
    ledger: Rc<RefCell<Ledger>>,
    /// Session layer below the associations, if there is one.
    pub(crate) sessions: Option<Layer>,
    script: Script,
    /// 0, or 1 after a restart of this side.
    pub(crate) incarnation: usize,
    /// 0, or 1 after a restart of either side: selects the messages to send.
    life: usize,
    current: Option<Current>,
    /// Associations established in addition to that of the script, and still existing.
    late_associations: Vec<AssociationId>,
    /// The next message to send.
    cursor: usize,
    /// Its record, once it was refused.
    waiting: Option<usize>,
    /// The send buffer was full.
    blocked: bool,
    operation: usize,
    reconfiguration: usize,
    read_at: Option<Time>,
    /// Reason of the end of the association.
    pub(crate) outcome: Option<CloseReason>,
    /// This side is to restart now; the runner does it.
    pub(crate) restart_due: bool,
    /// All messages of the current life were accepted, or refused for good.
    sent_all: bool,
    facts: (Time, usize),
    retries: u32,
    pub(crate) handovers: Handovers,
}

impl Party {
    pub(crate) fn new(setting: Setting, script: Script, ledger: Rc<RefCell<Ledger>>) -> Self {
        let handovers = Handovers::new(setting.seed, setting.side, setting.hands_over);
        Self {
            handovers,
            setting,
            ledger,
            sessions: None,
            script,
            incarnation: 0,
            life: 0,
            current: None,
            late_associations: Vec::new(),
            cursor: 0,
            waiting: None,
            blocked: false,
            operation: 0,
            reconfiguration: 0,
            read_at: None,
            outcome: None,
            restart_due: false,
            sent_all: false,
            facts: (Time::ZERO, 0),
            retries: 0,
        }
    }

    /// Returns this side after a restart without state; it connects at `connect_at`, if given.
    pub(crate) fn after_restart(
        &self,
        connect_at: Option<Time>,
        config: AssociationConfig,
    ) -> Self {
        let mut script = self.script.clone();
        script.connect_at = connect_at;
        script.restart_at = None;
        let setting = Setting {
            config,
            ..self.setting.clone()
        };
        let mut new = Self::new(setting, script, Rc::clone(&self.ledger));
        new.incarnation = 1;
        new.life = 1;
        new
    }

    /// Returns whether nothing is left to do.
    pub(crate) fn is_over(&self) -> bool {
        self.script.connect_at.is_none()
            && self.current.is_none_or(|current| current.closed)
            && self.late_associations.is_empty()
            && self.read_at.is_none()
            && !self.restart_due
            && self.script.restart_at.is_none()
    }

    /// Handles the event that all messages of both sides were accepted: this side shuts down, if
    /// its script does.
    pub(crate) fn finish(&mut self, now: Time) {
        if let Some(after) = self.script.shutdown_after.take() {
            let at = now + after;
            self.script.shutdown_at = Some(self.script.shutdown_at.map_or(at, |old| old.min(at)));
        }
    }

    /// Returns whether the association is established, and no side has started to end it.
    pub(crate) fn is_up(&self, endpoint: &Endpoint) -> bool {
        let current = self.current.filter(|c| c.established && !c.closed);
        let stats = current.and_then(|c| endpoint.association(c.id).map(|a| a.stats()));
        stats.is_some_and(|stats| stats.state == StateName::Established)
    }

    /// Returns whether an association of this side has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.current.is_some_and(|current| current.closed)
    }

    /// Returns whether an association was established at this side.
    pub(crate) fn was_established(&self) -> bool {
        self.current.is_some_and(|current| current.established)
    }

    /// Returns whether all messages of this life were accepted, or refused for good.
    pub(crate) fn has_sent_all(&self, life: usize) -> bool {
        self.life == life && self.sent_all
    }

    /// Hands the endpoint over, if this is one of the moments.
    pub(crate) fn hand_over(&mut self, now: Time, endpoint: &mut Endpoint) {
        let Setting { config, routes, .. } = &self.setting;
        self.handovers.pass(now, endpoint, config, routes.as_ref());
    }

    /// Returns the routes by which this side selects source addresses, if it does.
    pub(crate) fn routes(&self) -> Option<HostRoutes> {
        self.setting.routes.clone()
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
}

impl Application for Party {
    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId, event: Event) {
        self.hand_over(now, endpoint);
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
                if !self.script_continues() {
                    self.fail("a restart without a cause".into());
                }
                self.begin_next_life();
                let streams = endpoint
                    .association(id)
                    .map(|a| a.stats())
                    .map(|s| s.outbound_streams);
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
        self.hand_over(now, endpoint);
        self.check(now, endpoint);
    }

    fn on_readable(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId) {
        self.hand_over(now, endpoint);
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
        let reconfiguration = self
            .current
            .filter(|c| c.established && !c.closed)
            .and_then(|current| {
                let (at, _) = self.script.reconfigurations.get(self.reconfiguration)?;
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
            reconfiguration,
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
        self.hand_over(now, endpoint);
        self.check(now, endpoint);
    }
}
