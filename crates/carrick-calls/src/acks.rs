//! ACKs that carry an answer (RFC 3261 section 13.2.2.4).
//!
//! An INVITE without an offer has the offer in its 2xx and the answer in the ACK. The SIP library sends
//! ACKs as soon as a 2xx is there; it does not when the 2xx has a Via of somebody behind it, because
//! then the ACK is that one's matter. So 2xx to INVITEs that went out without an offer are given such a
//! Via, and their ACKs are sent from here: the first when the answer is known, and it again for each
//! repeated 2xx.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rsipstack::dialog::DialogId;
use rsipstack::sip::prelude::HeadersExt as _;
use rsipstack::sip::{Header, Method, Request, Response, SipMessage, StatusCodeKind};
use rsipstack::transaction::endpoint::{EndpointInner, MessageInspector};
use rsipstack::transport::{SipAddr, SipConnection};

use crate::turns::{Key, Turns};

/// A Via of nobody.
const BEHIND: &str = "SIP/2.0/UDP answer.invalid;branch=z9hG4bK-answer";

/// The last INVITE without an offer of a dialog.
struct Kept {
    seq: u32,
    invite: Request,
    /// The ACK, when it was sent.
    sent: Option<(SipMessage, SipConnection, SipAddr)>,
}

/// The INVITEs without an offer whose ACKs are sent from here.
#[derive(Clone)]
pub(crate) struct Acks {
    kept: Arc<Mutex<BTreeMap<Key, Kept>>>,
    turns: Turns,
}

impl Acks {
    /// No INVITE yet; 2xx are noted in these turns before the library acknowledges them.
    pub(crate) fn new(turns: Turns) -> Self {
        Self {
            kept: Arc::default(),
            turns,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Kept>> {
        // Whoever panicked with it left it whole: each change is one insertion.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the ACK of a 2xx, with a body. Later it is sent again whenever the 2xx comes again.
    pub(crate) async fn send(
        &self,
        endpoint: &EndpointInner,
        dialog: &DialogId,
        response: &Response,
        body: Option<(Header, Vec<u8>)>,
    ) {
        let key = (dialog.call_id.clone(), dialog.local_tag.clone());
        let Some(invite) = self.lock().get(&key).map(|kept| kept.invite.clone()) else {
            return;
        };
        let Ok(mut ack) = endpoint.make_ack(&invite, response) else {
            return;
        };
        ack.headers
            .retain(|header| !matches!(header, Header::Via(via) if via.value() == BEHIND));
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
        // From now on it is sent again for each repeated 2xx.
        if let Some(kept) = self.lock().get_mut(&key) {
            kept.sent = Some((ack.clone(), connection.clone(), to.clone()));
        }
        let _ = connection.send(ack, Some(&to)).await;
    }

    /// A dialog is over, or its INVITE is given up.
    pub(crate) fn forget(&self, dialog: &DialogId) {
        let key = (dialog.call_id.clone(), dialog.local_tag.clone());
        self.lock().remove(&key);
    }

    fn sending(&self, request: &mut Request) {
        if request.method != Method::Invite {
            return;
        }
        let Some((key, seq)) = key(request) else {
            return;
        };
        if request.body.is_empty() {
            request
                .headers
                .retain(|header| !matches!(header, Header::ContentType(_)));
        }
        let mut kept = self.lock();
        if !request.body.is_empty() {
            kept.remove(&key);
        } else if kept.get(&key).is_none_or(|kept| kept.seq != seq) {
            let invite = request.clone();
            kept.insert(
                key,
                Kept {
                    seq,
                    invite,
                    sent: None,
                },
            );
        }
    }

    fn received(&self, response: &mut Response) {
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
        self.turns.answered(&key);
        let kept = self.lock();
        let Some(kept) = kept.get(&key).filter(|kept| kept.seq == seq) else {
            return;
        };
        response.headers.push(Header::Via(BEHIND.into()));
        if let Some((ack, connection, to)) = kept.sent.clone() {
            tokio::spawn(async move { connection.send(ack, Some(&to)).await.ok() });
        }
    }
}

fn key(message: &impl rsipstack::sip::prelude::HeadersExt) -> Option<(Key, u32)> {
    let call = message.call_id_header().ok()?.value().to_owned();
    let tag = message.from_header().ok()?.tag().ok()??;
    let seq = message.cseq_header().ok()?.seq().ok()?;
    Some(((call, tag.value().to_owned()), seq))
}

impl MessageInspector for Acks {
    fn before_send(&self, mut message: SipMessage, _: Option<&SipAddr>) -> SipMessage {
        if let SipMessage::Request(request) = &mut message {
            self.sending(request);
        }
        message
    }

    fn after_received(&self, mut message: SipMessage, _: Option<&SipAddr>) -> SipMessage {
        if let SipMessage::Response(response) = &mut message {
            self.received(response);
        }
        message
    }
}
