//! Participant of a run: the program of one host, on a thread in the host's namespace.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use carrick_lab::live::{Program, Stack};
use carrick_proto::Time;
use quinn::rustls::pki_types::CertificateDer;

use super::timer::PreciseTimer;
use super::{external, quic, sctp, tcp};

/// Maximum time for the set-up of all connections of a run.
const MAX_SET_UP: Duration = Duration::from_secs(60);
/// Pause between the set-up of all connections and the start of the programs.
const SETTLING: Duration = Duration::from_secs(1);
/// Interval at which a participant checks the state of the other ones.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Maximum time after which a participant checks whether the run is over.
pub(crate) const MAX_WAIT: Duration = Duration::from_millis(20);

/// Error that ends a participant before the end of its run.
#[derive(Debug)]
pub(crate) enum ParticipantError {
    /// The kernel lacks a feature.
    Missing(String),
    /// The connection was lost.
    Lost(String),
    /// Any other failure.
    Failed(String),
    /// Another participant has failed.
    Aborted,
}

impl<E: std::error::Error> From<E> for ParticipantError {
    fn from(error: E) -> Self {
        Self::Failed(error.to_string())
    }
}

/// State that the participants of a run share with the thread that waits for them.
#[derive(Debug)]
pub(crate) struct RunState {
    /// Time 0 of the run.
    pub(crate) epoch: Instant,
    /// Time until which all connections are set up.
    deadline: Instant,
    /// Time from the start of the programs after which the run ends.
    limit: Duration,
    /// For each host: its certificate, which the peer trusts.
    certificates: Vec<OnceLock<CertificateDer<'static>>>,
    /// For each flow: the server accepts connections.
    listening: Vec<AtomicBool>,
    /// For each flow: the connection is set up.
    connected: Vec<AtomicBool>,
    /// For each host: the program is done.
    done: Vec<AtomicBool>,
    /// For each host: the participant needs its connection no longer.
    finished: Vec<AtomicBool>,
    /// The run is aborted.
    pub(crate) aborted: AtomicBool,
    /// Time at which the last flow started.
    started: Mutex<Option<Time>>,
    /// Time at which a connection was lost whose loss is a result.
    lost: Mutex<Option<Time>>,
}

fn flags(count: usize) -> Vec<AtomicBool> {
    (0..count).map(|_| AtomicBool::new(false)).collect()
}

fn all(flags: &[AtomicBool]) -> bool {
    flags.iter().all(|flag| flag.load(Ordering::Acquire))
}

impl RunState {
    /// Creates the state of a run with this number of flows, which ends `limit` after the start of its programs.
    pub(crate) fn new(epoch: Instant, limit: Duration, flows: usize) -> Self {
        Self {
            epoch,
            deadline: Instant::now() + MAX_SET_UP,
            limit,
            certificates: (0..2 * flows).map(|_| OnceLock::new()).collect(),
            listening: flags(flows),
            connected: flags(flows),
            done: flags(2 * flows),
            finished: flags(2 * flows),
            aborted: AtomicBool::new(false),
            started: Mutex::new(None),
            lost: Mutex::new(None),
        }
    }

    /// Current time of the run.
    pub(crate) fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn instant(&self, time: Time) -> Instant {
        self.epoch + Duration::from_nanos(time.as_nanos())
    }

    /// Returns an error if the run is aborted or its deadline has passed.
    pub(crate) fn check(&self) -> Result<(), ParticipantError> {
        if self.aborted.load(Ordering::Acquire) {
            return Err(ParticipantError::Aborted);
        }
        let deadline = match self.started() {
            Some(begin) => self.instant(begin) + self.limit,
            None => self.deadline,
        };
        if Instant::now() > deadline {
            return Err(ParticipantError::Lost("the run timed out".into()));
        }
        Ok(())
    }

    /// Returns whether all participants are done, or a connection was lost.
    pub(crate) fn are_all_done(&self) -> Result<bool, ParticipantError> {
        if all(&self.done) || self.lost().is_some() {
            return Ok(true);
        }
        self.check()?;
        Ok(false)
    }

    /// Time at which the last flow started; `None` before all connections are set up.
    pub(crate) fn started(&self) -> Option<Time> {
        let started = self.started.lock().ok().and_then(|started| *started);
        started.filter(|_| all(&self.connected))
    }

    /// Time at which a connection was lost whose loss is a result. The loss ends the run.
    pub(crate) fn lost(&self) -> Option<Time> {
        self.lost.lock().ok().and_then(|lost| *lost)
    }

    fn set_lost(&self) {
        let now = self.now();
        if let Ok(mut lost) = self.lost.lock() {
            lost.get_or_insert(now);
        }
    }

    fn set_started(&self, now: Time) {
        if let Ok(mut started) = self.started.lock() {
            *started = (*started).max(Some(now));
        }
    }
}

/// Participant before its run.
pub(crate) struct Participant {
    /// Index of the host in the run: the hosts of flow n are 2n and 2n + 1.
    pub(crate) number: usize,
    pub(crate) client: bool,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) peers: Vec<IpAddr>,
    /// The host's addresses change during the run.
    pub(crate) roams: bool,
    /// The loss of the connection is a result, not a failure.
    pub(crate) may_be_lost: bool,
    pub(crate) stack: Stack,
    pub(crate) program: Box<dyn Program>,
}

/// Result of a participant after its run.
pub(crate) struct ParticipantResult {
    pub(crate) program: Box<dyn Program>,
    /// Number of T3-rtx expirations.
    pub(crate) timeouts: u64,
    /// Numbers of the messages that an external program received, with the times since its first one.
    pub(crate) external: Vec<(u64, Duration)>,
}

impl ParticipantResult {
    /// Returns the result of a stack that reports no timeouts.
    pub(crate) fn new(program: Box<dyn Program>) -> Self {
        Self {
            program,
            timeouts: 0,
            external: Vec::new(),
        }
    }
}

impl Participant {
    /// Runs the program to its end, on a thread in the host's namespace.
    pub(crate) fn run(self, state: &RunState) -> Result<ParticipantResult, ParticipantError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let result = runtime.block_on(async {
            match self.stack {
                Stack::Sctp { .. } => sctp::run(self, state).await,
                Stack::Tcp { .. } => tcp::run(self, state).await,
                Stack::Quic { .. } => quic::run(self, state).await,
                Stack::Program(_) => external::run(self, state).await,
            }
        });
        if result.is_err() {
            // The other participants need not wait until the deadline.
            state.aborted.store(true, Ordering::Release);
        }
        // No orderly shutdown: the network is removed as well.
        runtime.shutdown_background();
        result
    }

    fn flow(&self) -> usize {
        self.number / 2
    }

    /// Publishes the certificate of this host to its peer, as signalling does (RFC 8122).
    pub(crate) fn set_certificate(&self, state: &RunState, own: CertificateDer<'static>) {
        state.certificates[self.number].get_or_init(|| own);
    }

    /// Waits until the peer's certificate is known.
    pub(crate) async fn certificate_of_peer(
        &self,
        state: &RunState,
    ) -> Result<CertificateDer<'static>, ParticipantError> {
        loop {
            if let Some(certificate) = state.certificates[self.number ^ 1].get() {
                return Ok(certificate.clone());
            }
            state.check()?;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Reports that the server accepts connections.
    pub(crate) fn set_listening(&self, state: &RunState) {
        state.listening[self.flow()].store(true, Ordering::Release);
    }

    /// Waits until the server of the flow accepts connections.
    pub(crate) async fn wait_for_server(&self, state: &RunState) -> Result<(), ParticipantError> {
        while !state.listening[self.flow()].load(Ordering::Acquire) {
            state.check()?;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Starts the program over a connection with this number of streams. The first program of a flow starts
    /// [`SETTLING`] after all connections are set up, the second one at once.
    pub(crate) async fn start(
        &mut self,
        state: &RunState,
        streams: u16,
    ) -> Result<(), ParticipantError> {
        if !self.number.is_multiple_of(2) {
            self.program.connected(state.now(), streams);
            return Ok(());
        }
        state.connected[self.flow()].store(true, Ordering::Release);
        while !all(&state.connected) {
            state.check()?;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        tokio::time::sleep(SETTLING).await;
        let now = state.now();
        self.program.connected(now, streams);
        state.set_started(now);
        Ok(())
    }

    /// Reports that the first message of an external program has arrived.
    pub(crate) fn set_started(&self, state: &RunState) {
        state.connected[self.flow()].store(true, Ordering::Release);
        state.set_started(state.now());
    }

    /// Reports that both external programs of the flow are done.
    pub(crate) fn set_flow_done(&self, state: &RunState) {
        for host in [2 * self.flow(), 2 * self.flow() + 1] {
            state.done[host].store(true, Ordering::Release);
        }
    }

    /// Reports whether the program is done, and returns true if the run is over.
    pub(crate) fn is_over(&self, state: &RunState) -> Result<bool, ParticipantError> {
        if let Some(failure) = self.program.failure() {
            return Err(ParticipantError::Failed(failure));
        }
        state.done[self.number].store(self.program.is_done(), Ordering::Release);
        state.are_all_done()
    }

    /// Ends the run after the loss of the connection if the loss is a permitted result.
    pub(crate) fn accept_loss(
        &self,
        state: &RunState,
        ended: Result<(), ParticipantError>,
    ) -> Result<(), ParticipantError> {
        match ended {
            Err(ParticipantError::Lost(_)) if self.may_be_lost => {
                state.set_lost();
                Ok(())
            }
            ended => ended,
        }
    }

    /// Waits until all participants have finished: closing the sockets here breaks the peer's connection.
    pub(crate) async fn finish(&self, state: &RunState) -> Result<(), ParticipantError> {
        state.finished[self.number].store(true, Ordering::Release);
        while !all(&state.finished) {
            // After a permitted loss the time is over.
            if state.lost().is_none() {
                state.check()?;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Waits until the program's timeout, at most [`MAX_WAIT`].
    pub(crate) async fn sleep(&self, state: &RunState, timer: &PreciseTimer) -> io::Result<()> {
        let due = self.program.poll_timeout().map(|due| state.instant(due));
        timer.wait_at_most(due, MAX_WAIT).await
    }

    /// Calls the program if its timeout has expired.
    pub(crate) fn handle_timeout(&mut self, state: &RunState) {
        let now = state.now();
        if self.program.poll_timeout().is_some_and(|due| due <= now) {
            self.program.handle_timeout(now);
        }
    }
}
