//! A flow over TCP: consecutive messages of one size in the byte stream.

use carrick_netsim::Time;

use super::super::measure::{FlowRecord, Transmission};
use super::Sender;
use crate::switch::MessageTransmission;
use crate::tcp_host::{Connection, Segment, TcpApplication};

const PIECE: usize = 1 << 14;

/// Program of a host: sender or receiver of one flow.
#[derive(Debug)]
pub(in crate::file) enum TcpProgram {
    /// Sends messages, and reads the responses.
    Client(Box<Client>),
    /// Reads messages, and responds to them.
    Server(Server),
}

#[derive(Debug)]
pub(in crate::file) struct Client {
    pub(in crate::file) sender: Sender,
    begun: bool,
    /// Bytes of the messages passed to TCP.
    taken: u64,
    answers: u64,
    pub(in crate::file) retransmitted: u64,
}

#[derive(Debug)]
pub(in crate::file) struct Server {
    pub(in crate::file) number: usize,
    size: usize,
    response: Option<usize>,
    received: u64,
    answered: u64,
    pub(in crate::file) record: FlowRecord,
}

impl TcpProgram {
    pub(in crate::file) fn client(sender: Sender) -> Self {
        Self::Client(Box::new(Client {
            sender,
            begun: false,
            taken: 0,
            answers: 0,
            retransmitted: 0,
        }))
    }

    pub(in crate::file) fn server(number: usize, size: usize, response: Option<usize>) -> Self {
        Self::Server(Server {
            number,
            size,
            response,
            received: 0,
            answered: 0,
            record: FlowRecord::default(),
        })
    }
}

/// Passes bytes to the connection until `taken` reaches `offered` or the connection accepts no
/// more.
fn give(connection: &mut Connection<'_>, taken: &mut u64, offered: u64) {
    let data = [0x5a; PIECE];
    while *taken < offered {
        let piece = usize::try_from(offered - *taken)
            .unwrap_or(PIECE)
            .min(PIECE);
        let sent = connection.send(&data[..piece]);
        if sent == 0 {
            break;
        }
        *taken += sent as u64;
    }
}

fn take(connection: &mut Connection<'_>) -> u64 {
    let mut buffer = [0; PIECE];
    let mut all = 0;
    loop {
        let read = connection.receive(&mut buffer);
        if read == 0 {
            return all;
        }
        all += read as u64;
    }
}

impl Client {
    fn on_progress(&mut self, now: Time, connection: &mut Connection<'_>) {
        let nanos = now.as_nanos();
        let size = self.sender.flow.size as u64;
        if !self.begun && connection.is_established() {
            self.begun = true;
            let start = self.sender.flow.start.as_nanos() as u64;
            let settle = self.sender.flow.settle.as_nanos() as u64;
            self.sender.pace.begin(start.max(nanos + settle));
        }
        let bulk = self.sender.flow.pattern == super::super::model::Pattern::Bulk;
        if bulk {
            self.fill(nanos, connection);
        } else {
            for _ in 0..self.sender.pace.take(nanos) {
                if self.sender.has_more() {
                    self.sender.record.sends.push(nanos);
                }
            }
            let offered = self.sender.record.sends.len() as u64 * size;
            give(connection, &mut self.taken, offered);
            if self.sender.flow.blocking && self.taken < offered {
                self.sender.block();
            } else {
                self.sender.unblock(nanos);
            }
        }
        if let Some(response) = self.sender.flow.response {
            let before = self.answers / response as u64;
            self.answers += take(connection);
            for number in before..self.answers / response as u64 {
                self.sender.record.deliveries.push((number, nanos));
            }
        }
    }

    /// Fills the connection of a bulk flow; SEND of a message is when TCP accepts its first byte.
    fn fill(&mut self, now: u64, connection: &mut Connection<'_>) {
        if self.sender.pace.due().is_none_or(|due| due > now) {
            return;
        }
        let size = self.sender.flow.size as u64;
        loop {
            let offered = self.sender.record.sends.len() as u64 * size;
            if self.taken == offered {
                if !self.sender.has_more() || connection.send(&[0x5a]) == 0 {
                    return;
                }
                self.taken += 1;
                self.sender.record.sends.push(now);
                continue;
            }
            give(connection, &mut self.taken, offered);
            if self.taken < offered {
                return;
            }
        }
    }

    fn next_timer(&self) -> Option<Time> {
        let bulk = self.sender.flow.pattern == super::super::model::Pattern::Bulk;
        if bulk && !self.sender.record.sends.is_empty() || !self.sender.has_more() {
            return None;
        }
        self.sender.pace.due().map(Time::from_nanos)
    }

    fn on_segment(&mut self, segment: Segment) {
        self.retransmitted += u64::from(segment.again);
        let size = self.sender.flow.size as u64;
        let record = |message| Transmission {
            sent: MessageTransmission {
                message,
                time: segment.time.as_nanos(),
                alternate: false,
            },
            // The bytes of a segment with several messages are counted for the first.
            bytes: if message == segment.offset / size {
                segment.len
            } else {
                0
            },
            again: segment.again,
        };
        let last = (segment.offset + segment.len as u64).saturating_sub(1) / size;
        let all = (segment.offset / size..=last).map(record);
        self.sender.record.transmissions.extend(all);
    }
}

impl Server {
    fn on_progress(&mut self, now: Time, connection: &mut Connection<'_>) {
        let before = self.received / self.size as u64;
        self.received += take(connection);
        let after = self.received / self.size as u64;
        match self.response {
            None => {
                let new = (before..after).map(|number| (number, now.as_nanos()));
                self.record.deliveries.extend(new);
            }
            Some(size) => give(connection, &mut self.answered, after * size as u64),
        }
    }
}

impl TcpApplication for TcpProgram {
    fn on_progress(&mut self, now: Time, connection: &mut Connection<'_>) {
        match self {
            Self::Client(client) => client.on_progress(now, connection),
            Self::Server(server) => server.on_progress(now, connection),
        }
    }

    fn next_timer(&self) -> Option<Time> {
        match self {
            Self::Client(client) => client.next_timer(),
            Self::Server(_) => None,
        }
    }

    fn on_segment(&mut self, segment: Segment) {
        if let Self::Client(client) = self {
            client.on_segment(segment);
        }
    }
}
