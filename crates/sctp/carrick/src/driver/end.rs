//! The end of the task before its endpoint is closed, because the runtime ends.

use carrick_proto::AssociationId;

use super::{Driver, Phase};
use crate::command::Command;

/// Reason in the ABORTs to the peers.
const REASON: &[u8] = b"the program at the other end has ended";

/// Runs when nothing more can be awaited, but the sockets are still open: messages that
/// [`SendHalf::send`](crate::SendHalf::send) accepted leave as far as the congestion and receive windows allow, and each
/// peer gets an ABORT, so that it need not wait until its retransmissions fail (RFC 9260, section 9.1).
impl Drop for Driver {
    fn drop(&mut self) {
        // From now on senders get an error.
        self.orders.close();
        // The state of the protocol after a panic is unknown, and a successor has it after a handover.
        if self.phase == Phase::BetweenRounds {
            self.end_at_once();
        }
    }
}

impl Driver {
    /// Passes on the last messages and aborts all associations.
    fn end_at_once(&mut self) {
        let now = self.now();
        while let Ok(command) = self.orders.try_recv() {
            // The other commands would have no effect, and some need the runtime.
            if let Command::Send(..) | Command::SendMany(..) | Command::Abort(..) = command {
                self.execute(command, now);
            }
        }
        let ids: Vec<AssociationId> = self.core.associations().collect();
        if ids.is_empty() {
            return;
        }
        for id in &ids {
            let stats = self.core.association(*id).map(|a| a.stats());
            if stats.is_some_and(|stats| stats.queued_messages > 0) {
                // Messages that wait to be bundled are sent as well; an error means that a shutdown has
                // begun.
                let _ = self.core.shutdown(now, *id);
            }
        }
        self.send_at_once();
        for id in ids {
            // The association was listed just before.
            let _ = self.core.abort(now, id, REASON);
        }
        self.send_at_once();
        // The handles and the report get the reason.
        self.ends.close();
        self.dispatch_events(now);
        self.below.close(now, &mut self.core);
        self.send_at_once();
    }

    /// Sends the packets that the protocol has now.
    fn send_at_once(&mut self) {
        let now = self.now();
        while let Some((transmit, bytes)) = self
            .outgoing
            .poll(|out| self.below.poll_transmit(now, &mut self.core, out))
        {
            if let Some(tap) = &self.packets {
                tap.sent(&transmit, bytes);
            }
            self.network.send_at_once(&transmit, bytes);
        }
    }
}
