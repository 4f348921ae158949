//! Networks between namespaces of this host.

mod address_sync;
mod blueprint;
mod capture;
mod directory;
mod emulator;
mod host;
mod namespace;

use std::time::Instant;

use self::address_sync::AddressSync;
use crate::error::Error;

pub use capture::{CapturedPacket, Direction};
pub use directory::{Directory, run_on_host, running_networks, spawn_on_host};
pub use emulator::{Emulation, NetworkPlan};
pub use host::Host;
pub use namespace::Namespace;

/// Default MTU of the devices, in bytes. It is larger than that of the links, so that the links' MTU
/// decides, as in the simulator, and routers answer with ICMP.
const DEVICE_MTU: u16 = 9000;

/// Simulated network between namespaces of this host. Dropping it removes the network.
#[derive(Debug)]
pub struct LiveNetwork {
    name: String,
    // Fields are dropped in this order: the emulation stops first.
    emulation: Emulation,
    address_sync: AddressSync,
    directory: Directory,
    hosts: Vec<Host>,
}

impl LiveNetwork {
    /// Builds the network on its own thread, and a namespace for each of its hosts. [`run_on_host`] finds
    /// the network by its name.
    ///
    /// # Errors
    /// The error of `build`, or that of a system call; most often root is missing.
    pub fn start(
        name: &str,
        build: impl FnOnce() -> Result<NetworkPlan, Error> + Send + 'static,
    ) -> Result<Self, Error> {
        Self::start_at(name, Instant::now(), DEVICE_MTU, build)
    }

    /// Builds the network as [`Self::start`] does, with `epoch` as time 0 of the network and `mtu` bytes as
    /// MTU of the hosts' devices.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_at(
        name: &str,
        epoch: Instant,
        mtu: u16,
        build: impl FnOnce() -> Result<NetworkPlan, Error> + Send + 'static,
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
        // This is the last step that can fail: the thread ends after the emulation only.
        let address_sync = AddressSync::start(built, changes)?;
        Ok(Self {
            name: name.to_owned(),
            emulation,
            address_sync,
            directory,
            hosts,
        })
    }

    /// Name of the network.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Hosts of the network, in the order of the plan.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// Returns the host of this name.
    ///
    /// # Errors
    /// [`Error::UnknownHost`] if there is none.
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

    /// Emulation of the network's links and routers.
    pub fn emulation(&self) -> &Emulation {
        &self.emulation
    }

    /// Directory in which other processes find the hosts.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Removes the network.
    ///
    /// # Errors
    /// If a change of addresses failed on a host, or a thread of the network panicked.
    pub fn remove(mut self) -> Result<(), Error> {
        self.emulation.stop()?;
        self.address_sync.join()
    }
}
