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
/// How soon a host sees that the run is over.
pub(crate) const PATIENCE: Duration = Duration::from_millis(20);

/// Why a host did not get to the end of its run.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The kernel has not got what it takes.
    Missing(String),
    /// It went wrong.
    Failed(String),
}

impl<E: std::error::Error> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Failed(error.to_string())
    }
}

/// What the two hosts of a run and whoever waits for them tell each other.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The moment that times count from.
    pub(crate) epoch: Instant,
    /// After that the run is given up.
    pub(crate) deadline: Instant,
    /// The server can be reached.
    pub(crate) listening: AtomicBool,
    done: [AtomicBool; 2],
    /// A host has all that it wants to know.
    left: [AtomicBool; 2],
    /// Nobody needs the run any more.
    pub(crate) over: AtomicBool,
    /// When the first program began.
    pub(crate) begin: Mutex<Option<Time>>,
}

impl Shared {
    pub(crate) fn new(epoch: Instant, deadline: Instant) -> Self {
        Self {
            epoch,
            deadline,
            listening: AtomicBool::new(false),
            done: [false, false].map(AtomicBool::new),
            left: [false, false].map(AtomicBool::new),
            over: AtomicBool::new(false),
            begin: Mutex::new(None),
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
            return Err(Trouble::Failed("the other host gave up".into()));
        }
        if Instant::now() > self.deadline {
            return Err(Trouble::Failed("it took too long".into()));
        }
        Ok(())
    }

    /// When the first program began, if it has.
    pub(crate) fn began(&self) -> Option<Time> {
        self.begin.lock().ok().and_then(|begin| *begin)
    }
}

/// A host before its run.
pub(crate) struct Host {
    /// 0 or 1.
    pub(crate) number: usize,
    pub(crate) client: bool,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) peers: Vec<IpAddr>,
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
            // The other one need not wait.
            shared.over.store(true, Ordering::Release);
        }
        // Sockets close as they are; nobody is told, because the network goes too.
        runtime.shutdown_background();
        ended
    }

    /// Until the other host listens.
    pub(crate) async fn wait_for_server(&self, shared: &Shared) -> Result<(), Trouble> {
        while !shared.listening.load(Ordering::Acquire) {
            shared.go_on()?;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    /// The connection stands: begins with the program, the first one after a while.
    pub(crate) async fn begin(&mut self, shared: &Shared, streams: u16) {
        if self.number > 0 {
            self.program.connected(shared.now(), streams);
            return;
        }
        tokio::time::sleep(SETTLING).await;
        let now = shared.now();
        self.program.connected(now, streams);
        if let Ok(mut begin) = shared.begin.lock() {
            *begin = Some(now);
        }
    }

    /// Says whether this program is done; true if the run is.
    pub(crate) fn is_over(&self, shared: &Shared) -> Result<bool, Trouble> {
        if let Some(failure) = self.program.failure() {
            return Err(Trouble::Failed(failure));
        }
        shared.done[self.number].store(self.program.is_done(), Ordering::Release);
        if shared.done.iter().all(|done| done.load(Ordering::Acquire)) {
            return Ok(true);
        }
        shared.go_on()?;
        Ok(false)
    }

    /// Until the other one has all that it wants to know as well: when sockets close here, its
    /// connection breaks.
    pub(crate) async fn leave(&self, shared: &Shared) -> Result<(), Trouble> {
        shared.left[self.number].store(true, Ordering::Release);
        while !shared.left.iter().all(|left| left.load(Ordering::Acquire)) {
            shared.go_on()?;
            tokio::time::sleep(Duration::from_millis(2)).await;
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
