//! Network and cells of the paper, and settings of the variants.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use carrick_netsim::{ConfigError, LinkConfig, Loss, Network, NetworkBuilder, Node, NodeId};
use carrick_proto::AssociationConfig;
use carrick_proto::research::Policies;
use carrick_simco::load::Workload;
use carrick_simco::model::Model;

use crate::live::World;

/// Rate of the link in bit/s.
pub(super) const RATE: u64 = 100_000_000;
/// One-way delay.
pub(super) const DELAY: Duration = Duration::from_millis(10);
/// Processing time of a request at the middlebox (δ).
pub(super) const PROCESSING: Duration = Duration::from_micros(500);

/// Address of the agent.
pub(super) const AGENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 0, 1));
/// Address of the middlebox.
pub(super) const MIDDLEBOX: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 0, 2));

/// Loss rates in per mille, in each direction.
pub(super) const LOSSES: [u32; 8] = [0, 5, 10, 20, 30, 50, 70, 100];
/// Numbers of stream pairs.
pub(super) const STREAMS: [u16; 7] = [1, 2, 3, 4, 6, 8, 10];

/// Builds the two hosts on one link, without programs.
fn hosts(seed: u64, loss: f64) -> (NetworkBuilder, [NodeId; 2]) {
    let loss = if loss > 0.0 {
        Loss::Random(loss)
    } else {
        Loss::None
    };
    let link = LinkConfig::new(RATE, DELAY).with_loss(loss);
    let mut builder = NetworkBuilder::new(seed);
    let hosts = ["agent", "middlebox"].map(|name| builder.add_host(name));
    let ends = [
        builder.add_interface(hosts[0], [AGENT]),
        builder.add_interface(hosts[1], [MIDDLEBOX]),
    ];
    builder.connect_both(ends[0], ends[1], link);
    (builder, hosts)
}

/// Builds the network of a cell for a live run.
pub(super) fn live_world(seed: u64, loss: f64) -> Result<World, ConfigError> {
    let (builder, hosts) = hosts(seed, loss);
    Ok(World {
        network: builder.build()?,
        hosts: vec![hosts],
        changes: Vec::new(),
    })
}

/// Builds the network of a cell with its programs.
pub(super) fn network(
    seed: u64,
    loss: f64,
    agent: Box<dyn Node>,
    middlebox: Box<dyn Node>,
) -> Result<(Network, [NodeId; 2]), ConfigError> {
    let (mut builder, hosts) = hosts(seed, loss);
    builder.set_node_program(hosts[0], agent);
    builder.set_node_program(hosts[1], middlebox);
    Ok((builder.build()?, hosts))
}

/// Settings of the stack, the same at both ends.
#[derive(Clone, Copy)]
pub(super) struct Variant {
    /// First part of the identifiers of its rows.
    pub(super) id: &'static str,
    /// Label.
    pub(super) label: &'static str,
    /// Transport of the messages.
    pub(super) transport: Transport,
}

/// Transport of the messages.
#[derive(Clone, Copy)]
pub(super) enum Transport {
    /// SCTP with these settings.
    Sctp(fn() -> AssociationConfig),
    /// TCP, with the messages in one byte stream.
    Tcp,
}

impl Variant {
    /// Returns the settings of SCTP, if it is the transport.
    pub(super) fn config(&self) -> Option<AssociationConfig> {
        match self.transport {
            Transport::Sctp(config) => Some(config()),
            Transport::Tcp => None,
        }
    }
}

/// Settings of the paper's stack of 2005, as far as specified: three missing reports, repeatedly
/// ("multiple fast retransmits"), "nodelay"; otherwise RFC 9260.
pub(super) const PAPER: Variant = Variant {
    id: "sctp",
    label: "SCTP",
    transport: Transport::Sctp(paper),
};

/// Control: RFC 9260, where a chunk is fast retransmitted once, and a lost retransmission waits for
/// T3-rtx with RTO.Min 1 s.
pub(super) const ONCE: Variant = Variant {
    id: "once",
    label: "control: fast retransmit once (RFC 9260)",
    transport: Transport::Sctp(once),
};

/// Best settings of this stack: loss detection by time (RACK), a SACK for each packet, RTO.Min 100
/// ms.
pub(super) const BEST: Variant = Variant {
    id: "best",
    label: "best settings",
    transport: Transport::Sctp(best),
};

/// TCP, which has one stream.
pub(super) const TCP: Variant = Variant {
    id: "tcp",
    label: "TCP",
    transport: Transport::Tcp,
};

fn once() -> AssociationConfig {
    AssociationConfig::rfc9260().with(|c| c.transmission.nagle = false)
}

fn paper() -> AssociationConfig {
    once().with(|c| {
        c.research.policies = Policies {
            repeated_fast_retransmit: true,
            ..Policies::default()
        }
    })
}

fn best() -> AssociationConfig {
    AssociationConfig::modern().with(|c| {
        c.transmission.nagle = false;
        c.timers.sack_frequency = 1;
        c.timers.rto_min = Duration::from_millis(100);
    })
}

/// Returns all cells: the complete table for the paper's settings, its edges for the remaining
/// ones.
pub(super) fn cells() -> Vec<(&'static Variant, Cell)> {
    let table = |variant: &'static Variant, losses: &'static [u32], streams: &'static [u16]| {
        let row = move |loss: &u32| {
            let loss = *loss;
            streams.iter().map(move |streams| {
                let streams = *streams;
                (variant, Cell { loss, streams })
            })
        };
        losses.iter().flat_map(row)
    };
    table(&PAPER, &LOSSES, &STREAMS)
        .chain(table(&TCP, &LOSSES, &[1]))
        .chain(table(&ONCE, &[10, 20, 50], &[1, 6]))
        .chain(table(&BEST, &[10, 20, 50, 100], &[1, 6]))
        .collect()
}

/// A cell of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cell {
    /// Loss in per mille, in each direction.
    pub(super) loss: u32,
    /// Number of stream pairs.
    pub(super) streams: u16,
}

impl Cell {
    /// Returns the loss as a probability.
    pub(super) fn loss(self) -> f64 {
        f64::from(self.loss) / 1e3
    }

    /// Returns the loss in per cent.
    pub(super) fn percent(self) -> f64 {
        f64::from(self.loss) / 10.0
    }

    /// Returns the value of the model in ms.
    pub(super) fn model(self) -> f64 {
        Model::paper(self.loss()).response(u32::from(self.streams))
    }
}

/// Returns the workload of the paper.
pub(super) fn workload() -> Workload {
    Workload {
        // Requests of the preload are bundled.
        preload_window: 256,
        ..Workload::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_valid_and_cells_are_unique() {
        for variant in [PAPER, ONCE, BEST] {
            let config = variant.config().expect("it is SCTP");
            assert_eq!(config.validate(), Ok(()));
        }
        let names: Vec<String> = cells()
            .iter()
            .map(|(variant, cell)| format!("{} {cell:?}", variant.id))
            .collect();
        let unique: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!((names.len(), unique.len()), (78, 78));
    }

    #[test]
    fn the_model_matches_the_publication() {
        let cell = Cell {
            loss: 20,
            streams: 3,
        };
        assert!((cell.model() - 23.399).abs() < 0.000_5);
    }
}
