//! Link: M2PA's side of an SCTP association that is an SS7 link (RFC 4165, section 4).
//!
//! The states are those of the link state control and the initial alignment control of Q.703, to which section 4
//! refers.
//!
//! ```text
//!                   Start               Alignment           Proving
//! OUT OF SERVICE ──────────> NOT ALIGNED ───────> ALIGNED ──────────> PROVING
//!   ^                         or Proving             ^                 │   │
//!   │ Stop, failure,                                 └─── Alignment ───┘   │ T4
//!   │ Out of Service from the peer                                         v
//!   │                      outage         Ready       ALIGNED READY or
//! from every state   PROCESSOR <─> IN SERVICE <────── ALIGNED NOT READY (local outage)
//!                    OUTAGE
//! ```

mod alignment;
mod buffers;
mod config;
mod transfer;

pub use crate::SctpNotification;
pub use config::{BufferLimit, LinkConfig, LinkConfigError};

use std::collections::VecDeque;

use carrick_proto::Time;

use buffers::{ReceiveBuffer, TransmitBuffers};

use super::{
    Body, EncodeError, LINK_STATUS_STREAM, LinkStatus, Message, Msu, SequenceNumber,
    USER_DATA_STREAM,
};

/// State of a link, in the order of an alignment: those of the link state control and the initial alignment control of
/// Q.703.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LinkState {
    /// Out of service.
    OutOfService,
    /// Initial alignment, not aligned: the peer has not begun the alignment.
    NotAligned,
    /// Initial alignment, aligned: the peer has begun the alignment, but not the proving.
    Aligned,
    /// Initial alignment, proving.
    Proving,
    /// Aligned, ready: proving is complete, the peer's is not.
    AlignedReady,
    /// Aligned, not ready: as aligned, ready, during a local processor outage.
    AlignedNotReady,
    /// In service.
    InService,
    /// Processor outage, local or remote or both.
    ProcessorOutage,
}

/// Reason for which a link is out of service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum OutOfServiceReason {
    /// Stop of MTP3.
    Stopped,
    /// The association was lost or restarted, or could not be established.
    AssociationLost,
    /// The association has less than two outbound streams.
    TooFewStreams,
    /// SCTP could not send a message.
    SendFailure,
    /// The peer is out of service.
    PeerOutOfService,
    /// The peer began an alignment after the last one was complete.
    PeerRealigned,
    /// T2 or T3 has expired: the peer does not align.
    AlignmentNotPossible,
    /// T1 has expired: the peer did not complete its proving.
    PeerNotReady,
    /// T6 has expired: the peer was busy for too long.
    RemoteCongestion,
    /// T7 has expired: the peer did not acknowledge a message.
    ExcessiveAcknowledgementDelay,
    /// The peer acknowledged messages that were not sent.
    AbnormalBsn,
    /// The peer did not answer many Processor Recovered or Ready messages with Ready.
    ReadyMissing,
    /// The peer sent more during a local processor outage or receive congestion than the receive buffer holds.
    ReceiveBufferFull,
}

/// Indication to MTP3 (RFC 4165, section 5).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkIndication {
    /// In Service: the alignment is complete.
    InService,
    /// Out of Service.
    OutOfService(OutOfServiceReason),
    /// Remote Processor Outage.
    RemoteProcessorOutage,
    /// Remote Processor Outage Ceases.
    RemoteProcessorOutageCeases,
    /// Received message.
    Received(Msu),
    /// Congestion Indication: transmit congestion began.
    CongestionOnset,
    /// Congestion Indication: transmit congestion ended.
    CongestionAbatement,
}

/// Message to send over the association, ordered (RFC 4165, section 4.1.8).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Outbound stream.
    pub stream: u16,
    /// Message.
    pub message: Message,
}

/// Messages that a changeover retrieves (RFC 4165, section 4.2.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retrieval {
    /// Retrieval Request and FSNC: messages after the one that the peer received last, and unsent ones. With an
    /// invalid number only the unsent ones.
    After(SequenceNumber),
    /// Retrieval Request without FSNC, for an emergency changeover: unsent messages.
    Unsent,
    /// Retrieval Request of the Japanese TTC: unacknowledged and unsent messages.
    All,
}

/// Request that is not possible. The fault is the caller's, except of a full buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LinkRequestError {
    /// The link is started already.
    #[error("the link is started already: stop it first")]
    Started,
    /// Retrieval is possible out of service only.
    #[error("the link is not out of service: stop it before messages are retrieved")]
    NotOutOfService,
    /// Messages are possible in service only.
    #[error("the link is not in service: wait for In Service")]
    NotInService,
    /// The transmit buffers are full.
    #[error("the transmit buffers are full: wait for the abatement of the congestion")]
    BufferFull,
    /// The message can't be encoded.
    #[error(transparent)]
    Message(#[from] EncodeError),
}

/// Maximum number of Ready messages that the peer may owe.
const MAX_EXPECTED_READYS: usize = 64;

/// Ready that the peer owes after a processor outage (RFC 4165, section 4.1.4). It answers each message in order, so
/// that this order distinguishes the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ExpectedReady {
    /// Answer to Processor Recovered; a Ready answers it in turn.
    ToRecovered,
    /// Answer to the Ready that answered the peer's Processor Recovered.
    ToReady,
}

/// Link on its association.
///
/// Inputs are [`handle_sctp`](Self::handle_sctp), [`handle_message`](Self::handle_message),
/// [`handle_timeout`](Self::handle_timeout) and the requests of MTP3. After each input drain
/// [`poll_transmit`](Self::poll_transmit) and [`poll_indication`](Self::poll_indication), and call `handle_timeout` at
/// [`poll_timeout`](Self::poll_timeout). Octets that do not decode are discarded by the driver.
#[derive(Debug)]
pub struct Link {
    config: LinkConfig,
    state: LinkState,
    /// The association is up and has two streams.
    associated: bool,
    /// Start waits for the association.
    start_requested: bool,
    emergency: bool,
    /// The peer's proving is an emergency one.
    peer_emergency: bool,
    /// The peer completed its proving before this side.
    peer_ready: bool,
    local_outage: bool,
    remote_outage: bool,
    /// Ready messages of the User Data stream that the peer owes, in order.
    expected_readys: VecDeque<ExpectedReady>,
    /// Number of Processor Recovered messages to answer when the alignment is complete.
    owed_readys: usize,
    local_busy: bool,
    remote_busy: bool,
    /// T1, T2, T3 or T4, by the state.
    alignment_timer: Option<Time>,
    next_proving: Option<Time>,
    /// Number of Proving messages, for the pattern of the filler.
    provings: u64,
    t6: Option<Time>,
    /// T7 of messages that were sent before begins here.
    t7_from: Time,
    transmit_buffers: TransmitBuffers,
    receive_buffer: ReceiveBuffer,
    /// A message was accepted, and its acknowledgement was not sent.
    acknowledgement_due: bool,
    /// Abnormal BSNs among the last messages, a bit each.
    abnormal_bsns: u8,
    congested: bool,
    /// Messages for each stream; Link Status has priority (section 4.1.8).
    status_queue: VecDeque<Message>,
    data_queue: VecDeque<Message>,
    indications: VecDeque<LinkIndication>,
}

impl Link {
    /// Link that is out of service, without an association.
    ///
    /// # Errors
    /// [`LinkConfigError`] if the configuration is contradictory.
    pub fn new(config: LinkConfig) -> Result<Self, LinkConfigError> {
        config.check()?;
        Ok(Self {
            state: LinkState::OutOfService,
            associated: false,
            start_requested: false,
            emergency: false,
            peer_emergency: false,
            peer_ready: false,
            local_outage: false,
            remote_outage: false,
            expected_readys: VecDeque::new(),
            owed_readys: 0,
            local_busy: false,
            remote_busy: false,
            alignment_timer: None,
            next_proving: None,
            provings: 0,
            t6: None,
            t7_from: Time::ZERO,
            transmit_buffers: TransmitBuffers::new(config.transmit_limit),
            receive_buffer: ReceiveBuffer::new(config.receive_limit),
            acknowledgement_due: false,
            abnormal_bsns: 0,
            congested: false,
            status_queue: VecDeque::new(),
            data_queue: VecDeque::new(),
            indications: VecDeque::new(),
            config,
        })
    }

    /// Returns the state.
    pub const fn state(&self) -> LinkState {
        self.state
    }

    /// Returns the next message for the association: those of the Link Status stream first.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        let on = |stream| move |message| Transmit { stream, message };
        let status = self.status_queue.pop_front();
        status
            .map(on(LINK_STATUS_STREAM))
            .or_else(|| self.data_queue.pop_front().map(on(USER_DATA_STREAM)))
    }

    /// Returns the next indication to MTP3.
    pub fn poll_indication(&mut self) -> Option<LinkIndication> {
        self.indications.pop_front()
    }

    /// Handles a notification of SCTP (RFC 4165, sections 4.1.3 and 4.1.7).
    pub fn handle_sctp(&mut self, now: Time, notification: SctpNotification) {
        match notification {
            SctpNotification::SendFailure => {
                if self.state != LinkState::OutOfService {
                    self.fail(OutOfServiceReason::SendFailure);
                }
            }
            // A path that failed is SCTP's matter while the association is up.
            SctpNotification::PathStatus { .. } => {}
            SctpNotification::Down => {
                let started = self.start_requested;
                self.lose_association();
                if started {
                    self.fail(OutOfServiceReason::AssociationLost);
                }
            }
            SctpNotification::Up { outbound_streams }
            | SctpNotification::Restarted { outbound_streams } => {
                self.lose_association();
                if outbound_streams <= USER_DATA_STREAM {
                    if self.start_requested {
                        self.fail(OutOfServiceReason::TooFewStreams);
                    }
                    return;
                }
                self.associated = true;
                self.send_on_link_status_stream(LinkStatus::OutOfService);
                if self.start_requested {
                    self.begin_alignment(now);
                }
            }
        }
    }

    /// Handles a message of the peer, received on a stream. Messages on another stream than section 4.1.2 demands are
    /// discarded.
    pub fn handle_message(&mut self, now: Time, stream: u16, message: Message) {
        let Message { bsn, fsn, body } = message;
        let expected = match &body {
            Body::LinkStatus(LinkStatus::Ready) => stream,
            Body::UserData(_)
            | Body::LinkStatus(LinkStatus::ProcessorOutage | LinkStatus::ProcessorRecovered) => {
                USER_DATA_STREAM
            }
            Body::LinkStatus(_) => LINK_STATUS_STREAM,
        };
        if stream != expected || !self.associated {
            return;
        }
        match body {
            Body::UserData(msu) => self.handle_user_data(now, bsn, fsn, msu),
            Body::LinkStatus(status) => match status {
                LinkStatus::OutOfService => self.handle_out_of_service(),
                LinkStatus::Alignment => self.handle_alignment(now),
                LinkStatus::ProvingNormal(_) => self.handle_proving(now, false),
                LinkStatus::ProvingEmergency(_) => self.handle_proving(now, true),
                LinkStatus::Ready => self.handle_ready(now, stream, bsn),
                LinkStatus::ProcessorOutage => self.handle_processor_outage(now),
                LinkStatus::ProcessorRecovered => self.handle_processor_recovered(now, bsn),
                LinkStatus::Busy => self.handle_busy(now),
                LinkStatus::BusyEnded => self.handle_busy_ended(now),
            },
        }
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let timers = [self.alignment_timer, self.next_proving, self.t6, self.t7()];
        timers.into_iter().flatten().min()
    }

    /// Handles the timers that have expired.
    pub fn handle_timeout(&mut self, now: Time) {
        let expired = |timer: Option<Time>| timer.is_some_and(|at| at <= now);
        if expired(self.next_proving) {
            self.send_proving();
            self.next_proving = Some(now + self.config.proving_interval);
        }
        if expired(self.alignment_timer) {
            self.expire_alignment_timer(now);
        }
        if expired(self.t6) {
            self.fail(OutOfServiceReason::RemoteCongestion);
        }
        if expired(self.t7()) {
            self.fail(OutOfServiceReason::ExcessiveAcknowledgementDelay);
        }
    }

    /// Requests that the link is taken out of service (Stop).
    pub fn stop(&mut self) {
        if self.state != LinkState::OutOfService || self.start_requested {
            self.fail(OutOfServiceReason::Stopped);
        }
    }

    fn lose_association(&mut self) {
        self.associated = false;
        // Nothing that was queued for a lost association belongs to the next one.
        self.status_queue.clear();
        self.data_queue.clear();
        if self.state != LinkState::OutOfService {
            self.fail(OutOfServiceReason::AssociationLost);
        }
    }

    /// Enters OUT OF SERVICE. The transmit buffers remain for a changeover; received messages that were not accepted
    /// are discarded, because the peer retrieves them.
    fn fail(&mut self, reason: OutOfServiceReason) {
        self.state = LinkState::OutOfService;
        self.start_requested = false;
        self.emergency = false;
        self.local_outage = false;
        self.end_procedures();
        self.receive_buffer.discard();
        if self.associated {
            self.send_on_link_status_stream(LinkStatus::OutOfService);
        }
        self.indicate(LinkIndication::OutOfService(reason));
    }

    /// Ends the procedures of a link that is not out of service, with their timers.
    fn end_procedures(&mut self) {
        self.peer_emergency = false;
        self.peer_ready = false;
        self.remote_outage = false;
        self.expected_readys.clear();
        self.owed_readys = 0;
        self.local_busy = false;
        self.remote_busy = false;
        self.alignment_timer = None;
        self.next_proving = None;
        self.t6 = None;
        self.acknowledgement_due = false;
        self.abnormal_bsns = 0;
        self.congested = false;
    }

    /// Returns whether the alignment is complete at both ends.
    const fn is_aligned_at_both_ends(&self) -> bool {
        matches!(
            self.state,
            LinkState::InService | LinkState::ProcessorOutage
        )
    }

    fn indicate(&mut self, indication: LinkIndication) {
        self.indications.push_back(indication);
    }

    fn message(&self, body: Body) -> Message {
        Message {
            bsn: self.receive_buffer.accepted,
            fsn: self.transmit_buffers.last_sent,
            body,
        }
    }

    fn send_on_link_status_stream(&mut self, status: LinkStatus) {
        let message = self.message(Body::LinkStatus(status));
        self.status_queue.push_back(message);
    }

    fn send_in_sequence(&mut self, body: Body) {
        let message = self.message(body);
        self.data_queue.push_back(message);
    }
}
