//! Agent and middlebox on simulated hosts with SCTP.

use std::sync::Arc;

use bytes::Bytes;
use carrick_proto::{
    AssociationConfig, AssociationId, Endpoint, Event, Part, Ppid, SendOptions, StreamId, Time,
    TraceEvent, TraceRecord,
};
use carrick_simco::load::Workload;
use carrick_simco::{PORT, PPID};

use super::setup::MIDDLEBOX;
use super::sides::{AgentSide, MiddleboxSide};
use crate::sctp_host::Application;

/// Returns a function that sends messages on an association.
fn sender(
    now: Time,
    endpoint: &mut Endpoint,
    id: AssociationId,
) -> impl FnMut(u16, Bytes) -> Result<(), String> {
    move |stream, message| {
        let options = SendOptions {
            stream: StreamId(stream),
            ppid: Ppid(PPID),
            ..SendOptions::default()
        };
        let sent = endpoint.send(now, id, options, message);
        sent.map_err(|error| format!("send: {error}"))
    }
}

/// Load generator with its agent.
pub(super) struct AgentProgram {
    config: Arc<AssociationConfig>,
    streams: u16,
    start: Option<Time>,
    id: Option<AssociationId>,
    pub(super) side: AgentSide,
    /// Expirations of T3-rtx.
    pub(super) timeouts: u64,
}

impl AgentProgram {
    pub(super) fn new(
        mut config: AssociationConfig,
        streams: u16,
        workload: Workload,
        seed: u64,
    ) -> Self {
        config.streams.outbound_streams = streams;
        config.research.trace = true;
        Self {
            config: Arc::new(config),
            streams,
            start: Some(Time::ZERO),
            id: None,
            side: AgentSide::new(workload, seed),
            timeouts: 0,
        }
    }

    fn pump(&mut self, now: Time, endpoint: &mut Endpoint) {
        if let Some(id) = self.id {
            self.side.pump(now, &mut sender(now, endpoint, id));
        }
    }
}

impl Application for AgentProgram {
    fn next_timer(&self) -> Option<Time> {
        let timers = [self.start, self.side.next_timer()];
        timers.into_iter().flatten().min()
    }

    fn on_timer(&mut self, now: Time, endpoint: &mut Endpoint) {
        if self.start.take().is_some() {
            match endpoint.connect(now, &[MIDDLEBOX], PORT, None, self.config.clone()) {
                Ok(id) => self.id = Some(id),
                Err(error) => self.side.fail(format!("connect: {error}")),
            }
        }
        self.side.handle_timeout(now);
        self.pump(now, endpoint);
    }

    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, _: AssociationId, event: Event) {
        match event {
            Event::Established {
                outbound_streams,
                inbound_streams,
                ..
            } => {
                let pairs = outbound_streams.min(inbound_streams);
                if pairs != self.streams {
                    let streams = self.streams;
                    self.side
                        .fail(format!("{pairs} stream pairs instead of {streams}"));
                }
                self.side.connected(now, pairs);
            }
            Event::Closed(reason) => self.side.fail(format!("the association ended: {reason:?}")),
            _ => {}
        }
        self.pump(now, endpoint);
    }

    fn on_readable(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId) {
        while let Some(message) = endpoint.receive(id) {
            if message.part != Part::Whole {
                self.side.fail("a reply was delivered partially".into());
            }
            let stream = message.stream.0;
            let message = message.payload.into_bytes();
            self.side.handle_message(now, stream, &message);
        }
        self.pump(now, endpoint);
    }

    fn wants_trace(&self) -> bool {
        true
    }

    fn on_trace(&mut self, _: AssociationId, record: &TraceRecord) {
        self.timeouts += u64::from(matches!(record.event, TraceEvent::Timeout { .. }));
    }
}

/// The middlebox.
pub(super) struct MiddleboxProgram {
    id: Option<AssociationId>,
    pub(super) side: MiddleboxSide,
}

impl MiddleboxProgram {
    pub(super) fn new(seed: u64) -> Result<Self, String> {
        Ok(Self {
            id: None,
            side: MiddleboxSide::new(seed)?,
        })
    }
}

impl Application for MiddleboxProgram {
    fn next_timer(&self) -> Option<Time> {
        self.side.next_timer()
    }

    fn on_timer(&mut self, now: Time, endpoint: &mut Endpoint) {
        self.side.handle_timeout(now);
        if let Some(id) = self.id {
            self.side.pump(&mut sender(now, endpoint, id));
        }
    }

    fn on_event(&mut self, now: Time, _: &mut Endpoint, id: AssociationId, event: Event) {
        if let Event::Established {
            outbound_streams,
            inbound_streams,
            ..
        } = event
        {
            self.id = Some(id);
            self.side
                .connected(now, outbound_streams.min(inbound_streams));
        }
    }

    fn on_readable(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId) {
        while let Some(message) = endpoint.receive(id) {
            let stream = message.stream.0;
            self.side.receive(now, stream, message.payload.into_bytes());
        }
    }
}
