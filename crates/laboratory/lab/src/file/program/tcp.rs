//! Programs over TCP, whose messages are pieces of a byte stream.

use bytes::Bytes;
use carrick_netsim::Time;

use super::super::measure::{FlowRecord, Transmission};
use super::{Carried, FlowSink, FlowSource, HostProgram};
use crate::live::Program;
use carrick_hosts::core_time;
use carrick_hosts::tcp::{Connection, Segment, TcpApplication, TcpHost};

/// Program of a host: passes the messages of a program to the connection.
#[derive(Debug)]
pub(in crate::file) struct TcpProgram {
    carried: Carried,
    connected: bool,
}

impl TcpProgram {
    pub(in crate::file) fn new(program: Box<dyn Program>) -> Self {
        Self {
            carried: Carried::new(program),
            connected: false,
        }
    }

    /// Reports the established connection to the program, once.
    fn connect(&mut self, now: Time) {
        if !std::mem::replace(&mut self.connected, true) {
            self.carried.program.connected(core_time(now), 1);
        }
    }
}

impl HostProgram for TcpHost<TcpProgram> {
    fn record(&self, flow: usize, end: usize) -> Option<&FlowRecord> {
        let own = &self.application().carried;
        if end == 0 {
            return own.program().map(|own: &FlowSource| &own.sender.record);
        }
        let sink: Option<&FlowSink> = own.program();
        sink.filter(|sink| sink.number == flow)
            .map(|sink| &sink.record)
    }

    fn carried(&self, _: usize, _: usize) -> Option<&Carried> {
        Some(&self.application().carried)
    }

    fn retransmitted(&self) -> Option<u64> {
        Some(self.retransmitted())
    }

    fn failure(&self) -> Option<String> {
        self.application().carried.program.failure()
    }
}

impl TcpApplication for TcpProgram {
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
        loop {
            if waiting.is_none() && (connection.has_room() || !program.needs_room()) {
                *waiting = program.poll_transmit(now);
            }
            let Some(mut out) = waiting.take() else {
                return;
            };
            let sent = connection.send(&out.payload);
            if sent < out.payload.len() {
                let _ = out.payload.split_to(sent);
                *waiting = Some(out);
                return;
            }
        }
    }

    fn next_timer(&self) -> Option<Time> {
        let due = self.carried.program.poll_timeout()?;
        Some(Time::from_nanos(due.as_nanos()))
    }

    fn on_segment(&mut self, segment: Segment) {
        if let Some(source) = self.carried.program_mut::<FlowSource>() {
            let size = source.sender.flow.size as u64;
            let all = Transmission::of_segment(&segment, size);
            source.sender.record.transmissions.extend(all);
        }
    }
}
