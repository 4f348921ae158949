//! Link at the SGP, above MTP2.

use std::collections::VecDeque;
use std::time::Duration;

use carrick_proto::Time;

use super::unexpected;
use crate::m2ua::{
    Action, CongestionIndication, CongestionStatus, CorrelationId, Data, DataAcknowledge,
    DiscardStatus, Event, InterfaceIdentifier, LinkMessage, Message, ProtocolData,
    RetrievalComplete, RetrievalConfirm, RetrievalIndication, RetrievalResult, SequenceNumber,
    State, StateIndication, StateMessage,
};

/// Configuration of an [`SgpLink`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SgpLinkConfig {
    /// Minimum interval of Congestion Indications, 500 ms by default (section 3.3.1.8).
    pub congestion_interval: Duration,
}

impl Default for SgpLinkConfig {
    fn default() -> Self {
        Self {
            congestion_interval: Duration::from_millis(500),
        }
    }
}

/// Request to MTP2.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mtp2Request {
    /// Start. MTP2 indicates [`in_service`](SgpLink::in_service) or [`out_of_service`](SgpLink::out_of_service).
    Start,
    /// Stop. MTP2 indicates [`out_of_service`](SgpLink::out_of_service).
    Stop,
    /// State other than an audit, to be confirmed with [`confirm_state`](SgpLink::confirm_state).
    State(State),
    /// Message to send on the link.
    Data(ProtocolData),
    /// The ASP processed the message with this Correlation Id.
    Acknowledged(CorrelationId),
    /// Retrieval of the BSN, to be answered with [`confirm_bsn`](SgpLink::confirm_bsn).
    RetrieveBsn,
    /// Retrieval of the messages after this FSN of the far end, to be answered with
    /// [`confirm_messages`](SgpLink::confirm_messages).
    RetrieveMessages(Option<SequenceNumber>),
}

/// Congestion and discard level.
type Levels = (CongestionStatus, DiscardStatus);

/// Link at the SGP.
#[derive(Debug)]
pub struct SgpLink {
    config: SgpLinkConfig,
    identifier: InterfaceIdentifier,
    is_in_service: bool,
    /// MTP2 was requested to start, and did not answer.
    is_starting: bool,
    /// MTP2 was requested to stop, and did not answer.
    is_stopping: bool,
    has_remote_outage: bool,
    has_local_outage: bool,
    levels: Levels,
    /// Levels of the last Congestion Indication.
    indicated: Levels,
    /// Time before which no Congestion Indication is sent.
    next_congestion: Option<Time>,
    transmits: VecDeque<Message>,
    requests: VecDeque<Mtp2Request>,
}

const NO_CONGESTION: Levels = (CongestionStatus::None, DiscardStatus::None);

impl SgpLink {
    /// Link that is out of service.
    pub const fn new(config: SgpLinkConfig, identifier: InterfaceIdentifier) -> Self {
        Self {
            config,
            identifier,
            is_in_service: false,
            is_starting: false,
            is_stopping: false,
            has_remote_outage: false,
            has_local_outage: false,
            levels: NO_CONGESTION,
            indicated: NO_CONGESTION,
            next_congestion: None,
            transmits: VecDeque::new(),
            requests: VecDeque::new(),
        }
    }

    /// Handles a message of the ASP for this link. A message that an ASP should not send is answered with an Error message.
    pub fn handle_message(&mut self, message: &Message) {
        match message {
            Message::EstablishRequest(_) => self.on_establish(),
            Message::ReleaseRequest(_) => self.on_release(),
            Message::StateRequest(body) if body.state == State::Audit => self.audit(),
            Message::StateRequest(body) => self.requests.push_back(Mtp2Request::State(body.state)),
            Message::Data(body) => {
                let data = Mtp2Request::Data(body.protocol_data.clone());
                self.requests.push_back(data);
                if let Some(correlation_id) = body.correlation_id {
                    self.transmits
                        .push_back(Message::DataAcknowledge(DataAcknowledge {
                            identifier: self.identifier.clone(),
                            correlation_id,
                        }));
                }
            }
            Message::DataAcknowledge(body) => self
                .requests
                .push_back(Mtp2Request::Acknowledged(body.correlation_id)),
            Message::RetrievalRequest(body) => self.requests.push_back(match body.action {
                Action::RetrieveBsn => Mtp2Request::RetrieveBsn,
                Action::RetrieveMessages => Mtp2Request::RetrieveMessages(body.sequence_number),
            }),
            other => {
                let answer = unexpected(&self.identifier, other);
                self.transmits.push_back(answer);
            }
        }
    }

    /// Handles an Establish Request (section 3.3.1.3). A link that is in service needs no action.
    fn on_establish(&mut self) {
        if self.is_in_service && !self.is_stopping {
            let message = Message::EstablishConfirm(self.link());
            self.transmits.push_back(message);
        } else if !self.is_starting {
            self.is_starting = true;
            self.requests.push_back(Mtp2Request::Start);
        }
    }

    /// Handles a Release Request (section 3.3.1.4). A link that is out of service is confirmed at once.
    fn on_release(&mut self) {
        if self.is_in_service || self.is_starting {
            if !self.is_stopping {
                self.requests.push_back(Mtp2Request::Stop);
            }
            self.is_stopping = true;
            self.is_starting = false;
        } else if !self.is_stopping {
            let message = Message::ReleaseConfirm(self.link());
            self.transmits.push_back(message);
        }
    }

    /// Answers an audit with the state of the link (section 5.3.8).
    fn audit(&mut self) {
        let link = self.link();
        let state = if self.is_in_service {
            Message::EstablishConfirm(link)
        } else {
            Message::ReleaseIndication(link)
        };
        self.transmits.push_back(state);
        if self.is_in_service {
            if self.has_remote_outage {
                self.indicate_event(Event::RemoteProcessorOutageEnter);
            }
            if self.has_local_outage {
                self.indicate_event(Event::LocalProcessorOutageEnter);
            }
            if self.levels != NO_CONGESTION {
                self.indicate_congestion();
            }
        }
        self.confirm_state(State::Audit);
    }

    /// Handles MTP2's In Service indication.
    pub fn in_service(&mut self) {
        self.is_starting = false;
        self.is_in_service = true;
        let message = Message::EstablishConfirm(self.link());
        self.transmits.push_back(message);
    }

    /// Handles MTP2's Out of Service indication: the answer to a Release Request, or the failure of the link. Outages and
    /// congestion end with it.
    pub fn out_of_service(&mut self) {
        let link = self.link();
        let message = if self.is_stopping {
            Message::ReleaseConfirm(link)
        } else {
            Message::ReleaseIndication(link)
        };
        // An Establish Request after the Release Request is still to be answered.
        self.is_starting &= self.is_stopping;
        self.is_stopping = false;
        self.is_in_service = false;
        self.has_remote_outage = false;
        self.has_local_outage = false;
        self.levels = NO_CONGESTION;
        self.indicated = NO_CONGESTION;
        self.next_congestion = None;
        self.transmits.push_back(message);
    }

    /// Handles the begin or end of a processor outage of the remote end.
    pub fn remote_processor_outage(&mut self, has_outage: bool) {
        self.has_remote_outage = has_outage;
        self.indicate_event(if has_outage {
            Event::RemoteProcessorOutageEnter
        } else {
            Event::RemoteProcessorOutageExit
        });
    }

    /// Handles the begin or end of a processor outage of the link at the SGP.
    pub fn local_processor_outage(&mut self, has_outage: bool) {
        self.has_local_outage = has_outage;
        self.indicate_event(if has_outage {
            Event::LocalProcessorOutageEnter
        } else {
            Event::LocalProcessorOutageExit
        });
    }

    /// Handles the congestion and discard level of the link. A change is indicated, at most one in the configured interval
    /// (section 3.3.1.8).
    pub fn congestion(&mut self, now: Time, congestion: CongestionStatus, discard: DiscardStatus) {
        self.levels = (congestion, discard);
        if self.next_congestion.is_none_or(|next| next <= now) {
            self.indicate_changed_congestion(now);
        }
    }

    /// Indicates a change of the congestion that came within the interval.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.poll_timeout().is_some_and(|next| next <= now) {
            self.indicate_changed_congestion(now);
        }
    }

    /// Returns the time of the next timeout.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.next_congestion
            .filter(|_| self.levels != self.indicated)
    }

    fn indicate_changed_congestion(&mut self, now: Time) {
        if self.levels != self.indicated {
            self.next_congestion = Some(now + self.config.congestion_interval);
            self.indicate_congestion();
        }
    }

    /// Confirms a [`Mtp2Request::State`].
    pub fn confirm_state(&mut self, state: State) {
        self.transmits
            .push_back(Message::StateConfirm(StateMessage {
                identifier: self.identifier.clone(),
                state,
            }));
    }

    /// Answers a [`Mtp2Request::RetrieveBsn`], `None` if the BSN can't be retrieved.
    pub fn confirm_bsn(&mut self, bsn: Option<SequenceNumber>) {
        self.confirm_retrieval(Action::RetrieveBsn, bsn.is_some(), bsn);
    }

    /// Answers a [`Mtp2Request::RetrieveMessages`] with the messages from the transmit and retransmit queues, `None` if they
    /// can't be retrieved (section 5.3.6).
    pub fn confirm_messages(&mut self, messages: Option<Vec<ProtocolData>>) {
        self.confirm_retrieval(Action::RetrieveMessages, messages.is_some(), None);
        let Some(messages) = messages else {
            return;
        };
        for protocol_data in messages {
            self.transmits
                .push_back(Message::RetrievalIndication(RetrievalIndication {
                    identifier: self.identifier.clone(),
                    protocol_data,
                }));
        }
        self.transmits
            .push_back(Message::RetrievalComplete(RetrievalComplete {
                identifier: self.identifier.clone(),
                protocol_data: None,
            }));
    }

    fn confirm_retrieval(
        &mut self,
        action: Action,
        succeeded: bool,
        sequence_number: Option<SequenceNumber>,
    ) {
        let result = if succeeded {
            RetrievalResult::Success
        } else {
            RetrievalResult::Failure
        };
        self.transmits
            .push_back(Message::RetrievalConfirm(RetrievalConfirm {
                identifier: self.identifier.clone(),
                action,
                result,
                sequence_number,
            }));
    }

    /// Sends a message that was received on the link. With a Correlation Id the ASP acknowledges it, so that the SGP can
    /// acknowledge it on the link afterwards (section 3.3.1.2).
    pub fn send(&mut self, protocol_data: ProtocolData, correlation_id: Option<CorrelationId>) {
        self.transmits.push_back(Message::Data(Data {
            identifier: self.identifier.clone(),
            protocol_data,
            correlation_id,
        }));
    }

    /// Returns the next message for the ASP.
    pub fn poll_transmit(&mut self) -> Option<Message> {
        self.transmits.pop_front()
    }

    /// Returns the next request to MTP2.
    pub fn poll_request(&mut self) -> Option<Mtp2Request> {
        self.requests.pop_front()
    }

    fn link(&self) -> LinkMessage {
        LinkMessage {
            identifier: self.identifier.clone(),
        }
    }

    fn indicate_event(&mut self, event: Event) {
        self.transmits
            .push_back(Message::StateIndication(StateIndication {
                identifier: self.identifier.clone(),
                event,
            }));
    }

    fn indicate_congestion(&mut self) {
        let (congestion, discard) = self.levels;
        self.indicated = self.levels;
        self.transmits
            .push_back(Message::CongestionIndication(CongestionIndication {
                identifier: self.identifier.clone(),
                congestion,
                discard: Some(discard),
            }));
    }
}
