//! A host of a run: its program, on a thread in its namespace.

use std::io;
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use carrick_lab::live::{Program, Stack};
use carrick_proto::Time;

use crate::alarm::Alarm;
use crate::{sctp, tcp};

/// Quiet time between the set-up and the first program's beginning.
const SETTLING: Duration = Duration::from_secs(1);
/// Between two looks at what others do.
const STEP: Duration = Duration::from_millis(2);
/// How soon a host sees that the run is over.
pub(crate) const PATIENCE: Duration = Duration::from_millis(20);

/// Why a host did not get to the end of its run.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The kernel has not got what it takes.
    Missing(String),
    /// Its connection has ended before its time.
    Lost(String),
    /// It went wrong.
    Failed(String),
}

impl<E: std::error::Error> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Failed(error.to_string())
    }
}

/// What the hosts of a run and whoever waits for them tell each other.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The moment that times count from.
    pub(crate) epoch: Instant,
    /// After that the run is given up.
    pub(crate) deadline: Instant,
    /// By flow: the server can be reached.
    listening: Vec<AtomicBool>,
    /// By flow: the connection stands.
    connected: Vec<AtomicBool>,
    /// By host.
    done: Vec<AtomicBool>,
    /// By host: it has all that it wants to know.
    left: Vec<AtomicBool>,
    /// Nobody needs the run any more.
    pub(crate) over: AtomicBool,
    /// When the last of the flows began.
    begin: Mutex<Option<Time>>,
    /// When a connection was lost that might be.
    lost: Mutex<Option<Time>>,
}

fn flags(count: usize) -> Vec<AtomicBool> {
    (0..count).map(|_| AtomicBool::new(false)).collect()
}

fn all(flags: &[AtomicBool]) -> bool {
    flags.iter().all(|flag| flag.load(Ordering::Acquire))
}

impl Shared {
    pub(crate) fn new(epoch: Instant, deadline: Instant, flows: usize) -> Self {
        Self {
            epoch,
            deadline,
            listening: flags(flows),
            connected: flags(flows),
            done: flags(2 * flows),
            left: flags(2 * flows),
            over: AtomicBool::new(false),
            begin: Mutex::new(None),
            lost: Mutex::new(None),
        }
    }

    pub(crate) fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn instant(&self, time: Time) -> Instant {
        self.epoch + Duration::from_nanos(time.as_nanos())
    }

    /// An error if there is no use in going on.
    pub(crate) fn go_on(&self) -> Result<(), Trouble> {
        if self.over.load(Ordering::Acquire) {
            return Err(Trouble::Failed("another host gave up".into()));
        }
        if Instant::now() > self.deadline {
            return Err(Trouble::Failed("it took too long".into()));
        }
        Ok(())
    }

    /// When all flows had begun, if they have.
    pub(crate) fn began(&self) -> Option<Time> {
        let begin = self.begin.lock().ok().and_then(|begin| *begin);
        begin.filter(|_| all(&self.connected))
    }

    /// When a connection was lost that might be, which ends the run.
    pub(crate) fn lost(&self) -> Option<Time> {
        self.lost.lock().ok().and_then(|lost| *lost)
    }

    fn lose(&self) {
        let now = self.now();
        if let Ok(mut lost) = self.lost.lock() {
            lost.get_or_insert(now);
        }
    }

    fn begun(&self, now: Time) {
        if let Ok(mut begin) = self.begin.lock() {
            *begin = (*begin).max(Some(now));
        }
    }
}

/// A host before its run.
pub(crate) struct Host {
    /// Its place in the run: those of flow n are 2n and 2n + 1.
    pub(crate) number: usize,
    pub(crate) client: bool,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) peers: Vec<IpAddr>,
    /// Its addresses come and go.
    pub(crate) roams: bool,
    pub(crate) may_be_lost: bool,
    pub(crate) stack: Stack,
    pub(crate) program: Box<dyn Program>,
}

/// A host after its run.
pub(crate) struct Ended {
    pub(crate) program: Box<dyn Program>,
    /// Expirations of T3-rtx.
    pub(crate) timeouts: u64,
}

impl Host {
    /// Runs to the end, on a thread of the host.
    pub(crate) fn run(self, shared: &Shared) -> Result<Ended, Trouble> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let ended = runtime.block_on(async {
            match self.stack {
                Stack::Sctp { .. } => sctp::run(self, shared).await,
                Stack::Tcp { .. } => tcp::run(self, shared).await,
            }
        });
        if ended.is_err() {
            // The others need not wait.
            shared.over.store(true, Ordering::Release);
        }
        // Sockets close as they are; nobody is told, because the network goes too.
        runtime.shutdown_background();
        ended
    }

    fn flow(&self) -> usize {
        self.number / 2
    }

    /// It can be reached now.
    pub(crate) fn listens(&self, shared: &Shared) {
        shared.listening[self.flow()].store(true, Ordering::Release);
    }

    /// Until the other host of the flow listens.
    pub(crate) async fn wait_for_server(&self, shared: &Shared) -> Result<(), Trouble> {
        while !shared.listening[self.flow()].load(Ordering::Acquire) {
            shared.go_on()?;
            tokio::time::sleep(STEP).await;
        }
        Ok(())
    }

    /// The connection stands: begins with the program; the first one of the flow a while after all
    /// connections stand.
    pub(crate) async fn begin(&mut self, shared: &Shared, streams: u16) -> Result<(), Trouble> {
        if !self.number.is_multiple_of(2) {
            self.program.connected(shared.now(), streams);
            return Ok(());
        }
        shared.connected[self.flow()].store(true, Ordering::Release);
        while !all(&shared.connected) {
            shared.go_on()?;
            tokio::time::sleep(STEP).await;
        }
        tokio::time::sleep(SETTLING).await;
        let now = shared.now();
        self.program.connected(now, streams);
        shared.begun(now);
        Ok(())
    }

    /// Says whether this program is done; true if the run is.
    pub(crate) fn is_over(&self, shared: &Shared) -> Result<bool, Trouble> {
        if let Some(failure) = self.program.failure() {
            return Err(Trouble::Failed(failure));
        }
        shared.done[self.number].store(self.program.is_done(), Ordering::Release);
        if all(&shared.done) || shared.lost().is_some() {
            return Ok(true);
        }
        shared.go_on()?;
        Ok(false)
    }

    /// What becomes of the run when the conversation has ended so: a loss that may be ends it as well.
    pub(crate) fn conclude(
        &self,
        shared: &Shared,
        ended: Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        match ended {
            Err(Trouble::Lost(_)) if self.may_be_lost => {
                shared.lose();
                Ok(())
            }
            ended => ended,
        }
    }

    /// Until the others have all that they want to know as well: when sockets close here, a
    /// connection breaks.
    pub(crate) async fn leave(&self, shared: &Shared) -> Result<(), Trouble> {
        shared.left[self.number].store(true, Ordering::Release);
        while !all(&shared.left) {
            shared.go_on()?;
            tokio::time::sleep(STEP).await;
        }
        Ok(())
    }

    /// Until the program wants to be called, or for a while.
    pub(crate) async fn sleep(&self, shared: &Shared, alarm: &Alarm) -> io::Result<()> {
        let due = self.program.poll_timeout().map(|due| shared.instant(due));
        alarm.wait_at_most(due, PATIENCE).await
    }

    /// Calls the program if it is time.
    pub(crate) fn expire(&mut self, shared: &Shared) {
        let now = shared.now();
        if self.program.poll_timeout().is_some_and(|due| due <= now) {
            self.program.handle_timeout(now);
        }
    }
}
