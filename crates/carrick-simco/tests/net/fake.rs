//! A middlebox on TCP that does not always answer.

use std::net::SocketAddr;

use carrick_simco::Time;
use carrick_simco::backend::MemoryBackend;
use carrick_simco::message::{BasicType, Header};
use carrick_simco::middlebox::{
    AgentConfig, Connection, Middlebox, MiddleboxConfig, SessionOutput,
};
use carrick_simco::session::Identity;
use carrick_simco::transport::{Clock, Packet, tcp};
use tokio::net::TcpListener;

/// What gets lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Loses {
    /// The first request of this sub-type: nothing is done.
    Request(u8),
    /// The first reply of this sub-type.
    Reply(u8),
}

/// Serves one connection.
pub(crate) async fn start(mut loses: Option<Loses>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut link = tcp::link(stream).unwrap();
        let agent = Identity::new("agent").unwrap();
        let config = MiddleboxConfig {
            agents: vec![AgentConfig::new(agent.clone(), None)],
            anonymous: Some(agent.clone()),
            ..MiddleboxConfig::packet_filter(agent)
        };
        let mut middlebox = Middlebox::new(config, MemoryBackend::default(), [1; 32]);
        let clock = Clock::start();
        let session = middlebox.connected(Time::ZERO, &Connection::plain(1));
        let (mut came, mut replies) = (Vec::new(), Vec::new());
        while link.reader.read(&mut came).await.is_ok() {
            for Packet { stream, message } in came.drain(..) {
                let sub_type = Header::parse(&message).unwrap().sub_type;
                if loses == Some(Loses::Request(sub_type)) {
                    loses = None;
                    continue;
                }
                middlebox.handle_message(clock.now(), session, stream, &message);
            }
            while let Some(SessionOutput::Send { stream, message }) = middlebox.poll_output(session)
            {
                let header = Header::parse(&message).unwrap();
                let reply = header.basic == BasicType::PositiveReply as u8;
                if reply && loses == Some(Loses::Reply(header.sub_type)) {
                    loses = None;
                    continue;
                }
                replies.push(Packet { stream, message });
            }
            link.writer.write(&mut replies).await.unwrap();
        }
    });
    address
}
