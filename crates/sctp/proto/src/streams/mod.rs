//! Stream re-configuration (RFC 6525) of one association, in both directions.
//!
//! - `local_requests`: requests of this side, from the user or for the peer (sections 5.1, 5.2.7)
//! - `operation`: the RE-CONFIG chunk that carries them
//! - `peer_requests`: requests of the peer (sections 5.2.1 to 5.2.6)
//!
//! The methods read the association's sender and receiver and return a [`Decision`] or what was answered;
//! the association applies it (`association::streams`).
//!
//! One operation of this side is outstanding at a time: the user's, or one that grants a request of the
//! peer. At most one request of the peer waits for each of our operation, data before a reset, and the
//! acknowledgement of outstanding data. Memory is bounded whatever a peer requests.

mod local_requests;
mod operation;
mod peer_requests;

use alloc::boxed::Box;
use core::ops::{Deref, DerefMut};

use carrick_wire::{ReconfigSerial, Tsn};

use crate::time::{Time, earliest};
pub(crate) use local_requests::{addition_requests, reset_requests};
use operation::Operation;
pub(crate) use operation::{RequestKind, StreamsRequest, response};
use peer_requests::{Answer, DeferredReset};
pub(crate) use peer_requests::{Decision, NumberCheck, PeerRequestContext, RequestConfirmed};

/// State of RFC 6525 in an association.
#[derive(Debug)]
pub(crate) struct Streams {
    next_request: ReconfigSerial,
    /// Number of the peer's next request.
    expected: ReconfigSerial,
    /// Allocated at the first request; most associations have none.
    rest: Option<Box<Reconfiguration>>,
}

portable_struct! { Streams { next_request, expected, rest } }

/// Outstanding requests of both sides.
#[derive(Debug)]
pub(crate) struct Reconfiguration {
    /// Answers to the peer's last two requests, the last one first.
    answers: [Option<Answer>; 2],
    operation: Option<Box<Operation>>,
    /// A request of the peer that is granted when our own operation ends.
    queued_grant: Option<Box<(ReconfigSerial, RequestKind)>>,
    deferred: Option<Box<DeferredReset>>,
    /// A reset of all numbers that the peer requested waits for acknowledgements: messages are held for
    /// it until this time at most.
    held_until: Option<Time>,
    /// Time of the user's last request to reset all numbers.
    last_renumbering: Option<Time>,
}

portable_struct! {
    Reconfiguration {
        answers, operation, queued_grant, deferred, held_until, last_renumbering,
    }
}

impl Reconfiguration {
    const NONE: Self = Self {
        answers: [None; 2],
        operation: None,
        queued_grant: None,
        deferred: None,
        held_until: None,
        last_renumbering: None,
    };
}

static NONE: Reconfiguration = Reconfiguration::NONE;

impl Deref for Streams {
    type Target = Reconfiguration;

    fn deref(&self) -> &Reconfiguration {
        self.rest.as_deref().unwrap_or(&NONE)
    }
}

impl DerefMut for Streams {
    fn deref_mut(&mut self) -> &mut Reconfiguration {
        self.rest
            .get_or_insert_with(|| Box::new(Reconfiguration::NONE))
    }
}

impl Streams {
    /// Starts with the request numbers that equal the initial TSNs (RFC 6525, section 4.1).
    pub(crate) fn new(local_initial_tsn: Tsn, peer_initial_tsn: Tsn) -> Self {
        Self {
            next_request: ReconfigSerial::new(local_initial_tsn.value()),
            expected: ReconfigSerial::new(peer_initial_tsn.value()),
            rest: None,
        }
    }

    /// Returns the number for a new request of ours.
    fn next_number(&mut self) -> ReconfigSerial {
        let number = self.next_request;
        self.next_request = number.next();
        number
    }

    /// Number of the peer's last request.
    fn last_of_peer(&self) -> ReconfigSerial {
        self.expected.previous()
    }

    /// Returns whether a request is outstanding that forbids one of ours (RFC 6525, section 5.1.1).
    pub(crate) fn is_busy(&self) -> bool {
        self.operation.is_some() || self.queued_grant.is_some() || self.held_until.is_some()
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let flight = self.operation.as_ref().and_then(|o| o.flight);
        let timer = flight.and_then(|f| f.timer);
        earliest(timer, self.held_until)
    }
}

#[cfg(test)]
mod tests {
    use super::peer_requests::Numbering;
    use super::*;
    use carrick_wire::ReconfigResult;

    /// RFC 6525, section 4.1
    #[test]
    fn numbers_begin_with_the_initial_tsns_and_wrap() {
        let mut streams = Streams::new(Tsn::new(u32::MAX), Tsn::new(7));
        let numbers = [streams.next_number().value(), streams.next_number().value()];
        assert_eq!(numbers, [u32::MAX, 0]);
        assert_eq!(
            streams.compare_number(ReconfigSerial::new(7)),
            Numbering::Expected
        );
        assert_eq!(streams.last_of_peer(), ReconfigSerial::new(6));
    }

    /// RFC 6525, section 5.2.1
    #[test]
    fn last_two_requests_are_recognized() {
        let number = ReconfigSerial::new;
        let mut streams = Streams::new(Tsn::new(1), Tsn::new(u32::MAX));
        for _ in 0..3 {
            streams.record_request();
        }
        streams.record_answer(number(0), ReconfigResult::DENIED, None);
        let result = |n| match streams.compare_number(number(n)) {
            Numbering::Repeated(answer) => Some(answer.result),
            _ => None,
        };
        assert_eq!(result(0), Some(ReconfigResult::DENIED));
        assert_eq!(result(1), Some(ReconfigResult::IN_PROGRESS));
        assert_eq!(streams.compare_number(number(u32::MAX)), Numbering::Wrong);
        assert_eq!(streams.compare_number(number(2)), Numbering::Expected);
        assert_eq!(streams.compare_number(number(3)), Numbering::Wrong);
    }
}
