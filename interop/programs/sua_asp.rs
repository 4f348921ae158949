//! ASP of SUA: sends data to a user that sends them back.
//!
//!     sua_asp GATEWAY[,ADDRESS...] UDP-PORT|raw ROUTING-CONTEXT POINT-CODE PEER MESSAGES
//!
//! Unitdata, the set-up of a connection of class 2, ASP Inactive, all of it again from ASP Active on, and the end of the ASP.
//! A line for each step; exit status 0: all messages came back.

use std::collections::VecDeque;
use std::error::Error;
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use carrick::{Config, Endpoint};
use carrick_sigtran::aspm::asp::{AspEvent, AspState};
use carrick_sigtran::sua::asp::{AspApplicationServer, AspConfig, AspIndication};
use carrick_sigtran::sua::connection::{
    ConnectRequest, ConnectionIndication, ConnectionTableConfig, ConnectionTableIndication,
};
use carrick_sigtran::sua::{
    Address, ConnectionlessDataTransfer, DestinationAddress, Message, PointCodeFormat,
    ProtocolClass, RoutingContext, SequenceControl, ServiceClass, SourceAddress,
    SourceReferenceNumber, Sua, SubsystemNumber, UserData,
};
use carrick_sigtran_net::{EventKind, RemoteGateway, Session, endpoint_config, start_sua_asp};

type Failure = Box<dyn Error>;

/// Subsystem number of both users.
const SSN: SubsystemNumber = SubsystemNumber(8);

/// Time limit for the answer to a message, and for a change of the state.
const PATIENCE: Duration = Duration::from_secs(20);

/// ASP with the addresses of both users.
struct User {
    session: Session<Sua>,
    context: RoutingContext,
    own: Address,
    peer: Address,
}

impl User {
    /// Returns the next indication that is no state of a destination.
    async fn receive(&mut self) -> Result<EventKind<Sua>, Failure> {
        loop {
            let mut received = Vec::new();
            let receiving = self.session.receiver.recv_many(&mut received, 1);
            tokio::time::timeout(PATIENCE, receiving).await?;
            match received.pop().ok_or("the session has ended")?.kind {
                EventKind::Asp(AspIndication::State(_)) => {}
                kind => return Ok(kind),
            }
        }
    }

    /// Waits until the ASP has a state. An error that the gateway reports is a failure.
    async fn wait_for(&mut self, wanted: AspState) -> Result<(), Failure> {
        loop {
            let event = tokio::time::timeout(PATIENCE, self.session.events.recv()).await?;
            let event = event.ok_or("the session has ended")?;
            match &event.kind {
                EventKind::Asp(AspIndication::Asp(AspEvent::AspStatus(_, state)))
                    if *state == wanted =>
                {
                    return Ok(());
                }
                EventKind::Asp(AspIndication::Asp(AspEvent::Error(_)))
                | EventKind::Disconnected(_) => return Err(event.to_string().into()),
                _ => {}
            }
        }
    }

    /// Sends unitdata and waits until they come back.
    async fn unitdata(&mut self, data: Bytes) -> Result<(), Failure> {
        let message = ConnectionlessDataTransfer {
            routing_context: self.context,
            protocol_class: ProtocolClass {
                class: ServiceClass::Class0,
                return_on_error: true,
            },
            source: SourceAddress(self.own.clone()),
            destination: DestinationAddress(self.peer.clone()),
            sequence_control: SequenceControl(0),
            hop_counter: None,
            importance: None,
            priority: None,
            correlation_id: None,
            segmentation: None,
            data: UserData(data.clone()),
        };
        let message = Message::ConnectionlessDataTransfer(message);
        let mut messages = VecDeque::from([message]);
        self.session.sender.send_messages(&mut messages).await?;
        match self.receive().await? {
            EventKind::Asp(AspIndication::Traffic(_, message)) => match *message {
                Message::ConnectionlessDataTransfer(answer)
                    if answer.data.0 == data && answer.source.0.ssn() == Some(SSN) =>
                {
                    Ok(())
                }
                other => Err(format!("answered by {other:?}").into()),
            },
            other => Err(format!("answered by {other:?}").into()),
        }
    }

    /// Sets up a connection.
    async fn connect(&mut self) -> Result<(), Failure> {
        let request = ConnectRequest {
            routing_context: self.context,
            class: ServiceClass::Class2,
            // Assigned by the session.
            local_reference: SourceReferenceNumber(0),
            destination: self.peer.clone(),
            source: Some(self.own.clone()),
            sequence_control: SequenceControl(0),
            hop_counter: None,
            data: None,
        };
        let reference = self.session.sender.connect(request).await?;
        match self.receive().await? {
            EventKind::Connection(number, indication) if number == reference => match *indication {
                ConnectionTableIndication::Connection(ConnectionIndication::Connected {
                    class: ServiceClass::Class2,
                    ..
                }) => Ok(()),
                other => Err(format!("no connection: {other:?}").into()),
            },
            other => Err(format!("no connection: {other:?}").into()),
        }
    }

    async fn run(&mut self, messages: u32) -> Result<(), Failure> {
        self.wait_for(AspState::Active).await?;
        for round in 1..=2 {
            println!("active");
            for number in 0..messages {
                self.unitdata(Bytes::from(format!("message {number}")))
                    .await?;
            }
            println!("{messages} unitdata came back");
            self.connect().await?;
            println!("connected");
            let sender = self.session.sender.clone();
            let context = Some(self.context);
            let inactive = sender.request(context, |asp, now| asp.asp_inactive(now, &[]));
            inactive.await??;
            self.wait_for(AspState::Inactive).await?;
            println!("inactive");
            if round == 1 {
                let active = sender.request_at("gateway", |asp, now| asp.asp_active(now, &[]));
                active.await??;
                self.wait_for(AspState::Active).await?;
            }
        }
        Ok(())
    }
}

async fn run(arguments: &[String]) -> Result<(), Failure> {
    let [gateway, transport, context, own, peer, messages] = arguments else {
        let usage =
            "sua_asp GATEWAY[,ADDRESS...] UDP-PORT|raw ROUTING-CONTEXT POINT-CODE PEER MESSAGES";
        return Err(format!("usage: {usage}").into());
    };
    let addresses: Result<Vec<IpAddr>, _> = gateway.split(',').map(str::parse).collect();
    let mut gateway = RemoteGateway::of::<Sua>("gateway", addresses?);
    let config = if transport == "raw" {
        Config::raw([])
    } else {
        let port = transport.parse()?;
        gateway.udp_port = Some(port);
        Config::udp([]).encapsulation_port(port)
    };
    let context = RoutingContext(context.parse()?);
    let asp = AspConfig {
        application_servers: vec![AspApplicationServer::new(context)],
        ..AspConfig::default()
    };
    let endpoint = Endpoint::bind(endpoint_config(config, 2))?;
    let connections = ConnectionTableConfig::default();
    let mut user = User {
        session: start_sua_asp(endpoint.clone(), vec![gateway], &asp, connections)?,
        context,
        own: Address::point_code(PointCodeFormat::ITU.parse(own)?, SSN),
        peer: Address::point_code(PointCodeFormat::ITU.parse(peer)?, SSN),
    };
    user.run(messages.parse()?).await?;
    user.session.close();
    user.session.ended().await;
    let report = endpoint.close().await;
    if !report.is_empty() {
        return Err(report.to_string().into());
    }
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sua_asp: {error}");
            ExitCode::FAILURE
        }
    }
}
