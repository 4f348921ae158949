//! Agent and middlebox on simulated hosts: the very state machines of `carrick-simco`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::{
    AssociationConfig, AssociationId, Endpoint, Event, Part, Ppid, SendOptions, StreamId, Time,
    TraceEvent, TraceRecord,
};
use carrick_simco::agent::{Agent, AgentEvent, AgentSettings};
use carrick_simco::backend::MemoryBackend;
use carrick_simco::load::{Generator, Workload};
use carrick_simco::middlebox::{
    AgentConfig, Connection, Middlebox, MiddleboxConfig, SessionId, SessionOutput,
};
use carrick_simco::session::Identity;
use carrick_simco::{PORT, PPID};

use super::setup::{MIDDLEBOX, PROCESSING};
use crate::sctp_host::Application;
use crate::seed::derive_bytes;

fn options(stream: u16) -> SendOptions {
    SendOptions {
        stream: StreamId(stream),
        ppid: Ppid(PPID),
        ..SendOptions::default()
    }
}

/// The agent of a run.
pub(super) fn agent(seed: u64) -> Agent {
    let settings = AgentSettings {
        // A transaction behind a lost retransmission takes longer than a user would wait; it counts
        // with the time it takes.
        timeout: Duration::from_secs(600),
        ..AgentSettings::default()
    };
    Agent::new(settings, derive_bytes(seed, &[3]))
}

/// The load of a run.
pub(super) fn generator(workload: Workload, seed: u64) -> Generator {
    Generator::new(workload, crate::seed::derive(seed, &[4]))
}

/// The middlebox of a run.
pub(super) fn middlebox(seed: u64) -> Result<Middlebox<MemoryBackend>, String> {
    let name = |name| Identity::new(name).ok_or_else(|| format!("{name} is no name"));
    let agent = name("agent")?;
    // Any agent counts as this one: the paper's prototype had no authentication.
    let config = MiddleboxConfig {
        agents: vec![AgentConfig::new(agent.clone(), None)],
        anonymous: Some(agent),
        ..MiddleboxConfig::packet_filter(name("middlebox")?)
    };
    let seed = derive_bytes(seed, &[5]);
    Ok(Middlebox::new(config, MemoryBackend::default(), seed))
}

/// The load generator with its agent.
pub(super) struct AgentProgram {
    config: Arc<AssociationConfig>,
    streams: u16,
    start: Option<Time>,
    id: Option<AssociationId>,
    agent: Agent,
    pub(super) generator: Generator,
    /// Expirations of T3-rtx.
    pub(super) timeouts: u64,
    pub(super) failure: Option<String>,
}

impl AgentProgram {
    pub(super) fn new(
        mut config: AssociationConfig,
        streams: u16,
        workload: Workload,
        seed: u64,
    ) -> Self {
        config.outbound_streams = streams;
        config.trace = true;
        Self {
            config: Arc::new(config),
            streams,
            start: Some(Time::ZERO),
            id: None,
            agent: agent(seed),
            generator: generator(workload, seed),
            timeouts: 0,
            failure: None,
        }
    }

    /// Requests without an answer.
    pub(super) fn pending(&self) -> usize {
        self.agent.pending()
    }

    /// Passes on what the agent wants and tells, until it is quiet.
    fn pump(&mut self, now: Time, endpoint: &mut Endpoint) {
        let Some(id) = self.id else { return };
        loop {
            if let Some(event) = self.agent.poll_event() {
                match &event {
                    AgentEvent::Opened(_) => self.generator.start(now, &mut self.agent),
                    AgentEvent::Closed(reason) => self.fail(format!("session: {reason:?}")),
                    _ => {}
                }
                self.generator.handle_event(now, &mut self.agent, &event);
            } else if let Some((stream, message)) = self.agent.poll_transmit() {
                if let Err(error) = endpoint.send(now, id, options(stream), message) {
                    self.fail(format!("send: {error}"));
                }
            } else {
                return;
            }
        }
    }

    fn fail(&mut self, what: String) {
        self.failure.get_or_insert(what);
    }
}

impl Application for AgentProgram {
    fn next_timer(&self) -> Option<Time> {
        let generator = self.generator.poll_timeout();
        let timers = [self.start, self.agent.poll_timeout(), generator];
        timers.into_iter().flatten().min()
    }

    fn on_timer(&mut self, now: Time, endpoint: &mut Endpoint) {
        if self.start.take().is_some() {
            match endpoint.connect(now, &[MIDDLEBOX], PORT, None, self.config.clone()) {
                Ok(id) => self.id = Some(id),
                Err(error) => self.fail(format!("connect: {error}")),
            }
        }
        self.agent.handle_timeout(now);
        self.generator.handle_timeout(now, &mut self.agent);
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
                    self.fail(format!("{pairs} stream pairs instead of {}", self.streams));
                }
                self.agent.connected(now, pairs);
            }
            Event::Closed(reason) => self.fail(format!("the association ended: {reason:?}")),
            _ => {}
        }
        self.pump(now, endpoint);
    }

    fn on_readable(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId) {
        while let Some(message) = endpoint.receive(id) {
            if message.part != Part::Whole {
                self.fail("a reply came in parts".into());
            }
            let stream = message.stream.0;
            let message = message.payload.into_bytes();
            self.agent.handle_message(now, stream, &message);
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

/// A message that the middlebox has got and not yet looked at.
struct Waiting {
    due: Time,
    session: SessionId,
    stream: u16,
    message: Bytes,
}

/// The middlebox. It looks at each message [`PROCESSING`] after it came.
pub(super) struct MiddleboxProgram {
    middlebox: Middlebox<MemoryBackend>,
    association: Option<(AssociationId, SessionId)>,
    waiting: VecDeque<Waiting>,
    pub(super) failure: Option<String>,
}

impl MiddleboxProgram {
    pub(super) fn new(seed: u64) -> Result<Self, String> {
        Ok(Self {
            middlebox: middlebox(seed)?,
            association: None,
            waiting: VecDeque::new(),
            failure: None,
        })
    }

    /// Rules that there are.
    pub(super) fn rules(&self) -> usize {
        self.middlebox.rules().len()
    }

    fn pump(&mut self, now: Time, endpoint: &mut Endpoint) {
        while self.middlebox.poll_event().is_some() {}
        let Some((id, session)) = self.association else {
            return;
        };
        while let Some(output) = self.middlebox.poll_output(session) {
            match output {
                SessionOutput::Send { stream, message } => {
                    if let Err(error) = endpoint.send(now, id, options(stream), message) {
                        self.failure.get_or_insert(format!("send: {error}"));
                    }
                }
                SessionOutput::Close => {
                    self.failure.get_or_insert("the session was closed".into());
                }
            }
        }
    }
}

impl Application for MiddleboxProgram {
    fn next_timer(&self) -> Option<Time> {
        let message = self.waiting.front().map(|waiting| waiting.due);
        let timers = [message, self.middlebox.poll_timeout()];
        timers.into_iter().flatten().min()
    }

    fn on_timer(&mut self, now: Time, endpoint: &mut Endpoint) {
        self.middlebox.handle_timeout(now);
        while let Some(waiting) = self.waiting.pop_front_if(|waiting| waiting.due <= now) {
            let Waiting {
                session,
                stream,
                message,
                ..
            } = waiting;
            self.middlebox
                .handle_message(now, session, stream, &message);
        }
        self.pump(now, endpoint);
    }

    fn on_event(&mut self, now: Time, _: &mut Endpoint, id: AssociationId, event: Event) {
        if let Event::Established {
            outbound_streams,
            inbound_streams,
            ..
        } = event
        {
            let connection = Connection::plain(outbound_streams.min(inbound_streams));
            let session = self.middlebox.connected(now, &connection);
            self.association = Some((id, session));
        }
    }

    fn on_readable(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId) {
        while let Some(message) = endpoint.receive(id) {
            if let Some((_, session)) = self.association {
                self.waiting.push_back(Waiting {
                    due: now + PROCESSING,
                    session,
                    stream: message.stream.0,
                    message: message.payload.into_bytes(),
                });
            }
        }
    }
}
