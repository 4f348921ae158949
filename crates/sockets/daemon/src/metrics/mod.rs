//! Metrics of the daemon. This module owns their names: those of RFC 3873's objects in lower case, and others.

/// Table of metrics: name, help and value of each.
macro_rules! table {
    ($($name:literal, $help:literal, $value:expr;)*) => {
        [$(($name, $help, $value)),*]
    };
}

mod associations;
mod server;

use carrick_proto::{CloseReason, ReportKind, StateName};
use carrick_sockets::EventCounters;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

use crate::statistics::DaemonStatistics;

pub(crate) use server::{MetricsServer, Scrape};

/// Labels of one series.
type Labels = [(&'static str, &'static str); 1];

/// Returns all metrics.
pub(crate) fn registry(statistics: &DaemonStatistics) -> Registry {
    let mut registry = Registry::with_prefix("carrick_sctp");
    for (name, help, value) in gauges(statistics) {
        registry.register(name, help, ConstGauge::new(value as i64));
    }
    let host = &statistics.host;
    for counter in host.metrics.counters() {
        registry.register(counter.name, counter.help, ConstCounter::new(counter.value));
    }
    let refused = ConstCounter::new(host.refused_options);
    registry.register(
        "refused_options",
        "Socket options refused with ENOPROTOOPT",
        refused,
    );
    let failures = ConstCounter::new(statistics.descriptor_failures);
    let help = "Descriptors and connections that could not be opened at the limits of a user or of the process";
    registry.register("descriptor_failures", help, failures);
    let suppressed = ConstCounter::new(statistics.suppressed_lines);
    let help = "Lines about associations that the log suppressed";
    registry.register("log_suppressed", help, suppressed);
    register_events(&mut registry, &host.events);
    let states = StateName::ALIVE.map(|state| {
        let count = host.metrics.states.get(&state).copied().unwrap_or(0);
        (state.name(), count)
    });
    let help = "Associations by state";
    register_family(&mut registry, "associations", help, "state", &states);
    let paths = host.metrics.paths.by_name();
    let help = "Paths of associations by state";
    register_family(&mut registry, "paths", help, "state", &paths);
    let users = [
        ("descriptors", statistics.users_at_descriptors),
        ("clients", statistics.users_at_clients),
    ];
    let help = "Users at their limit, by resource";
    register_family(&mut registry, "users_at_limit", help, "resource", &users);
    associations::register(&mut registry, &statistics.associations);
    registry
}

fn register_events(registry: &mut Registry, events: &EventCounters) {
    let paths: Family<Labels, Counter> = Family::default();
    for (kind, count) in ReportKind::OF_PATHS.iter().zip(events.paths) {
        let counter = paths.get_or_create(&[("event", kind.name())]).clone();
        counter.inc_by(count);
    }
    registry.register("path_events", "Events of paths of associations", paths);
    let ends: Family<Labels, Counter> = Family::default();
    for (reason, count) in CloseReason::NAMES.iter().zip(events.ends) {
        let counter = ends.get_or_create(&[("reason", *reason)]).clone();
        counter.inc_by(count);
    }
    let help = "Associations that ended, set-ups that failed included, by reason";
    registry.register("association_ends", help, ends);
}

fn register_family(
    registry: &mut Registry,
    name: &str,
    help: &str,
    label: &'static str,
    values: &[(&'static str, usize)],
) {
    let family: Family<Labels, Gauge> = Family::default();
    for (value, count) in values {
        family.get_or_create(&[(label, *value)]).set(*count as i64);
    }
    registry.register(name, help, family);
}

/// Returns the gauges: name, help and value.
fn gauges(statistics: &DaemonStatistics) -> [(&'static str, &'static str, usize); 8] {
    let host = &statistics.host;
    [
        (
            "curr_estab",
            "Associations in ESTABLISHED, SHUTDOWN-RECEIVED or SHUTDOWN-PENDING (sctpCurrEstab)",
            host.metrics.established(),
        ),
        (
            "max_assocs",
            "Limit of associations (sctpMaxAssocs)",
            host.max_associations,
        ),
        (
            "sockets",
            "Sockets, those in accept queues included",
            host.sockets,
        ),
        (
            "descriptors",
            "Descriptors of programs",
            statistics.descriptors,
        ),
        (
            "clients",
            "Connections of programs to the control socket",
            statistics.clients,
        ),
        (
            "unlisted_associations",
            "Associations without metrics of their own",
            statistics.unlisted_associations,
        ),
        (
            "receive_memory_bytes",
            "Received data that programs have not read",
            host.receive_memory,
        ),
        (
            "receive_memory_limit_bytes",
            "Limit of the received data that programs have not read",
            host.receive_memory_limit,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use carrick_metrics::encode_metrics;
    use carrick_proto::Time;
    use carrick_sockets::{Family, OverviewRow, OverviewSubject, Sockets, Style};

    /// RFC 3873, section 3.2
    #[test]
    fn metrics_have_the_names_of_the_mib() {
        let text = encode_metrics(&registry(&DaemonStatistics::default()));
        for line in [
            "# TYPE carrick_sctp_curr_estab gauge\n",
            "carrick_sctp_curr_estab 0\n",
            "# TYPE carrick_sctp_active_estabs counter\n",
            "carrick_sctp_out_unorder_chunks_total 0\n",
            "carrick_sctp_associations{state=\"established\"} 0\n",
            "carrick_sctp_paths{state=\"potentially-failed\"} 0\n",
            "carrick_sctp_users_at_limit{resource=\"clients\"} 0\n",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    /// Statistics with metrics of an association that has a path.
    fn with_an_association() -> DaemonStatistics {
        let addresses = vec![[127, 0, 0, 1].into()];
        let mut sockets = Sockets::new(carrick_sockets::Config::new(addresses, [1; 32])).unwrap();
        let socket = sockets.socket(Style::OneToOne, Family::Inet).unwrap();
        let peer = std::net::SocketAddr::from(([127, 0, 0, 2], 5000));
        // The set-up begins.
        let _ = sockets.connect(Time::ZERO, socket, peer);
        let mut associations: Vec<OverviewRow> = sockets
            .overview(None)
            .filter(|row| row.key.association != 0)
            .collect();
        let [row] = &mut associations[..] else {
            panic!("one association");
        };
        if let OverviewSubject::Association { paths, .. } = &mut row.subject {
            paths[0].srtt = Some(paths[0].rto);
        }
        DaemonStatistics {
            associations,
            ..DaemonStatistics::default()
        }
    }

    /// The table of the manual has all metrics, and only those.
    #[test]
    fn the_manual_lists_all_metrics() {
        let text = encode_metrics(&registry(&with_an_association()));
        let names = text.lines().filter_map(|line| {
            let mut words = line.strip_prefix("# TYPE ")?.split(' ');
            let (name, kind) = (words.next()?, words.next()?);
            let suffix = if kind == "counter" { "_total" } else { "" };
            Some(format!("{name}{suffix}"))
        });
        let manual = include_str!("../../../../../docs/sockets.md");
        let listed = manual.lines().filter_map(|line| {
            let name = line.strip_prefix("| `carrick_sctp_")?;
            let end = name.find(['`', '{'])?;
            Some(format!("carrick_sctp_{}", &name[..end]))
        });
        let sorted = |names: &mut dyn Iterator<Item = String>| {
            names.collect::<std::collections::BTreeSet<String>>()
        };
        assert_eq!(
            sorted(&mut names.into_iter()),
            sorted(&mut listed.into_iter())
        );
    }
}
