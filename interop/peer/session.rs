//! Association from its set-up to its end.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use carrick::{
    AddressEvent, Association, AuthenticationEvent, CloseReason, Endpoint, Event, Events, Message,
    MessagePart, Notification, PathId, Ppid, RecvError, RecvHalf, Reliability, SendError, SendHalf,
    SendOptions,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use crate::extension_options::AbandonRule;
use crate::extensions::{PendingOperations, extension_state};
use crate::messages::{MessageCheck, MessageSource, UserMessage};
use crate::options::{EndAction, Mode, Options};
use crate::output::emit;
use crate::stop::StopSignals;
use crate::summary::{RunOutcome, RunTotals};

/// Maximum number of echoed bytes that the peer has not read.
const MAX_ECHO: usize = 8 << 20;

/// Interval at which the state of the extensions is recorded, since it is not available after the end.
const STATE_INTERVAL: Duration = Duration::from_millis(20);

/// Converts an end that the protocol reported; a shutdown counts as the peer's.
pub(crate) fn outcome_of(reason: &CloseReason) -> RunOutcome {
    match reason {
        CloseReason::Shutdown => RunOutcome::by_peer("shutdown", 0),
        CloseReason::AbortedByPeer(cause) => RunOutcome::by_peer("abort", cause.code),
        CloseReason::AbortedByUser | CloseReason::AbortedByProtocol(_) => RunOutcome::ABORTED,
        CloseReason::SetupTimedOut
        | CloseReason::StaleCookie
        | CloseReason::ProtocolUnreachable => RunOutcome::by_self("refused"),
        _ => RunOutcome::by_self("lost"),
    }
}

/// Converts the reason of a failed set-up.
pub(crate) fn refused(reason: &CloseReason) -> RunOutcome {
    RunOutcome {
        cause: outcome_of(reason).cause,
        ..RunOutcome::by_self("refused")
    }
}

/// Counters of a run, with or without an association.
pub(crate) struct RunCounters {
    options: Options,
    pub(crate) check: MessageCheck,
    totals: RunTotals,
    /// Last recorded state of the extensions.
    extension_state: Value,
}

impl RunCounters {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            options: options.clone(),
            check: MessageCheck::new(options),
            totals: RunTotals::default(),
            extension_state: Value::Null,
        }
    }

    /// Prints the summary. Returns whether the run succeeded.
    pub(crate) fn report(&self, outcome: RunOutcome) -> bool {
        let facts = ("facts", self.extension_state.clone());
        self.totals
            .report(&self.options, outcome, self.check.errors, facts)
    }
}

/// Established association, and the work left on it.
pub(crate) struct Session<'a> {
    options: Options,
    counters: &'a mut RunCounters,
    sender: SendHalf,
    receiver: RecvHalf,
    events: Option<Events>,
    endpoint: Endpoint,
    plan: PendingOperations,
    peers: BTreeMap<PathId, IpAddr>,
    source: Option<MessageSource>,
    /// Messages that the stack has not accepted yet: echoes, or one of the source.
    queue: VecDeque<UserMessage>,
    queued: usize,
    up_since: Instant,
    last_received: Instant,
    progress_due: u64,
    sent_reported: bool,
    /// An address of the peer has become unreachable.
    path_lost: bool,
    /// Messages returned undelivered by the stack.
    undelivered: u64,
    /// True if this side has begun the shutdown.
    ending: bool,
    peer_shuts: bool,
}

impl<'a> Session<'a> {
    /// Reports that the association is established.
    pub(crate) fn new(
        mut association: Association,
        endpoint: &Endpoint,
        counters: &'a mut RunCounters,
    ) -> Self {
        let options = counters.options.clone();
        let events = association.take_events();
        let (sender, receiver) = association.split();
        let streams = sender.control().outbound_streams();
        let peers = sender.control().peer_addresses().to_vec();
        emit(
            "up",
            json!({
                "streams_in": sender.control().inbound_streams(),
                "streams_out": streams,
                "peer": peers,
            }),
        );
        let source = (options.mode == Mode::Source).then(|| MessageSource::new(&options, streams));
        let mut session = Self {
            progress_due: options.progress,
            endpoint: endpoint.clone(),
            plan: PendingOperations::new(&options.extensions.operations),
            options,
            counters,
            sender,
            receiver,
            events,
            peers: (0..).map(PathId).zip(peers).collect(),
            source,
            queue: VecDeque::new(),
            queued: 0,
            up_since: Instant::now(),
            last_received: Instant::now(),
            sent_reported: false,
            path_lost: false,
            undelivered: 0,
            ending: false,
            peer_shuts: false,
        };
        session.load();
        session
    }

    /// Carries messages until the end of the association or `limit`.
    pub(crate) async fn run(mut self, stop: &mut StopSignals, limit: Instant) -> RunOutcome {
        let outcome = self.transfer(stop, limit).await;
        if matches!(outcome.ended, "failed" | "timeout") {
            self.sender.abort(b"run aborted");
        }
        if outcome.ended == "shutdown" {
            if self.options.mode != Mode::Echo && !self.options.extensions.gaps {
                self.counters.check.complete();
            }
            if self.undelivered > 0 {
                let what = format!("{} messages were returned undelivered", self.undelivered);
                self.counters.check.fail(&what);
            }
        }
        outcome
    }

    async fn transfer(&mut self, stop: &mut StopSignals, limit: Instant) -> RunOutcome {
        let mut next_look = Instant::now();
        loop {
            if Instant::now() >= next_look {
                self.record_state().await;
                next_look = Instant::now() + STATE_INTERVAL;
            }
            let bytes = self.counters.totals.sent.bytes + self.counters.totals.received.bytes;
            let plan = &mut self.plan;
            plan.carry_out(bytes, &self.endpoint, &self.sender).await;
            if let Some(outcome) = self.end_if_done().await {
                return outcome;
            }
            let may_write =
                !(self.queue.is_empty() || self.ending || self.peer_shuts || self.is_held());
            let pause = self.pause();
            let events = self.events.as_mut();
            let reliability = self.options.extensions.reliability;
            tokio::select! {
                biased;
                () = stop.requested() => return RunOutcome::FAILED,
                () = sleep_until(limit) => return RunOutcome::TIMEOUT,
                Some(notification) = next_event(events) => self.notification(notification),
                received = self.receiver.recv(), if self.queued < MAX_ECHO => match received {
                    Ok(Some(message)) => self.message(message),
                    Ok(None) => return self.ended(&CloseReason::Shutdown).await,
                    Err(RecvError::Ended(reason)) => return self.ended(&reason).await,
                    Err(error) => {
                        self.counters.check.fail(&error.to_string());
                        return RunOutcome::FAILED;
                    }
                },
                sent = send(&self.sender, reliability, self.queue.front()), if may_write && pause.is_none() => {
                    self.handed_over(sent);
                }
                () = sleep_until(pause.unwrap_or(limit)), if pause.is_some() => {}
                () = sleep_until(next_look) => {}
            }
        }
    }

    /// Records the state of the extensions.
    async fn record_state(&mut self) {
        if let Some(extension_state) = extension_state(&self.sender).await {
            self.counters.extension_state = extension_state;
        }
    }

    /// Returns the time until which `--rate` delays the source.
    fn pause(&self) -> Option<Instant> {
        if self.options.rate == 0 || self.source.is_none() || self.queue.is_empty() {
            return None;
        }
        let due = self.counters.totals.sent.bytes as f64 / self.options.rate as f64;
        // A time out of the range of a duration is beyond the time limit, too.
        let due = Duration::try_from_secs_f64(due).unwrap_or(Duration::from_secs(86_400));
        let at = self.up_since + due;
        (at > Instant::now()).then_some(at)
    }

    /// Returns whether `--hold` stops the source until a path fails.
    fn is_held(&self) -> bool {
        let hold = self.options.hold;
        self.source.is_some()
            && hold > 0
            && self.counters.totals.sent.bytes >= hold
            && !self.path_lost
    }

    /// Keeps one message of the source in the queue.
    fn load(&mut self) {
        let Some(source) = &mut self.source else {
            return;
        };
        if let Some(message) = source.next() {
            self.enqueue(message);
        } else if !self.sent_reported {
            self.sent_reported = true;
            let sent = self.counters.totals.sent;
            emit(
                "sent",
                json!({ "messages": sent.messages, "bytes": sent.bytes }),
            );
        }
    }

    fn enqueue(&mut self, message: UserMessage) {
        self.queued += message.data.len();
        self.queue.push_back(message);
    }

    fn message(&mut self, message: Message) {
        self.last_received = Instant::now();
        let counters = &mut *self.counters;
        let unordered = message.ssn.is_none();
        counters.totals.received.add(message.payload.len());
        counters.totals.unordered += u64::from(unordered);
        let (received, sent) = (counters.totals.received.bytes, counters.totals.sent.bytes);
        let part = message.part;
        let message = UserMessage {
            stream: message.stream.0,
            ppid: message.ppid.0,
            unordered,
            data: message.payload.into_bytes(),
        };
        if self.options.mode == Mode::Echo {
            self.enqueue(message);
        } else {
            if part != MessagePart::Whole {
                counters.check.fail("incomplete message");
            }
            counters.check.message(&message);
        }
        let step = self.options.progress;
        if step > 0 && received >= self.progress_due {
            self.progress_due = received - received % step + step;
            emit("progress", json!({ "received": received, "sent": sent }));
        }
    }

    /// Processes the result of sending the first message of the queue.
    fn handed_over(&mut self, result: Result<(), SendError>) {
        let length = self.queue.front().map_or(0, |message| message.data.len());
        match result {
            Ok(()) => self.counters.totals.sent.add(length),
            // The receiving side reports the reason; no more can be sent.
            Err(SendError::Ended(_) | SendError::EndpointClosed | SendError::ShuttingDown) => {
                self.peer_shuts = true;
                self.queue.clear();
                self.queued = 0;
                return;
            }
            Err(error) => self
                .counters
                .check
                .fail(&format!("sending {length} bytes: {error}")),
        }
        self.queue.pop_front();
        self.queued -= length;
        self.load();
    }

    /// Begins the shutdown when all work is done. Returns the outcome if there is none to wait for.
    async fn end_if_done(&mut self) -> Option<RunOutcome> {
        let options = &self.options;
        let awaits_peer =
            options.end == EndAction::Wait || (options.mode != Mode::Source && options.expect == 0);
        let done = self.queue.is_empty()
            && self.plan.is_done()
            && self.last_received.elapsed() >= Duration::from_millis(options.extensions.idle)
            && self.counters.totals.received.bytes >= options.expect;
        if awaits_peer || !done || self.ending || self.peer_shuts {
            return None;
        }
        self.ending = true;
        if options.end == EndAction::Abort {
            self.sender.abort(b"done");
            return Some(RunOutcome::ABORTED);
        }
        self.record_state().await;
        let sender = self.sender.clone();
        // The receiving side reports the result.
        tokio::spawn(async move { sender.shutdown().await });
        None
    }

    fn notification(&mut self, notification: Notification) {
        match notification {
            Notification::Event(event) => self.event(event),
            Notification::Lagged(count) => {
                eprintln!(
                    "carrick-peer: {count} notifications were lost: they were read too slowly"
                );
            }
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Restarted => emit("restart", json!({})),
            Event::PathConfirmed(path) => self.path(path, "confirmed"),
            Event::PathFailed(path) => self.path(path, "unreachable"),
            Event::PathPotentiallyFailed(path) => self.path(path, "potentially-failed"),
            Event::PathRecovered(path) => self.path(path, "reachable"),
            Event::PrimaryChanged(path) => self.path(path, "primary"),
            // Abandoned as configured.
            Event::SendFailed(failure) if failure.abandoned.is_some() => {}
            Event::SendFailed(_) => self.undelivered += 1,
            Event::PeerShutdown => {
                self.peer_shuts = true;
                emit("shutdown", json!({}));
            }
            Event::PeerError(error) => {
                let what = format!("the peer sent an ERROR: {}", error.cause);
                self.counters.check.fail(&what);
            }
            Event::Dormant | Event::NoProgress | Event::MessageAborted { .. } => {
                eprintln!("carrick-peer: {event:?}")
            }
            // Handled by the endpoint's task, or of no interest here.
            Event::PathLocalAddressChanged(_)
            | Event::PrimarySwitchover(_)
            | Event::Established { .. }
            | Event::MessageReceived
            | Event::SendBufferFree
            | Event::AllAcknowledged
            | Event::Closed(_) => {}
            event => self.extension(event),
        }
    }

    /// Reports an event of an extension.
    fn extension(&mut self, event: Event) {
        match event {
            Event::StreamsReset {
                direction, outcome, ..
            } => emit(
                "streams-reset",
                json!({
                    "direction": format!("{direction:?}").to_lowercase(),
                    "success": outcome.is_success(),
                    "outcome": format!("{outcome:?}"),
                }),
            ),
            Event::AssociationReset { outcome, .. } => emit(
                "association-reset",
                json!({ "success": outcome.is_success(), "outcome": format!("{outcome:?}") }),
            ),
            Event::StreamsChanged {
                outbound_streams,
                inbound_streams,
                outcome,
            } => emit(
                "streams-added",
                json!({
                    "streams_out": outbound_streams,
                    "streams_in": inbound_streams,
                    "success": outcome.is_success(),
                    "outcome": format!("{outcome:?}"),
                }),
            ),
            Event::Authentication(AuthenticationEvent::PeerKeyChanged(id)) => {
                emit("key", json!({ "id": id.0 }));
            }
            Event::Authentication(event) => eprintln!("carrick-peer: {event:?}"),
            Event::Address(event) => self.address(&event),
            _ => {}
        }
    }

    fn address(&mut self, event: &AddressEvent) {
        match *event {
            AddressEvent::PeerAdded { path, address } => {
                self.peers.insert(path, address);
                self.path(path, "added");
            }
            AddressEvent::PeerRemoved { path, address } => {
                self.peers.insert(path, address);
                self.path(path, "removed");
            }
            AddressEvent::PeerPrefers(path) => self.path(path, "primary"),
            AddressEvent::LocalAdded(address) => own(address, "added"),
            AddressEvent::LocalRemoved(address) => own(address, "removed"),
            AddressEvent::PreferenceAccepted(address) => own(address, "primary"),
            AddressEvent::Refused { address, code } => {
                own(address, &format!("refused with cause {code:#x}"));
            }
            _ => eprintln!("carrick-peer: {event:?}"),
        }
    }

    fn path(&mut self, path: PathId, state: &str) {
        self.path_lost |= state == "unreachable";
        if let Some(address) = self.peers.get(&path) {
            emit("path", json!({ "addr": address, "state": state }));
        }
    }

    /// Handles the end of the association, after all messages were received.
    async fn ended(&mut self, reason: &CloseReason) -> RunOutcome {
        while let Some(notification) = next_event(self.events.as_mut()).await {
            self.notification(notification);
        }
        if let CloseReason::AbortedByProtocol(cause) = reason {
            let what = format!("protocol violation by the peer: {cause}");
            self.counters.check.fail(&what);
        }
        let by_self = *reason == CloseReason::Shutdown && self.ending && !self.peer_shuts;
        RunOutcome {
            by: if by_self {
                "self"
            } else {
                outcome_of(reason).by
            },
            ..outcome_of(reason)
        }
    }
}

/// Reports the state of a local address.
fn own(address: IpAddr, state: &str) {
    emit("own", json!({ "addr": address, "state": state }));
}

async fn next_event(events: Option<&mut Events>) -> Option<Notification> {
    events?.next().await
}

/// Passes a message to the stack when it has room. Cancel-safe.
async fn send(
    sender: &SendHalf,
    rule: AbandonRule,
    message: Option<&UserMessage>,
) -> Result<(), SendError> {
    let Some(message) = message else {
        return std::future::pending().await;
    };
    let options = SendOptions {
        ppid: Ppid(message.ppid),
        unordered: message.unordered,
        reliability: match rule {
            AbandonRule::Never => Reliability::Full,
            AbandonRule::Timed(lifetime) => Reliability::Timed(lifetime),
            AbandonRule::Retransmissions(count) => Reliability::Retransmissions(count),
        },
        ..SendOptions::on_stream(message.stream)
    };
    sender.send(message.data.clone(), options).await
}
