//! Link at the ASP, below MTP3.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use carrick_proto::Time;

use super::unexpected;
use crate::m2ua::{
    Action, CongestionStatus, CorrelationId, Data, DataAcknowledge, DiscardStatus, Event,
    InterfaceIdentifier, LinkMessage, Message, ProtocolData, RetrievalConfirm, RetrievalRequest,
    RetrievalResult, SequenceNumber, State, StateMessage,
};

/// Configuration of an [`AspLink`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AspLinkConfig {
    /// Interval of Establish Requests until the link is in service, 30 s by default (section 3.3.1.3).
    pub establish_interval: Duration,
    /// Interval of other requests without an answer, 2 s by default.
    pub request_interval: Duration,
    /// Number of times that other requests are sent, 5 by default.
    pub attempts: u32,
}

impl Default for AspLinkConfig {
    fn default() -> Self {
        Self {
            establish_interval: Duration::from_secs(30),
            request_interval: Duration::from_secs(2),
            attempts: 5,
        }
    }
}

/// Request of MTP3 or of layer management.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LinkRequest {
    /// Start Request: bring the link in service.
    Establish,
    /// Stop Request: take the link out of service.
    Release,
    /// Processor outage, emergency, buffers, congestion or audit.
    State(State),
    /// Retrieval of the BSN.
    RetrieveBsn,
    /// Retrieval of the messages after this FSN of the far end.
    RetrieveMessages(SequenceNumber),
}

/// Indication or confirm to MTP3 or to layer management.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkIndication {
    /// The link is in service.
    InService,
    /// The link is out of service.
    OutOfService,
    /// A [`LinkRequest::State`] was carried out.
    StateConfirmed(State),
    /// Processor outage of the remote end or of the link.
    Event(Event),
    /// Congestion of the link.
    Congestion {
        /// Congestion level.
        congestion: CongestionStatus,
        /// Discard level.
        discard: Option<DiscardStatus>,
    },
    /// Message for MTP3.
    Data(ProtocolData),
    /// The SGP processed the message with this Correlation Id.
    Acknowledged(CorrelationId),
    /// BSN, `None` if it could not be retrieved.
    Bsn(Option<SequenceNumber>),
    /// The retrieval of messages begins.
    Retrieval,
    /// Retrieved message.
    Retrieved(ProtocolData),
    /// All messages were retrieved.
    RetrievalComplete,
    /// The messages could not be retrieved.
    RetrievalFailed,
    /// The SGP did not answer.
    Unanswered(LinkRequest),
}

/// Request without an answer.
#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    deadline: Time,
    attempts: u32,
}

/// Link at the ASP.
#[derive(Debug)]
pub struct AspLink {
    config: AspLinkConfig,
    identifier: InterfaceIdentifier,
    /// At most one entry for each kind of request.
    pending: BTreeMap<LinkRequest, PendingRequest>,
    is_in_service: bool,
    is_retrieving: bool,
    transmits: VecDeque<Message>,
    indications: VecDeque<LinkIndication>,
}

impl AspLink {
    /// Link that is out of service.
    pub const fn new(config: AspLinkConfig, identifier: InterfaceIdentifier) -> Self {
        Self {
            config,
            identifier,
            pending: BTreeMap::new(),
            is_in_service: false,
            is_retrieving: false,
            transmits: VecDeque::new(),
            indications: VecDeque::new(),
        }
    }

    /// Sends a request, and repeats it until it is answered. It replaces a request that it contradicts.
    pub fn request(&mut self, now: Time, request: LinkRequest) {
        self.pending
            .retain(|other, _| !contradicts(request, *other));
        if matches!(request, LinkRequest::RetrieveMessages(_)) {
            self.is_retrieving = false;
        }
        self.send_request(now, request, 1);
    }

    fn send_request(&mut self, now: Time, request: LinkRequest, attempts: u32) {
        let interval = match request {
            LinkRequest::Establish => self.config.establish_interval,
            _ => self.config.request_interval,
        };
        let deadline = now + interval;
        self.pending
            .insert(request, PendingRequest { deadline, attempts });
        let identifier = self.identifier.clone();
        let link = LinkMessage { identifier };
        let retrieval = |identifier, action, sequence_number| {
            Message::RetrievalRequest(RetrievalRequest {
                identifier,
                action,
                sequence_number,
            })
        };
        let message = match request {
            LinkRequest::Establish => Message::EstablishRequest(link),
            LinkRequest::Release => Message::ReleaseRequest(link),
            LinkRequest::State(state) => Message::StateRequest(StateMessage {
                identifier: link.identifier,
                state,
            }),
            LinkRequest::RetrieveBsn => retrieval(link.identifier, Action::RetrieveBsn, None),
            LinkRequest::RetrieveMessages(fsn) => {
                retrieval(link.identifier, Action::RetrieveMessages, Some(fsn))
            }
        };
        self.transmits.push_back(message);
    }

    /// Sends a message of MTP3. With a Correlation Id the SGP acknowledges it.
    pub fn send(&mut self, protocol_data: ProtocolData, correlation_id: Option<CorrelationId>) {
        self.transmits.push_back(Message::Data(Data {
            identifier: self.identifier.clone(),
            protocol_data,
            correlation_id,
        }));
    }

    /// Handles the end of the ASP's activity or of the association: requests are not repeated.
    pub fn handle_inactive(&mut self) {
        self.pending.clear();
        self.is_retrieving = false;
    }

    /// Handles a message of the SGP for this link. A message that an SGP should not send now is answered with an Error
    /// message.
    pub fn handle_message(&mut self, message: &Message) {
        match message {
            Message::Data(body) => {
                if let Some(correlation_id) = body.correlation_id {
                    self.transmits
                        .push_back(Message::DataAcknowledge(DataAcknowledge {
                            identifier: self.identifier.clone(),
                            correlation_id,
                        }));
                }
                self.indicate(LinkIndication::Data(body.protocol_data.clone()));
            }
            Message::DataAcknowledge(body) => {
                self.indicate(LinkIndication::Acknowledged(body.correlation_id));
            }
            Message::EstablishConfirm(_) => {
                self.pending.remove(&LinkRequest::Establish);
                self.is_in_service = true;
                self.indicate(LinkIndication::InService);
            }
            Message::ReleaseConfirm(_) | Message::ReleaseIndication(_) => {
                self.pending.remove(&LinkRequest::Release);
                // An Establish Request after the confirmed Release Request is still to be answered.
                if matches!(message, Message::ReleaseIndication(_)) {
                    self.pending.remove(&LinkRequest::Establish);
                }
                self.is_in_service = false;
                self.indicate(LinkIndication::OutOfService);
            }
            Message::StateConfirm(body) => {
                self.pending.remove(&LinkRequest::State(body.state));
                self.indicate(LinkIndication::StateConfirmed(body.state));
            }
            Message::StateIndication(body) => self.indicate(LinkIndication::Event(body.event)),
            Message::CongestionIndication(body) => self.indicate(LinkIndication::Congestion {
                congestion: body.congestion,
                discard: body.discard,
            }),
            Message::RetrievalConfirm(body) => self.on_retrieval_confirm(body),
            Message::RetrievalIndication(body) if self.is_retrieving => {
                self.indicate(LinkIndication::Retrieved(body.protocol_data.clone()));
            }
            Message::RetrievalComplete(body) if self.is_retrieving => {
                self.is_retrieving = false;
                let last = body.protocol_data.clone().map(LinkIndication::Retrieved);
                self.indications.extend(last);
                self.indicate(LinkIndication::RetrievalComplete);
            }
            other => {
                let answer = unexpected(&self.identifier, other);
                self.transmits.push_back(answer);
            }
        }
    }

    fn on_retrieval_confirm(&mut self, body: &RetrievalConfirm) {
        let succeeded = body.result == RetrievalResult::Success;
        match body.action {
            Action::RetrieveBsn => {
                self.pending.remove(&LinkRequest::RetrieveBsn);
                let bsn = body.sequence_number.filter(|_| succeeded);
                self.indicate(LinkIndication::Bsn(bsn));
            }
            Action::RetrieveMessages => {
                self.pending
                    .retain(|request, _| !matches!(request, LinkRequest::RetrieveMessages(_)));
                self.is_retrieving = succeeded;
                self.indicate(if succeeded {
                    LinkIndication::Retrieval
                } else {
                    LinkIndication::RetrievalFailed
                });
            }
        }
    }

    /// Repeats the requests that were not answered in time.
    pub fn handle_timeout(&mut self, now: Time) {
        let expired = self
            .pending
            .iter()
            .filter(|(_, pending)| pending.deadline <= now);
        let expired: Vec<_> = expired
            .map(|(&request, &pending)| (request, pending))
            .collect();
        for (request, PendingRequest { attempts, .. }) in expired {
            if request == LinkRequest::Establish || attempts < self.config.attempts {
                self.send_request(now, request, attempts.saturating_add(1));
            } else {
                self.pending.remove(&request);
                self.indicate(LinkIndication::Unanswered(request));
            }
        }
    }

    /// Returns whether the link is in service, as the SGP indicated last.
    pub const fn is_in_service(&self) -> bool {
        self.is_in_service
    }

    /// Returns the next message for the SGP.
    pub fn poll_transmit(&mut self) -> Option<Message> {
        self.transmits.pop_front()
    }

    /// Returns the next indication.
    pub fn poll_indication(&mut self) -> Option<LinkIndication> {
        self.indications.pop_front()
    }

    /// Returns the time of the next timeout.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.pending.values().map(|pending| pending.deadline).min()
    }

    fn indicate(&mut self, indication: LinkIndication) {
        self.indications.push_back(indication);
    }
}

/// Returns whether a request makes an earlier one void.
const fn contradicts(request: LinkRequest, earlier: LinkRequest) -> bool {
    use LinkRequest::{Establish, Release, RetrieveMessages};
    use State::{EmergencyClear, EmergencySet, LocalProcessorOutageClear, LocalProcessorOutageSet};
    matches!(
        (request, earlier),
        (Establish, Release)
            | (Release, Establish)
            | (RetrieveMessages(_), RetrieveMessages(_))
            | (
                LinkRequest::State(EmergencySet),
                LinkRequest::State(EmergencyClear)
            )
            | (
                LinkRequest::State(EmergencyClear),
                LinkRequest::State(EmergencySet)
            )
            | (
                LinkRequest::State(LocalProcessorOutageSet),
                LinkRequest::State(LocalProcessorOutageClear)
            )
            | (
                LinkRequest::State(LocalProcessorOutageClear),
                LinkRequest::State(LocalProcessorOutageSet)
            )
    )
}
