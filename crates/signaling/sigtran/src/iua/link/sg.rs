//! Data link at the SG, above Q.921.

use std::collections::VecDeque;

use super::error_about;
use crate::iua::{
    Data, DataLink, Dlci, ErrorCode, InterfaceIdentifier, Message, ProtocolData, ReleaseIndication,
    ReleaseReason, TeiStatus, TeiStatusMessage,
};

/// Request to Q.921.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Q921Request {
    /// DL-ESTABLISH request.
    Establish,
    /// DL-RELEASE request.
    Release(ReleaseReason),
    /// DL-DATA request.
    Data(ProtocolData),
    /// DL-UNIT DATA request.
    UnitData(ProtocolData),
}

/// Data link at the SG. The requests of an ASP are passed to Q.921, whose answers are passed to the ASP (section 3.3.1.1);
/// those for a TEI that is not assigned are answered with an Error message.
#[derive(Debug)]
pub struct SgDataLink {
    identifier: InterfaceIdentifier,
    dlci: Dlci,
    tei_status: TeiStatus,
    transmits: VecDeque<Message>,
    requests: VecDeque<Q921Request>,
}

impl SgDataLink {
    /// Data link of a TEI with this status.
    pub const fn new(identifier: InterfaceIdentifier, dlci: Dlci, tei_status: TeiStatus) -> Self {
        Self {
            identifier,
            dlci,
            tei_status,
            transmits: VecDeque::new(),
            requests: VecDeque::new(),
        }
    }

    /// Handles a message of the ASP for this data link, or a TEI Query for its interface. A message that an ASP should not send,
    /// or for a TEI that is not assigned, is answered with an Error message.
    pub fn handle_message(&mut self, message: &Message) {
        let request = match message {
            Message::TeiStatusRequest(_) => {
                let message = Message::TeiStatusConfirm(self.status());
                return self.transmits.push_back(message);
            }
            Message::TeiQuery(_) => return self.indicate_tei_status(),
            Message::EstablishRequest(_) => Q921Request::Establish,
            Message::ReleaseRequest(body) => Q921Request::Release(body.reason),
            Message::DataRequest(body) => Q921Request::Data(body.protocol_data.clone()),
            Message::UnitDataRequest(body) => Q921Request::UnitData(body.protocol_data.clone()),
            other => {
                let answer = error_about(ErrorCode::UNEXPECTED_MESSAGE, other);
                return self.transmits.push_back(answer);
            }
        };
        if self.tei_status == TeiStatus::Unassigned {
            let answer = error_about(ErrorCode::UNASSIGNED_TEI, message);
            self.transmits.push_back(answer);
        } else {
            self.requests.push_back(request);
        }
    }

    /// Handles Q.921's answer to an Establish Request: DL-ESTABLISH confirm.
    pub fn establish_confirm(&mut self) {
        let message = Message::EstablishConfirm(self.link());
        self.transmits.push_back(message);
    }

    /// Handles an establishment by the far end: DL-ESTABLISH indication.
    pub fn establish_indication(&mut self) {
        let message = Message::EstablishIndication(self.link());
        self.transmits.push_back(message);
    }

    /// Handles Q.921's answer to a Release Request, or the failure to establish the data link: DL-RELEASE confirm.
    pub fn release_confirm(&mut self) {
        let message = Message::ReleaseConfirm(self.link());
        self.transmits.push_back(message);
    }

    /// Handles a release by the far end, or by an alarm: DL-RELEASE indication.
    pub fn release_indication(&mut self, reason: ReleaseReason) {
        self.transmits
            .push_back(Message::ReleaseIndication(ReleaseIndication {
                identifier: self.identifier.clone(),
                dlci: self.dlci,
                reason,
            }));
    }

    /// Sends a message that was received in the acknowledged service: DL-DATA indication.
    pub fn data(&mut self, protocol_data: ProtocolData) {
        let data = self.with_data(protocol_data);
        self.transmits.push_back(Message::DataIndication(data));
    }

    /// Sends a message that was received in the unacknowledged service: DL-UNIT DATA indication.
    pub fn unit_data(&mut self, protocol_data: ProtocolData) {
        let data = self.with_data(protocol_data);
        self.transmits.push_back(Message::UnitDataIndication(data));
    }

    /// Handles the status of the TEI. A change is indicated (section 3.3.3.3).
    pub fn set_tei_status(&mut self, status: TeiStatus) {
        if self.tei_status != status {
            self.tei_status = status;
            self.indicate_tei_status();
        }
    }

    fn indicate_tei_status(&mut self) {
        let message = Message::TeiStatusIndication(self.status());
        self.transmits.push_back(message);
    }

    /// Returns the next message for the ASP.
    pub fn poll_transmit(&mut self) -> Option<Message> {
        self.transmits.pop_front()
    }

    /// Returns the next request to Q.921.
    pub fn poll_request(&mut self) -> Option<Q921Request> {
        self.requests.pop_front()
    }

    fn link(&self) -> DataLink {
        DataLink {
            identifier: self.identifier.clone(),
            dlci: self.dlci,
        }
    }

    fn with_data(&self, protocol_data: ProtocolData) -> Data {
        Data {
            identifier: self.identifier.clone(),
            dlci: self.dlci,
            protocol_data,
        }
    }

    fn status(&self) -> TeiStatusMessage {
        TeiStatusMessage {
            identifier: self.identifier.clone(),
            dlci: self.dlci,
            status: self.tei_status,
        }
    }
}
