//! Connection section of the connection-oriented service, protocol classes 2 and 3 (RFC 3868, sections 1.4.2 and 3.3).
//!
//! RFC 3868 has SCCP's procedures of Q.714 with its own messages: a [`Connection`] is one end of a connection. It is
//! sans I/O: messages, requests of the user and the time go in; messages, indications to the user and the next timeout
//! come out. After each input the driver takes all of [`poll_transmit`](Connection::poll_transmit) and
//! [`poll_indication`](Connection::poll_indication), and calls [`handle_timeout`](Connection::handle_timeout) at
//! [`poll_timeout`](Connection::poll_timeout).
//!
//! ```text
//!                 request                      incoming
//!                    |                            |
//!            OutgoingPending              IncomingPending
//!     disconnect |        | COAK            accept |    | refuse
//!    WaitForConfirm       +---------> Active <-----+    |
//!           | COAK            reset, RESRE |  ^         |
//!           |                    Resetting +--+ RESCO   |
//!           v        disconnect            |            |
//!    DisconnectPending <-------------------+            |
//!           | RELCO                        | RELRE      |
//!           +-----------------------> Released <--------+
//! ```

mod config;
mod coupling;
mod release;
mod table;
mod timers;
mod transfer;

pub use config::{ConnectionConfig, ConnectionConfigError};
pub use release::answer_unassigned;
pub use table::{
    ConnectionTable, ConnectionTableConfig, ConnectionTableError, ConnectionTableIndication,
};

use std::collections::VecDeque;

use bytes::Bytes;
use carrick_proto::Time;

use self::timers::{Timer, Timers};
use self::transfer::Transfer;
use super::{
    Address, ConnectionAcknowledge, ConnectionRefused, ConnectionRequest, Credit,
    DestinationAddress, DestinationReferenceNumber, ErrorCause, HopCounter, Message, ProtocolClass,
    RefusalCause, ReleaseCause, ReleaseRequest, ResetCause, RoutingContext, SequenceControl,
    SequenceNumbers, ServiceClass, SourceAddress, SourceReferenceNumber, UserData,
};

/// Maximum octets of expedited data (Q.713, section 4.11).
pub const MAX_EXPEDITED: usize = 32;

/// State of a connection section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectionState {
    /// A CORE was sent, the answer is awaited.
    OutgoingPending,
    /// A CORE was received, the user is to accept or refuse it.
    IncomingPending,
    /// The user requested the disconnection before the answer to the CORE.
    WaitForConfirm,
    /// Data are transferred.
    Active,
    /// A RESRE was sent, the answer is awaited.
    ResetOutgoing,
    /// A RESRE was received, the response of the user is awaited.
    ResetIncoming,
    /// A RELRE was sent, the answer is awaited.
    DisconnectPending,
    /// The connection does not exist any more. The local reference is not to be used again for some time.
    Released,
}

impl ConnectionState {
    /// Returns whether both ends know the connection.
    const fn is_established(self) -> bool {
        matches!(
            self,
            Self::Active | Self::ResetOutgoing | Self::ResetIncoming
        )
    }
}

/// Indication or confirm to the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConnectionIndication {
    /// N-CONNECT confirm: the peer accepted the connection.
    Connected {
        /// Protocol class of the connection, which may be below the requested one.
        class: ServiceClass,
        /// Address of the responding user.
        responding: Option<Address>,
        /// Data of the peer's user.
        data: Option<Bytes>,
    },
    /// N-DATA indication.
    Data(Bytes),
    /// N-EXPEDITED-DATA indication.
    ExpeditedData(Bytes),
    /// N-RESET indication. Data of both directions may be lost. If the state is
    /// [`ResetIncoming`](ConnectionState::ResetIncoming), the user answers with
    /// [`reset_response`](Connection::reset_response).
    Reset(ResetCause),
    /// N-RESET confirm: data are transferred again.
    ResetConfirmed,
    /// N-DISCONNECT indication.
    Disconnected {
        /// Reason.
        reason: DisconnectReason,
        /// Data of the peer's user.
        data: Option<Bytes>,
    },
    /// The disconnection that the user requested, or that followed an error, is complete.
    Released {
        /// The peer confirmed it.
        confirmed: bool,
    },
}

/// Reason of a disconnection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DisconnectReason {
    /// The peer refused the connection, or did not answer in time.
    Refused(RefusalCause),
    /// The peer released the connection, or this end did after an error.
    Released(ReleaseCause),
    /// The peer reported an error.
    Error(ErrorCause),
}

/// Request of a connection: N-CONNECT request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectRequest {
    /// Application server.
    pub routing_context: RoutingContext,
    /// Protocol class, 2 or 3.
    pub class: ServiceClass,
    /// Local reference number, unique among the connections of this end.
    pub local_reference: SourceReferenceNumber,
    /// Address of the called user.
    pub destination: Address,
    /// Address of the calling user.
    pub source: Option<Address>,
    /// Sequence control.
    pub sequence_control: SequenceControl,
    /// Global title translations that are allowed.
    pub hop_counter: Option<HopCounter>,
    /// Data for the peer's user.
    pub data: Option<Bytes>,
}

/// Request that the connection does not allow now. The fault is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionRequestError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConnectionConfigError),
    /// The request is not possible in this state.
    #[error("the connection is in state {0:?}: the request is not possible in it")]
    State(ConnectionState),
    /// The protocol class does not have the function.
    #[error("protocol {0:?} does not have the function: use class 3")]
    Class(ServiceClass),
    /// The protocol class is not connection-oriented, or above the requested one.
    #[error("protocol {0:?} is not possible: use class 2, or 3 if the request has it")]
    InvalidClass(ServiceClass),
    /// The data are too long.
    #[error("data have {length} octets, at most {limit} are possible: shorten them")]
    TooLong {
        /// Number of octets.
        length: usize,
        /// Limit.
        limit: usize,
    },
    /// Too much data wait for the peer's window.
    #[error("the queue to the peer is full: wait for its acknowledgement")]
    QueueFull,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Connection {
    config: ConnectionConfig,
    routing_context: RoutingContext,
    class: ServiceClass,
    local: SourceReferenceNumber,
    /// Reference number of the peer, as source of its messages.
    remote: Option<SourceReferenceNumber>,
    sequence_control: SequenceControl,
    /// Source address of a received CORE, the destination address of the answer.
    calling: Option<Address>,
    state: ConnectionState,
    timers: Timers,
    transfer: Transfer,
    /// RELRE that is repeated.
    release: Option<ReleaseRequest>,
    transmits: VecDeque<Message>,
    indications: VecDeque<ConnectionIndication>,
}

impl Connection {
    /// Requests a connection: sends a CORE and starts T(conn est).
    ///
    /// # Errors
    /// [`ConnectionRequestError`] if the configuration or the class is invalid, or the data do not fit into one message.
    pub fn request(
        now: Time,
        config: ConnectionConfig,
        request: ConnectRequest,
    ) -> Result<Self, ConnectionRequestError> {
        config.check()?;
        if !request.class.is_connection_oriented() {
            return Err(ConnectionRequestError::InvalidClass(request.class));
        }
        let ConnectRequest {
            routing_context,
            class,
            local_reference,
            destination,
            source,
            sequence_control,
            hop_counter,
            data,
        } = request;
        check_data(data.as_ref(), config.max_segment)?;
        let is_class_3 = class == ServiceClass::Class3;
        let message = ConnectionRequest {
            routing_context,
            protocol_class: ProtocolClass::new(class),
            source_reference: local_reference,
            destination: DestinationAddress(destination),
            sequence_control,
            sequence_numbers: is_class_3.then(SequenceNumbers::default),
            source: source.map(SourceAddress),
            hop_counter,
            importance: None,
            priority: None,
            credit: is_class_3.then_some(Credit(config.credit)),
            data: data.map(UserData),
        };
        let mut connection = Self {
            transfer: Transfer::new(&config, 0),
            config,
            routing_context,
            class,
            local: local_reference,
            remote: None,
            sequence_control,
            calling: None,
            state: ConnectionState::OutgoingPending,
            timers: Timers::default(),
            release: None,
            transmits: VecDeque::new(),
            indications: VecDeque::new(),
        };
        let deadline = now + connection.config.establishment;
        connection.timers.start(Timer::Establishment, deadline);
        connection.transmit(now, Message::ConnectionRequest(message));
        Ok(connection)
    }

    /// Connection of a received CORE, with the local reference number of this end. The user accepts or refuses it.
    ///
    /// # Errors
    /// [`ConnectionRequestError::Config`] if the configuration is invalid.
    pub fn incoming(
        config: ConnectionConfig,
        local_reference: SourceReferenceNumber,
        message: &ConnectionRequest,
    ) -> Result<Self, ConnectionRequestError> {
        config.check()?;
        Ok(Self {
            transfer: Transfer::new(&config, message.credit.map_or(0, |credit| credit.0)),
            config,
            routing_context: message.routing_context,
            class: message.protocol_class.class,
            local: local_reference,
            remote: Some(message.source_reference),
            sequence_control: message.sequence_control,
            calling: message.source.clone().map(|source| source.0),
            state: ConnectionState::IncomingPending,
            timers: Timers::default(),
            release: None,
            transmits: VecDeque::new(),
            indications: VecDeque::new(),
        })
    }

    /// Accepts a connection with this class: N-CONNECT response. Sends a COAK.
    ///
    /// # Errors
    /// [`ConnectionRequestError`] if no CORE waits for an answer, the class is above the requested one, or the data do
    /// not fit into one message.
    pub fn accept(
        &mut self,
        now: Time,
        class: ServiceClass,
        responding: Option<Address>,
        data: Option<Bytes>,
    ) -> Result<(), ConnectionRequestError> {
        self.check_state(ConnectionState::IncomingPending)?;
        if !class.is_connection_oriented() || class > self.class {
            return Err(ConnectionRequestError::InvalidClass(class));
        }
        check_data(data.as_ref(), self.config.max_segment)?;
        self.class = class;
        let is_class_3 = class == ServiceClass::Class3;
        let message = ConnectionAcknowledge {
            routing_context: self.routing_context,
            protocol_class: ProtocolClass::new(class),
            destination_reference: self.destination(),
            source_reference: self.local,
            sequence_control: self.sequence_control,
            credit: is_class_3.then_some(Credit(self.config.credit)),
            source: responding.map(SourceAddress),
            importance: None,
            priority: None,
            destination: self.calling.take().map(DestinationAddress),
            data: data.map(UserData),
        };
        self.activate(now);
        self.transmit(now, Message::ConnectionAcknowledge(message));
        Ok(())
    }

    /// Refuses a connection: N-DISCONNECT request. Sends a COREF.
    ///
    /// # Errors
    /// [`ConnectionRequestError`] if no CORE waits for an answer, or the data do not fit into one message.
    pub fn refuse(
        &mut self,
        now: Time,
        cause: RefusalCause,
        data: Option<Bytes>,
    ) -> Result<(), ConnectionRequestError> {
        self.check_state(ConnectionState::IncomingPending)?;
        check_data(data.as_ref(), self.config.max_segment)?;
        let message = ConnectionRefused {
            routing_context: self.routing_context,
            destination_reference: self.destination(),
            cause,
            source: None,
            destination: self.calling.take().map(DestinationAddress),
            importance: None,
            data: data.map(UserData),
        };
        self.state = ConnectionState::Released;
        self.transmit(now, Message::ConnectionRefused(message));
        Ok(())
    }

    /// Handles a message of the peer whose destination reference number is the local one. Messages that are not of a
    /// connection are ignored.
    pub fn handle_message(&mut self, now: Time, message: &Message) {
        if self.state == ConnectionState::Released {
            self.transmits.extend(answer_unassigned(message));
            return;
        }
        if !self.has_source(now, message) {
            return;
        }
        if self.state.is_established() {
            let deadline = now + self.config.receive_inactivity;
            self.timers.start(Timer::ReceiveInactivity, deadline);
        }
        match message {
            Message::ConnectionAcknowledge(body) => self.on_acknowledge(now, body),
            Message::ConnectionRefused(body) => self.on_refused(body),
            Message::ConnectionOrientedDataTransfer(body) => self.on_data(now, body),
            Message::ConnectionOrientedDataAcknowledge(body) => self.on_data_acknowledge(now, body),
            Message::ResetRequest(body) => self.on_reset_request(now, body),
            Message::ResetConfirm(_) => self.on_reset_confirm(now),
            Message::ReleaseRequest(body) => self.on_release_request(now, body),
            Message::ReleaseComplete(_) => self.on_release_complete(),
            Message::ConnectionOrientedError(body) => self.on_error(now, body.cause),
            Message::InactivityTest(body) => self.on_inactivity_test(now, body),
            _ => {}
        }
    }

    fn on_acknowledge(&mut self, now: Time, body: &ConnectionAcknowledge) {
        let requested = match self.state {
            ConnectionState::OutgoingPending => true,
            ConnectionState::WaitForConfirm => false,
            _ => return,
        };
        self.remote = Some(body.source_reference);
        if !requested {
            // The user wants the connection no more.
            self.send_release(now, ReleaseCause::END_USER, None);
        } else if body.protocol_class.class > self.class {
            self.fail(now, ReleaseCause::INCONSISTENT_DATA);
        } else {
            self.class = body.protocol_class.class;
            self.transfer
                .set_credit(body.credit.map_or(0, |credit| credit.0));
            self.activate(now);
            self.indications.push_back(ConnectionIndication::Connected {
                class: self.class,
                responding: body.source.clone().map(|source| source.0),
                data: body.data.clone().map(|data| data.0),
            });
        }
    }

    fn on_refused(&mut self, body: &ConnectionRefused) {
        match self.state {
            ConnectionState::OutgoingPending => {
                let reason = DisconnectReason::Refused(body.cause);
                self.end_with(reason, body.data.clone());
            }
            ConnectionState::WaitForConfirm => self.end(true),
            _ => {}
        }
    }

    /// Returns the state.
    pub const fn state(&self) -> ConnectionState {
        self.state
    }

    /// Returns the protocol class: the requested one until the connection is accepted.
    pub const fn class(&self) -> ServiceClass {
        self.class
    }

    /// Returns the local reference number.
    pub const fn local_reference(&self) -> SourceReferenceNumber {
        self.local
    }

    /// Returns the stream of the connection's messages, which need their order (RFC 3868, section 1.5.4): by the local
    /// reference number, stream 0 only if there is no other.
    pub const fn stream(&self, outbound_streams: u16) -> u16 {
        match outbound_streams {
            0 | 1 => 0,
            streams => 1 + (self.local.0 % (streams as u32 - 1)) as u16,
        }
    }

    /// Returns the next message for the peer.
    pub fn poll_transmit(&mut self) -> Option<Message> {
        self.transmits.pop_front()
    }

    /// Returns the next indication to the user.
    pub fn poll_indication(&mut self) -> Option<ConnectionIndication> {
        self.indications.pop_front()
    }

    /// Returns the time of the next timeout.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    fn check_state(&self, state: ConnectionState) -> Result<(), ConnectionRequestError> {
        if self.state == state {
            Ok(())
        } else {
            Err(ConnectionRequestError::State(self.state))
        }
    }

    /// Enters the data transfer phase.
    fn activate(&mut self, now: Time) {
        self.state = ConnectionState::Active;
        self.timers.stop_all();
        let deadline = now + self.config.receive_inactivity;
        self.timers.start(Timer::ReceiveInactivity, deadline);
        self.timers
            .start(Timer::SendInactivity, now + self.config.send_inactivity);
    }

    /// Queues a message, which restarts the send inactivity timer.
    fn transmit(&mut self, now: Time, message: Message) {
        if self.state.is_established() {
            self.timers
                .start(Timer::SendInactivity, now + self.config.send_inactivity);
        }
        self.transmits.push_back(message);
    }

    /// Returns the peer's reference number as destination.
    fn destination(&self) -> DestinationReferenceNumber {
        DestinationReferenceNumber(self.remote.map_or(0, |remote| remote.0))
    }
}

/// Checks user data that are not segmented.
fn check_data(data: Option<&Bytes>, limit: usize) -> Result<(), ConnectionRequestError> {
    let length = data.map_or(0, Bytes::len);
    if length > limit {
        return Err(ConnectionRequestError::TooLong { length, limit });
    }
    Ok(())
}
