//! What an association remembers of re-configuration: numbers, answers, what is under way.
//!
//! One operation of this side is under way at a time, the user's or one that grants a request of
//! the peer, and at most one request of the peer waits for each of the things that can wait: our own
//! operation, data before a reset, an empty send buffer. Whatever a peer asks, memory is bounded.

use alloc::boxed::Box;
use core::ops::{Deref, DerefMut};

use carrick_wire::{NextTsns, ReconfigResponse, ReconfigResult, ReconfigSerial, Tsn};

use super::{Kind, Operation, StreamSet};
use crate::time::{Time, earliest};

/// The answer to a request of the peer, to be given again when the request is repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub(crate) number: ReconfigSerial,
    pub(crate) result: ReconfigResult,
    pub(crate) next_tsns: Option<NextTsns>,
}

impl Answer {
    pub(crate) fn response(self) -> ReconfigResponse {
        ReconfigResponse {
            response: self.number,
            result: self.result,
            next_tsns: self.next_tsns,
        }
    }
}

/// What the number of a request says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Numbering {
    New,
    /// One of the last two, which one chunk can carry.
    Repeated(Answer),
    Wrong,
}

/// A reset of the peer's that waits for data from before it (step E2).
#[derive(Debug)]
pub(crate) struct Deferred {
    pub(crate) number: ReconfigSerial,
    pub(crate) last_tsn: Tsn,
    pub(crate) streams: StreamSet,
}

#[derive(Debug)]
pub(crate) struct Streams {
    next_request: ReconfigSerial,
    /// The number of the peer's next request.
    expected: ReconfigSerial,
    /// Most associations never need the rest.
    rest: Option<Box<UnderWay>>,
}

/// What was asked for.
#[derive(Debug)]
pub(crate) struct UnderWay {
    /// Of the peer's last requests, the last one first.
    answers: [Option<Answer>; 2],
    pub(crate) operation: Option<Box<Operation>>,
    /// A request of the peer that is granted when our own operation is over.
    pub(crate) demand: Option<Box<(ReconfigSerial, Kind)>>,
    pub(crate) deferred: Option<Box<Deferred>>,
    /// An SSN/TSN reset of the peer waits until all we sent is acknowledged: how long our user's
    /// messages wait with it for the peer to ask again.
    pub(crate) frozen: Option<Time>,
    /// When our last SSN/TSN reset was asked for.
    pub(crate) renumbered: Option<Time>,
}

impl UnderWay {
    const NOTHING: Self = Self {
        answers: [None; 2],
        operation: None,
        demand: None,
        deferred: None,
        frozen: None,
        renumbered: None,
    };
}

static NOTHING: UnderWay = UnderWay::NOTHING;

impl Deref for Streams {
    type Target = UnderWay;

    fn deref(&self) -> &UnderWay {
        self.rest.as_deref().unwrap_or(&NOTHING)
    }
}

impl DerefMut for Streams {
    fn deref_mut(&mut self) -> &mut UnderWay {
        self.rest.get_or_insert_with(|| Box::new(UnderWay::NOTHING))
    }
}

impl Streams {
    /// Numbers begin with the initial TSNs (section 4.1).
    pub(crate) fn new(local_initial_tsn: Tsn, peer_initial_tsn: Tsn) -> Self {
        Self {
            next_request: ReconfigSerial::new(local_initial_tsn.value()),
            expected: ReconfigSerial::new(peer_initial_tsn.value()),
            rest: None,
        }
    }

    /// The number for a new request of ours.
    pub(crate) fn take_number(&mut self) -> ReconfigSerial {
        let number = self.next_request;
        self.next_request = number.next();
        number
    }

    /// The peer's last request.
    pub(crate) fn last_of_peer(&self) -> ReconfigSerial {
        self.expected.previous()
    }

    pub(crate) fn place(&self, number: ReconfigSerial) -> Numbering {
        if number == self.expected {
            return Numbering::New;
        }
        let mut answers = self.answers.iter().flatten();
        match answers.find(|a| a.number == number) {
            Some(answer) => Numbering::Repeated(*answer),
            None => Numbering::Wrong,
        }
    }

    /// The expected request has come; "In progress" until [`Self::answer`] says more.
    pub(crate) fn arrived(&mut self) {
        let answer = Answer {
            number: self.expected,
            result: ReconfigResult::IN_PROGRESS,
            next_tsns: None,
        };
        self.answers = [Some(answer), self.answers[0]];
        self.expected = self.expected.next();
    }

    /// Remembers the answer to one of the last two requests.
    pub(crate) fn answer(
        &mut self,
        number: ReconfigSerial,
        result: ReconfigResult,
        next_tsns: Option<NextTsns>,
    ) {
        let mut answers = self.answers.iter_mut().flatten();
        if let Some(answer) = answers.find(|a| a.number == number) {
            (answer.result, answer.next_tsns) = (result, next_tsns);
        }
    }

    /// A request is under way that ours would be in the way of.
    pub(crate) fn is_busy(&self) -> bool {
        self.operation.is_some() || self.demand.is_some() || self.frozen.is_some()
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let flight = self.operation.as_ref().and_then(|o| o.flight);
        let timer = flight.and_then(|f| f.timer);
        earliest(timer, self.frozen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_begin_with_the_initial_tsns_and_wrap_4_1() {
        let mut streams = Streams::new(Tsn::new(u32::MAX), Tsn::new(7));
        let numbers = [streams.take_number().value(), streams.take_number().value()];
        assert_eq!(numbers, [u32::MAX, 0]);
        assert_eq!(streams.place(ReconfigSerial::new(7)), Numbering::New);
        assert_eq!(streams.last_of_peer(), ReconfigSerial::new(6));
    }

    #[test]
    fn the_last_two_requests_are_known_again_5_2_1() {
        let number = ReconfigSerial::new;
        let mut streams = Streams::new(Tsn::new(1), Tsn::new(u32::MAX));
        for _ in 0..3 {
            streams.arrived();
        }
        streams.answer(number(0), ReconfigResult::DENIED, None);
        let result = |n| match streams.place(number(n)) {
            Numbering::Repeated(answer) => Some(answer.result),
            _ => None,
        };
        assert_eq!(result(0), Some(ReconfigResult::DENIED));
        assert_eq!(result(1), Some(ReconfigResult::IN_PROGRESS));
        assert_eq!(streams.place(number(u32::MAX)), Numbering::Wrong);
        assert_eq!(streams.place(number(2)), Numbering::New);
        assert_eq!(streams.place(number(3)), Numbering::Wrong);
    }
}
