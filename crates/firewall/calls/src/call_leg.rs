//! Legs of a call as dialogs of the SIP library.

use futures_util::FutureExt as _;
use rsipstack::dialog::dialog::{Dialog, DialogState, DialogStateReceiver, TransactionHandle};
use rsipstack::dialog::invite_dialog::InviteDialog;
use rsipstack::sip::prelude::HeadersExt;
use rsipstack::sip::{Header, Method, Request, Response, StatusCode, StatusCodeKind};

use std::collections::VecDeque;
use std::time::Duration;

/// Attempts to send a BYE while another request of the dialog is pending.
const BYE_ATTEMPTS: u32 = 8;
const BYE_PAUSE: Duration = Duration::from_millis(500);

/// Time to wait for an ACK that later requests have overtaken.
pub(crate) const ACK_TIMEOUT: Duration = Duration::from_secs(2);

/// Time by which the server transaction of an INVITE without ACK has ended: 64 T1 (RFC 3261, section 13.3.1.4)
/// and 8 s. At 64 T1 the library ends the dialog with a BYE; a second one from here must not cross it.
const SERVER_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(40);

/// Leg of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CallSide {
    Caller,
    Callee,
}

impl CallSide {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Caller => Self::Callee,
            Self::Callee => Self::Caller,
        }
    }
}

/// One leg of a call.
pub(crate) struct CallLeg {
    pub(crate) dialog: InviteDialog,
    pub(crate) states: DialogStateReceiver,
    /// Requests received while waiting for the end of the dialog.
    queued: VecDeque<PeerAction>,
    over: bool,
}

impl CallLeg {
    pub(crate) fn new(dialog: InviteDialog, states: DialogStateReceiver) -> Self {
        Self {
            dialog,
            states,
            queued: VecDeque::new(),
            over: false,
        }
    }

    /// Returns the next request of the peer, or `None` after the end of the dialog. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<PeerAction> {
        if let Some(action) = self.queued.pop_front() {
            return Some(action);
        }
        if self.over {
            return None;
        }
        let action = self.receive().await;
        self.over = action.is_none();
        action
    }

    /// Waits for the end of the dialog. Requests received before it are queued. Cancel-safe.
    pub(crate) async fn over(&mut self) {
        while !self.over {
            match self.receive().await {
                Some(action) => self.queued.push_back(action),
                None => self.over = true,
            }
        }
    }

    async fn receive(&mut self) -> Option<PeerAction> {
        loop {
            let action = match self.states.recv().await? {
                DialogState::Terminated(..) => return None,
                DialogState::Updated(_, request, handle) => PeerAction::Modify(request, handle),
                DialogState::Info(_, request, handle)
                | DialogState::Message(_, request, handle) => PeerAction::Relay(request, handle),
                DialogState::Publish(_, _, handle)
                | DialogState::Notify(_, _, handle)
                | DialogState::Refer(_, _, handle)
                | DialogState::Options(_, _, handle) => PeerAction::Unsupported(handle),
                DialogState::Confirmed(..) => PeerAction::Acknowledge,
                DialogState::Calling(_)
                | DialogState::Trying(_)
                | DialogState::Early(..)
                | DialogState::WaitAck(..) => continue,
            };
            return Some(action);
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.dialog.state().is_terminated()
    }

    /// Returns the ACK of the INVITE with this `CSeq`, if it was received.
    pub(crate) fn ack_of(&self, seq: u32) -> Option<Request> {
        let ack = self.dialog.last_remote_ack()?;
        (cseq_number(&ack) == Some(seq)).then_some(ack)
    }
}

/// Request of a peer within a call.
pub(crate) enum PeerAction {
    /// Re-INVITE or UPDATE.
    Modify(Request, TransactionHandle),
    /// INFO or MESSAGE for the other leg.
    Relay(Request, TransactionHandle),
    /// Unsupported request.
    Unsupported(TransactionHandle),
    /// ACK, or a request without effect.
    Acknowledge,
}

/// Returns the `CSeq` number of a request.
pub(crate) fn cseq_number(request: &Request) -> Option<u32> {
    request.cseq_header().ok()?.seq().ok()
}

/// Ends a dialog in any state. Takes 32 s if the peer does not answer. No BYE may be sent before the ACK of a 2xx
/// response (RFC 3261, section 15), since it could overtake the response: a dialog without ACK ends after 32 s.
pub(crate) async fn end(dialog: &InviteDialog, why: Option<&str>) {
    acknowledged(dialog, SERVER_TRANSACTION_TIMEOUT).await;
    for _ in 0..BYE_ATTEMPTS {
        let headers = why.map(|why| vec![Header::Reason(why.into())]);
        // The dialog still exists: another request, such as a re-INVITE, is pending.
        if dialog.bye_with_headers(headers).await.is_ok() || dialog.state().is_terminated() {
            return;
        }
        tokio::time::sleep(BYE_PAUSE).await;
    }
}

/// Answers a request. Returns when the response was sent, so that later messages follow it.
pub(crate) async fn reply(
    handle: &TransactionHandle,
    status: StatusCode,
    headers: Option<Vec<Header>>,
) {
    // Responding fails once a response was sent. Extra responses queued until then are dropped.
    while handle
        .respond(status.clone(), headers.clone(), None)
        .await
        .is_ok()
    {}
}

/// Spawns a task after polling it once, so that requests get their numbers in the order of arrival.
pub(crate) fn spawn_polled_once(task: impl Future<Output = ()> + Send + 'static) {
    let mut task = Box::pin(task);
    if task.as_mut().now_or_never().is_none() {
        tokio::spawn(task);
    }
}

/// Waits for the ACK of the first INVITE, which later requests may have overtaken.
pub(crate) async fn acknowledged(dialog: &InviteDialog, timeout: Duration) {
    let deadline = tokio::time::Instant::now() + timeout;
    while dialog.state().waiting_ack() && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Forwards a request from the other leg.
pub(crate) async fn relay(dialog: &InviteDialog, request: &Request) -> Option<Response> {
    acknowledged(dialog, ACK_TIMEOUT).await;
    let (headers, body) = if request.body.is_empty() {
        (None, None)
    } else {
        let headers = vec![content_type(request.headers.iter())];
        (Some(headers), Some(request.body.clone()))
    };
    let sent = match request.method {
        Method::Invite => dialog.reinvite(headers, body).await,
        Method::Update => dialog.update(headers, body).await,
        method => dialog.request(method, headers, body).await,
    };
    sent.ok().flatten()
}

/// Updates the remote target from the Contact of a message (RFC 3261, section 12.2).
pub(crate) fn retarget(dialog: &InviteDialog, message: &impl HeadersExt) {
    let contact = message.contact_header().ok().cloned();
    let contacts = message.typed_contact_headers().unwrap_or_default();
    if let Some(first) = contacts.into_iter().next() {
        Dialog::Invite(dialog.clone()).set_remote_target(first.uri, contact);
    }
}

/// Returns whether the peer still has the dialog, by OPTIONS.
pub(crate) async fn still_has_dialog(dialog: &InviteDialog) -> bool {
    if dialog.state().is_terminated() {
        return true;
    }
    match dialog.request(Method::Options, None, None).await {
        // Not sent because another request is pending, which shows the same.
        Ok(None) if !dialog.state().is_confirmed() => true,
        Ok(Some(response)) => !matches!(
            response.status_code,
            StatusCode::RequestTimeout | StatusCode::CallTransactionDoesNotExist
        ),
        Ok(None) | Err(_) => false,
    }
}

/// Returns the Content-Type, by default that of session descriptions.
pub(crate) fn content_type<'a>(mut headers: impl Iterator<Item = &'a Header>) -> Header {
    let found = headers.find(|header| matches!(header, Header::ContentType(_)));
    let sdp = || Header::ContentType("application/sdp".into());
    found.cloned().unwrap_or_else(sdp)
}

/// Returns the status to forward to the other leg. Hop-by-hop statuses are replaced.
pub(crate) fn forwarded_status(status: &StatusCode) -> StatusCode {
    match (status, status.kind()) {
        (StatusCode::Unauthorized | StatusCode::ProxyAuthenticationRequired, _) => {
            StatusCode::Forbidden
        }
        (_, StatusCodeKind::Redirection) => StatusCode::TemporarilyUnavailable,
        _ => status.clone(),
    }
}

/// Returns the Max-Forwards of a request, 70 if it has none.
pub(crate) fn max_forwards(request: &Request) -> u32 {
    let value = request.max_forwards_header().ok();
    value
        .and_then(|header| header.value().trim().parse().ok())
        .unwrap_or(70)
}
