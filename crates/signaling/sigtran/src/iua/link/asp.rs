//! Data link at the ASP, below Q.931.

use std::collections::VecDeque;
use std::time::Duration;

use carrick_proto::Time;

use super::error_about;
use crate::iua::{
    Data, DataLink, Dlci, ErrorCode, InterfaceIdentifier, Message, ProtocolData, ReleaseReason,
    ReleaseRequest, TeiStatus, TeiStatusRequest,
};

/// Configuration of an [`AspDataLink`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AspDataLinkConfig {
    /// Interval of Establish Requests until the data link is established, 10 s by default (section 3.3.1.1).
    pub establish_interval: Duration,
    /// Interval of Release Requests and TEI Status Requests without an answer, 2 s by default.
    pub request_interval: Duration,
    /// Number of times that they are sent, 5 by default.
    pub attempts: u32,
}

impl Default for AspDataLinkConfig {
    fn default() -> Self {
        Self {
            establish_interval: Duration::from_secs(10),
            request_interval: Duration::from_secs(2),
            attempts: 5,
        }
    }
}

/// State of a data link at the ASP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataLinkState {
    /// There is no data link.
    Released,
    /// An Establish Request was sent, the answer is awaited.
    AwaitingEstablish,
    /// The data link is established.
    Established,
    /// A Release Request was sent, the answer is awaited.
    AwaitingRelease,
}

/// Indication or confirm to Q.931 or to layer management.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DataLinkIndication {
    /// DL-ESTABLISH: the data link is established, by request or by the far end.
    Established,
    /// DL-RELEASE: the data link is released.
    Released {
        /// Reason that the SG indicated, `None` after a Release Request.
        reason: Option<ReleaseReason>,
    },
    /// DL-DATA: message of the acknowledged service.
    Data(ProtocolData),
    /// DL-UNIT DATA: message of the unacknowledged service.
    UnitData(ProtocolData),
    /// M-TEI STATUS.
    TeiStatus(TeiStatus),
    /// The SG did not answer a TEI Status Request.
    TeiStatusUnanswered,
}

/// Request that is not possible. The fault is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataLinkRequestError {
    /// The data link is not established.
    #[error("the data link is in state {0:?}: establish it first")]
    NotEstablished(DataLinkState),
    /// A physical layer alarm is no reason of a request.
    #[error("a physical layer alarm is no reason of a Release Request: use another reason")]
    Reason,
}

/// Request without an answer.
#[derive(Clone, Copy, Debug)]
struct UnansweredRequest {
    deadline: Time,
    attempts: u32,
}

/// Data link at the ASP.
#[derive(Debug)]
pub struct AspDataLink {
    config: AspDataLinkConfig,
    identifier: InterfaceIdentifier,
    dlci: Dlci,
    state: DataLinkState,
    /// An Establish Request followed a Release Request whose confirm is still to come.
    has_earlier_release: bool,
    /// Reason of the last Release Request.
    reason: ReleaseReason,
    /// Establish Request or Release Request.
    request: Option<UnansweredRequest>,
    status_request: Option<UnansweredRequest>,
    transmits: VecDeque<Message>,
    indications: VecDeque<DataLinkIndication>,
}

impl AspDataLink {
    /// Data link that is released.
    pub const fn new(
        config: AspDataLinkConfig,
        identifier: InterfaceIdentifier,
        dlci: Dlci,
    ) -> Self {
        Self {
            config,
            identifier,
            dlci,
            state: DataLinkState::Released,
            has_earlier_release: false,
            reason: ReleaseReason::Management,
            request: None,
            status_request: None,
            transmits: VecDeque::new(),
            indications: VecDeque::new(),
        }
    }

    /// Requests the data link: DL-ESTABLISH request. The Establish Request is repeated until it is answered.
    pub fn establish(&mut self, now: Time) {
        self.has_earlier_release |= self.state == DataLinkState::AwaitingRelease;
        self.state = DataLinkState::AwaitingEstablish;
        self.send_request(now, 1);
    }

    /// Releases the data link: DL-RELEASE request. The Release Request is repeated; without an answer the data link counts as
    /// released (section 3.3.1.2).
    ///
    /// # Errors
    /// [`DataLinkRequestError::Reason`] if the reason is a physical layer alarm.
    pub fn release(
        &mut self,
        now: Time,
        reason: ReleaseReason,
    ) -> Result<(), DataLinkRequestError> {
        if reason == ReleaseReason::Physical {
            return Err(DataLinkRequestError::Reason);
        }
        self.reason = reason;
        self.state = DataLinkState::AwaitingRelease;
        self.send_request(now, 1);
        Ok(())
    }

    /// Sends the request of the state.
    fn send_request(&mut self, now: Time, attempts: u32) {
        let (identifier, dlci) = (self.identifier.clone(), self.dlci);
        let (interval, message) = if self.state == DataLinkState::AwaitingEstablish {
            let message = Message::EstablishRequest(DataLink { identifier, dlci });
            (self.config.establish_interval, message)
        } else {
            let message = Message::ReleaseRequest(ReleaseRequest {
                identifier,
                dlci,
                reason: self.reason,
            });
            (self.config.request_interval, message)
        };
        self.request = Some(UnansweredRequest {
            deadline: now + interval,
            attempts,
        });
        self.transmits.push_back(message);
    }

    /// Requests the status of the TEI.
    pub fn request_tei_status(&mut self, now: Time) {
        self.send_status_request(now, 1);
    }

    fn send_status_request(&mut self, now: Time, attempts: u32) {
        self.status_request = Some(UnansweredRequest {
            deadline: now + self.config.request_interval,
            attempts,
        });
        self.transmits
            .push_back(Message::TeiStatusRequest(TeiStatusRequest {
                identifier: self.identifier.clone(),
                dlci: self.dlci,
            }));
    }

    /// Sends a message of the acknowledged service: DL-DATA request.
    ///
    /// # Errors
    /// [`DataLinkRequestError::NotEstablished`] if there is no data link.
    pub fn send(&mut self, protocol_data: ProtocolData) -> Result<(), DataLinkRequestError> {
        if self.state != DataLinkState::Established {
            return Err(DataLinkRequestError::NotEstablished(self.state));
        }
        let data = self.data(protocol_data);
        self.transmits.push_back(Message::DataRequest(data));
        Ok(())
    }

    /// Sends a message of the unacknowledged service, which needs no established data link: DL-UNIT DATA request.
    pub fn send_unit(&mut self, protocol_data: ProtocolData) {
        let data = self.data(protocol_data);
        self.transmits.push_back(Message::UnitDataRequest(data));
    }

    fn data(&self, protocol_data: ProtocolData) -> Data {
        Data {
            identifier: self.identifier.clone(),
            dlci: self.dlci,
            protocol_data,
        }
    }

    /// Handles the end of the ASP's activity or of the association: requests are not repeated.
    pub const fn handle_inactive(&mut self) {
        self.request = None;
        self.status_request = None;
    }

    /// Handles a message of the SG for this data link. A message that an SG should not send is answered with an Error message.
    /// Data without a data link are discarded.
    pub fn handle_message(&mut self, message: &Message) {
        match message {
            Message::EstablishConfirm(_) | Message::EstablishIndication(_) => {
                // A Release Request is on its way, and its answer follows.
                if self.state != DataLinkState::AwaitingRelease {
                    self.state = DataLinkState::Established;
                    self.request = None;
                    self.indicate(DataLinkIndication::Established);
                }
            }
            Message::ReleaseConfirm(_) if self.has_earlier_release => {
                self.has_earlier_release = false;
                self.indicate(DataLinkIndication::Released { reason: None });
            }
            Message::ReleaseConfirm(_) => self.end(None),
            Message::ReleaseIndication(body) => self.end(Some(body.reason)),
            Message::DataIndication(body) => {
                let has_link = matches!(
                    self.state,
                    DataLinkState::Established | DataLinkState::AwaitingRelease
                );
                if has_link {
                    self.indicate(DataLinkIndication::Data(body.protocol_data.clone()));
                }
            }
            Message::UnitDataIndication(body) => {
                self.indicate(DataLinkIndication::UnitData(body.protocol_data.clone()));
            }
            Message::TeiStatusConfirm(body) => {
                self.status_request = None;
                self.indicate(DataLinkIndication::TeiStatus(body.status));
            }
            Message::TeiStatusIndication(body) => {
                self.indicate(DataLinkIndication::TeiStatus(body.status));
            }
            other => {
                let answer = error_about(ErrorCode::UNEXPECTED_MESSAGE, other);
                self.transmits.push_back(answer);
            }
        }
    }

    /// Ends the data link, or the attempt to establish it.
    fn end(&mut self, reason: Option<ReleaseReason>) {
        self.state = DataLinkState::Released;
        self.has_earlier_release = false;
        self.request = None;
        self.indicate(DataLinkIndication::Released { reason });
    }

    /// Repeats the requests that were not answered in time.
    pub fn handle_timeout(&mut self, now: Time) {
        let is_due = |request: &UnansweredRequest| request.deadline <= now;
        if let Some(request) = self.request.filter(is_due) {
            let repeats = self.state == DataLinkState::AwaitingEstablish
                || request.attempts < self.config.attempts;
            if repeats {
                self.send_request(now, request.attempts.saturating_add(1));
            } else {
                self.end(None);
            }
        }
        if let Some(request) = self.status_request.filter(is_due) {
            if request.attempts < self.config.attempts {
                self.send_status_request(now, request.attempts + 1);
            } else {
                self.status_request = None;
                self.indicate(DataLinkIndication::TeiStatusUnanswered);
            }
        }
    }

    /// Returns the state.
    pub const fn state(&self) -> DataLinkState {
        self.state
    }

    /// Returns the next message for the SG.
    pub fn poll_transmit(&mut self) -> Option<Message> {
        self.transmits.pop_front()
    }

    /// Returns the next indication.
    pub fn poll_indication(&mut self) -> Option<DataLinkIndication> {
        self.indications.pop_front()
    }

    /// Returns the time of the next timeout.
    pub fn poll_timeout(&self) -> Option<Time> {
        let requests = [self.request, self.status_request];
        requests
            .into_iter()
            .flatten()
            .map(|request| request.deadline)
            .min()
    }

    fn indicate(&mut self, indication: DataLinkIndication) {
        self.indications.push_back(indication);
    }
}
