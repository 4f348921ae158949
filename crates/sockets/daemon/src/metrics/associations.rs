//! Metrics of single associations and of their paths, for as many as the configuration sets.

use std::sync::atomic::AtomicU64;

use carrick_proto::{AssociationStats, PathStats};
use carrick_sockets::{OverviewRow, OverviewSubject};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Labels of one series.
type Labels = Vec<(&'static str, String)>;

type Gauges = Family<Labels, Gauge>;
type Seconds = Family<Labels, Gauge<f64, AtomicU64>>;
type Counters = Family<Labels, Counter>;

/// Families of metrics.
#[derive(Default)]
struct Families {
    association_info: Gauges,
    outstanding: Gauges,
    send_buffer: Gauges,
    receive_buffer: Gauges,
    data_sent: Counters,
    data_received: Counters,
    retransmissions: Counters,
    path_info: Gauges,
    path_errors: Gauges,
    path_rto: Seconds,
    path_srtt: Seconds,
    path_cwnd: Gauges,
    path_sent: Counters,
    path_received: Counters,
}

/// Registers the metrics of associations.
pub(crate) fn register(registry: &mut Registry, associations: &[OverviewRow]) {
    let families = Families::default();
    for row in associations {
        if let OverviewSubject::Association {
            peer,
            stats: Some(stats),
            paths,
            ..
        } = &row.subject
        {
            let number = row.key.association.to_string();
            let port = row.local.first().map_or(0, |local| local.port());
            let state = stats.state.name();
            let labels = vec![
                ("association", number.clone()),
                ("local_port", port.to_string()),
                ("peer", peer.to_string()),
                ("state", state.into()),
            ];
            families.association_info.get_or_create(&labels).set(1);
            families.add_association(&number, stats);
            for path in paths {
                families.add_path(&number, stats, path);
            }
        }
    }
    families.register(registry);
}

impl Families {
    fn add_association(&self, number: &str, stats: &AssociationStats) {
        let labels = vec![("association", number.to_owned())];
        for (gauges, bytes) in [
            (&self.outstanding, stats.outstanding_bytes),
            (&self.send_buffer, stats.send_buffer_bytes),
            (&self.receive_buffer, stats.receive_buffer_bytes),
        ] {
            gauges.get_or_create(&labels).set(bytes as i64);
        }
        let counters = &stats.counters;
        for (family, count) in [
            (&self.data_sent, counters.data_bytes_sent),
            (&self.data_received, counters.data_bytes_received),
            (&self.retransmissions, counters.retransmissions),
        ] {
            family.get_or_create(&labels).inc_by(count);
        }
    }

    fn add_path(&self, number: &str, stats: &AssociationStats, path: &PathStats) {
        let labels = vec![
            ("association", number.to_owned()),
            ("destination", path.remote.to_string()),
        ];
        let address = |ip: Option<std::net::IpAddr>| ip.map_or(String::new(), |ip| ip.to_string());
        let is = |id| Some(path.id) == id;
        let mut info = labels.clone();
        info.extend([
            ("source", address(path.local)),
            ("selected_source", address(path.selected)),
            ("state", path.status.name().to_owned()),
            ("primary", is(stats.primary).to_string()),
            ("current", is(stats.current).to_string()),
        ]);
        self.path_info.get_or_create(&info).set(1);
        let errors = i64::from(path.error_count);
        self.path_errors.get_or_create(&labels).set(errors);
        let rto = path.rto.as_secs_f64();
        self.path_rto.get_or_create(&labels).set(rto);
        if let Some(srtt) = path.srtt {
            let srtt = srtt.as_secs_f64();
            self.path_srtt.get_or_create(&labels).set(srtt);
        }
        self.path_cwnd.get_or_create(&labels).set(path.cwnd as i64);
        let (sent, received) = (path.packets_sent, path.packets_received);
        self.path_sent.get_or_create(&labels).inc_by(sent);
        self.path_received.get_or_create(&labels).inc_by(received);
    }

    fn register(self, registry: &mut Registry) {
        for (name, help, gauges) in table! {
            "association_info", "Associations with metrics of their own; the value is 1", self.association_info;
            "association_outstanding_bytes", "User data sent and not acknowledged", self.outstanding;
            "association_send_buffer_bytes", "Messages in the send buffer", self.send_buffer;
            "association_receive_buffer_bytes", "Received data that the program has not read", self.receive_buffer;
            "path_info", "Paths of these associations; the value is 1", self.path_info;
            "path_error_count", "Error counter of the path", self.path_errors;
            "path_cwnd_bytes", "Congestion window of the path", self.path_cwnd;
        } {
            registry.register(name, help, gauges);
        }
        for (name, help, seconds) in table! {
            "path_rto_seconds", "Retransmission timeout of the path", self.path_rto;
            "path_srtt_seconds", "Smoothed round-trip time of the path", self.path_srtt;
        } {
            registry.register(name, help, seconds);
        }
        for (name, help, counters) in table! {
            "association_user_data_sent_bytes", "User data sent in DATA chunks, without retransmissions", self.data_sent;
            "association_user_data_received_bytes", "User data received in DATA chunks, without duplicates",
                self.data_received;
            "association_retransmissions", "DATA chunks retransmitted", self.retransmissions;
            "path_packets_sent", "Packets sent on the path", self.path_sent;
            "path_packets_received", "Packets received on the path", self.path_received;
        } {
            registry.register(name, help, counters);
        }
    }
}
