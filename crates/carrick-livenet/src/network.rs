//! A network with its hosts.

use std::time::Instant;

use crate::directory::Directory;
use crate::emulator::{Emulation, Plan};
use crate::error::Error;
use crate::follower::Follower;
use crate::host::Host;

/// MTU of the devices: the links' own MTU decides, as in the simulator, and routers answer with ICMP.
const DEVICE_MTU: u16 = 9000;

/// A simulated network between namespaces of this host. Dropping it removes all of it.
#[derive(Debug)]
pub struct LiveNetwork {
    name: String,
    // The order of dropping: first the network stops.
    emulation: Emulation,
    follower: Follower,
    directory: Directory,
    hosts: Vec<Host>,
}

impl LiveNetwork {
    /// Builds the network on a thread of its own, and a namespace for each of its hosts. The name is
    /// for [`crate::enter`].
    ///
    /// # Errors
    /// What `build` says, or the system, mostly that this needs root.
    pub fn start(
        name: &str,
        build: impl FnOnce() -> Result<Plan, Error> + Send + 'static,
    ) -> Result<Self, Error> {
        Self::start_at(name, Instant::now(), DEVICE_MTU, build)
    }

    /// The same with the moment that is the network's time 0, to compare its times with others, and
    /// the MTU of the hosts' devices in bytes.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_at(
        name: &str,
        epoch: Instant,
        mtu: u16,
        build: impl FnOnce() -> Result<Plan, Error> + Send + 'static,
    ) -> Result<Self, Error> {
        let (emulation, blueprints, changes) = Emulation::start(epoch, build)?;
        let mut hosts = Vec::new();
        let mut devices = Vec::new();
        let mut built = Vec::new();
        for (node, blueprint) in blueprints {
            let (host, tuns) = Host::build(&blueprint, mtu)?;
            built.push((host.namespace().clone(), blueprint));
            hosts.push(host);
            devices.push((node, tuns));
        }
        emulation.attach(devices)?;
        let directory = Directory::publish(name, &hosts)?;
        // The last that can fail: it ends after the emulation.
        let follower = Follower::start(built, changes)?;
        Ok(Self {
            name: name.to_owned(),
            emulation,
            follower,
            directory,
            hosts,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its hosts, in the order of the plan.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// A host by its name.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn host(&self, name: &str) -> Result<&Host, Error> {
        let found = self.hosts.iter().find(|host| host.name() == name);
        found.ok_or_else(|| {
            let known: Vec<&str> = self.hosts.iter().map(Host::name).collect();
            Error::UnknownHost {
                name: name.to_owned(),
                known: known.join(", "),
            }
        })
    }

    /// The network that runs.
    pub fn emulation(&self) -> &Emulation {
        &self.emulation
    }

    /// Where other processes find the hosts.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Removes the network.
    ///
    /// # Errors
    /// If a host did not take a change of its addresses, or a thread of the network had panicked.
    pub fn end(mut self) -> Result<(), Error> {
        self.emulation.stop()?;
        self.follower.end()
    }
}
