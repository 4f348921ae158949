//! End of the daemon while programs have descriptors: associations are shut down once what their program has
//! sent is with the protocol.

use carrick_proto::Time;
use carrick_sockets::SocketId;

use crate::config::StopRequest;
use crate::descriptor::Descriptor;
use crate::driver::Driver;
use crate::poller::Token;

/// Maximum number of aborted associations that have a line in the log.
const MAX_LOGGED: usize = 64;

impl Driver {
    /// Ends the task: in this round if the service manager is to hold the sockets, else as soon as no association is
    /// left, or after the time of [`Config::linger`](crate::Config::linger).
    pub(crate) fn stop(&mut self, request: StopRequest) {
        self.is_to_be_held = request == StopRequest::Hold;
        if !self.is_to_be_held {
            self.end_associations();
        }
    }

    /// Ends the task as soon as no association is left, or after the time of [`Config::linger`](crate::Config::linger).
    pub(crate) fn end_associations(&mut self) {
        self.ends = Some(self.now() + self.config.linger);
        // Messages whose event has not been read come first.
        for (token, descriptor) in &mut self.descriptors {
            descriptor.incoming.set_readable(true);
            self.ready.insert(*token);
        }
    }

    /// Returns whether an association has not ended, or a program has not got all of its messages.
    pub(crate) fn has_work(&self) -> bool {
        let has_unread = |descriptor: &Descriptor| {
            let unread = self.sockets.unread(descriptor.socket());
            !descriptor.outgoing.is_empty() || unread.is_ok_and(|bytes| bytes > 0)
        };
        let mut served = self.descriptors.values().filter(|d| !d.is_ended());
        self.sockets.open_association_count() > 0 || served.any(has_unread)
    }

    /// Shuts down the associations of the descriptors that have no messages left, each once. Returns true if
    /// there were any; packets for the peers leave in the next round.
    pub(crate) fn shut_down_descriptors(&mut self, now: Time) -> bool {
        let open = self.descriptors.iter();
        let open = open.filter(|(token, d)| d.is_dry() && !self.stopped.contains(token));
        let dry: Vec<(Token, SocketId)> = open.map(|(token, d)| (*token, d.socket())).collect();
        for &(token, socket) in &dry {
            self.sockets.shut_down_associations(now, socket);
            self.stopped.insert(token);
            self.ready.insert(token);
        }
        !dry.is_empty()
    }

    /// Aborts the associations that are left, and logs what their peers had not acknowledged.
    pub(crate) fn abort_associations(&mut self, now: Time) {
        let aborted = self.sockets.abort_associations(now);
        if aborted.is_empty() {
            return;
        }
        let bytes: usize = aborted.iter().map(|a| a.unacknowledged).sum();
        (self.config.log)(&format!(
            "the daemon ends: {} associations aborted, {bytes} bytes not acknowledged by peers",
            aborted.len()
        ));
        let with_loss = aborted.iter().filter(|a| a.unacknowledged > 0);
        for association in with_loss.take(MAX_LOGGED) {
            (self.config.log)(&format!(
                "association of port {} with {} port {} aborted: {} bytes not acknowledged",
                association.port,
                association.peer.ip(),
                association.peer.port(),
                association.unacknowledged
            ));
        }
    }
}
