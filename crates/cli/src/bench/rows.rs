//! Rows: what is measured, and by which programs.

use super::Bench;
use super::measure::{
    FAT, THIN, bulk, clients, emulated, idle_memory, link, lossy, memory, namespaces, on_curve,
    root, round_trip, set_ups, without_offload,
};
use super::programs::Program;
use crate::failure::Failure;

/// Measured quantity of a row.
#[derive(Clone, Copy)]
pub(super) struct Column {
    /// Name in JSON.
    pub(super) key: &'static str,
    /// Name with unit in tables.
    pub(super) title: &'static str,
}

/// A measurement and the programs that take part.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) columns: &'static [Column],
    /// Programs of this executable; ratios refer to the first.
    own: &'static [&'static str],
    /// Verb that a peer program needs to take part; none takes part without.
    verb: Option<&'static str>,
    /// One round is enough, because nothing is random and no clock is involved.
    pub(super) is_deterministic: bool,
    /// Returns the reason why the row cannot be measured here, and what to do.
    pub(super) obstacle: fn() -> Option<String>,
    /// Measures a program once, and returns a value for each column.
    pub(super) measure: fn(&Bench, &Program) -> Result<Vec<f64>, String>,
}

const COST: &[Column] = &[
    Column {
        key: "cpu_seconds_per_gb",
        title: "CPU s/GB",
    },
    Column {
        key: "megabytes_per_second",
        title: "MB/s",
    },
];

const IN_MEMORY: &[Column] = &[
    Column {
        key: "cpu_ns_per_message",
        title: "CPU ns a message",
    },
    Column {
        key: "cpu_seconds_per_gb",
        title: "CPU s/GB",
    },
];

const LINK: &[Column] = &[
    Column {
        key: "percent_of_link",
        title: "% of the link",
    },
    Column {
        key: "cpu_seconds_per_gb",
        title: "CPU s/GB simulated",
    },
    Column {
        key: "data_packets_per_cpu_second",
        title: "data packets a CPU s",
    },
];

const LOOPBACK: &[&str] = &["carrick", "carrick-9000", "tcp", "udp", "udp-offload"];
const CORE: &[&str] = &["carrick", "carrick-rfc9260"];

/// Values of a row over loopback with the other programs, of which most rows differ in a few fields.
const BULK: Row = Row {
    name: "",
    about: "",
    columns: COST,
    own: LOOPBACK,
    verb: Some("send"),
    is_deterministic: false,
    obstacle: || None,
    measure: |_, _| Err(String::new()),
};

/// Values of a row in memory.
const MEMORY: Row = Row {
    columns: IN_MEMORY,
    own: CORE,
    verb: Some("memory"),
    ..BULK
};

/// Values of a row on a simulated link.
const SIMULATED: Row = Row {
    columns: LINK,
    own: &["carrick", "carrick-bbr"],
    verb: None,
    is_deterministic: true,
    ..BULK
};

/// Returns the row of a curve, whose programs are points.
const fn curve(
    name: &'static str,
    about: &'static str,
    points: &'static [&'static str],
    measure: fn(&Bench, &Program) -> Result<Vec<f64>, String>,
) -> Row {
    Row {
        name,
        about,
        columns: &[Column {
            key: "cpu_ns_per_chunk",
            title: "CPU ns a chunk",
        }],
        own: points,
        verb: None,
        measure,
        ..BULK
    }
}

/// Rows of `--curves`. Messages have 1,400 bytes where nothing else is stated.
pub(super) const CURVES: &[Row] = &[
    curve(
        "size",
        "bytes of a message",
        &[
            "16", "100", "1024", "1400", "4096", "16384", "65536", "262144", "1048576",
        ],
        |bench, point| on_curve(bench, point, "size"),
    ),
    curve(
        "streams",
        "streams with messages of 100 bytes in turn",
        &["1", "10", "100", "1000", "10000", "65535"],
        |bench, point| on_curve(bench, point, "streams"),
    ),
    curve(
        "associations",
        "associations of a server, each with a message of 100 bytes a second",
        &["1", "10", "100", "1000", "10000", "100000"],
        |bench, point| on_curve(bench, point, "associations"),
    ),
    curve(
        "window",
        "bytes of the send and of the receive buffer",
        &["16384", "65536", "262144", "1048576", "4194304", "16777216"],
        |bench, point| on_curve(bench, point, "window"),
    ),
    curve(
        "loss",
        "lost packets of 10,000",
        &["0", "1", "10", "100", "300", "1000"],
        |bench, point| on_curve(bench, point, "loss"),
    ),
    curve(
        "reordering",
        "packets of 1,000 that arrive behind the three after them",
        &["0", "1", "10", "100"],
        |bench, point| on_curve(bench, point, "reordering"),
    ),
    curve(
        "paths",
        "paths of an association, the first with data",
        &["1", "2", "4", "8"],
        |bench, point| on_curve(bench, point, "paths"),
    ),
];

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "bulk-64k",
        about: "messages of 64 KiB one way over loopback, packets of up to 1500 bytes in UDP",
        measure: |bench, program| bulk(bench, program, 65_536),
        ..BULK
    },
    Row {
        name: "no-offload",
        about: "messages of 64 KiB one way in a network namespace whose loopback has an MTU of 1500 and no segmentation \
                or receive offload",
        own: &["carrick", "tcp", "udp"],
        obstacle: namespaces,
        measure: without_offload,
        ..BULK
    },
    Row {
        name: "bulk-1k",
        about: "messages of 1 KiB one way over loopback",
        measure: |bench, program| bulk(bench, program, 1024),
        ..BULK
    },
    Row {
        name: "bulk-100",
        about: "messages of 100 bytes one way over loopback",
        measure: |bench, program| bulk(bench, program, 100),
        ..BULK
    },
    Row {
        name: "clients",
        about: "messages of 64 KiB over loopback from one, two and four clients to one server, at the same time; \
                carrick-4x2: from four clients to a server with two shards",
        columns: &[
            COST[0],
            COST[1],
            Column {
                key: "server_cpu_seconds_per_gb",
                title: "server s/GB",
            },
        ],
        own: &["carrick", "carrick-2", "carrick-4", "carrick-4x2"],
        verb: None,
        measure: clients,
        ..BULK
    },
    Row {
        name: "plain-ip",
        about: "messages of 64 KiB one way over loopback, SCTP in UDP and directly on IP",
        own: &["carrick", "carrick-ip"],
        verb: None,
        obstacle: root,
        measure: |bench, program| bulk(bench, program, 65_536),
        ..BULK
    },
    Row {
        name: "unbatched",
        about: "messages of 64 KiB over an emulated link of 100 Mbit/s with a round trip of 20 ms, whose packets offload \
                cannot batch: CPU time for each packet with data",
        columns: &[
            Column {
                key: "sender_us_per_packet",
                title: "sender us",
            },
            Column {
                key: "receiver_us_per_packet",
                title: "receiver us",
            },
        ],
        own: &["carrick"],
        verb: None,
        obstacle: root,
        measure: emulated,
        ..BULK
    },
    Row {
        name: "emulated-loss-1",
        about: "messages of 64 KiB over the same link with 1 % loss; TCP with CUBIC and with BBR",
        columns: &[Column {
            key: "percent_of_link",
            title: "% of the link",
        }],
        own: &["carrick", "tcp", "tcp-bbr"],
        verb: None,
        obstacle: root,
        measure: lossy,
        ..BULK
    },
    Row {
        name: "round-trip",
        about: "round trips of 100 bytes over loopback, each end a process",
        columns: &[
            Column {
                key: "p50_us",
                title: "p50 us",
            },
            Column {
                key: "p99_us",
                title: "p99 us",
            },
            Column {
                key: "cpu_us",
                title: "CPU us",
            },
        ],
        own: &["carrick", "tcp", "udp"],
        verb: Some("ping"),
        measure: round_trip,
        ..BULK
    },
    Row {
        name: "memory-64k",
        about: "messages of 64 KiB in memory, both ends in one thread",
        measure: |bench, program| memory(bench, program, "65536"),
        ..MEMORY
    },
    Row {
        name: "memory-full",
        about: "messages of 1,400 bytes in memory, each a packet with one DATA chunk",
        measure: |bench, program| memory(bench, program, "1400"),
        ..MEMORY
    },
    Row {
        name: "memory-100",
        about: "messages of 100 bytes in memory, bundled",
        measure: |bench, program| memory(bench, program, "100"),
        ..MEMORY
    },
    Row {
        name: "set-ups",
        about: "associations set up in memory and aborted, both ends in one thread",
        columns: &[Column {
            key: "per_cpu_second",
            title: "a CPU second",
        }],
        verb: Some("set-ups"),
        measure: set_ups,
        ..MEMORY
    },
    Row {
        name: "idle-memory",
        about: "resident memory that an association adds at an end, one path: fresh, and after a message of 100 bytes \
                each way",
        columns: &[
            Column {
                key: "bytes_fresh",
                title: "B fresh",
            },
            Column {
                key: "bytes_used",
                title: "B after use",
            },
        ],
        verb: Some("idle"),
        measure: idle_memory,
        ..MEMORY
    },
    Row {
        name: "long-link",
        about: "1 GB over a simulated link of 1 Gbit/s with a round trip of 100 ms",
        measure: |bench, program| link(bench, program, &FAT, "0 %", 1000),
        ..SIMULATED
    },
    Row {
        name: "long-link-loss-0.1",
        about: "300 MB over the same link with 0.1 % loss",
        measure: |bench, program| link(bench, program, &FAT, "0.1 %", 300),
        ..SIMULATED
    },
    Row {
        name: "long-link-loss-1",
        about: "300 MB over the same link with 1 % loss",
        measure: |bench, program| link(bench, program, &FAT, "1 %", 300),
        ..SIMULATED
    },
    Row {
        name: "lossy-link-0.1",
        about: "250 MB over a simulated link of 100 Mbit/s with a round trip of 50 ms and 0.1 % loss",
        measure: |bench, program| link(bench, program, &THIN, "0.1 %", 250),
        ..SIMULATED
    },
    Row {
        name: "lossy-link-1",
        about: "250 MB over the same link with 1 % loss",
        measure: |bench, program| link(bench, program, &THIN, "1 %", 250),
        ..SIMULATED
    },
];

/// Returns the rows of these names, or all; with `curves`, those of `--curves`.
pub(super) fn select(names: &[String], curves: bool) -> Result<Vec<&'static Row>, Failure> {
    let rows = if curves { CURVES } else { ROWS };
    if names.is_empty() {
        return Ok(rows.iter().collect());
    }
    let row = |name: &String| {
        rows.iter().find(|row| row.name == name).ok_or_else(|| {
            let known: Vec<&str> = rows.iter().map(|row| row.name).collect();
            Failure::Usage(format!(
                "there is no row {name:?}; the rows are {}",
                known.join(", ")
            ))
        })
    };
    names.iter().map(row).collect()
}

impl Row {
    /// Returns the names of the programs of this executable.
    pub(super) fn own(&self) -> &'static [&'static str] {
        self.own
    }

    /// Returns whether a peer program takes part.
    pub(super) fn includes(&self, peer: &Program) -> bool {
        self.verb.is_some_and(|verb| peer.is_able(verb))
    }

    /// Returns the programs that take part.
    pub(super) fn programs(&self, peers: &[Program]) -> Vec<Program> {
        let own = self.own.iter().map(|name| Program::own(name));
        let able = peers.iter().filter(|peer| self.includes(peer)).cloned();
        own.chain(able).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::end::memory::curves::Curve;
    use super::*;

    #[test]
    fn rows_have_unique_names() {
        let mut names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROWS.len());
        assert!(ROWS.iter().all(|row| row.own[0] == "carrick"));
        let known = Curve::ALL.map(|(name, _)| name);
        assert!(CURVES.iter().map(|row| row.name).eq(known));
    }
}
