//! The two sides of a call, as dialogs of the SIP library.

use std::time::Duration;

use rsipstack::dialog::dialog::{DialogState, DialogStateReceiver, TransactionHandle};
use rsipstack::dialog::invite_dialog::InviteDialog;
use rsipstack::sip::prelude::HeadersExt as _;
use rsipstack::sip::{Header, Method, Request, Response, StatusCode, StatusCodeKind};

/// How often a BYE is tried while another request of the dialog is being answered.
const BYE_ATTEMPTS: u32 = 8;
const BYE_PAUSE: Duration = Duration::from_millis(500);

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
}

impl Leg {
    /// Something that its peer did; `None` when it can do nothing any more.
    pub(crate) async fn next(&mut self) -> Option<PeerAction> {
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
                DialogState::Calling(_)
                | DialogState::Trying(_)
                | DialogState::Early(..)
                | DialogState::WaitAck(..)
                | DialogState::Confirmed(..) => continue,
            };
            return Some(action);
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.dialog.state().is_terminated()
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
}

/// Ends a side of a call, whatever its state. Its peer may not answer; that takes 32 s.
pub(crate) async fn end(dialog: &InviteDialog) {
    for _ in 0..BYE_ATTEMPTS {
        // An error with the dialog still there: a re-INVITE or the like is in the way.
        if dialog.bye().await.is_ok() || dialog.state().is_terminated() {
            return;
        }
        tokio::time::sleep(BYE_PAUSE).await;
    }
}

/// Sends a request that came from the other side.
pub(crate) async fn relay(dialog: &InviteDialog, request: &Request) -> Option<Response> {
    let headers = Some(vec![content_type(request.headers.iter())]);
    let body = Some(request.body.clone());
    let sent = match request.method {
        Method::Invite => dialog.reinvite(headers, body).await,
        Method::Update => dialog.update(headers, body).await,
        method => dialog.request(method, headers, body).await,
    };
    sent.ok().flatten()
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
