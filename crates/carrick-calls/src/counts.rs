//! What there is and was.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use carrick_simco::exposition::{Exposition, Histogram};

use crate::record::CallEnd;

/// Upper limits in seconds: people answer slowly, and middleboxes fast.
const SETUP: [f64; 10] = [0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];
const OPENING: [f64; 12] = [
    5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0,
];

/// What there is and was. Each call that was offered was established or refused, or is being set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Calls that are there, established or not.
    pub calls: u64,
    /// Calls that were offered.
    pub offered: u64,
    /// Calls that were established.
    pub established: u64,
    /// Calls that were refused, or given up by the caller before the answer.
    pub refused: u64,
    /// Refusals and silences of the middlebox.
    pub refused_by_middlebox: u64,
    /// Calls that were refused because there were too many.
    pub too_many: u64,
    /// INVITEs that were refused because there were too many calls from their address, or too much
    /// belonged to them.
    pub crowded: u64,
    /// Requests that were dropped unread, in a flood.
    pub flooded: u64,
    /// Pinholes that are open.
    pub pinholes: u64,
    /// Established calls that were ended because a pinhole was lost, or a new one refused.
    pub lost: u64,
    /// Established calls that were ended because a side vanished.
    pub vanished: u64,
}

/// What was not let in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnedAway {
    /// Requests that were dropped unread.
    pub(crate) flooded: u64,
    /// INVITEs that were refused because there were too many from their address.
    pub(crate) crowded: u64,
}

/// Who did not want a call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum By {
    /// The agent: the request is wrong, or it has no room.
    Agent,
    /// Who called, and gave it up.
    Caller,
    Callee,
    Middlebox,
}

impl By {
    fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Caller => "caller",
            Self::Callee => "callee",
            Self::Middlebox => "middlebox",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) calls: AtomicU64,
    offered: AtomicU64,
    established: AtomicU64,
    refused_by_middlebox: AtomicU64,
    too_many: AtomicU64,
    pinholes: AtomicU64,
    tables: Mutex<Tables>,
}

#[derive(Debug)]
struct Tables {
    /// By whom and with which status: bounded, since a status has three digits.
    refused: BTreeMap<(By, u16), u64>,
    ended: BTreeMap<CallEnd, u64>,
    setup: Histogram<{ SETUP.len() }>,
    opening: Histogram<{ OPENING.len() }>,
}

impl Default for Counters {
    fn default() -> Self {
        let tables = Tables {
            refused: BTreeMap::new(),
            ended: BTreeMap::new(),
            setup: Histogram::new(&SETUP),
            opening: Histogram::new(&OPENING),
        };
        Self {
            calls: AtomicU64::default(),
            offered: AtomicU64::default(),
            established: AtomicU64::default(),
            refused_by_middlebox: AtomicU64::default(),
            too_many: AtomicU64::default(),
            pinholes: AtomicU64::default(),
            tables: Mutex::new(tables),
        }
    }
}

fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

fn add(count: &AtomicU64, more: usize) {
    count.fetch_add(more as u64, Ordering::Relaxed);
}

impl Counters {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        // Whoever panicked with it left it whole: each change is one number.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn offered(&self) {
        add(&self.offered, 1);
    }

    /// The answer to an INVITE passes, so long after it came.
    pub(crate) fn established(&self, after: Duration) {
        add(&self.established, 1);
        self.tables().setup.record(after, 1);
    }

    /// A call is refused.
    pub(crate) fn refused(&self, by: By, status: u16) {
        *self.tables().refused.entry((by, status)).or_default() += 1;
    }

    pub(crate) fn too_many(&self) {
        add(&self.too_many, 1);
    }

    /// An established call has ended.
    pub(crate) fn ended(&self, how: CallEnd) {
        *self.tables().ended.entry(how).or_default() += 1;
    }

    pub(crate) fn refused_by_middlebox(&self) {
        add(&self.refused_by_middlebox, 1);
    }

    /// The middlebox took so long to open what an answer needs.
    pub(crate) fn took(&self, after: Duration) {
        self.tables().opening.record(after, 1);
    }

    /// A pinhole is open.
    pub(crate) fn opened(&self) {
        add(&self.pinholes, 1);
    }

    /// One is closed.
    pub(crate) fn closed(&self) {
        self.pinholes.fetch_sub(1, Ordering::Relaxed);
    }

    /// With what the door has counted.
    pub(crate) fn read(&self, TurnedAway { flooded, crowded }: TurnedAway) -> Counts {
        let tables = self.tables();
        let ended = |how| tables.ended.get(&how).copied().unwrap_or_default();
        Counts {
            calls: read(&self.calls),
            offered: read(&self.offered),
            established: read(&self.established),
            refused: tables.refused.values().sum(),
            refused_by_middlebox: read(&self.refused_by_middlebox),
            too_many: read(&self.too_many),
            crowded,
            flooded,
            pinholes: read(&self.pinholes),
            lost: ended(CallEnd::PinholeLost) + ended(CallEnd::Refused),
            vanished: ended(CallEnd::Vanished),
        }
    }

    /// All of it for Prometheus.
    pub(crate) fn metrics(&self, turned_away: TurnedAway, accept_failures: u64) -> String {
        let TurnedAway { flooded, crowded } = turned_away;
        let mut text = Exposition::new("carrick_calls");
        for (name, help, count) in [
            ("calls", "Calls, established or being set up.", &self.calls),
            ("pinholes", "Pinholes that are open.", &self.pinholes),
        ] {
            text.single(name, "gauge", help, read(count));
        }
        for (name, help, count) in [
            ("offered_total", "Calls that were offered.", &self.offered),
            (
                "established_total",
                "Calls that were established.",
                &self.established,
            ),
            (
                "middlebox_refusals_total",
                "Requests that the middlebox refused or did not answer.",
                &self.refused_by_middlebox,
            ),
        ] {
            text.single(name, "counter", help, read(count));
        }
        let help = "Requests that were dropped unread, in a flood.";
        text.single("flooded_total", "counter", help, flooded);
        let help = "INVITEs that were refused because too much came from their address.";
        text.single("crowded_total", "counter", help, crowded);
        let help = "Failed attempts to accept a connection, e.g. for lack of file descriptors.";
        text.single("accept_failures_total", "counter", help, accept_failures);
        let tables = self.tables();
        let help = "Calls that were not established, by who did not want them and the answer.";
        text.family("refused_total", "counter", help);
        for ((by, status), count) in &tables.refused {
            let labels = [("by", by.name()), ("status", &status.to_string())];
            text.value("refused_total", &labels, count);
        }
        let help = "Established calls that are over.";
        text.family("ended_total", "counter", help);
        for (how, count) in &tables.ended {
            text.value("ended_total", &[("end", how.name())], count);
        }
        let help = "From the INVITE to its positive answer.";
        text.histogram("setup_seconds", help, &tables.setup);
        let help = "What the middlebox took to open the pinholes of an answer.";
        text.histogram("opening_seconds", help, &tables.opening);
        text.finish()
    }
}
