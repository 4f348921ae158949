//! Changes of addresses in the network, repeated on the interfaces of the hosts.

use std::sync::mpsc::Receiver;
use std::thread::{self, JoinHandle};

use super::blueprint::Blueprint;
use super::namespace::Namespace;
use crate::error::Error;
use crate::scheduling::{ADDRESS_SYNC, set_inherited_real_time};

/// Thread that changes addresses and routes of the hosts with `ip`. The emulator cannot do it itself: it
/// must not wait for a program.
#[derive(Debug)]
pub(crate) struct AddressSync {
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl AddressSync {
    /// Starts with the hosts as they were built. The thread ends when the sender of `blueprints` is dropped.
    pub(crate) fn start(
        hosts: Vec<(Namespace, Blueprint)>,
        blueprints: Receiver<Vec<Blueprint>>,
    ) -> Result<Self, Error> {
        let thread = thread::Builder::new().name("address sync".into());
        let started = thread.spawn(move || synchronize(hosts, &blueprints));
        let thread = started.map_err(Error::system("starting the address sync thread"))?;
        Ok(Self {
            thread: Some(thread),
        })
    }

    /// Waits for the thread, which ends after the emulator.
    ///
    /// # Errors
    /// The first change that failed on a host; no later change was made.
    pub(crate) fn join(&mut self) -> Result<(), Error> {
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        thread.join().map_err(|_| Error::Panicked("address sync"))?
    }
}

impl Drop for AddressSync {
    fn drop(&mut self) {
        // A caller that needs the error has called `join` before.
        let _ = self.join();
    }
}

fn synchronize(
    mut hosts: Vec<(Namespace, Blueprint)>,
    blueprints: &Receiver<Vec<Blueprint>>,
) -> Result<(), Error> {
    // Without the priority a busy machine changes the addresses late, which is no error.
    let _ = set_inherited_real_time(ADDRESS_SYNC);
    for blueprints in blueprints {
        let both = hosts.iter_mut().zip(blueprints);
        let mut changed: Vec<_> = both.filter(|((_, old), new)| old != new).collect();
        // The other hosts get the route to an address before its host gets the address.
        changed.sort_by_key(|((_, old), new)| !old.addresses().eq(new.addresses()));
        for ((namespace, old), new) in changed {
            namespace.ip_batch(&new.commands_from(old))?;
            *old = new;
        }
    }
    Ok(())
}
