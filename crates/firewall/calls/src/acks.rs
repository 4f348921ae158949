//! ACKs that carry an answer (RFC 3261, section 13.2.2.4).
//!
//! An INVITE without an offer has the offer in its 2xx and the answer in the ACK. The SIP library
//! sends the ACK as soon as it receives a 2xx, unless the 2xx has a second Via, since the ACK is then
//! sent by the element behind it. 2xx responses to INVITEs without an offer therefore get such a Via,
//! and their ACKs are sent here: first when the answer is known, and again for each retransmitted 2xx.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rsipstack::dialog::DialogId;
use rsipstack::sip::prelude::HeadersExt as _;
use rsipstack::sip::{Header, Method, Request, Response, SipMessage, StatusCodeKind};
use rsipstack::transaction::endpoint::{EndpointInner, MessageInspector};
use rsipstack::transport::{SipAddr, SipConnection};

use crate::sequencer::{DialogKey, DialogSequencer};

/// Via that marks a 2xx whose ACK is sent here.
const ACK_MARK: &str = "SIP/2.0/UDP answer.invalid;branch=z9hG4bK-answer";

/// Last INVITE without an offer of a dialog.
struct PendingAck {
    seq: u32,
    invite: Request,
    /// ACK, once it was sent.
    sent: Option<(SipMessage, SipConnection, SipAddr)>,
}

/// INVITEs without an offer whose ACKs are sent here.
#[derive(Clone)]
pub(crate) struct DelayedAcks {
    pending: Arc<Mutex<BTreeMap<DialogKey, PendingAck>>>,
    /// Records that a dialog has a 2xx.
    sequencer: DialogSequencer,
}

impl DelayedAcks {
    /// Starts empty. A 2xx is reported to `sequencer` before the library acknowledges it.
    pub(crate) fn new(sequencer: DialogSequencer) -> Self {
        Self {
            pending: Arc::default(),
            sequencer,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<DialogKey, PendingAck>> {
        // A panic leaves the map consistent: each change is one insertion.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the ACK of a 2xx with a body, and again whenever the 2xx is retransmitted.
    pub(crate) async fn send(
        &self,
        endpoint: &EndpointInner,
        dialog: &DialogId,
        response: &Response,
        body: Option<(Header, Vec<u8>)>,
    ) {
        let key = (dialog.call_id.clone(), dialog.local_tag.clone());
        let Some(invite) = self.lock().get(&key).map(|pending| pending.invite.clone()) else {
            return;
        };
        let Ok(mut ack) = endpoint.make_ack(&invite, response) else {
            return;
        };
        ack.headers
            .retain(|header| !matches!(header, Header::Via(via) if via.value() == ACK_MARK));
        if let Some((kind, body)) = body {
            let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
            ack.headers.unique_push(kind);
            ack.headers
                .unique_push(Header::ContentLength(length.into()));
            ack.body = body;
        }
        let Ok(to) = SipAddr::try_from(&ack.destination()) else {
            return;
        };
        let Ok((connection, to)) = endpoint.transport_layer.lookup(&to, None).await else {
            return;
        };
        let ack = SipMessage::Request(ack);
        // From here on, it is sent again for each retransmitted 2xx.
        if let Some(pending) = self.lock().get_mut(&key) {
            pending.sent = Some((ack.clone(), connection.clone(), to.clone()));
        }
        let _ = connection.send(ack, Some(&to)).await;
    }

    /// Removes a dialog that has ended or whose INVITE was cancelled.
    pub(crate) fn forget(&self, dialog: &DialogId) {
        let key = (dialog.call_id.clone(), dialog.local_tag.clone());
        self.lock().remove(&key);
    }

    /// Keeps an INVITE without an offer, which the ACK is later made from. No INVITE precedes its dialog.
    fn before_send_request(&self, request: &mut Request) {
        if request.method != Method::Invite {
            return;
        }
        self.sequencer.wait_for_begun();
        let Some((key, seq)) = key(request) else {
            return;
        };
        if request.body.is_empty() {
            request
                .headers
                .retain(|header| !matches!(header, Header::ContentType(_)));
        }
        let mut pending = self.lock();
        if !request.body.is_empty() {
            pending.remove(&key);
        } else if pending.get(&key).is_none_or(|pending| pending.seq != seq) {
            let invite = request.clone();
            pending.insert(
                key,
                PendingAck {
                    seq,
                    invite,
                    sent: None,
                },
            );
        }
    }

    /// Marks a 2xx whose ACK is sent here, and repeats the ACK if it was sent before.
    fn after_received_response(&self, response: &mut Response) {
        let is_invite = response
            .cseq_header()
            .and_then(|cseq| cseq.method())
            .is_ok_and(|method| method == Method::Invite);
        if response.status_code.kind() != StatusCodeKind::Successful || !is_invite {
            return;
        }
        let Some((key, seq)) = key(response) else {
            return;
        };
        self.sequencer.answered(&key);
        let pending = self.lock();
        let Some(pending) = pending.get(&key).filter(|pending| pending.seq == seq) else {
            return;
        };
        response.headers.push(Header::Via(ACK_MARK.into()));
        if let Some((ack, connection, to)) = pending.sent.clone() {
            tokio::spawn(async move { connection.send(ack, Some(&to)).await.ok() });
        }
    }
}

/// Returns the dialog and the `CSeq` number of a message.
fn key(message: &impl rsipstack::sip::prelude::HeadersExt) -> Option<(DialogKey, u32)> {
    let call = message.call_id_header().ok()?.value().to_owned();
    let tag = message.from_header().ok()?.tag().ok()??;
    let seq = message.cseq_header().ok()?.seq().ok()?;
    Some(((call, tag.value().to_owned()), seq))
}

impl MessageInspector for DelayedAcks {
    fn before_send(&self, mut message: SipMessage, _: Option<&SipAddr>) -> SipMessage {
        if let SipMessage::Request(request) = &mut message {
            self.before_send_request(request);
        }
        message
    }

    fn after_received(&self, mut message: SipMessage, _: Option<&SipAddr>) -> SipMessage {
        if let SipMessage::Response(response) = &mut message {
            self.after_received_response(response);
        }
        message
    }
}
