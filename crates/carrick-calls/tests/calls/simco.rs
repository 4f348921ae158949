//! A SIMCO middlebox on TCP that does not always answer, and may be away.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use carrick_simco::backend::MemoryBackend;
use carrick_simco::message::{Header, Request, TransactionId};
use carrick_simco::middlebox::{
    AgentConfig, Connection, Middlebox, MiddleboxConfig, SessionOutput,
};
use carrick_simco::session::Identity;
use carrick_simco_net::transport::{Clock, Link, Packet, tcp};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Behaviour of the middlebox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Answers,
    /// It does what it is asked to, and its replies are lost.
    LosesReplies,
    /// It has no connection. What it granted stays.
    IsAway,
}

/// Messages received.
#[derive(Default)]
struct Seen {
    /// Requests that came, by sub-type.
    asked: BTreeMap<u8, usize>,
    rules: usize,
    connected: bool,
}

pub(crate) struct Simco {
    pub(crate) port: u16,
    way: watch::Sender<Way>,
    seen: Arc<Mutex<Seen>>,
}

impl Simco {
    /// Serves one connection after the other, on the current runtime.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (way, ways) = watch::channel(Way::Answers);
        let seen = Arc::<Mutex<Seen>>::default();
        let agent = Identity::new("agent").unwrap();
        let config = MiddleboxConfig {
            agents: vec![AgentConfig::new(agent.clone(), None)],
            anonymous: Some(agent.clone()),
            ..MiddleboxConfig::packet_filter(agent)
        };
        let mut serving = Serving {
            middlebox: Middlebox::new(config, MemoryBackend::default(), [1; 32]),
            clock: Clock::start(),
            way: ways,
            seen: Arc::clone(&seen),
        };
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                if serving.way() != Way::IsAway {
                    serving.serve(tcp::link(stream).unwrap()).await;
                }
            }
        });
        Self { port, way, seen }
    }

    pub(crate) fn way(&self, way: Way) {
        self.way.send_replace(way);
    }

    /// Rules that live.
    pub(crate) fn rules(&self) -> usize {
        self.seen.lock().unwrap().rules
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.seen.lock().unwrap().connected
    }

    /// How often this kind of request came.
    pub(crate) fn asked(&self, kind: &Request) -> usize {
        let header = Header::parse(&kind.to_bytes(TransactionId(1))).unwrap();
        let seen = self.seen.lock().unwrap();
        seen.asked.get(&header.sub_type).copied().unwrap_or(0)
    }
}

struct Serving {
    middlebox: Middlebox<MemoryBackend>,
    clock: Clock,
    way: watch::Receiver<Way>,
    seen: Arc<Mutex<Seen>>,
}

impl Serving {
    fn way(&self) -> Way {
        *self.way.borrow()
    }

    async fn serve(&mut self, mut link: Link) {
        let session = self
            .middlebox
            .connected(self.clock.now(), &Connection::plain(1));
        self.seen.lock().unwrap().connected = true;
        let (mut came, mut replies) = (Vec::new(), Vec::new());
        let mut way = self.way.clone();
        loop {
            let read = tokio::select! {
                read = link.reader.read(&mut came) => read,
                _ = way.wait_for(|way| *way == Way::IsAway) => break,
            };
            if read.is_err() {
                break;
            }
            for Packet { stream, message } in came.drain(..) {
                let sub_type = Header::parse(&message).unwrap().sub_type;
                let now = self.clock.now();
                self.middlebox
                    .handle_message(now, session, stream, &message);
                let mut seen = self.seen.lock().unwrap();
                *seen.asked.entry(sub_type).or_default() += 1;
                seen.rules = self.middlebox.rules().len();
            }
            while let Some(SessionOutput::Send { stream, message }) =
                self.middlebox.poll_output(session)
            {
                if self.way() == Way::Answers {
                    replies.push(Packet { stream, message });
                }
            }
            if link.writer.write(&mut replies).await.is_err() {
                break;
            }
        }
        self.middlebox.disconnected(session);
        self.seen.lock().unwrap().connected = false;
    }
}
