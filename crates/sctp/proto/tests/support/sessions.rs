//! A protocol below SCTP with the outline of DTLS and no cryptography: a hello, a cookie, the
//! hello with it, the end of the handshake, records, an alert. It draws nothing at random, and
//! arbitrary bytes get far in it.
//!
//! ```text
//! | type (1) | who (1) | run (1) | sum (2), if asked for |     handshake and alert
//! | type (1) | run (1) | number (2) | packet | sum (1) |       record
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::sessions::{PacketSession, SessionFactory, SessionState};
use carrick_proto::{LowerLayer, Time};

pub(crate) const HELLO: u8 = 0;
const COOKIE: u8 = 1;
pub(crate) const ANSWER: u8 = 2;
const DONE: u8 = 3;
const RECORD: u8 = 4;
const ALERT: u8 = 5;

const OVERHEAD: usize = 5;
const REPEAT: Duration = Duration::from_secs(1);

/// The peer has another identity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WrongPeer;

#[derive(Debug)]
pub(crate) struct Toy {
    /// Of the side that begins.
    begun_by: Option<[u8; 2]>,
    own: u8,
    sums: bool,
    /// Whom a side that begins expects.
    expected: Option<u8>,
    state: SessionState<WrongPeer>,
    identity: Option<[u8; 1]>,
    answered: bool,
    number: u16,
    out: VecDeque<Vec<u8>>,
    timer: Option<Time>,
}

impl Toy {
    fn message(&mut self, kind: u8, who: u8) {
        let run = self.begun_by.map_or(0, |by| by[1]);
        if self.out.len() < 8 {
            let mut message = vec![kind, who, run];
            if self.sums {
                message.extend(long_sum(&message));
            }
            self.out.push_back(message);
        }
    }

    fn stand(&mut self, who: u8) {
        self.identity = Some([who]);
        self.state = SessionState::Established;
        self.timer = None;
    }

    /// Handles a message at the client.
    fn on_answer(&mut self, now: Time, kind: u8, who: u8) {
        let handshake = self.state == SessionState::Handshake;
        match kind {
            COOKIE if handshake => {
                self.answered = true;
                self.message(ANSWER, self.own);
                self.timer = Some(now + REPEAT);
            }
            DONE if handshake && self.expected == Some(who) => self.stand(who),
            DONE if handshake => {
                self.state = SessionState::Failed(WrongPeer);
                self.timer = None;
            }
            _ => {}
        }
    }

    /// Handles a message at the server.
    fn on_begin(&mut self, kind: u8, by: [u8; 2]) {
        let same = *self.begun_by.get_or_insert(by) == by;
        match kind {
            HELLO if same && self.state == SessionState::Handshake => {
                self.message(COOKIE, self.own)
            }
            ANSWER if same => {
                self.answered = true;
                if self.state == SessionState::Handshake {
                    self.stand(by[0]);
                }
                self.message(DONE, self.own);
            }
            _ => {}
        }
    }
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(7, |sum, byte| sum.rotate_left(1) ^ byte)
}

fn long_sum(bytes: &[u8]) -> [u8; 2] {
    let step = |sum: u16, byte: &u8| (sum ^ u16::from(*byte)).wrapping_mul(0x9E37).rotate_left(7);
    bytes.iter().fold(7, step).to_be_bytes()
}

/// A datagram without the sum that it should end with; `None` if that is wrong.
fn checked(sums: bool, datagram: &[u8]) -> Option<&[u8]> {
    match datagram {
        [RECORD, ..] => Some(datagram),
        [text @ .., high, low] if sums => (long_sum(text) == [*high, *low]).then_some(text),
        _ => (!sums).then_some(datagram),
    }
}

impl PacketSession for Toy {
    type Error = WrongPeer;

    fn state(&self) -> SessionState<WrongPeer> {
        self.state.clone()
    }

    fn identity(&self) -> Option<&[u8]> {
        self.identity.as_ref().map(|who| &who[..])
    }

    fn protect(&mut self, _: Time, packet: &[u8], out: &mut Vec<u8>) -> bool {
        if self.state != SessionState::Established {
            return false;
        }
        let start = out.len();
        out.extend([RECORD, self.begun_by.map_or(0, |by| by[1])]);
        out.extend(self.number.to_be_bytes());
        out.extend_from_slice(packet);
        out.push(sum(&out[start..]));
        self.number = self.number.wrapping_add(1);
        true
    }

    fn is_begun_by(&self, datagram: &[u8]) -> bool {
        if self.expected.is_some() {
            return self.state == SessionState::Handshake;
        }
        self.begun_by
            .is_none_or(|by| datagram.get(1..3) == Some(&by[..]))
    }

    fn has_validated_address(&self) -> bool {
        self.answered
    }

    fn handle_datagram(&mut self, now: Time, datagram: &[u8], packets: &mut Vec<Bytes>) {
        let Some(datagram) = checked(self.sums, datagram) else {
            return;
        };
        match *datagram {
            [kind @ (COOKIE | DONE), who, run]
                if self.expected.is_some() && self.begun_by.is_some_and(|by| by[1] == run) =>
            {
                self.on_answer(now, kind, who);
            }
            [kind @ (HELLO | ANSWER), who, run] if self.expected.is_none() => {
                self.on_begin(kind, [who, run]);
            }
            [ALERT, _, run]
                if self.state == SessionState::Established
                    && self.begun_by.is_some_and(|by| by[1] == run) =>
            {
                self.state = SessionState::Closed;
            }
            [RECORD, run, _, _, ref packet @ .., _]
                if self.state == SessionState::Established
                    && self.begun_by.is_some_and(|by| by[1] == run) =>
            {
                let (text, tag) = datagram.split_at(datagram.len() - 1);
                if tag == [sum(text)] {
                    packets.push(Bytes::copy_from_slice(packet));
                }
            }
            _ => {}
        }
    }

    fn poll_datagram(&mut self, _: Time, out: &mut Vec<u8>) -> bool {
        let next = self.out.pop_front();
        out.extend(next.iter().flatten());
        next.is_some()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.timer
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.timer.is_some_and(|at| at <= now) {
            self.timer = Some(now + REPEAT);
            let kind = if self.answered { ANSWER } else { HELLO };
            self.message(kind, self.own);
        }
    }

    fn close(&mut self, _: Time) {
        if self.state == SessionState::Established {
            self.message(ALERT, self.own);
        }
        self.state = SessionState::Closed;
        self.timer = None;
    }
}

#[derive(Debug)]
pub(crate) struct Toys {
    pub(crate) own: u8,
    /// Counts the handshakes that this side begins.
    pub(crate) runs: u8,
    /// Messages of the handshake have a sum, so that damaged ones are dropped. Both sides agree
    /// on it.
    pub(crate) sums: bool,
    pub(crate) lower_layer: LowerLayer,
}

impl Toys {
    pub(crate) fn new(own: u8) -> Self {
        Self {
            own,
            runs: 0,
            sums: false,
            lower_layer: LowerLayer::Plain,
        }
    }
}

impl SessionFactory for Toys {
    type Session = Toy;
    type Peer = u8;

    fn overhead(&self) -> usize {
        OVERHEAD
    }

    fn lower_layer(&self) -> LowerLayer {
        self.lower_layer
    }

    fn connect(&mut self, now: Time, peer: u8) -> Toy {
        self.runs = self.runs.wrapping_add(1);
        let mut toy = Toy {
            begun_by: Some([self.own, self.runs]),
            expected: Some(peer),
            ..self.accept(now)
        };
        toy.message(HELLO, self.own);
        toy.timer = Some(now + REPEAT);
        toy
    }

    fn opens(&self, datagram: &[u8]) -> bool {
        matches!(checked(self.sums, datagram), Some([HELLO | ANSWER, _, _]))
    }

    fn accept(&mut self, _: Time) -> Toy {
        Toy {
            begun_by: None,
            own: self.own,
            sums: self.sums,
            expected: None,
            state: SessionState::Handshake,
            identity: None,
            answered: false,
            number: 0,
            out: VecDeque::new(),
            timer: None,
        }
    }

    fn leads_to(&self, session: &Toy, peer: &u8) -> bool {
        let expected = session.expected == Some(*peer);
        expected || session.identity == Some([*peer])
    }
}
