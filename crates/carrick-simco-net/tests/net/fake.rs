//! A middlebox on TCP that does not always answer.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use carrick_simco::backend::MemoryBackend;
use carrick_simco::message::{BasicType, Header, MAX_MESSAGE};
use carrick_simco::middlebox::{
    AgentConfig, Connection, Limits, Middlebox, MiddleboxConfig, SessionOutput,
};
use carrick_simco::session::Identity;
use carrick_simco_net::transport::{Clock, Link, Packet, tcp};
use tokio::net::TcpListener;

/// Replies that are lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Loses {
    /// The first request of this sub-type: nothing is done.
    Request(u8),
    /// The first reply of this sub-type.
    Reply(u8),
    /// The first request of this sub-type, and the connection with it.
    RequestAndConnection(u8),
    /// The first reply of this sub-type, and the connection with it.
    ReplyAndConnection(u8),
}

/// Serves one connection after the other.
pub(crate) async fn start(loses: Loses) -> SocketAddr {
    start_with(loses, MAX_MESSAGE).await
}

/// Limits the size of replies to PRL.
pub(crate) async fn start_with(loses: Loses, max_reply: usize) -> SocketAddr {
    start_later(loses, 0, max_reply).await
}

/// Loses a reply after a number of them instead of the first one.
pub(crate) async fn start_later(loses: Loses, after: usize, max_reply: usize) -> SocketAddr {
    start_counting(loses, after, max_reply).await.0
}

/// Requests that came, by sub-type.
pub(crate) type Counts = Arc<Mutex<BTreeMap<u8, usize>>>;

/// Reports the received messages.
pub(crate) async fn start_counting(
    loses: Loses,
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
        let mut fake = Fake {
            middlebox: Middlebox::new(config, MemoryBackend::default(), [1; 32]),
            clock: Clock::start(),
            loses: Some(loses),
            after,
            counts: counting,
        };
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            fake.serve(tcp::link(stream).unwrap()).await;
        }
    });
    (address, counts)
}

struct Fake {
    middlebox: Middlebox<MemoryBackend>,
    clock: Clock,
    loses: Option<Loses>,
    after: usize,
    counts: Counts,
}

impl Fake {
    /// Returns whether this reply is lost.
    fn is(&mut self, what: Loses) -> bool {
        if self.loses != Some(what) {
            return false;
        }
        if self.after > 0 {
            self.after -= 1;
            return false;
        }
        self.loses = None;
        true
    }

    async fn serve(&mut self, mut link: Link) {
        let now = self.clock.now();
        let session = self.middlebox.connected(now, &Connection::plain(1));
        let (mut came, mut replies) = (Vec::new(), Vec::new());
        let mut cut = false;
        while !cut && link.reader.read(&mut came).await.is_ok() {
            let now = self.clock.now();
            for Packet { stream, message } in came.drain(..) {
                let sub_type = Header::parse(&message).unwrap().sub_type;
                *self.counts.lock().unwrap().entry(sub_type).or_default() += 1;
                cut |= self.is(Loses::RequestAndConnection(sub_type));
                if !cut && !self.is(Loses::Request(sub_type)) {
                    self.middlebox
                        .handle_message(now, session, stream, &message);
                }
            }
            while let Some(SessionOutput::Send { stream, message }) =
                self.middlebox.poll_output(session)
            {
                let header = Header::parse(&message).unwrap();
                let reply = header.basic == BasicType::PositiveReply as u8;
                cut |= reply && self.is(Loses::ReplyAndConnection(header.sub_type));
                let lost = reply && self.is(Loses::Reply(header.sub_type));
                if !cut && !lost {
                    replies.push(Packet { stream, message });
                }
            }
            link.writer.write(&mut replies).await.unwrap();
        }
        self.middlebox.disconnected(session);
    }
}
