//! The two sides of a call, as dialogs of the SIP library.

use futures_util::FutureExt as _;
use rsipstack::dialog::dialog::{Dialog, DialogState, DialogStateReceiver, TransactionHandle};
use rsipstack::dialog::invite_dialog::InviteDialog;
use rsipstack::sip::prelude::HeadersExt;
use rsipstack::sip::{Header, Method, Request, Response, StatusCode, StatusCodeKind};

use std::collections::VecDeque;
use std::time::Duration;

/// How often a BYE is tried while another request of the dialog is being answered.
const BYE_ATTEMPTS: u32 = 8;
const BYE_PAUSE: Duration = Duration::from_millis(500);

/// How long an ACK may be behind what was sent after it.
const OVERTAKEN: Duration = Duration::from_secs(2);

/// Which side of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Caller,
    Callee,
}

impl Side {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Caller => Self::Callee,
            Self::Callee => Self::Caller,
        }
    }
}

/// One side.
pub(crate) struct Leg {
    pub(crate) dialog: InviteDialog,
    pub(crate) states: DialogStateReceiver,
    /// What its peer did while it was only asked whether it can do anything yet.
    kept: VecDeque<PeerAction>,
    over: bool,
}

impl Leg {
    pub(crate) fn new(dialog: InviteDialog, states: DialogStateReceiver) -> Self {
        Self {
            dialog,
            states,
            kept: VecDeque::new(),
            over: false,
        }
    }

    /// Something that its peer did; `None` when it can do nothing any more. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<PeerAction> {
        if let Some(action) = self.kept.pop_front() {
            return Some(action);
        }
        if self.over {
            return None;
        }
        let action = self.heard().await;
        self.over = action.is_none();
        action
    }

    /// Waits until its peer can do nothing any more; what it does before is kept. Cancel-safe.
    pub(crate) async fn over(&mut self) {
        while !self.over {
            match self.heard().await {
                Some(action) => self.kept.push_back(action),
                None => self.over = true,
            }
        }
    }

    async fn heard(&mut self) -> Option<PeerAction> {
        loop {
            let action = match self.states.recv().await? {
                DialogState::Terminated(..) => return None,
                DialogState::Updated(_, request, handle) => PeerAction::Changes(request, handle),
                DialogState::Info(_, request, handle)
                | DialogState::Message(_, request, handle) => PeerAction::Says(request, handle),
                DialogState::Publish(_, _, handle)
                | DialogState::Notify(_, _, handle)
                | DialogState::Refer(_, _, handle)
                | DialogState::Options(_, _, handle) => PeerAction::Asks(handle),
                DialogState::Confirmed(..) => PeerAction::Confirms,
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

    /// The ACK of the INVITE with this number, if it is there.
    pub(crate) fn ack_of(&self, seq: u32) -> Option<Request> {
        let ack = self.dialog.last_remote_ack()?;
        (number(&ack) == Some(seq)).then_some(ack)
    }
}

/// What a peer does in a call.
pub(crate) enum PeerAction {
    /// Re-INVITE or UPDATE.
    Changes(Request, TransactionHandle),
    /// Something for the other side: INFO, MESSAGE.
    Says(Request, TransactionHandle),
    /// Something that is not supported.
    Asks(TransactionHandle),
    /// ACK, or something without a meaning.
    Confirms,
}

/// The number of a request.
pub(crate) fn number(request: &Request) -> Option<u32> {
    request.cseq_header().ok()?.seq().ok()
}

/// Ends a side of a call, whatever its state. Its peer may not answer; that takes 32 s.
pub(crate) async fn end(dialog: &InviteDialog, why: Option<&str>) {
    for _ in 0..BYE_ATTEMPTS {
        let headers = why.map(|why| vec![Header::Reason(why.into())]);
        // An error with the dialog still there: a re-INVITE or the like is in the way.
        if dialog.bye_with_headers(headers).await.is_ok() || dialog.state().is_terminated() {
            return;
        }
        tokio::time::sleep(BYE_PAUSE).await;
    }
}

/// Answers a request, and returns when the answer is on its way: what is sent then is behind it.
pub(crate) async fn reply(
    handle: &TransactionHandle,
    status: StatusCode,
    headers: Option<Vec<Header>>,
) {
    // Who has answered takes no more of them, and the few that fit in between are lost.
    while handle
        .respond(status.clone(), headers.clone(), None)
        .await
        .is_ok()
    {}
}

/// Has something done in a task of its own, but its first step at once: what comes in order is
/// numbered in order.
pub(crate) fn spawn_begun(task: impl Future<Output = ()> + Send + 'static) {
    let mut task = Box::pin(task);
    if task.as_mut().now_or_never().is_none() {
        tokio::spawn(task);
    }
}

/// Waits for the ACK of the answer to the first INVITE, if what came after has overtaken it.
pub(crate) async fn acknowledged(dialog: &InviteDialog) {
    let patience = tokio::time::Instant::now() + OVERTAKEN;
    while dialog.state().waiting_ack() && tokio::time::Instant::now() < patience {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Sends a request that came from the other side.
pub(crate) async fn relay(dialog: &InviteDialog, request: &Request) -> Option<Response> {
    acknowledged(dialog).await;
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

/// A peer's requests go where its last Contact says (RFC 3261 section 12.2).
pub(crate) fn retarget(dialog: &InviteDialog, message: &impl HeadersExt) {
    let contact = message.contact_header().ok().cloned();
    let contacts = message.typed_contact_headers().unwrap_or_default();
    if let Some(first) = contacts.into_iter().next() {
        Dialog::Invite(dialog.clone()).set_remote_target(first.uri, contact);
    }
}

/// Whether the peer of a side still has the call.
pub(crate) async fn is_there(dialog: &InviteDialog) -> bool {
    if dialog.state().is_terminated() {
        return true;
    }
    match dialog.request(Method::Options, None, None).await {
        // Not asked: another request is on its way, and will tell.
        Ok(None) if !dialog.state().is_confirmed() => true,
        Ok(Some(response)) => !matches!(
            response.status_code,
            StatusCode::RequestTimeout | StatusCode::CallTransactionDoesNotExist
        ),
        Ok(None) | Err(_) => false,
    }
}

/// The type of a body; session descriptions if it isn't told.
pub(crate) fn content_type<'a>(mut headers: impl Iterator<Item = &'a Header>) -> Header {
    let found = headers.find(|header| matches!(header, Header::ContentType(_)));
    let sdp = || Header::ContentType("application/sdp".into());
    found.cloned().unwrap_or_else(sdp)
}

/// The status for the other side: what means something only between two neighbours is not passed on.
pub(crate) fn passed_on(status: &StatusCode) -> StatusCode {
    match (status, status.kind()) {
        (StatusCode::Unauthorized | StatusCode::ProxyAuthenticationRequired, _) => {
            StatusCode::Forbidden
        }
        (_, StatusCodeKind::Redirection) => StatusCode::TemporarilyUnavailable,
        _ => status.clone(),
    }
}

/// The hops that are left for a request that came with so many.
pub(crate) fn max_forwards(request: &Request) -> u32 {
    let value = request.max_forwards_header().ok();
    value
        .and_then(|header| header.value().trim().parse().ok())
        .unwrap_or(70)
}
