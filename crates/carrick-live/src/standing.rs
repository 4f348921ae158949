//! A scenario's network that stands between namespaces, with what will change in it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use carrick_lab::live::BuildWorld;
use carrick_livenet::{Error, LiveNetwork, Plan, Tapped};
use carrick_netsim::{Change, Direction, LinkId, Loss, Network, Time};

use crate::spool::Spool;

/// MTU of the hosts' devices, as that of an ordinary network.
const MTU: u16 = 1500;

/// A change to come.
#[derive(Clone, Debug)]
pub struct Coming {
    /// How long after the beginning.
    pub after: Duration,
    change: Change,
    what: String,
}

/// What will change, in words: `the link between a-0 and b-0 loses all, forward`.
impl fmt::Display for Coming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

fn describe(change: &Change, network: &Network) -> String {
    let link = |link: LinkId| {
        let ends = network
            .link_ends(link)
            .map(|end| network.interface_name(end));
        format!("the link between {} and {}", ends[0], ends[1])
    };
    let way = |direction: Direction| match direction {
        Direction::Forward => "forward",
        Direction::Backward => "backward",
    };
    match change {
        Change::SetLoss {
            link: of,
            direction,
            loss: Loss::Random(1.0),
        } => format!("{} loses all, {}", link(*of), way(*direction)),
        Change::SetLoss {
            link: of,
            direction,
            loss,
        } => format!("{} has the loss {loss:?}, {}", link(*of), way(*direction)),
        Change::SetLink {
            link: of,
            direction,
            ..
        } => format!("{} is another one, {}", link(*of), way(*direction)),
        Change::LinkDown(of) => format!("{} goes down", link(*of)),
        Change::LinkUp(of) => format!("{} comes up", link(*of)),
        Change::AddAddress { interface, address } => {
            format!("{} gets {address}", network.interface_name(*interface))
        }
        Change::RemoveAddress { interface, address } => {
            format!("{} loses {address}", network.interface_name(*interface))
        }
        Change::AddRoute { node, .. } | Change::RemoveRoutes { node, .. } => {
            format!("{} has other routes", network.node_name(*node))
        }
        Change::Reroute => "routes are found anew".into(),
    }
}

/// A network that runs. Dropping it removes all of it.
#[derive(Debug)]
pub struct Standing {
    live: LiveNetwork,
    coming: Vec<Coming>,
    spool: Option<Spool>,
}

impl Standing {
    /// Builds the network under a name for [`carrick_livenet::enter`], and captures each of its interfaces
    /// into a file in `capture`, if that is wanted. What changes waits for [`Self::begin`].
    ///
    /// # Errors
    /// What is wrong with the network, the directory or the system; mostly that this needs root.
    pub fn start(name: &str, world: BuildWorld, capture: Option<&Path>) -> Result<Self, Error> {
        Self::start_tapped(name, Instant::now(), world, capture, |_| {})
    }

    /// The same with the moment that is the network's time 0, and somebody who is shown each packet.
    pub(crate) fn start_tapped(
        name: &str,
        epoch: Instant,
        world: BuildWorld,
        capture: Option<&Path>,
        tap: impl FnMut(&Tapped<'_>) + Send + 'static,
    ) -> Result<Self, Error> {
        let spool = capture.map(|_| Spool::start()).transpose();
        let spool = spool.map_err(failed("the thread spool"))?;
        let captured: Option<(PathBuf, _)> = capture
            .zip(spool.as_ref())
            .map(|(directory, spool)| (directory.to_owned(), spool.opener()));
        let (tell, told) = mpsc::channel();
        let live = LiveNetwork::start_at(name, epoch, MTU, move || {
            let mut world = world()?;
            let coming = world.changes.drain(..).map(|(after, change)| Coming {
                after,
                what: describe(&change, &world.network),
                change,
            });
            // Whoever asked waits for it.
            let _ = tell.send(coming.collect());
            if let Some((directory, open)) = captured {
                carrick_lab::capture_interfaces(&mut world.network, &directory, open)
                    .map_err(io::Error::other)
                    .map_err(failed("a capture"))?;
            }
            let plan = Plan::new(world.network, world.hosts.into_iter().flatten());
            Ok(plan.with_tap(tap))
        })?;
        Ok(Self {
            live,
            coming: told.recv().unwrap_or_default(),
            spool,
        })
    }

    /// The network.
    pub fn live(&self) -> &LiveNetwork {
        &self.live
    }

    /// What will change, in the order in which it does.
    pub fn coming(&self) -> &[Coming] {
        &self.coming
    }

    /// From now on, what is to change does so when its time has come. A second call does nothing.
    ///
    /// # Errors
    /// What is wrong with a change.
    pub fn begin(&mut self) -> Result<(), Error> {
        self.begin_at(self.live.emulation().now())
    }

    /// The same from a moment that may have passed.
    pub(crate) fn begin_at(&mut self, begin: Time) -> Result<(), Error> {
        for coming in self.coming.drain(..) {
            let at = begin + coming.after;
            self.live.emulation().apply_at(at, coming.change)?;
        }
        Ok(())
    }

    /// Removes the network.
    ///
    /// # Errors
    /// If a host did not take a change of its addresses, or a capture could not be written to its end.
    pub fn end(self) -> Result<(), Error> {
        let ended = self.live.end();
        let written = self.spool.map_or(Ok(()), Spool::finish);
        ended.and(written.map_err(failed("a capture")))
    }
}

fn failed(what: &str) -> impl FnOnce(io::Error) -> Error {
    let what = what.to_owned();
    move |source| Error::System { what, source }
}

#[cfg(test)]
mod tests {
    use carrick_lab::scenario;

    use super::*;

    #[test]
    fn changes_are_told_in_words() {
        let words = |name: &str| -> Vec<String> {
            let scenarios = scenario::select(&[name.to_owned()]).unwrap();
            let world = scenario::world(scenarios[0], None, 1).unwrap()().unwrap();
            let changes = world.changes.iter();
            changes
                .map(|(_, change)| describe(change, &world.network))
                .collect()
        };
        assert_eq!(
            words("failover"),
            ["forward", "backward"].map(|way| format!(
                "the link between router 0.0-0 and router 0.1-0 loses all, {way}"
            ))
        );
        let moves = words("mobile-ip");
        assert!(
            moves[0].ends_with("goes down") && moves[1].ends_with("comes up"),
            "{moves:?}"
        );
    }
}
