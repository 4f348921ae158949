//! Agent and middlebox without their transport: the state machines of `carrick-simco`, and the code
//! that drives them in the same way over SCTP and TCP.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_simco::agent::{Agent, AgentEvent, AgentSettings};
use carrick_simco::backend::MemoryBackend;
use carrick_simco::load::{Generator, Workload};
use carrick_simco::middlebox::{
    AgentConfig, Connection, Middlebox, MiddleboxConfig, SessionId, SessionOutput,
};
use carrick_simco::session::Identity;

use super::setup::PROCESSING;
use crate::seed::{derive, derive_bytes};

/// Returns the agent of a run.
pub(super) fn agent(seed: u64) -> Agent {
    let settings = AgentSettings {
        // A transaction behind a lost retransmission takes longer than a user would wait; it is
        // counted with its response time.
        timeout: Duration::from_secs(600),
        ..AgentSettings::default()
    };
    Agent::new(settings, derive_bytes(seed, &[3]))
}

/// Returns the load generator of a run.
pub(super) fn generator(workload: Workload, seed: u64) -> Generator {
    Generator::new(workload, derive(seed, &[4]))
}

/// Returns the middlebox of a run.
pub(super) fn middlebox(seed: u64) -> Result<Middlebox<MemoryBackend>, String> {
    let name = |name| Identity::new(name).ok_or_else(|| format!("{name} is not a valid name"));
    let agent = name("agent")?;
    // Any agent is accepted: the paper's prototype had no authentication.
    let config = MiddleboxConfig {
        agents: vec![AgentConfig::new(agent.clone(), None)],
        anonymous: Some(agent),
        ..MiddleboxConfig::packet_filter(name("middlebox")?)
    };
    let seed = derive_bytes(seed, &[5]);
    Ok(Middlebox::new(config, MemoryBackend::default(), seed))
}

/// Sends a message on a stream, or returns an error.
pub(super) type Send<'a> = dyn FnMut(u16, Bytes) -> Result<(), String> + 'a;

/// Load generator with its agent.
pub(super) struct AgentSide {
    agent: Agent,
    pub(super) generator: Generator,
    pub(super) failure: Option<String>,
}

impl AgentSide {
    pub(super) fn new(workload: Workload, seed: u64) -> Self {
        Self {
            agent: agent(seed),
            generator: generator(workload, seed),
            failure: None,
        }
    }

    /// Returns the number of requests without a reply.
    pub(super) fn pending(&self) -> usize {
        self.agent.pending()
    }

    pub(super) fn fail(&mut self, what: String) {
        self.failure.get_or_insert(what);
    }

    pub(super) fn next_timer(&self) -> Option<Time> {
        let timers = [self.agent.poll_timeout(), self.generator.poll_timeout()];
        timers.into_iter().flatten().min()
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        self.agent.handle_timeout(now);
        self.generator.handle_timeout(now, &mut self.agent);
    }

    /// Handles the established transport connection.
    pub(super) fn connected(&mut self, now: Time, pairs: u16) {
        self.agent.connected(now, pairs);
    }

    pub(super) fn handle_message(&mut self, now: Time, stream: u16, message: &Bytes) {
        self.agent.handle_message(now, stream, message);
    }

    /// Forwards the agent's output until there is none.
    pub(super) fn pump(&mut self, now: Time, send: &mut Send<'_>) {
        loop {
            if let Some(event) = self.agent.poll_event() {
                match &event {
                    AgentEvent::Opened(_) => self.generator.start(now, &mut self.agent),
                    AgentEvent::Closed(reason) => self.fail(format!("session: {reason:?}")),
                    _ => {}
                }
                self.generator.handle_event(now, &mut self.agent, &event);
            } else if let Some((stream, message)) = self.agent.poll_transmit() {
                if let Err(error) = send(stream, message) {
                    self.fail(error);
                }
            } else {
                return;
            }
        }
    }
}

/// A message that the middlebox has received and not yet processed.
struct Waiting {
    due: Time,
    session: SessionId,
    stream: u16,
    message: Bytes,
}

/// Middlebox, which processes each message [`PROCESSING`] after its arrival.
pub(super) struct MiddleboxSide {
    middlebox: Middlebox<MemoryBackend>,
    session: Option<SessionId>,
    waiting: VecDeque<Waiting>,
    pub(super) failure: Option<String>,
}

impl MiddleboxSide {
    pub(super) fn new(seed: u64) -> Result<Self, String> {
        Ok(Self {
            middlebox: middlebox(seed)?,
            session: None,
            waiting: VecDeque::new(),
            failure: None,
        })
    }

    /// Returns the number of rules.
    pub(super) fn rules(&self) -> usize {
        self.middlebox.rules().len()
    }

    pub(super) fn next_timer(&self) -> Option<Time> {
        let message = self.waiting.front().map(|waiting| waiting.due);
        let timers = [message, self.middlebox.poll_timeout()];
        timers.into_iter().flatten().min()
    }

    /// Processes the messages that are due.
    pub(super) fn handle_timeout(&mut self, now: Time) {
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
    }

    /// Handles the established transport connection.
    pub(super) fn connected(&mut self, now: Time, pairs: u16) {
        self.session = Some(self.middlebox.connected(now, &Connection::plain(pairs)));
    }

    /// Queues a received message.
    pub(super) fn receive(&mut self, now: Time, stream: u16, message: Bytes) {
        if let Some(session) = self.session {
            self.waiting.push_back(Waiting {
                due: now + PROCESSING,
                session,
                stream,
                message,
            });
        }
    }

    /// Forwards the middlebox's output.
    pub(super) fn pump(&mut self, send: &mut Send<'_>) {
        while self.middlebox.poll_event().is_some() {}
        let Some(session) = self.session else {
            return;
        };
        while let Some(output) = self.middlebox.poll_output(session) {
            let outcome = match output {
                SessionOutput::Send { stream, message } => send(stream, message),
                SessionOutput::Close => Err("the session was closed".into()),
            };
            if let Err(error) = outcome {
                self.failure.get_or_insert(error);
            }
        }
    }
}
