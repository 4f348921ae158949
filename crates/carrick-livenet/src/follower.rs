//! Addresses of the network that come and go, on the hosts' interfaces as well.

use std::sync::mpsc::Receiver;
use std::thread::{self, JoinHandle};

use crate::blueprint::Blueprint;
use crate::error::Error;
use crate::namespace::Namespace;
use crate::scheduling::{FOLLOWER, real_time_with_children};

/// Makes the hosts what they are in the network, by `ip` as an operator would, on a thread of its own: the
/// emulator must not wait for a program.
#[derive(Debug)]
pub(crate) struct Follower {
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Follower {
    /// Begins with hosts as they were built. It ends when nobody is left who could tell how they are to
    /// look.
    pub(crate) fn start(
        hosts: Vec<(Namespace, Blueprint)>,
        wanted: Receiver<Vec<Blueprint>>,
    ) -> Result<Self, Error> {
        let thread = thread::Builder::new().name("follower".into());
        let started = thread.spawn(move || follow(hosts, &wanted));
        let thread = started.map_err(Error::system("the follower's thread"))?;
        Ok(Self {
            thread: Some(thread),
        })
    }

    /// Waits for the end, which comes after that of the emulator.
    ///
    /// # Errors
    /// The change that a host refused; none that came later was made.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        thread.join().map_err(|_| Error::Panicked("follower"))?
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // Whoever wants to know asks for the end before.
        let _ = self.end();
    }
}

fn follow(
    mut hosts: Vec<(Namespace, Blueprint)>,
    wanted: &Receiver<Vec<Blueprint>>,
) -> Result<(), Error> {
    // On a busy machine an address would come late otherwise; where it is refused, it does.
    let _ = real_time_with_children(FOLLOWER);
    for blueprints in wanted {
        let both = hosts.iter_mut().zip(blueprints);
        let mut changed: Vec<_> = both.filter(|((_, host), wanted)| host != wanted).collect();
        // Others know the way to an address before its host has it.
        changed.sort_by_key(|((_, host), wanted)| !host.addresses().eq(wanted.addresses()));
        for ((namespace, host), wanted) in changed {
            namespace.ip_batch(&wanted.lines_from(host))?;
            *host = wanted;
        }
    }
    Ok(())
}
