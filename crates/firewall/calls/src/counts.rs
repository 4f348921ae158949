//! Counters of calls. This file owns the names of the metrics.

use std::time::Duration;

use carrick_metrics::encode_metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::record::CallEnd;

/// Upper limits of the buckets in seconds. Callees answer slowly, middleboxes fast.
const SETUP_BUCKETS: [f64; 10] = [0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];
const OPENING_BUCKETS: [f64; 12] = [
    5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0,
];

/// Snapshot of the counters. Each offered call was established or refused, or is being set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CallCounts {
    /// Current calls, established or being set up.
    pub calls: u64,
    /// Calls offered.
    pub offered: u64,
    /// Calls established.
    pub established: u64,
    /// Calls refused, or cancelled by the caller before the answer.
    pub refused: u64,
    /// Requests for pinholes that the middlebox refused or did not answer.
    pub refused_by_middlebox: u64,
    /// Calls refused because of [`B2buaConfig::max_calls`](crate::B2buaConfig::max_calls).
    pub too_many: u64,
    /// INVITEs refused because of [`PerAddress`](crate::PerAddress).
    pub crowded: u64,
    /// Requests dropped unprocessed under overload.
    pub flooded: u64,
    /// Open pinholes.
    pub pinholes: u64,
    /// Established calls ended because a pinhole was lost or a new one refused.
    pub lost: u64,
    /// Established calls ended because a side stopped answering.
    pub vanished: u64,
}

/// Requests that [`admission::Admission`](crate::admission::Admission) did not admit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotAdmitted {
    /// Requests dropped unprocessed under overload.
    pub(crate) flooded: u64,
    /// INVITEs refused because of the limits per address.
    pub(crate) crowded: u64,
}

/// Party that refused a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RefusedBy {
    /// The B2BUA: the request is invalid, or a limit is reached.
    Agent,
    /// The caller, who cancelled.
    Caller,
    Callee,
    Middlebox,
}

impl RefusedBy {
    fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Caller => "caller",
            Self::Callee => "callee",
            Self::Middlebox => "middlebox",
        }
    }
}

/// Labels of `refused_total`. Their number is bounded, since a status has three digits.
#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct RefusedLabels {
    by: &'static str,
    status: u16,
}

/// Labels of `ended_total`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct EndedLabels {
    end: &'static str,
}

impl EndedLabels {
    fn of(end: CallEnd) -> Self {
        Self { end: end.name() }
    }
}

#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) calls: Gauge,
    offered: Counter,
    established: Counter,
    /// Sum of `refused_by`.
    refused: Counter,
    refused_by_middlebox: Counter,
    too_many: Counter,
    pinholes: Gauge,
    refused_by: Family<RefusedLabels, Counter>,
    ended: Family<EndedLabels, Counter>,
    setup: Histogram,
    opening: Histogram,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            calls: Gauge::default(),
            offered: Counter::default(),
            established: Counter::default(),
            refused: Counter::default(),
            refused_by_middlebox: Counter::default(),
            too_many: Counter::default(),
            pinholes: Gauge::default(),
            refused_by: Family::default(),
            ended: Family::default(),
            setup: Histogram::new(SETUP_BUCKETS),
            opening: Histogram::new(OPENING_BUCKETS),
        }
    }
}

impl Counters {
    pub(crate) fn offered(&self) {
        self.offered.inc();
    }

    /// Counts a call whose INVITE was answered positively after this time.
    pub(crate) fn established(&self, after: Duration) {
        self.established.inc();
        self.setup.observe(after.as_secs_f64());
    }

    /// Counts a refused call.
    pub(crate) fn refused(&self, by: RefusedBy, status: u16) {
        self.refused.inc();
        let by = by.name();
        self.refused_by
            .get_or_create(&RefusedLabels { by, status })
            .inc();
    }

    pub(crate) fn too_many(&self) {
        self.too_many.inc();
    }

    /// Counts the end of an established call.
    pub(crate) fn ended(&self, end: CallEnd) {
        self.ended.get_or_create(&EndedLabels::of(end)).inc();
    }

    pub(crate) fn refused_by_middlebox(&self) {
        self.refused_by_middlebox.inc();
    }

    /// Records the time that the middlebox took to open the pinholes of an answer.
    pub(crate) fn pinholes_opened_in(&self, time: Duration) {
        self.opening.observe(time.as_secs_f64());
    }

    pub(crate) fn pinhole_opened(&self) {
        self.pinholes.inc();
    }

    pub(crate) fn pinhole_closed(&self) {
        self.pinholes.dec();
    }

    /// Returns a snapshot.
    pub(crate) fn read(&self, not_admitted: NotAdmitted) -> CallCounts {
        let NotAdmitted { flooded, crowded } = not_admitted;
        let current = |gauge: &Gauge| u64::try_from(gauge.get()).unwrap_or_default();
        let ended = |end| {
            let count = self.ended.get(&EndedLabels::of(end));
            count.map(|count| count.get()).unwrap_or_default()
        };
        CallCounts {
            calls: current(&self.calls),
            offered: self.offered.get(),
            established: self.established.get(),
            refused: self.refused.get(),
            refused_by_middlebox: self.refused_by_middlebox.get(),
            too_many: self.too_many.get(),
            crowded,
            flooded,
            pinholes: current(&self.pinholes),
            lost: ended(CallEnd::PinholeLost) + ended(CallEnd::Refused),
            vanished: ended(CallEnd::Vanished),
        }
    }

    /// Returns the metrics as text.
    pub(crate) fn metrics(&self, not_admitted: NotAdmitted, accept_failures: u64) -> String {
        let NotAdmitted { flooded, crowded } = not_admitted;
        let mut registry = Registry::with_prefix("carrick_calls");
        for (name, help, gauge) in [
            ("calls", "Calls, established or being set up", &self.calls),
            ("pinholes", "Open pinholes", &self.pinholes),
        ] {
            registry.register(name, help, gauge.clone());
        }
        for (name, help, counter) in [
            ("offered", "Calls offered", &self.offered),
            ("established", "Calls established", &self.established),
            (
                "middlebox_refusals",
                "Requests for pinholes that the middlebox refused or did not answer",
                &self.refused_by_middlebox,
            ),
        ] {
            registry.register(name, help, counter.clone());
        }
        for (name, help, count) in [
            (
                "overload_dropped",
                "Requests dropped unprocessed under overload",
                flooded,
            ),
            (
                "address_limit_refusals",
                "INVITEs refused because of the limits per address",
                crowded,
            ),
            (
                "accept_failures",
                "Failed attempts to accept a connection, e.g. for lack of file descriptors",
                accept_failures,
            ),
        ] {
            registry.register(name, help, ConstCounter::new(count));
        }
        registry.register(
            "refused",
            "Calls not established, by the party that refused and the status code",
            self.refused_by.clone(),
        );
        registry.register("ended", "Established calls that ended", self.ended.clone());
        registry.register(
            "setup_seconds",
            "Time from the INVITE to its positive answer",
            self.setup.clone(),
        );
        registry.register(
            "opening_seconds",
            "Time that the middlebox took to open the pinholes of an answer",
            self.opening.clone(),
        );
        encode_metrics(&registry)
    }
}
