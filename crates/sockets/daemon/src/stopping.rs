//! End of the daemon while programs have descriptors: associations are shut down once what their program has
//! sent is with the protocol.

use std::collections::BTreeSet;
use std::time::Duration;

use carrick_proto::Time;
use carrick_sockets::{SocketId, Sockets};

use crate::config::StopRequest;
use crate::descriptor::Descriptor;
use crate::descriptors::Descriptors;
use crate::poller::Token;

/// Maximum number of aborted associations that have a line in the log.
const MAX_LOGGED: usize = 64;

/// State of a daemon that is to stop.
#[derive(Debug)]
pub(crate) struct Stopping {
    /// [`Config::linger`](crate::Config::linger)
    linger: Duration,
    /// Time at which remaining associations are aborted.
    ends: Option<Time>,
    /// The service manager is to hold all sockets ([`StopRequest::Hold`]).
    is_to_be_held: bool,
    /// Descriptors whose associations have been shut down.
    shut_down: BTreeSet<Token>,
}

impl Stopping {
    pub(crate) fn new(linger: Duration) -> Self {
        Self {
            linger,
            ends: None,
            is_to_be_held: false,
            shut_down: BTreeSet::new(),
        }
    }

    /// Ends the task: in this round if the service manager is to hold the sockets, else as [`Self::end`] does.
    pub(crate) fn stop(&mut self, now: Time, request: StopRequest, descriptors: &mut Descriptors) {
        self.is_to_be_held = request == StopRequest::Hold;
        if !self.is_to_be_held {
            self.end(now, descriptors);
        }
    }

    /// Ends the task as soon as no association is left, or after the linger time.
    pub(crate) fn end(&mut self, now: Time, descriptors: &mut Descriptors) {
        self.ends = Some(now + self.linger);
        // Messages whose event has not been read come first.
        descriptors.set_all_readable();
    }

    /// Returns the time at which remaining associations are aborted, if the task ends.
    pub(crate) fn ends(&self) -> Option<Time> {
        self.ends
    }

    /// Returns whether the service manager is to hold all sockets after this round.
    pub(crate) fn is_to_be_held(&self) -> bool {
        self.is_to_be_held
    }

    /// Returns whether the service manager is to hold all sockets now. The request is then over.
    pub(crate) fn take_hold(&mut self) -> bool {
        std::mem::take(&mut self.is_to_be_held)
    }

    /// Shuts down the associations of the descriptors that have no messages left, each once. Returns true if
    /// there were any; packets for the peers leave in the next round.
    pub(crate) fn shut_down(
        &mut self,
        now: Time,
        sockets: &mut Sockets,
        descriptors: &mut Descriptors,
    ) -> bool {
        let open = descriptors.iter();
        let open = open.filter(|(token, d)| d.is_dry() && !self.shut_down.contains(token));
        let dry: Vec<(Token, SocketId)> = open.map(|(token, d)| (token, d.socket())).collect();
        for &(token, socket) in &dry {
            sockets.shut_down_associations(now, socket);
            self.shut_down.insert(token);
            descriptors.set_ready(token);
        }
        !dry.is_empty()
    }
}

/// Returns whether an association has not ended, or a program has not got all of its messages.
pub(crate) fn has_work(sockets: &Sockets, descriptors: &Descriptors) -> bool {
    let has_unread = |descriptor: &Descriptor| {
        let unread = sockets.unread(descriptor.socket());
        !descriptor.outgoing.is_empty() || unread.is_ok_and(|bytes| bytes > 0)
    };
    let mut served = descriptors.iter().filter(|(_, d)| !d.is_ended());
    sockets.open_association_count() > 0 || served.any(|(_, d)| has_unread(d))
}

/// Aborts the associations that are left, and logs what their peers had not acknowledged.
pub(crate) fn abort_associations(now: Time, sockets: &mut Sockets, log: fn(&str)) {
    let aborted = sockets.abort_associations(now);
    if aborted.is_empty() {
        return;
    }
    let bytes: usize = aborted.iter().map(|a| a.unacknowledged).sum();
    log(&format!(
        "the daemon ends: {} associations aborted, {bytes} bytes not acknowledged by peers",
        aborted.len()
    ));
    let with_loss = aborted.iter().filter(|a| a.unacknowledged > 0);
    for association in with_loss.take(MAX_LOGGED) {
        log(&format!(
            "association of port {} with {} port {} aborted: {} bytes not acknowledged",
            association.port,
            association.peer.ip(),
            association.peer.port(),
            association.unacknowledged
        ));
    }
}
