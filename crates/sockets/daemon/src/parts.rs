//! The parts of the daemon, and what an event of a file changes in them.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use carrick::network::Network;
use carrick_proto::Time;
use carrick_sockets::Sockets;
use rustix::event::epoll;

use crate::capture::Captures;
use crate::clients::Clients;
use crate::closing::Closers;
use crate::config::Config;
use crate::descriptor::FrameBuffers;
use crate::descriptors::Descriptors;
use crate::ends::ProgramEnds;
use crate::followers::Followers;
use crate::leases::Leases;
use crate::linger::Lingering;
use crate::listeners::Listeners;
use crate::poller::{Poller, Token};
use crate::setups::Setups;
use crate::stopping::Stopping;
use crate::users::Users;

/// All parts. Each owns its state; turns ([`crate::serve`]) and requests ([`crate::requests`]) are functions of those that
/// they change. The fields are open because such a function changes several of them at once.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) sockets: Sockets,
    pub(crate) network: Network,
    pub(crate) poller: Poller,
    pub(crate) users: Users,
    pub(crate) clients: Clients,
    pub(crate) descriptors: Descriptors,
    pub(crate) frames: FrameBuffers,
    pub(crate) setups: Setups,
    pub(crate) lingering: Lingering,
    pub(crate) leases: Leases,
    pub(crate) listeners: Listeners,
    pub(crate) captures: Captures,
    pub(crate) followers: Followers,
    pub(crate) stopping: Stopping,
}

impl Parts {
    /// Creates the parts of a daemon with its control socket, and whether it has created the path of that.
    pub(crate) fn new(
        config: Config,
        network: Network,
        mut sockets: Sockets,
        (control, owns_path): (OwnedFd, bool),
    ) -> rustix::io::Result<Self> {
        if config.association_log.is_some() {
            sockets.reports().enable();
        }
        let poller = Poller::new()?;
        poller.watch_control(&control)?;
        let control = Arc::new(control);
        let closers = Closers::new(control.clone());
        Ok(Self {
            users: Users::new(config.limits, config.log, closers),
            stopping: Stopping::new(config.linger),
            listeners: Listeners::new(config.stored_listeners, config.log),
            config,
            sockets,
            network,
            poller,
            clients: Clients::new(control, owns_path),
            descriptors: Descriptors::new(ProgramEnds::new()?),
            frames: FrameBuffers::default(),
            setups: Setups::default(),
            lingering: Lingering::default(),
            leases: Leases::default(),
            captures: Captures::default(),
            followers: Followers::default(),
        })
    }

    /// Marks the clients, descriptors and leases of events as ready, and accepts connections.
    pub(crate) fn handle_events(&mut self, now: Time, events: &mut Vec<epoll::Event>) {
        for event in events.drain(..) {
            let token = Token(event.data.u64());
            if token == Token::CONTROL {
                self.clients.accept(now, &mut self.poller, &mut self.users);
            } else if !self.clients.set_ready(token) && !self.leases.mark_readable(token) {
                self.descriptors.handle_event(now, token, event.flags);
            }
        }
    }

    /// Queues the descriptors of sockets whose readiness has changed, and reports the ends of set-ups.
    pub(crate) fn collect_changes(&mut self) {
        self.setups.report(&mut self.sockets, &mut self.users);
        while let Some(change) = self.sockets.poll_readiness() {
            self.descriptors.set_socket_ready(change.socket);
        }
    }

    /// Wakes the programs that wait for the associations of a closed socket, if these have ended.
    pub(crate) fn end_lingering(&mut self) {
        self.lingering
            .end(&self.sockets, &self.descriptors, &mut self.users);
    }
}
