//! Network of an experiment, with its scheduled changes.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use carrick_lab::live::BuildWorld;
use carrick_netsim::{Change, Direction, LinkId, Loss, Network, Time};

use super::capture_writer::CaptureWriter;
use crate::error::Error;
use crate::network::{CapturedPacket, LiveNetwork, NetworkPlan};

/// MTU of the hosts' devices in bytes, that of Ethernet.
const MTU: u16 = 1500;

/// Change of a network at a scheduled time.
#[derive(Clone, Debug)]
pub struct ScheduledChange {
    /// Time of the change after [`RunningNetwork::start_changes`].
    pub after: Duration,
    change: Change,
    description: String,
}

/// Describes the change: `the link between a-0 and b-0 loses all packets, forward`.
impl fmt::Display for ScheduledChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.description)
    }
}

fn describe(change: &Change, network: &Network) -> String {
    let link = |link: LinkId| {
        let ends = network
            .link_ends(link)
            .map(|end| network.interface_name(end));
        format!("the link between {} and {}", ends[0], ends[1])
    };
    let name = |direction: Direction| match direction {
        Direction::Forward => "forward",
        Direction::Backward => "backward",
    };
    match change {
        Change::SetLoss {
            link: of,
            direction,
            loss: Loss::Random(1.0),
        } => format!("{} loses all packets, {}", link(*of), name(*direction)),
        Change::SetLoss {
            link: of,
            direction,
            loss,
        } => format!("{} has the loss {loss:?}, {}", link(*of), name(*direction)),
        Change::SetLink {
            link: of,
            direction,
            ..
        } => format!("{} has new parameters, {}", link(*of), name(*direction)),
        Change::LinkDown(of) => format!("{} goes down", link(*of)),
        Change::LinkUp(of) => format!("{} comes up", link(*of)),
        Change::AddAddress { interface, address } => {
            format!("{} gets {address}", network.interface_name(*interface))
        }
        Change::RemoveAddress { interface, address } => {
            format!("{} loses {address}", network.interface_name(*interface))
        }
        Change::InterfaceDown(of) => format!("{} goes down", network.interface_name(*of)),
        Change::InterfaceUp(of) => format!("{} comes up", network.interface_name(*of)),
        Change::SetNeighbor {
            interface,
            neighbor,
        } => format!(
            "the neighbour of {} is {neighbor:?}",
            network.interface_name(*interface)
        ),
        Change::SetInput { interface, input } => format!(
            "packets that arrive at {} get {input:?}",
            network.interface_name(*interface)
        ),
        Change::AddRoute { node, .. } | Change::RemoveRoutes { node, .. } => {
            format!("{} has new routes", network.node_name(*node))
        }
        Change::Reroute => "all routes are recomputed".into(),
    }
}

/// Running network of an experiment. Dropping it removes the network.
#[derive(Debug)]
pub struct RunningNetwork {
    live: LiveNetwork,
    changes: Vec<ScheduledChange>,
    writer: Option<CaptureWriter>,
}

impl RunningNetwork {
    /// Builds the network under a name for [`run_on_host`](crate::run_on_host). If `capture` names a directory, each
    /// interface is captured into a file in it. The scheduled changes wait for [`Self::start_changes`].
    ///
    /// # Errors
    /// If the network is invalid, the directory can't be written, or a system call fails; most often root is
    /// missing.
    pub fn start(name: &str, world: BuildWorld, capture: Option<&Path>) -> Result<Self, Error> {
        Self::start_with_observer(name, Instant::now(), world, capture, |_| {})
    }

    /// Builds the network as [`Self::start`] does, with `epoch` as time 0 of the network and a callback that
    /// receives each packet.
    pub(crate) fn start_with_observer(
        name: &str,
        epoch: Instant,
        world: BuildWorld,
        capture: Option<&Path>,
        observer: impl FnMut(&CapturedPacket<'_>) + Send + 'static,
    ) -> Result<Self, Error> {
        let writer = capture.map(|_| CaptureWriter::start()).transpose();
        let writer = writer.map_err(Error::system("starting the capture writer thread"))?;
        let captured: Option<(PathBuf, _)> = capture
            .zip(writer.as_ref())
            .map(|(directory, writer)| (directory.to_owned(), writer.opener()));
        let (sender, scheduled) = mpsc::channel();
        let live = LiveNetwork::start_at(name, epoch, MTU, move || {
            let mut world = world()?;
            let changes = world
                .changes
                .drain(..)
                .map(|(after, change)| ScheduledChange {
                    after,
                    description: describe(&change, &world.network),
                    change,
                });
            // The receiver waits for this message.
            let _ = sender.send(changes.collect());
            if let Some((directory, open)) = captured {
                // A file can be read while the network runs.
                let create = |path: &Path| File::create(path).map(&open);
                carrick_lab::capture_interfaces(&mut world.network, &directory, create)
                    .map_err(io::Error::other)
                    .map_err(Error::system("creating a capture file"))?;
            }
            let plan = NetworkPlan::new(world.network, world.hosts);
            Ok(plan.with_observer(observer))
        })?;
        Ok(Self {
            live,
            changes: scheduled.recv().unwrap_or_default(),
            writer,
        })
    }

    /// Network with its hosts.
    pub fn live(&self) -> &LiveNetwork {
        &self.live
    }

    /// Scheduled changes that have not been started, in the order of their times.
    pub fn changes(&self) -> &[ScheduledChange] {
        &self.changes
    }

    /// Starts the scheduled changes: their times count from now. A second call does nothing.
    ///
    /// # Errors
    /// If a change is invalid.
    pub fn start_changes(&mut self) -> Result<(), Error> {
        self.start_changes_at(self.live.emulation().now())
    }

    /// Starts the scheduled changes with `begin` as their time 0, which may be in the past.
    pub(crate) fn start_changes_at(&mut self, begin: Time) -> Result<(), Error> {
        for scheduled in self.changes.drain(..) {
            let at = begin + scheduled.after;
            self.live.emulation().apply_at(at, scheduled.change)?;
        }
        Ok(())
    }

    /// Removes the network.
    ///
    /// # Errors
    /// If a change of addresses failed on a host, or a capture could not be completed.
    pub fn remove(self) -> Result<(), Error> {
        let removed = self.live.remove();
        let written = self.writer.map_or(Ok(()), CaptureWriter::finish);
        removed.and(written.map_err(Error::system("writing a capture file")))
    }
}

#[cfg(test)]
mod tests {
    use carrick_lab::file::Experiment;

    use super::*;

    #[test]
    fn changes_are_described() {
        let descriptions = |name: &str| -> Vec<String> {
            let experiment = Experiment::published(name).unwrap();
            let world = experiment.world(None, 1).unwrap()().unwrap();
            let changes = world.changes.iter();
            changes
                .map(|(_, change)| describe(change, &world.network))
                .collect()
        };
        assert_eq!(
            descriptions("failover"),
            ["forward", "backward"].map(|direction| format!(
                "the link between near-0-0 and far-0-0 loses all packets, {direction}"
            ))
        );
        let moves = descriptions("mobile-ip");
        assert!(
            moves[0].ends_with("goes down") && moves[1].ends_with("comes up"),
            "{moves:?}"
        );
    }
}
