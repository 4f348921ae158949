//! Middlebox over TCP that loses a request or a reply.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use carrick_simco::backend::MemoryBackend;
use carrick_simco::message::{BasicType, Header, MAX_MESSAGE};
use carrick_simco::middlebox::{
    AgentConfig, Connection, Limits, Middlebox, MiddleboxConfig, SessionOutput,
};
use carrick_simco::session::Identity;
use carrick_simco_net::transport::{Clock, MessageLink, StreamMessage, tcp};
use tokio::net::TcpListener;

/// Message that is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Loss {
    /// The first request of this sub-type, which is not carried out.
    Request(u8),
    /// The first reply of this sub-type.
    Reply(u8),
    /// The first request of this sub-type, and the connection with it.
    RequestAndConnection(u8),
    /// The first reply of this sub-type, and the connection with it.
    ReplyAndConnection(u8),
}

/// Starts a middlebox that serves one connection after the other.
pub(crate) async fn start(loss: Loss) -> SocketAddr {
    start_with(loss, MAX_MESSAGE).await
}

/// Starts a middlebox with a limit of the size of PRL replies.
pub(crate) async fn start_with(loss: Loss, max_reply: usize) -> SocketAddr {
    start_later(loss, 0, max_reply).await
}

/// Starts a middlebox that loses the message after `after` of its kind instead of the first one.
pub(crate) async fn start_later(loss: Loss, after: usize, max_reply: usize) -> SocketAddr {
    start_counting(loss, after, max_reply).await.0
}

/// Number of requests received, by sub-type.
pub(crate) type Counts = Arc<Mutex<BTreeMap<u8, usize>>>;

/// Starts a middlebox and returns its counts of received messages, too.
pub(crate) async fn start_counting(
    loss: Loss,
    after: usize,
    max_reply: usize,
) -> (SocketAddr, Counts) {
    let counts = Counts::default();
    let counting = Arc::clone(&counts);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let agent = Identity::new("agent").unwrap();
        let config = MiddleboxConfig {
            agents: vec![AgentConfig::new(agent.clone(), None)],
            anonymous: Some(agent.clone()),
            limits: Limits {
                max_reply,
                ..Limits::default()
            },
            ..MiddleboxConfig::packet_filter(agent)
        };
        let mut server = LossyMiddlebox {
            middlebox: Middlebox::new(config, MemoryBackend::default(), [1; 32]),
            clock: Clock::start(),
            loss: Some(loss),
            after,
            counts: counting,
        };
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            server.serve(tcp::link(stream).unwrap()).await;
        }
    });
    (address, counts)
}

struct LossyMiddlebox {
    middlebox: Middlebox<MemoryBackend>,
    clock: Clock,
    loss: Option<Loss>,
    after: usize,
    counts: Counts,
}

impl LossyMiddlebox {
    /// Returns whether this message is lost.
    fn is_lost(&mut self, message: Loss) -> bool {
        if self.loss != Some(message) {
            return false;
        }
        if self.after > 0 {
            self.after -= 1;
            return false;
        }
        self.loss = None;
        true
    }

    async fn serve(&mut self, mut link: MessageLink) {
        let now = self.clock.now();
        let session = self.middlebox.connected(now, &Connection::plain(1));
        let (mut received, mut replies) = (Vec::new(), Vec::new());
        let mut cut = false;
        while !cut && link.reader.read(&mut received).await.is_ok() {
            let now = self.clock.now();
            for StreamMessage { stream, message } in received.drain(..) {
                let sub_type = Header::parse(&message).unwrap().sub_type;
                *self.counts.lock().unwrap().entry(sub_type).or_default() += 1;
                cut |= self.is_lost(Loss::RequestAndConnection(sub_type));
                if !cut && !self.is_lost(Loss::Request(sub_type)) {
                    self.middlebox
                        .handle_message(now, session, stream, &message);
                }
            }
            while let Some(SessionOutput::Send { stream, message }) =
                self.middlebox.poll_output(session)
            {
                let header = Header::parse(&message).unwrap();
                let reply = header.basic == BasicType::PositiveReply as u8;
                cut |= reply && self.is_lost(Loss::ReplyAndConnection(header.sub_type));
                let lost = reply && self.is_lost(Loss::Reply(header.sub_type));
                if !cut && !lost {
                    replies.push(StreamMessage { stream, message });
                }
            }
            link.writer.write(&mut replies).await.unwrap();
        }
        self.middlebox.disconnected(session);
    }
}
