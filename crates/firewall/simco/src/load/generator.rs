//! Load generator.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use super::measure::LoadMeasurements;
use super::pinhole::{Pinhole, PinholeState, request};
use super::workload::Workload;
use crate::Time;
use crate::agent::{Agent, AgentEvent};
use crate::message::{Lifetime, NegativeReply, PolicyRuleId, Reply, Request, TransactionId};

/// Purpose of an outstanding request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RequestPurpose {
    Open { number: u32, preload: bool },
    Refresh,
    Close,
}

/// First failure of a load.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LoadFailure {
    /// A request was refused.
    #[error("refused: {}", .0.text())]
    Refused(NegativeReply),
    /// The session is over.
    #[error("the session is over")]
    Closed,
}

/// Requests pinholes through an agent.
///
/// Call [`start`](Self::start) once the agent's session is open, then
/// [`handle_timeout`](Self::handle_timeout) at each [`poll_timeout`](Self::poll_timeout), and
/// [`handle_event`](Self::handle_event) for each event of the agent.
#[derive(Debug)]
pub struct LoadGenerator {
    workload: Workload,
    random: ChaCha8Rng,
    pinholes: BTreeMap<u32, Pinhole>,
    rules: BTreeMap<PolicyRuleId, u32>,
    /// Times of refreshes and closings.
    due: BTreeSet<(Time, u32)>,
    /// Outstanding requests, with whether they belong to the measurement.
    outstanding: BTreeMap<TransactionId, (RequestPurpose, bool)>,
    next_number: u32,
    preloaded: u32,
    preload_pending: u32,
    arrival: Option<Time>,
    /// True if no more requests are made.
    stopped: bool,
    /// Start of the steady state.
    steady_since: Option<Time>,
    measuring: bool,
    measures: LoadMeasurements,
    failure: Option<LoadFailure>,
}

impl LoadGenerator {
    /// Creates a generator with a random seed.
    pub fn new(workload: Workload, seed: u64) -> Self {
        Self {
            workload,
            random: ChaCha8Rng::seed_from_u64(seed),
            pinholes: BTreeMap::new(),
            rules: BTreeMap::new(),
            due: BTreeSet::new(),
            outstanding: BTreeMap::new(),
            next_number: 0,
            preloaded: 0,
            preload_pending: 0,
            arrival: None,
            stopped: false,
            steady_since: None,
            measuring: false,
            measures: LoadMeasurements::default(),
            failure: None,
        }
    }

    /// Starts the preload; the agent's session is open.
    pub fn start(&mut self, now: Time, agent: &mut Agent) {
        self.preload(now, agent);
    }

    /// Starts the measurement: requests made from now on count.
    pub fn start_measuring(&mut self) {
        self.measuring = true;
        self.measures = LoadMeasurements::default();
    }

    /// Stops making requests. Outstanding ones still count.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.arrival = None;
        self.due.clear();
    }

    /// Returns the number of outstanding requests.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Returns the time at which all of the preload was answered.
    pub fn steady_since(&self) -> Option<Time> {
        self.steady_since
    }

    /// Returns the number of pinholes, open or being opened.
    pub fn pinholes(&self) -> usize {
        self.pinholes.len()
    }

    /// Returns the measurements.
    pub fn measures(&self) -> &LoadMeasurements {
        &self.measures
    }

    /// Returns the first failure.
    pub fn failure(&self) -> Option<&LoadFailure> {
        self.failure.as_ref()
    }

    /// Returns the time of the next call of [`handle_timeout`](Self::handle_timeout).
    pub fn poll_timeout(&self) -> Option<Time> {
        let due = self.due.first().map(|(time, _)| *time);
        [due, self.arrival].into_iter().flatten().min()
    }

    /// Handles the passing of time.
    pub fn handle_timeout(&mut self, now: Time, agent: &mut Agent) {
        while let Some(arrival) = self.arrival.filter(|time| *time <= now) {
            let calls = self.workload.pinholes_per_call.max(1);
            let life = self.exponential(self.workload.holding);
            for _ in 0..calls {
                self.open(now, agent, now + life, false);
            }
            let pause = self.exponential(self.call_interval());
            self.arrival = Some(arrival + pause);
        }
        while let Some((time, number)) = self.due.first().copied() {
            if time > now {
                break;
            }
            self.due.pop_first();
            self.close_or_refresh(now, agent, number);
        }
    }

    /// Handles an event of the agent.
    pub fn handle_event(&mut self, now: Time, agent: &mut Agent, event: &AgentEvent) {
        match event {
            AgentEvent::Reply {
                transaction,
                rule,
                reply,
                elapsed,
                ..
            } => {
                if let Some((purpose, measured)) = self.outstanding.remove(transaction) {
                    self.answered(purpose, measured, *rule, reply, *elapsed);
                    self.preload(now, agent);
                }
            }
            AgentEvent::TimedOut { transaction, .. } | AgentEvent::Lost { transaction, .. } => {
                if let Some((purpose, _)) = self.outstanding.remove(transaction) {
                    self.measures.timed_out += 1;
                    self.request_failed(purpose);
                    if matches!(event, AgentEvent::TimedOut { .. }) {
                        self.preload(now, agent);
                    }
                }
            }
            AgentEvent::LateReply {
                reply: Reply::Enabled(enabled),
                ..
            } => self.close(now, agent, enabled.rule),
            AgentEvent::Rule {
                rule,
                lifetime: Lifetime(0),
            } => {
                if let Some(number) = self.rules.remove(rule) {
                    // Without refreshes, pinholes expire.
                    self.measures.expired += u64::from(!self.stopped);
                    self.remove_pinhole(number);
                }
            }
            AgentEvent::Closed(_) => {
                self.failure.get_or_insert(LoadFailure::Closed);
                self.arrival = None;
                self.due.clear();
            }
            _ => {}
        }
    }

    /// Returns the mean interval between calls. Zero means that none are made.
    fn call_interval(&self) -> Duration {
        let pinholes = self.workload.pinholes_per_call.max(1);
        self.workload.opening_interval.saturating_mul(pinholes)
    }

    /// Draws from the exponential distribution with this mean.
    fn exponential(&mut self, mean: Duration) -> Duration {
        // Between 2^-53 and 1, so the logarithm is finite.
        let uniform = ((self.random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        mean.mul_f64(-uniform.ln())
    }

    /// Opens pinholes of the preload as far as its window allows.
    fn preload(&mut self, now: Time, agent: &mut Agent) {
        if self.steady_since.is_some() || self.stopped {
            return;
        }
        while self.preloaded < self.workload.preload
            && self.preload_pending < self.workload.preload_window
        {
            // The exponential distribution is memoryless.
            let life = self.exponential(self.workload.holding);
            self.preloaded += 1;
            if self.open(now, agent, now + life, true) {
                self.preload_pending += 1;
            }
        }
        if self.preloaded >= self.workload.preload && self.preload_pending == 0 {
            self.steady_since = Some(now);
            let mean = self.call_interval();
            self.arrival = (!mean.is_zero()).then(|| now + self.exponential(mean));
        }
    }

    /// Requests a pinhole. Returns whether the agent accepted the request.
    fn open(&mut self, now: Time, agent: &mut Agent, closes: Time, preload: bool) -> bool {
        if self.pinholes.len() >= self.workload.max_pinholes as usize {
            self.measures.suppressed += 1;
            return false;
        }
        let number = self.next_number;
        self.next_number = self.next_number.wrapping_add(1);
        let request = Request::Enable(request(number, self.workload.lifetime));
        if !self.submit(
            now,
            agent,
            &request,
            RequestPurpose::Open { number, preload },
        ) {
            return false;
        }
        // Preloaded pinholes are at random points of their refresh interval, so that refreshes are
        // spread.
        let refresh = if preload {
            let share = (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
            now + self.workload.refresh.mul_f64(share)
        } else {
            now + self.workload.refresh
        };
        let pinhole = Pinhole {
            closes,
            refresh,
            state: PinholeState::Opening,
        };
        self.pinholes.insert(number, pinhole);
        true
    }

    fn submit(
        &mut self,
        now: Time,
        agent: &mut Agent,
        request: &Request,
        purpose: RequestPurpose,
    ) -> bool {
        let Ok(transaction) = agent.submit(now, request) else {
            self.measures.not_taken += 1;
            return false;
        };
        self.outstanding
            .insert(transaction, (purpose, self.measuring));
        self.measures.started += u64::from(self.measuring);
        true
    }

    fn answered(
        &mut self,
        purpose: RequestPurpose,
        measured: bool,
        rule: Option<PolicyRuleId>,
        reply: &Reply,
        elapsed: Duration,
    ) {
        match (purpose, reply) {
            (RequestPurpose::Open { number, preload }, Reply::Enabled(enabled)) => {
                if preload {
                    self.preload_pending -= 1;
                } else if measured {
                    self.measures.enable.record(elapsed);
                }
                self.rules.insert(enabled.rule, number);
                if let Some(pinhole) = self.pinholes.get_mut(&number) {
                    pinhole.state = PinholeState::Open(enabled.rule);
                    if !self.stopped {
                        self.due
                            .insert((pinhole.closes.min(pinhole.refresh), number));
                    }
                }
            }
            (RequestPurpose::Refresh, Reply::LifetimeChanged(_)) if measured => {
                self.measures.refresh.record(elapsed);
            }
            (RequestPurpose::Close, Reply::Deleted) if measured => {
                self.measures.close.record(elapsed);
            }
            (purpose, Reply::Negative(negative)) => {
                self.measures.refused += 1;
                self.failure.get_or_insert(LoadFailure::Refused(*negative));
                self.request_failed(purpose);
                let unknown = rule.filter(|_| *negative == NegativeReply::NoSuchRule);
                if let Some(number) = unknown.and_then(|rule| self.rules.remove(&rule)) {
                    self.remove_pinhole(number);
                }
            }
            _ => {}
        }
    }

    /// Removes the pinhole of a failed request to open it.
    fn request_failed(&mut self, purpose: RequestPurpose) {
        if let RequestPurpose::Open { number, preload } = purpose {
            self.preload_pending -= u32::from(preload);
            self.remove_pinhole(number);
        }
    }

    fn remove_pinhole(&mut self, number: u32) {
        if let Some(pinhole) = self.pinholes.remove(&number) {
            self.due
                .remove(&(pinhole.closes.min(pinhole.refresh), number));
        }
    }

    /// Closes or refreshes a pinhole that is due.
    fn close_or_refresh(&mut self, now: Time, agent: &mut Agent, number: u32) {
        let Some(pinhole) = self.pinholes.get_mut(&number) else {
            return;
        };
        let PinholeState::Open(rule) = pinhole.state else {
            return;
        };
        if pinhole.closes <= now {
            self.pinholes.remove(&number);
            self.rules.remove(&rule);
            self.close(now, agent, rule);
            return;
        }
        pinhole.refresh = now + self.workload.refresh;
        self.due
            .insert((pinhole.closes.min(pinhole.refresh), number));
        let request = Request::ChangeLifetime {
            rule,
            lifetime: self.workload.lifetime,
        };
        self.submit(now, agent, &request, RequestPurpose::Refresh);
    }

    fn close(&mut self, now: Time, agent: &mut Agent, rule: PolicyRuleId) {
        let request = Request::ChangeLifetime {
            rule,
            lifetime: Lifetime(0),
        };
        self.submit(now, agent, &request, RequestPurpose::Close);
    }
}
