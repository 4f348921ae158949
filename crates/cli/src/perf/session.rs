//! One side of a measurement, from the accepted request to the exchange of results.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use carrick::{
    Association, AssociationCounters, Event, Events, Notification, RecvError, RecvHalf, ReportKind,
    SendHalf,
};
use nix::sys::signal::Signal;
use tokio::sync::{Barrier, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Duration, Interval, MissedTickBehavior};

use super::clock::{ClockOffset, MeasurementClock};
use super::control::{Outbox, send_control};
use super::flow::{Flow, FlowDirection};
use super::interval::{Progress, Rate};
use super::preparation;
use super::protocol::{ControlMessage, MeasurementCost, Reception, TransferAmount};
use super::receiver::{ReceivedRequest, Receiver, unexpected};
use super::report::Reporter;
use super::request::MeasurementRequest;
use super::results::{FlowResult, FlowSent, PartialResult};
use super::sender::{FlowSender, respond};
use super::silence::{PeerActivity, SilenceDetector};
use super::tally::TransferTally;
use crate::cpu::CpuTime;
use crate::endpoint::AbortOnDrop;
use crate::event_reports;
use crate::failure::Failure;
use crate::runtime::signal_received;

/// Maximum number of messages processed at once before other events.
const BATCH: usize = 256;

/// Time between two checks whether packets of the peer arrive.
const SILENCE_CHECK: Duration = Duration::from_secs(1);

/// Maximum number of requests of the peer that wait for their responses. Further ones have none.
const MAX_REQUESTS: usize = 4096;

/// Maximum number of control messages that wait, with which intervals are still reported to the client.
const MAX_WAITING: usize = 1024;

/// Maximum time from the request to the start of the transfer.
const PREPARATION: Duration = Duration::from_mins(1);

/// Maximum time from the results to the client's SHUTDOWN.
const SHUTDOWN: Duration = Duration::from_mins(1);

/// Role of this side.
#[derive(Clone, Copy, Debug)]
pub(super) struct TransferRole {
    pub(super) sends: bool,
    pub(super) receives: bool,
    /// Direction of the data that this side receives.
    pub(super) inbound: FlowDirection,
}

/// Results of both sides, seen from this one.
#[derive(Clone, Debug)]
pub(super) struct MeasurementOutcome {
    /// Reception of this side.
    pub(super) received: Option<Reception>,
    /// Reception of the peer.
    pub(super) delivered: Option<Reception>,
    pub(super) own: MeasurementCost,
    pub(super) peer: MeasurementCost,
    pub(super) clocks: ClockOffset,
}

/// End of a measurement.
#[derive(Clone, Debug)]
pub(super) enum SessionEnd {
    Complete(MeasurementOutcome),
    /// A signal ended this program.
    Interrupted(Signal, PartialResult),
    /// The association ended for this reason.
    Failed(String, PartialResult),
}

/// One side of a measurement.
pub(super) struct Session {
    sender: SendHalf,
    receiver: RecvHalf,
    events: Option<Events>,
    request: MeasurementRequest,
    role: TransferRole,
    flows: Vec<Flow>,
    /// This side responds to requests of the peer.
    responds: bool,
    clock: MeasurementClock,
    clocks: ClockOffset,
    start: Instant,
    /// Start of the part that is counted.
    counted_from: Instant,
    /// The time that is not counted has not passed.
    omitting: bool,
    /// Amounts sent by flow, and cost, before the part that is counted.
    omitted: (Vec<TransferAmount>, MeasurementCost),
    /// Amounts of data, and of responses, sent by flow.
    sent: Vec<Arc<TransferTally>>,
    responded: Vec<Arc<TransferTally>>,
    /// Requests that wait for their responses; `None` when all were received.
    requests: Option<mpsc::Sender<ReceivedRequest>>,
    incoming: Receiver,
    reception: Option<Reception>,
    own: Option<MeasurementCost>,
    /// Counters of the association, as they were read last.
    counters: AssociationCounters,
    /// Reports whether the process runs another measurement at the same time.
    shared: Box<dyn Fn() -> bool + Send + Sync>,
    abort: AbortOnDrop,
}

impl Session {
    /// Prepares a measurement, which [`Self::ask`] or [`Self::accept`] starts.
    pub(super) fn new(
        mut association: Association,
        request: MeasurementRequest,
        role: TransferRole,
        shared: Box<dyn Fn() -> bool + Send + Sync>,
    ) -> Result<Self, Failure> {
        let clock = MeasurementClock::new();
        let flows = request.flows();
        let inbound = role.inbound;
        let is_request = |flow: &Flow| flow.direction == inbound && flow.respond.is_some();
        let tallies = || flows.iter().map(|_| Arc::default()).collect();
        let start = Instant::now();
        let events = association.take_events();
        let (sender, receiver) = association.split();
        let abort = AbortOnDrop::new(sender.clone(), "the measurement was aborted");
        Ok(Self {
            sender,
            receiver,
            events,
            role,
            responds: flows.iter().any(is_request),
            clock,
            clocks: ClockOffset {
                offset: 0,
                round_trip: 0,
            },
            start,
            counted_from: start,
            omitting: request.omit > 0,
            omitted: (vec![TransferAmount::default(); flows.len()], cpu_cost()),
            sent: tallies(),
            responded: tallies(),
            requests: None,
            incoming: Receiver::new(start, &flows, inbound, clock)?,
            flows,
            request,
            reception: None,
            own: None,
            counters: AssociationCounters::default(),
            shared,
            abort,
        })
    }

    pub(super) fn sender(&self) -> SendHalf {
        self.sender.clone()
    }

    /// Requests the measurement from the server; returns the description of its host. For the client.
    pub(super) async fn ask(&mut self) -> Result<String, Failure> {
        preparation::request(&self.sender, &mut self.receiver, &self.request).await
    }

    /// Estimates the offset of the clocks, waits for the other associations and starts the measurement. For the client.
    pub(super) async fn start(&mut self, all: &Barrier) -> Result<(), Failure> {
        let offset = preparation::clocks(&self.sender, &mut self.receiver, &self.clock).await?;
        all.wait().await;
        self.begin(offset, offset.offset);
        let started =
            preparation::start(&self.sender, &mut self.receiver, offset, &mut self.incoming);
        started.await
    }

    /// Accepts the request and starts the measurement with the client. For the server.
    pub(super) async fn accept(&mut self) -> Result<(), Failure> {
        let offset = preparation::serve(&self.sender, &mut self.receiver, &self.clock);
        let offset = tokio::time::timeout(PREPARATION, offset)
            .await
            .map_err(|_| {
                Failure::Run(format!(
                    "the client has not started the transfer within {} s of its request",
                    PREPARATION.as_secs()
                ))
            })??;
        self.begin(offset, offset.offset.saturating_neg());
        send_control(&self.sender, &ControlMessage::Ready).await
    }

    fn begin(&mut self, clocks: ClockOffset, peer_ahead: i64) {
        let now = Instant::now();
        (self.start, self.counted_from) = (now, now);
        self.omitted.1 = cpu_cost();
        self.clocks = clocks;
        self.incoming.begin(now, peer_ahead);
    }

    /// Shuts the association down at the end. For the client.
    pub(super) async fn shut_down(self) -> Result<(), Failure> {
        let done = self.sender.shutdown().await;
        self.abort.disarm();
        done.map_err(|e| Failure::Run(e.to_string()))
    }

    /// Waits for the client to shut the association down at the end, which it does at once. For the server.
    pub(super) async fn wait_for_end(mut self) {
        // All results are known; the way the association ends does not matter.
        let ended = async { while let Ok(Some(_)) = self.receiver.recv().await {} };
        if tokio::time::timeout(SHUTDOWN, ended).await.is_ok() {
            self.abort.disarm();
        }
    }

    /// Runs the measurement and exchanges the results. If the association ends before, what was transferred until then is
    /// reported.
    pub(super) async fn run(&mut self, reporter: &Reporter) -> Result<SessionEnd, Failure> {
        let mut progress = Progress::new(self.start, self.omitting);
        match self.transfer(&mut progress, reporter).await {
            Err(Failure::Run(reason)) => {
                let partial = self.interrupt(&mut progress, reporter).await?;
                Ok(SessionEnd::Failed(reason, partial))
            }
            end => end,
        }
    }

    async fn transfer(
        &mut self,
        progress: &mut Progress,
        reporter: &Reporter,
    ) -> Result<SessionEnd, Failure> {
        let sender = self.sender.clone();
        let mut sending = self.start_flows();
        let mut responding = self.start_responses();
        let outbox = Outbox::default();
        let mut sending_control = pin!(outbox.send_all(&sender));
        let omission = tokio::time::Instant::from_std(self.start) + self.request.omit();
        let mut omission = pin!(tokio::time::sleep_until(omission));
        let mut ticks = self.interval_length(reporter).map(timer);
        let mut checks = timer(SILENCE_CHECK);
        let mut silence = SilenceDetector::new(self.start, self.request.longest_pause());
        let mut events = self.events.take();
        loop {
            tokio::select! {
                Some(done) = sending.join_next() => {
                    task_result(done)?;
                    if sending.is_empty() {
                        outbox.add(&ControlMessage::End { flows: amounts(&self.sent) })?;
                    }
                }
                Some(done) = responding.join_next() => {
                    task_result(done)?;
                    outbox.add(&ControlMessage::Responded { flows: amounts(&self.responded) })?;
                }
                done = &mut sending_control, if !outbox.is_empty() => {
                    done?;
                    sending_control.set(outbox.send_all(&sender));
                }
                message = self.receiver.recv() => {
                    let message = message.map_err(|e| lost(&e))?.ok_or_else(ended)?;
                    self.take(message, Instant::now())?;
                    self.take_more()?;
                    for interval in self.incoming.peer_intervals.drain(..) {
                        reporter.peer_interval(&interval, &self.request)?;
                    }
                    self.answer(progress, reporter, &outbox).await?;
                }
                () = &mut omission, if self.omitting => {
                    if self.interval_length(reporter).is_some() {
                        self.report(progress, reporter, &outbox).await?;
                    }
                    self.end_omission().await?;
                    progress.omitting = false;
                    if let Some(ticks) = &mut ticks {
                        ticks.reset();
                    }
                }
                () = tick(&mut ticks) => {
                    // The end of the omitted time, if it is due, ends the interval.
                    let is_omission_due = self.omitting && omission.deadline().elapsed() > Duration::ZERO;
                    if !is_omission_due {
                        self.report(progress, reporter, &outbox).await?;
                    }
                }
                _ = checks.tick() => self.check_silence(&mut silence, reporter).await?,
                signal = signal_received() => {
                    let partial = self.interrupt(progress, reporter).await?;
                    return Ok(SessionEnd::Interrupted(signal, partial));
                }
                Some(Notification::Event(event)) = next(&mut events) => {
                    // `recv` reports the end of the association.
                    if !matches!(event, Event::Closed(_))
                        && let Some(report) = event_reports::report(&event, &sender).await
                    {
                        if report.kind == ReportKind::CurrentChanged {
                            progress.path_changed();
                        }
                        reporter.notification(&report)?;
                    }
                }
            }
            if let Some(outcome) = self.outcome().filter(|_| outbox.is_empty()) {
                return Ok(SessionEnd::Complete(outcome));
            }
        }
    }

    /// Reports what was transferred until a signal arrived, or the association ended.
    async fn interrupt(
        &mut self,
        progress: &mut Progress,
        reporter: &Reporter,
    ) -> Result<PartialResult, Failure> {
        self.report_rest(progress, reporter, &Outbox::default())
            .await?;
        let seconds = self.counted_from.elapsed().as_secs_f64();
        let sent: Vec<_> = amounts(&self.sent)
            .into_iter()
            .zip(&self.omitted.0)
            .map(|(sent, omitted)| sent.since(*omitted))
            .collect();
        let flows_sent = (1..).zip(&self.flows).zip(&sent);
        let flows_sent = flows_sent.filter(|((_, flow), _)| flow.direction != self.role.inbound);
        let flows_sent = flows_sent.map(|((flow, _), sent)| FlowSent {
            flow,
            rate: Rate::new(*sent, seconds),
        });
        let flows_sent = flows_sent.collect();
        let sent = total(&sent);
        let received = self.incoming.counted();
        let flows = self
            .incoming
            .flows(&amounts(&self.sent), self.request.series > 0);
        let flow_results = FlowResult::all(&self.flows, &flows.iter().collect::<Vec<_>>());
        let partial = PartialResult {
            seconds,
            sent: self.role.sends.then(|| Rate::new(sent, seconds)),
            received: self.role.receives.then(|| Rate::new(received, seconds)),
            delay: self.incoming.delay(),
            cost: self.cost().await,
            flows,
            flows_sent,
            flow_results,
        };
        reporter.interrupted(&partial, &self.request)?;
        Ok(partial)
    }

    /// Counts from now on.
    async fn end_omission(&mut self) -> Result<(), Failure> {
        self.omitting = false;
        self.counted_from = Instant::now();
        self.omitted = (amounts(&self.sent), self.total_cost().await);
        self.incoming.omit_until(self.counted_from);
        Ok(())
    }

    /// Starts the flows that this side sends.
    fn start_flows(&self) -> JoinSet<Result<(), Failure>> {
        let mut tasks = JoinSet::new();
        for (index, flow) in self.flows.iter().enumerate() {
            if flow.direction != self.role.inbound {
                let flow = FlowSender::new(
                    self.sender.clone(),
                    &self.request,
                    (index, flow.clone()),
                    self.incoming.permits(index),
                    Arc::clone(&self.sent[index]),
                    self.clock,
                );
                tasks.spawn(flow.run());
            }
        }
        tasks
    }

    /// Starts the responses to requests of the peer, if there are any.
    fn start_responses(&mut self) -> JoinSet<Result<(), Failure>> {
        let mut tasks = JoinSet::new();
        if self.responds {
            let (requests, waiting) = mpsc::channel(MAX_REQUESTS);
            self.requests = Some(requests);
            let (flows, tallies) = (self.flows.clone(), self.responded.clone());
            tasks.spawn(respond(
                self.sender.clone(),
                flows,
                tallies,
                waiting,
                self.clock,
            ));
        }
        tasks
    }

    /// Returns the amount of data sent so far.
    fn sent_amount(&self) -> TransferAmount {
        total(&amounts(&self.sent))
    }

    /// Returns the length of the intervals; `None` without intervals.
    fn interval_length(&self, reporter: &Reporter) -> Option<Duration> {
        match self.request.series {
            0 => reporter.intervals,
            milliseconds => Some(Duration::from_millis(milliseconds)),
        }
    }

    /// Processes a message.
    fn take(&mut self, message: carrick::Message, now: Instant) -> Result<(), Failure> {
        let request = self.incoming.take(message, now)?;
        if let (Some(request), Some(requests)) = (request, &self.requests)
            && self.flows[request.flow].respond.is_some()
        {
            // A request that finds the queue full has no response.
            let _ = requests.try_send(request);
        }
        Ok(())
    }

    /// Processes the messages that are available besides the first one.
    fn take_more(&mut self) -> Result<(), Failure> {
        let now = Instant::now();
        for _ in 0..BATCH {
            match self.receiver.try_recv() {
                Ok(message) => self.take(message, now)?,
                // The next call of `recv` reports the end of the association.
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Sends the control messages that are due: first that all data was received, then the Summary.
    async fn answer(
        &mut self,
        progress: &mut Progress,
        reporter: &Reporter,
        outbox: &Outbox,
    ) -> Result<(), Failure> {
        if self.requests.is_some() && self.incoming.has_all_data() {
            // The responses end when all requests were received.
            self.requests = None;
        }
        let (sent, with_series) = (amounts(&self.sent), self.request.series > 0);
        let expects = self.incoming.expects_messages();
        if expects
            && self.reception.is_none()
            && let Some(mut reception) = self.incoming.complete(&sent, with_series)?
        {
            if self.omitting {
                // The peer has sent less than the time that is not counted.
                let seconds = reception.seconds;
                self.end_omission().await?;
                let counted = self.incoming.complete(&sent, with_series)?;
                reception = counted.ok_or_else(unexpected)?;
                reception.seconds = seconds;
            }
            self.reception = Some(reception.clone());
            outbox.add(&ControlMessage::Received(reception))?;
        }
        let received = !expects || self.reception.is_some();
        let sends = self.role.sends || self.responds;
        let delivered = !sends || self.incoming.reception.is_some();
        if received && delivered && self.own.is_none() {
            self.report_rest(progress, reporter, outbox).await?;
            let cost = self.cost().await;
            self.own = Some(cost);
            outbox.add(&ControlMessage::Summary(cost))?;
        }
        Ok(())
    }

    fn outcome(&self) -> Option<MeasurementOutcome> {
        Some(MeasurementOutcome {
            received: self.reception.clone(),
            delivered: self.incoming.reception.clone(),
            own: self.own?,
            peer: self.incoming.cost?,
            clocks: self.clocks,
        })
    }

    /// Returns the cost of the part that is counted.
    async fn cost(&mut self) -> MeasurementCost {
        self.total_cost().await.since(&self.omitted.1)
    }

    /// Returns the counters of the association and the CPU time of the process. An association that has ended has the counters
    /// that were read last, within the second before.
    async fn total_cost(&mut self) -> MeasurementCost {
        if let Ok(stats) = self.sender.control().stats().await {
            self.counters = stats.counters;
        }
        let counters = &self.counters;
        MeasurementCost {
            cpu_shared: (self.shared)(),
            retransmissions: counters.retransmissions,
            timeout_retransmissions: counters.timeout_retransmissions,
            fast_retransmissions: counters.fast_retransmissions,
            dropped_for_buffer: counters.dropped_for_buffer,
            packets_sent: counters.packets_sent,
            packets_received: counters.packets_received,
            ..cpu_cost()
        }
    }

    /// Reports that no packets of the peer arrive, and that packets arrive again.
    async fn check_silence(
        &mut self,
        silence: &mut SilenceDetector,
        reporter: &Reporter,
    ) -> Result<(), Failure> {
        // `recv` reports the end of an association.
        let Ok(stats) = self.sender.control().stats().await else {
            return Ok(());
        };
        self.counters = stats.counters;
        let activity = silence.observe(Instant::now(), stats.counters.packets_received);
        if silence.is_reported() && stats.send_buffer_bytes == 0 {
            self.ask_for_life().await;
        }
        match activity {
            PeerActivity::Active | PeerActivity::Unchanged => Ok(()),
            PeerActivity::Resumed(time) => {
                let text = format!("the peer responds again after {} s", time.as_secs());
                reporter.note(&text)
            }
            PeerActivity::Silent(time) => {
                let text = format!("no packet from the peer for {} s", time.as_secs());
                reporter.note(&text)
            }
        }
    }

    /// Asks a silent peer for a sign of life on all paths. Without outstanding data, its end would be noticed after
    /// HB.interval, 30 s.
    async fn ask_for_life(&self) {
        for path in self.sender.control().paths().await.unwrap_or_default() {
            // Paths, and the association, may have gone meanwhile.
            let _ = self.sender.control().request_heartbeat(path.id).await;
        }
    }

    /// Reports an interval that ends now; also to the client, if it wants that.
    async fn report(
        &mut self,
        progress: &mut Progress,
        reporter: &Reporter,
        outbox: &Outbox,
    ) -> Result<(), Failure> {
        // The association may have ended.
        let stats = self.sender.control().stats().await.ok();
        let paths = self.sender.control().paths().await.unwrap_or_default();
        let (sent, received) = (self.sent_amount(), self.incoming.amount());
        let (delay, mut flows) = self.incoming.take_interval(&amounts(&self.sent));
        if !self.wants_flows() {
            flows.clear();
        }
        let interval = progress.step(sent, received, delay, stats.as_ref(), &paths, flows);
        if self.request.series > 0
            && self.role.inbound == FlowDirection::ToServer
            && outbox.len() < MAX_WAITING
        {
            outbox.add(&ControlMessage::Interval(Box::new(interval.clone())))?;
        }
        reporter.interval(&interval, self.role, &self.request)
    }

    /// Returns whether intervals have the statistics of each flow.
    fn wants_flows(&self) -> bool {
        !self.request.flows.is_empty() || self.request.series > 0
    }

    /// Reports the last interval, which is shorter, so that the intervals add up to the whole.
    async fn report_rest(
        &mut self,
        progress: &mut Progress,
        reporter: &Reporter,
        outbox: &Outbox,
    ) -> Result<(), Failure> {
        let (sent, received) = (self.sent_amount(), self.incoming.amount());
        let has_more = progress.has_more(sent, received, self.incoming.responses());
        if self.interval_length(reporter).is_none() || !has_more {
            return Ok(());
        }
        self.report(progress, reporter, outbox).await
    }
}

/// Returns the sum of amounts.
fn total(amounts: &[TransferAmount]) -> TransferAmount {
    amounts
        .iter()
        .fold(TransferAmount::default(), |sum, own| sum + *own)
}

/// Returns the amounts of tallies.
fn amounts(tallies: &[Arc<TransferTally>]) -> Vec<TransferAmount> {
    tallies.iter().map(|own| own.amount()).collect()
}

/// Returns the result of a task.
fn task_result(done: Result<Result<(), Failure>, tokio::task::JoinError>) -> Result<(), Failure> {
    let failed = |e| Failure::Run(format!("a sender failed: {e}"));
    done.map_err(failed)?
}

pub(super) fn lost(error: &RecvError) -> Failure {
    Failure::Run(error.to_string())
}

pub(super) fn ended() -> Failure {
    Failure::Run("the peer shut the association down before the end of the measurement".into())
}

fn timer(period: Duration) -> Interval {
    let mut timer = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    timer.set_missed_tick_behavior(MissedTickBehavior::Skip);
    timer
}

/// Returns the CPU time of the process as a cost.
fn cpu_cost() -> MeasurementCost {
    let cpu = CpuTime::now();
    MeasurementCost {
        cpu_user: cpu.user,
        cpu_system: cpu.system,
        ..MeasurementCost::default()
    }
}

/// Waits for the end of an interval; for ever without intervals.
async fn tick(ticks: &mut Option<Interval>) {
    match ticks {
        Some(ticks) => _ = ticks.tick().await,
        None => std::future::pending().await,
    }
}

async fn next(events: &mut Option<Events>) -> Option<Notification> {
    match events {
        Some(events) => events.next().await,
        None => None,
    }
}
