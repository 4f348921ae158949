//! A flow over TCP: consecutive messages of one size in the byte stream.

use bytes::Bytes;
use carrick_netsim::Time;

use super::super::measure::{FlowRecord, Transmission};
use super::{Carried, Sender};
use carrick_hosts::core_time;
use carrick_hosts::tcp::{Connection, Segment, TcpApplication};

const PIECE: usize = 1 << 14;

/// Program of a host: one end of a flow.
#[derive(Debug)]
pub(in crate::file) enum TcpProgram {
    /// Sends messages, and reads the responses.
    Client(Box<Client>),
    /// Reads messages, and responds to them.
    Server(Box<Server>),
    /// Carries the byte stream of a program.
    Carrier(Box<Carrier>),
}

#[derive(Debug)]
pub(in crate::file) struct Client {
    pub(in crate::file) sender: Sender,
    begun: bool,
    /// Bytes of the messages passed to TCP.
    taken: u64,
    answers: u64,
}

#[derive(Debug)]
pub(in crate::file) struct Carrier {
    pub(in crate::file) carried: Carried,
    connected: bool,
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
        }))
    }

    pub(in crate::file) fn carrier(carried: Carried) -> Self {
        Self::Carrier(Box::new(Carrier {
            carried,
            connected: false,
        }))
    }

    /// Returns the failure of the program whose byte stream is carried.
    pub(in crate::file) fn failure(&self) -> Option<String> {
        match self {
            Self::Carrier(carrier) => carrier.carried.program.failure(),
            _ => None,
        }
    }

    pub(in crate::file) fn server(number: usize, size: usize, response: Option<usize>) -> Self {
        Self::Server(Box::new(Server {
            number,
            size,
            response,
            received: 0,
            answered: 0,
            record: FlowRecord::default(),
        }))
    }
}

/// Passes bytes to the connection until `taken` reaches `offered` or the connection accepts no
/// more.
fn give(connection: &mut Connection, taken: &mut u64, offered: u64) {
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

impl Client {
    fn on_progress(&mut self, now: Time, connection: &mut Connection) {
        let nanos = now.as_nanos();
        let size = self.sender.flow.size as u64;
        if !self.begun && connection.is_established() {
            self.begun = true;
            let start = self.sender.flow.start.as_nanos() as u64;
            let settle = self.sender.flow.settle.as_nanos() as u64;
            self.sender.pace.begin(start.max(nanos + settle));
        }
        if self.sender.flow.is_bulk() {
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
    }

    fn on_data(&mut self, now: Time, len: usize) {
        let Some(response) = self.sender.flow.response else {
            return;
        };
        let before = self.answers / response as u64;
        self.answers += len as u64;
        for number in before..self.answers / response as u64 {
            self.sender.record.deliveries.push((number, now.as_nanos()));
        }
    }

    /// Fills the connection of a bulk flow; SEND of a message is when TCP accepts its first byte.
    fn fill(&mut self, now: u64, connection: &mut Connection) {
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
        if self.sender.flow.is_bulk() && !self.sender.record.sends.is_empty()
            || !self.sender.has_more()
        {
            return None;
        }
        self.sender.pace.due().map(Time::from_nanos)
    }

    fn on_segment(&mut self, segment: Segment) {
        let size = self.sender.flow.size as u64;
        let all = Transmission::of_segment(&segment, size);
        self.sender.record.transmissions.extend(all);
    }
}

impl Server {
    fn on_data(&mut self, now: Time, len: usize) {
        let before = self.received / self.size as u64;
        self.received += len as u64;
        if self.response.is_none() {
            let new = before..self.received / self.size as u64;
            let new = new.map(|number| (number, now.as_nanos()));
            self.record.deliveries.extend(new);
        }
    }

    fn on_progress(&mut self, connection: &mut Connection) {
        if let Some(response) = self.response {
            let messages = self.received / self.size as u64;
            give(connection, &mut self.answered, messages * response as u64);
        }
    }
}

impl Carrier {
    /// Reports the established connection to the program, once.
    fn connect(&mut self, now: Time) {
        if !std::mem::replace(&mut self.connected, true) {
            self.carried.program.connected(core_time(now), 1);
        }
    }

    fn on_data(&mut self, now: Time, data: Bytes) {
        self.connect(now);
        let program = &mut self.carried.program;
        program.handle_message(core_time(now), 0, data);
    }

    fn on_progress(&mut self, now: Time, connection: &mut Connection) {
        if connection.is_established() {
            self.connect(now);
        }
        let now = core_time(now);
        let Carried { program, waiting } = &mut self.carried;
        if program.poll_timeout().is_some_and(|due| due <= now) {
            program.handle_timeout(now);
        }
        while let Some(mut out) = waiting.take().or_else(|| program.poll_transmit(now)) {
            let sent = connection.send(&out.payload);
            if sent < out.payload.len() {
                let _ = out.payload.split_to(sent);
                *waiting = Some(out);
                break;
            }
        }
    }
}

impl TcpApplication for TcpProgram {
    fn on_data(&mut self, now: Time, data: Bytes) {
        match self {
            Self::Client(client) => client.on_data(now, data.len()),
            Self::Server(server) => server.on_data(now, data.len()),
            Self::Carrier(carrier) => carrier.on_data(now, data),
        }
    }

    fn on_progress(&mut self, now: Time, connection: &mut Connection) {
        match self {
            Self::Client(client) => client.on_progress(now, connection),
            Self::Server(server) => server.on_progress(connection),
            Self::Carrier(carrier) => carrier.on_progress(now, connection),
        }
    }

    fn next_timer(&self) -> Option<Time> {
        match self {
            Self::Client(client) => client.next_timer(),
            Self::Server(_) => None,
            Self::Carrier(carrier) => {
                let due = carrier.carried.program.poll_timeout()?;
                Some(Time::from_nanos(due.as_nanos()))
            }
        }
    }

    fn on_segment(&mut self, segment: Segment) {
        if let Self::Client(client) = self {
            client.on_segment(segment);
        }
    }
}
