//! SIMCO middlebox over TCP that does not always answer, and may be unreachable.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use carrick_simco::backend::MemoryBackend;
use carrick_simco::message::{Header, Request, TransactionId};
use carrick_simco::middlebox::{
    AgentConfig, Connection, Middlebox, MiddleboxConfig, SessionOutput,
};
use carrick_simco::session::Identity;
use carrick_simco_net::transport::{Clock, MessageLink, StreamMessage, tcp};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Behaviour of the middlebox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MiddleboxState {
    Answering,
    /// It carries out requests, but its replies are lost.
    LosingReplies,
    /// It accepts no connection. Granted rules stay.
    Unreachable,
}

/// State of the middlebox, as seen by the tests.
#[derive(Default)]
struct Observed {
    /// Number of requests received, by sub-type.
    requests: BTreeMap<u8, usize>,
    rules: usize,
    connected: bool,
}

pub(crate) struct Simco {
    pub(crate) port: u16,
    state: watch::Sender<MiddleboxState>,
    observed: Arc<Mutex<Observed>>,
}

impl Simco {
    /// Serves one connection after the other, on the current runtime.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (state, states) = watch::channel(MiddleboxState::Answering);
        let observed = Arc::<Mutex<Observed>>::default();
        let agent = Identity::new("agent").unwrap();
        let config = MiddleboxConfig {
            agents: vec![AgentConfig::new(agent.clone(), None)],
            anonymous: Some(agent.clone()),
            ..MiddleboxConfig::packet_filter(agent)
        };
        let mut server = Server {
            middlebox: Middlebox::new(config, MemoryBackend::default(), [1; 32]),
            clock: Clock::start(),
            state: states,
            observed: Arc::clone(&observed),
        };
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                if server.state() != MiddleboxState::Unreachable {
                    server.serve(tcp::link(stream).unwrap()).await;
                }
            }
        });
        Self {
            port,
            state,
            observed,
        }
    }

    pub(crate) fn set_state(&self, state: MiddleboxState) {
        self.state.send_replace(state);
    }

    /// Number of rules.
    pub(crate) fn rules(&self) -> usize {
        self.observed.lock().unwrap().rules
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.observed.lock().unwrap().connected
    }

    /// Number of requests of this type received.
    pub(crate) fn requests(&self, request: &Request) -> usize {
        let header = Header::parse(&request.to_bytes(TransactionId(1))).unwrap();
        let observed = self.observed.lock().unwrap();
        observed
            .requests
            .get(&header.sub_type)
            .copied()
            .unwrap_or(0)
    }
}

/// Task that serves the connections.
struct Server {
    middlebox: Middlebox<MemoryBackend>,
    clock: Clock,
    state: watch::Receiver<MiddleboxState>,
    observed: Arc<Mutex<Observed>>,
}

impl Server {
    fn state(&self) -> MiddleboxState {
        *self.state.borrow()
    }

    async fn serve(&mut self, mut link: MessageLink) {
        let session = self
            .middlebox
            .connected(self.clock.now(), &Connection::plain(1));
        self.observed.lock().unwrap().connected = true;
        let (mut received, mut replies) = (Vec::new(), Vec::new());
        let mut state = self.state.clone();
        loop {
            let read = tokio::select! {
                read = link.reader.read(&mut received) => read,
                _ = state.wait_for(|state| *state == MiddleboxState::Unreachable) => break,
            };
            if read.is_err() {
                break;
            }
            for StreamMessage { stream, message } in received.drain(..) {
                let sub_type = Header::parse(&message).unwrap().sub_type;
                let now = self.clock.now();
                self.middlebox
                    .handle_message(now, session, stream, &message);
                let mut observed = self.observed.lock().unwrap();
                *observed.requests.entry(sub_type).or_default() += 1;
                observed.rules = self.middlebox.rules().len();
            }
            while let Some(SessionOutput::Send { stream, message }) =
                self.middlebox.poll_output(session)
            {
                if self.state() == MiddleboxState::Answering {
                    replies.push(StreamMessage { stream, message });
                }
            }
            if link.writer.write(&mut replies).await.is_err() {
                break;
            }
        }
        self.middlebox.disconnected(session);
        self.observed.lock().unwrap().connected = false;
    }
}
