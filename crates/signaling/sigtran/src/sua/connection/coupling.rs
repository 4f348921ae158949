//! Coupling of two connection sections at a relay (RFC 3868, sections 1.3.2, 1.5.3 and A.3.2).
//!
//! Each section has its reference numbers, its window and its timers. What one section indicates is the request on the
//! other:
//!
//! 1. A COAK accepts the section of the received CORE, with the class of the COAK; a COREF refuses it.
//! 2. Data and expedited data are sent on the other section. While much data wait there, the window of the section on
//!    which they arrive is closed. Class 2 has no window, data do not wait.
//! 3. A reset of one section resets the other one, and is confirmed when that is.
//! 4. The end of a section releases the other one, with its reason and data. Data that wait for a window are discarded.

use std::fmt::Debug;

use bytes::Bytes;
use carrick_proto::Time;

use super::{
    ConnectRequest, Connection, ConnectionIndication, ConnectionRequestError, ConnectionState,
    ConnectionTable, ConnectionTableError, DisconnectReason,
};
use crate::sua::{
    ConnectionRequest, RefusalCause, ReleaseCause, ServiceClass, SourceReferenceNumber,
};

/// Result of one section that concerns the other.
#[derive(Debug)]
pub(super) enum Forward {
    Indication(ConnectionIndication),
    /// Much data wait for the window, or do no longer.
    Congestion(bool),
}

impl<A: Clone + PartialEq + Debug> ConnectionTable<A> {
    /// Relays a CORE of an association to the association `next`, where it is `relayed`: with another destination address
    /// and routing context. Both connection sections are coupled from then on, and nothing about them is indicated.
    ///
    /// Without room, or if the data of the CORE do not fit into one message of this end, the CORE is refused.
    pub fn relay(
        &mut self,
        now: Time,
        association: &A,
        request: &ConnectionRequest,
        next: A,
        relayed: ConnectionRequest,
    ) {
        let Some(incoming) = self.admit(now, association, request) else {
            return;
        };
        let outgoing = self.request(now, next, |local_reference| ConnectRequest {
            routing_context: relayed.routing_context,
            class: relayed.protocol_class.class,
            local_reference,
            destination: relayed.destination.0,
            source: relayed.source.map(|source| source.0),
            sequence_control: relayed.sequence_control,
            hop_counter: relayed.hop_counter,
            data: relayed.data.map(|data| data.0),
        });
        match outgoing {
            Ok(outgoing) => self.couple(incoming, outgoing),
            Err(error) => {
                let cause = match error {
                    ConnectionTableError::Full(_) => RefusalCause::QOS_UNAVAILABLE_TRANSIENT,
                    ConnectionTableError::Request(ConnectionRequestError::TooLong { .. }) => {
                        RefusalCause::INCOMPATIBLE_USER_DATA
                    }
                    ConnectionTableError::Request(_) => RefusalCause::SCCP_FAILURE,
                };
                self.change(now, incoming, |section| section.refuse(now, cause, None));
            }
        }
    }

    /// Applies what sections have for those that they are coupled with.
    pub(super) fn forward(&mut self, now: Time) {
        while let Some((from, to, forward)) = self.forwards.pop_front() {
            if !self.is_coupled(to, from) {
                continue;
            }
            let indication = match forward {
                Forward::Congestion(is_congested) => {
                    self.apply(now, to, |section| section.set_paused(now, is_congested));
                    continue;
                }
                Forward::Indication(indication) => indication,
            };
            let forwarded = self.apply(now, to, |section| section.take_over(now, indication));
            if let Some(Err(cause)) = forwarded {
                for section in [from, to] {
                    self.apply(now, section, |section| section.release(now, cause, None));
                }
            }
        }
    }
}

impl Connection {
    /// Makes the request that an indication of the other section is.
    ///
    /// # Errors
    /// The cause with which both sections are to be released, because the request is not possible.
    fn take_over(
        &mut self,
        now: Time,
        indication: ConnectionIndication,
    ) -> Result<(), ReleaseCause> {
        match indication {
            ConnectionIndication::Connected {
                class,
                responding,
                data,
            } => {
                let accepted = self.accept(now, class, responding, data);
                accepted.map_err(|_| ReleaseCause::INCONSISTENT_DATA)
            }
            // During a reset data are lost.
            ConnectionIndication::Data(data) => {
                self.send_relayed(now, &data);
                Ok(())
            }
            ConnectionIndication::ExpeditedData(data) => match self.send_expedited(now, data) {
                Ok(()) | Err(ConnectionRequestError::State(_)) => Ok(()),
                Err(_) => Err(ReleaseCause::NETWORK_CONGESTION),
            },
            // A section that is being reset already, or released, needs no further request.
            ConnectionIndication::Reset(cause) => {
                let _ = self.reset(now, cause);
                Ok(())
            }
            ConnectionIndication::ResetConfirmed => {
                let _ = self.reset_response(now);
                Ok(())
            }
            ConnectionIndication::Disconnected { reason, data } => {
                self.disconnect_with(now, reason, data);
                Ok(())
            }
            ConnectionIndication::Released { .. } => Ok(()),
        }
    }

    /// Ends the section for the reason for which the other one ended.
    fn disconnect_with(&mut self, now: Time, reason: DisconnectReason, data: Option<Bytes>) {
        if self.state() == ConnectionState::IncomingPending {
            let cause = match reason {
                DisconnectReason::Refused(cause) => cause,
                DisconnectReason::Released(_) => RefusalCause::DESTINATION_INACCESSIBLE,
                DisconnectReason::Error(_) => RefusalCause::SCCP_FAILURE,
            };
            if self.refuse(now, cause, data).is_err() {
                let _ = self.refuse(now, cause, None);
            }
            return;
        }
        let cause = match reason {
            DisconnectReason::Released(cause) => cause,
            DisconnectReason::Refused(_) => ReleaseCause::UNQUALIFIED,
            DisconnectReason::Error(_) => ReleaseCause::REMOTE_PROCEDURE_ERROR,
        };
        self.release(now, cause, data);
    }

    /// Releases the section, or refuses it. Data that do not fit into one message are left out.
    fn release(&mut self, now: Time, cause: ReleaseCause, data: Option<Bytes>) {
        if self.state() == ConnectionState::IncomingPending {
            let _ = self.refuse(now, RefusalCause::SCCP_FAILURE, None);
        } else if self.disconnect(now, cause, data).is_err() {
            // An error in another state than one for the request: it is released already.
            let _ = self.disconnect(now, cause, None);
        }
    }

    /// Closes or opens the window of the peer, in class 3.
    fn set_paused(&mut self, now: Time, is_paused: bool) {
        if self.class() != ServiceClass::Class3 {
            return;
        }
        if is_paused {
            // Class 3 has flow control.
            let _ = self.pause();
        } else {
            self.resume(now);
        }
    }
}

/// Coupling of a section.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coupling {
    /// Local reference number of the other section.
    pub(super) other: SourceReferenceNumber,
    /// Congestion that the other section was informed of.
    pub(super) is_congested: bool,
}
