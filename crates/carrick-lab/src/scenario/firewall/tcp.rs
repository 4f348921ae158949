//! Agent and middlebox on simulated hosts with TCP, with the messages in one byte stream.

use std::collections::VecDeque;

use bytes::Bytes;
use carrick_netsim::Time;
use carrick_simco::PORT;
use carrick_simco::load::Workload;
use carrick_simco::message::StreamReader;

use super::setup::{AGENT, MIDDLEBOX};
use super::sides::{AgentSide, MiddleboxSide};
use crate::sctp_host::core_time;
use crate::seed::derive;
use crate::tcp_host::{Connection, TcpApplication, TcpConfig, TcpHost};

/// Octets read at a time.
const PIECE: usize = 1 << 14;

/// One end of the connection: messages queued for the send buffer, and the parser of received ones.
#[derive(Default)]
struct Wire {
    up: bool,
    waiting: VecDeque<Bytes>,
    reader: StreamReader,
}

impl Wire {
    /// Returns true once, when the connection is established.
    fn comes_up(&mut self, connection: &Connection<'_>) -> bool {
        let up = connection.is_established();
        up && !std::mem::replace(&mut self.up, up)
    }

    /// Reads the available data, and passes on complete messages.
    fn read(
        &mut self,
        now: Time,
        connection: &mut Connection<'_>,
        mut take: impl FnMut(carrick_proto::Time, Bytes),
    ) {
        let mut buffer = [0; PIECE];
        let now = core_time(now);
        loop {
            let room = self.reader.room().min(PIECE);
            let read = connection.receive(&mut buffer[..room]);
            if read == 0 {
                return;
            }
            self.reader.push(now, &buffer[..read]);
            while let Some(message) = self.reader.next_message() {
                take(now, message);
            }
        }
    }

    /// Writes as much as fits into the send buffer.
    fn write(&mut self, connection: &mut Connection<'_>) {
        while let Some(first) = self.waiting.front_mut() {
            let sent = connection.send(first);
            if sent < first.len() {
                let _ = first.split_to(sent);
                return;
            }
            self.waiting.pop_front();
        }
    }
}

/// Load generator with its agent.
pub(super) struct TcpAgent {
    wire: Wire,
    pub(super) side: AgentSide,
}

impl TcpApplication for TcpAgent {
    fn on_progress(&mut self, now: Time, connection: &mut Connection<'_>) {
        if self.wire.comes_up(connection) {
            self.side.connected(core_time(now), 1);
        }
        let Self { wire, side } = self;
        wire.read(now, connection, |now, message| {
            side.handle_message(now, 0, &message);
        });
        if side.next_timer().is_some_and(|due| due <= core_time(now)) {
            side.handle_timeout(core_time(now));
        }
        side.pump(core_time(now), &mut |_, message| {
            wire.waiting.push_back(message);
            Ok(())
        });
        wire.write(connection);
    }

    fn next_timer(&self) -> Option<Time> {
        let due = self.side.next_timer()?;
        Some(Time::from_nanos(due.as_nanos()))
    }
}

/// The middlebox.
pub(super) struct TcpMiddlebox {
    wire: Wire,
    pub(super) side: MiddleboxSide,
}

impl TcpApplication for TcpMiddlebox {
    fn on_progress(&mut self, now: Time, connection: &mut Connection<'_>) {
        if self.wire.comes_up(connection) {
            self.side.connected(core_time(now), 1);
        }
        let Self { wire, side } = self;
        wire.read(now, connection, |now, message| {
            side.receive(now, 0, message);
        });
        if side.next_timer().is_some_and(|due| due <= core_time(now)) {
            side.handle_timeout(core_time(now));
        }
        side.pump(&mut |_, message| {
            wire.waiting.push_back(message);
            Ok(())
        });
        wire.write(connection);
    }

    fn next_timer(&self) -> Option<Time> {
        let due = self.side.next_timer()?;
        Some(Time::from_nanos(due.as_nanos()))
    }
}

/// Returns Reno without Nagle's algorithm ("nodelay"), otherwise the defaults of
/// [`TcpConfig::new`].
fn config(address: std::net::IpAddr, seed: u64) -> TcpConfig {
    TcpConfig {
        nagle: false,
        ..TcpConfig::new(address, seed)
    }
}

/// Returns the two hosts.
pub(super) fn hosts(
    workload: Workload,
    seed: u64,
) -> Result<(TcpHost<TcpAgent>, TcpHost<TcpMiddlebox>), String> {
    let agent = TcpAgent {
        wire: Wire::default(),
        side: AgentSide::new(workload, seed),
    };
    let middlebox = TcpMiddlebox {
        wire: Wire::default(),
        side: MiddleboxSide::new(seed)?,
    };
    let [a, b] = [1, 2].map(|label| derive(seed, &[6, label]));
    let peer = (MIDDLEBOX, PORT);
    Ok((
        TcpHost::connect(config(AGENT, a), peer, agent),
        TcpHost::listen(config(MIDDLEBOX, b), PORT, middlebox),
    ))
}
