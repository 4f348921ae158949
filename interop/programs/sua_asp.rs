//! ASP of SUA with the codec and the connections of crate `carrick-sigtran`: sends data to a user that sends them back.
//!
//!     sua_asp GATEWAY[,ADDRESS...] UDP-PORT|raw ROUTING-CONTEXT POINT-CODE PEER MESSAGES
//!
//! ASP Up and ASP Active, unitdata, the set-up of a connection of class 2, ASP Inactive, all of it again from ASP Active on, and ASP Down.
//! A line for each step; exit status 0: all messages came back.

use std::error::Error;
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use carrick::{Association, Config, ConnectOptions, Endpoint, SendOptions};
use carrick_proto::Time;
use carrick_sigtran::message::MessageKind;
use carrick_sigtran::sua::connection::{
    ConnectRequest, Connection, ConnectionConfig, ConnectionIndication,
};
use carrick_sigtran::sua::{
    Address, AspActive, AspDown, AspInactive, AspUp, ConnectionlessDataTransfer,
    DestinationAddress, Message, PAYLOAD_PROTOCOL_ID, PORT, PointCodeFormat, ProtocolClass,
    RoutingContext, RoutingContexts, SequenceControl, ServiceClass, SourceAddress,
    SourceReferenceNumber, SubsystemNumber, UserData, connectionless, kinds,
};

type Failure = Box<dyn Error>;

/// Subsystem number of both users.
const SSN: SubsystemNumber = SubsystemNumber(8);

/// Time limit for the answer to a message.
const PATIENCE: Duration = Duration::from_secs(20);

/// Time of all inputs of a connection: its timers are longer than any run.
const NOW: Time = Time::ZERO;

/// An ASP and the association with its gateway.
struct Asp {
    association: Association,
    context: RoutingContext,
    own: Address,
    peer: Address,
}

impl Asp {
    async fn send(&self, message: Message, stream: u16) -> Result<(), Failure> {
        let options = SendOptions::on_stream(stream).ppid(PAYLOAD_PROTOCOL_ID);
        Ok(self.association.send(message.encode()?, options).await?)
    }

    /// Receives the next message that is no notification of a state.
    async fn receive(&mut self) -> Result<Message, Failure> {
        loop {
            let message = tokio::time::timeout(PATIENCE, self.association.recv()).await??;
            let message = message.ok_or("the gateway has shut the association down")?;
            match Message::decode(&message.payload.into())? {
                Message::Error(error) => return Err(format!("answered by {error:?}").into()),
                Message::Notify(_)
                | Message::DestinationAvailable(_)
                | Message::DestinationUnavailable(_) => {}
                message => return Ok(message),
            }
        }
    }

    /// Sends a request on stream 0 (RFC 3868, section 1.5.4) and waits for its acknowledgement.
    async fn request(
        &mut self,
        message: Message,
        acknowledgement: MessageKind,
    ) -> Result<(), Failure> {
        self.send(message, 0).await?;
        while self.receive().await?.kind() != acknowledgement {}
        Ok(())
    }

    async fn activate(&mut self) -> Result<(), Failure> {
        let active = AspActive {
            routing_contexts: Some(RoutingContexts(vec![self.context])),
            ..AspActive::default()
        };
        self.request(Message::AspActive(active), kinds::ASPAC_ACK)
            .await
    }

    async fn deactivate(&mut self) -> Result<(), Failure> {
        let inactive = AspInactive {
            routing_contexts: Some(RoutingContexts(vec![self.context])),
            ..AspInactive::default()
        };
        self.request(Message::AspInactive(inactive), kinds::ASPIA_ACK)
            .await
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
        let stream = connectionless::stream(&message, 2);
        self.send(Message::ConnectionlessDataTransfer(message), stream)
            .await?;
        match self.receive().await? {
            Message::ConnectionlessDataTransfer(answer)
                if answer.data.0 == data && answer.source.0.ssn() == Some(SSN) =>
            {
                Ok(())
            }
            other => Err(format!("answered by {other:?}").into()),
        }
    }

    /// Sets up a connection. The loss of the association ends it.
    async fn connect(&mut self, number: u32) -> Result<(), Failure> {
        let request = ConnectRequest {
            routing_context: self.context,
            class: ServiceClass::Class2,
            local_reference: SourceReferenceNumber(number),
            destination: self.peer.clone(),
            source: Some(self.own.clone()),
            sequence_control: SequenceControl(0),
            hop_counter: None,
            data: None,
        };
        let mut connection = Connection::request(NOW, ConnectionConfig::default(), request)?;
        match self.indication(&mut connection).await? {
            ConnectionIndication::Connected {
                class: ServiceClass::Class2,
                ..
            } => Ok(()),
            other => Err(format!("no connection: {other:?}").into()),
        }
    }

    /// Returns the next indication of a connection.
    async fn indication(
        &mut self,
        connection: &mut Connection,
    ) -> Result<ConnectionIndication, Failure> {
        loop {
            let stream = connection.stream(2);
            while let Some(message) = connection.poll_transmit() {
                self.send(message, stream).await?;
            }
            if let Some(indication) = connection.poll_indication() {
                return Ok(indication);
            }
            connection.handle_message(NOW, &self.receive().await?);
        }
    }

    async fn run(&mut self, messages: u32) -> Result<(), Failure> {
        let data = |number: u32| Bytes::from(format!("message {number}"));
        self.request(Message::AspUp(AspUp::default()), kinds::ASPUP_ACK)
            .await?;
        for round in 1..=2 {
            self.activate().await?;
            println!("active");
            for number in 0..messages {
                self.unitdata(data(number)).await?;
            }
            println!("{messages} unitdata came back");
            self.connect(round).await?;
            println!("connected");
            self.deactivate().await?;
            println!("inactive");
        }
        self.request(Message::AspDown(AspDown::default()), kinds::ASPDN_ACK)
            .await
    }
}

async fn run(arguments: &[String]) -> Result<(), Failure> {
    let [gateway, transport, context, own, peer, messages] = arguments else {
        let usage =
            "sua_asp GATEWAY[,ADDRESS...] UDP-PORT|raw ROUTING-CONTEXT POINT-CODE PEER MESSAGES";
        return Err(format!("usage: {usage}").into());
    };
    let addresses: Result<Vec<IpAddr>, _> = gateway.split(',').map(str::parse).collect();
    let mut options = ConnectOptions::new();
    let config = if transport == "raw" {
        Config::raw([])
    } else {
        let port = transport.parse()?;
        options = options.encapsulation_port(port);
        Config::udp([]).encapsulation_port(port)
    };
    let endpoint = Endpoint::bind(config)?;
    let mut asp = Asp {
        association: endpoint.connect_with((addresses?, PORT), options).await?,
        context: RoutingContext(context.parse()?),
        own: Address::point_code(PointCodeFormat::ITU.parse(own)?, SSN),
        peer: Address::point_code(PointCodeFormat::ITU.parse(peer)?, SSN),
    };
    asp.run(messages.parse()?).await?;
    drop(asp);
    endpoint.close().await;
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
