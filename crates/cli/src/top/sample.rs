//! Rates of associations and paths between two lists of a daemon.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ss::PathState;

/// Row of an association in a list of a daemon, as far as it is needed.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct AssociationRow {
    association: i64,
    process: Option<i32>,
    local: Vec<String>,
    peer: Option<String>,
    state: String,
    stats: StatsRow,
    paths: Vec<PathRow>,
}

#[derive(Clone, Debug, Deserialize)]
struct StatsRow {
    counters: CountersRow,
    primary: Option<u64>,
    current: Option<u64>,
    send_buffer_bytes: u64,
    receive_buffer_bytes: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct CountersRow {
    data_bytes_sent: u64,
    data_bytes_received: u64,
    messages_sent: u64,
    messages_delivered: u64,
    retransmissions: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct PathRow {
    id: u64,
    local: Option<String>,
    remote: String,
    bytes_sent: u64,
    bytes_received: u64,
    data_chunks_lost: u64,
    error_count: u64,
    srtt: Option<Duration>,
    status: PathState,
}

/// Counters of the last list. An association or path that it does not have begins at 0.
#[derive(Debug, Default)]
pub(super) struct Counts(BTreeMap<(i64, Option<u64>), [u64; 5]>);

/// Association with its rates, all per second. Without an earlier list there are none.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct AssociationSample {
    pub(super) association: i64,
    pub(super) process: Option<i32>,
    pub(super) local: Vec<String>,
    pub(super) peer: Option<String>,
    pub(super) state: String,
    /// Bit/s of user data sent for the first time.
    pub(super) sent: Option<f64>,
    /// Bit/s of user data.
    pub(super) received: Option<f64>,
    pub(super) messages_sent: Option<f64>,
    pub(super) messages_received: Option<f64>,
    pub(super) retransmissions: Option<f64>,
    pub(super) send_buffer_bytes: u64,
    pub(super) receive_buffer_bytes: u64,
    pub(super) paths: Vec<PathSample>,
}

/// Path with its rates, as [`AssociationSample`].
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct PathSample {
    pub(super) local: Option<String>,
    pub(super) remote: String,
    pub(super) state: &'static str,
    pub(super) is_primary: bool,
    /// Carries new data.
    pub(super) is_current: bool,
    /// Bit/s of packets.
    pub(super) sent: Option<f64>,
    /// Bit/s of packets.
    pub(super) received: Option<f64>,
    pub(super) lost_chunks: Option<f64>,
    pub(super) error_count: u64,
    /// Smoothed round trip in ms.
    pub(super) srtt: Option<f64>,
}

impl AssociationSample {
    /// Returns whether a path is not active: in doubt, failed, or not confirmed yet.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.paths
            .iter()
            .any(|path| path.state != PathState::ACTIVE)
    }

    fn bits_per_second(&self) -> f64 {
        self.sent.unwrap_or(0.0) + self.received.unwrap_or(0.0)
    }
}

/// Returns the associations with the rates since `counts`, which is replaced, and `elapsed`: those with a path that
/// is not active first, then by rate.
pub(super) fn sample(
    rows: &[AssociationRow],
    elapsed: Option<Duration>,
    counts: &mut Counts,
) -> Vec<AssociationSample> {
    let mut rates = Rates {
        seconds: elapsed.map(|elapsed| elapsed.as_secs_f64()),
        before: std::mem::take(counts),
        now: Counts::default(),
    };
    let mut samples: Vec<AssociationSample> = rows
        .iter()
        .map(|row| association(row, &mut rates))
        .collect();
    *counts = rates.now;
    samples.sort_by(|one, other| {
        let by_rate = || other.bits_per_second().total_cmp(&one.bits_per_second());
        let by_number = || one.association.cmp(&other.association);
        let by_doubt = other.is_in_doubt().cmp(&one.is_in_doubt());
        by_doubt.then_with(by_rate).then_with(by_number)
    });
    samples
}

struct Rates {
    seconds: Option<f64>,
    before: Counts,
    now: Counts,
}

impl Rates {
    /// Returns the rates of counters, and remembers these.
    fn of(&mut self, association: i64, path: Option<u64>, counters: [u64; 5]) -> [Option<f64>; 5] {
        let key = (association, path);
        self.now.0.insert(key, counters);
        let before = self.before.0.get(&key).copied().unwrap_or_default();
        let mut rates = [None; 5];
        for ((rate, now), before) in rates.iter_mut().zip(counters).zip(before) {
            // Another association has the number, if a counter is lower.
            let since = now.checked_sub(before).unwrap_or(now);
            *rate = self.seconds.map(|seconds| since as f64 / seconds);
        }
        rates
    }
}

fn association(row: &AssociationRow, rates: &mut Rates) -> AssociationSample {
    let counters = &row.stats.counters;
    let [
        sent,
        received,
        messages_sent,
        messages_received,
        retransmissions,
    ] = rates.of(
        row.association,
        None,
        [
            8 * counters.data_bytes_sent,
            8 * counters.data_bytes_received,
            counters.messages_sent,
            counters.messages_delivered,
            counters.retransmissions,
        ],
    );
    let paths = row.paths.iter().map(|path| path_sample(row, path, rates));
    AssociationSample {
        paths: paths.collect(),
        association: row.association,
        process: row.process,
        local: row.local.clone(),
        peer: row.peer.clone(),
        state: row.state.clone(),
        sent,
        received,
        messages_sent,
        messages_received,
        retransmissions,
        send_buffer_bytes: row.stats.send_buffer_bytes,
        receive_buffer_bytes: row.stats.receive_buffer_bytes,
    }
}

fn path_sample(row: &AssociationRow, path: &PathRow, rates: &mut Rates) -> PathSample {
    let counters = [
        8 * path.bytes_sent,
        8 * path.bytes_received,
        path.data_chunks_lost,
        0,
        0,
    ];
    let [sent, received, lost_chunks, ..] = rates.of(row.association, Some(path.id), counters);
    PathSample {
        local: path.local.clone(),
        remote: path.remote.clone(),
        state: path.status.name(),
        is_primary: row.stats.primary == Some(path.id),
        is_current: row.stats.current == Some(path.id),
        sent,
        received,
        lost_chunks,
        error_count: path.error_count,
        srtt: path.srtt.map(|srtt| srtt.as_secs_f64() * 1e3),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns a row with two paths, each with a tenth of the bytes.
    pub(in crate::top) fn row(
        association: i64,
        bytes: u64,
        is_second_active: bool,
    ) -> AssociationRow {
        let path = |id: u64, is_active: bool| {
            json!({
                "id": id, "local": format!("10.{id}.0.1"), "remote": format!("10.{id}.0.2"), "bytes_sent": bytes / 10,
                "bytes_received": 0, "data_chunks_lost": id, "error_count": 0, "srtt": Value::Null, "further": 7,
                "status": {"confirmed": true, "active": is_active, "potentially_failed": false},
            })
        };
        let row = json!({
            "association": association, "process": 7, "local": ["10.0.0.1:5000"], "peer": "10.0.0.2:5000",
            "state": "Established", "paths": [path(0, true), path(1, is_second_active)],
            "stats": {
                "primary": 0, "current": 0, "send_buffer_bytes": 1, "receive_buffer_bytes": 2,
                "counters": {
                    "data_bytes_sent": bytes, "data_bytes_received": 0, "messages_sent": bytes / 100,
                    "messages_delivered": 0, "retransmissions": 3,
                },
            },
        });
        serde_json::from_value(row).unwrap()
    }

    #[test]
    fn rates_are_differences_by_time() {
        let mut counts = Counts::default();
        let first = sample(&[row(1, 1000, true)], None, &mut counts);
        assert_eq!((first[0].sent, first[0].paths[0].sent), (None, None));
        let two = Duration::from_secs(2);
        let second = sample(&[row(1, 3000, true)], Some(two), &mut counts);
        assert_eq!(second[0].sent, Some(8000.0));
        assert_eq!(second[0].messages_sent, Some(10.0));
        assert_eq!(second[0].retransmissions, Some(0.0));
        assert_eq!(second[0].paths[1].sent, Some(800.0));
        // An association that began since, and one that has the number of another one.
        let third = sample(
            &[row(1, 500, true), row(2, 100, true)],
            Some(two),
            &mut counts,
        );
        assert_eq!(
            third.iter().map(|one| one.sent).collect::<Vec<_>>(),
            [Some(2000.0), Some(400.0)]
        );
    }

    #[test]
    fn associations_in_doubt_come_first() {
        let rows = [row(1, 10, true), row(2, 1000, true), row(3, 0, false)];
        let mut counts = Counts::default();
        let sampled = sample(&rows, Some(Duration::from_secs(1)), &mut counts);
        let order: Vec<i64> = sampled.iter().map(|one| one.association).collect();
        assert_eq!(order, [3, 2, 1]);
        assert_eq!(sampled[0].paths[1].state, "inactive");
    }
}
