//! New offers in a call, and answers that come in ACKs.

use rsipstack::dialog::dialog::TransactionHandle;
use rsipstack::dialog::invite_dialog::InviteDialog;
use rsipstack::sip::{Method, Request, Response, StatusCode, StatusCodeKind};
use tokio::sync::mpsc;

use crate::call::{Call, End, Told, status_of};
use crate::legs::{Leg, Side, content_type, passed_on, relay, reply, retarget};
use crate::media::openings;
use crate::pinholes::Pinholes;
use crate::sdp::{self, Description};

/// A re-INVITE or UPDATE, how to answer it, and what the other side said.
pub(crate) struct Change {
    /// Who sent it.
    pub(crate) side: Side,
    pub(crate) seq: u32,
    pub(crate) request: Request,
    pub(crate) handle: TransactionHandle,
    pub(crate) response: Option<Response>,
}

/// An offer that was in a 2xx; its answer is to come in the ACK.
pub(crate) struct Unanswered {
    /// Who owes the answer.
    pub(crate) side: Side,
    /// The number of the INVITE.
    pub(crate) seq: u32,
    /// The 2xx of the other side.
    pub(crate) response: Response,
    pub(crate) offer: Description,
}

/// Passes a re-INVITE or UPDATE on. Whether an answer is to come.
pub(crate) async fn begin_change(
    to: InviteDialog,
    mut change: Change,
    tell: mpsc::Sender<Told>,
) -> bool {
    let Change {
        request, handle, ..
    } = &change;
    let refusal = match Description::parse(&request.body) {
        // A refresh by UPDATE has no description.
        _ if request.body.is_empty() && request.method == Method::Update => StatusCode::OK,
        Err(_) if !request.body.is_empty() => StatusCode::NotAcceptableHere,
        _ => {
            tokio::spawn(async move {
                change.response = relay(&to, &change.request).await;
                // The call may be over.
                let _ = tell.send(Told::Changed(Box::new(change))).await;
            });
            return true;
        }
    };
    let _ = handle.reply(refusal).await;
    false
}

impl<P: Pinholes> Call<P> {
    /// The other side has answered a re-INVITE or UPDATE. Returns what is still to be answered.
    pub(crate) async fn changed(
        &mut self,
        change: Change,
        callee: &mut Leg,
    ) -> Result<Option<Unanswered>, End> {
        let other = &self.dialog_of(change.side.other(), callee);
        let handle = &change.handle;
        let Some(response) = change.response else {
            // Not sent, since the other side was at it itself; or not answered.
            let _ = handle.reply(StatusCode::RequestPending).await;
            return Ok(None);
        };
        if response.status_code.kind() != StatusCodeKind::Successful {
            let _ = handle.reply(passed_on(&response.status_code)).await;
            return Ok(None);
        }
        retarget(other, &response);
        let headers = vec![content_type(response.headers.iter())];
        let body = Some(response.body.clone());
        // The other side has changed: if this one can't, the call is no longer one.
        let described = Description::parse(&response.body);
        if change.request.body.is_empty() {
            let Ok(offer) = described else {
                self.shared
                    .acks
                    .send(&self.shared.layer.endpoint, &other.id(), &response, None)
                    .await;
                reply(handle, StatusCode::BadGateway, None).await;
                return Err(End::Unusable);
            };
            let _ = handle.respond(StatusCode::OK, Some(headers), body).await;
            return Ok(Some(Unanswered {
                side: change.side,
                seq: change.seq,
                response,
                offer,
            }));
        }
        let (Ok(offer), Ok(answer)) = (Description::parse(&change.request.body), described) else {
            reply(handle, StatusCode::NotAcceptableHere, None).await;
            return Err(End::Unusable);
        };
        let place = self.place_of(change.side);
        let Ok(wanted) = openings(&self.shared.config, &offer, &answer, place) else {
            reply(handle, StatusCode::NotAcceptableHere, None).await;
            return Err(End::Unusable);
        };
        if let Err(why) = self.open(callee, &wanted).await {
            let status = match &why {
                End::Refused(refusal) => status_of(refusal),
                _ => StatusCode::RequestTerminated,
            };
            // Before the BYE: to who gets that first, the INVITE is over without an answer.
            reply(handle, status, None).await;
            return Err(why);
        }
        let _ = handle.respond(StatusCode::OK, Some(headers), body).await;
        self.holes.prune(&wanted);
        Ok(None)
    }

    /// The answer is in an ACK: it passes when what it needs is open.
    pub(crate) async fn answered_late(
        &mut self,
        unanswered: &Unanswered,
        ack: &Request,
        callee: &mut Leg,
    ) -> Result<(), End> {
        let other = self.dialog_of(unanswered.side.other(), callee);
        let answer = Description::parse(&ack.body).map_err(|_| End::Unusable)?;
        let place = self.place_of(unanswered.side.other());
        let wanted = openings(&self.shared.config, &unanswered.offer, &answer, place);
        let wanted = wanted.map_err(|_| End::Unusable)?;
        self.open(callee, &wanted).await?;
        let body = (content_type(ack.headers.iter()), ack.body.clone());
        let Unanswered { response, .. } = unanswered;
        self.shared
            .acks
            .send(
                &self.shared.layer.endpoint,
                &other.id(),
                response,
                Some(body),
            )
            .await;
        self.holes.prune(&wanted);
        Ok(())
    }

    /// An offer that got no answer, or none that can be: all its streams are refused, because an ACK
    /// there must be, and BYE is to follow (RFC 3261 section 13.2.2.4).
    pub(crate) async fn refuse_offer(&self, other: &InviteDialog, unanswered: &Unanswered) {
        let Unanswered { response, .. } = unanswered;
        let refusal = sdp::refusal(&response.body, self.shared.config.listen.ip());
        let body = refusal.map(|body| (content_type([].iter()), body));
        self.shared
            .acks
            .send(&self.shared.layer.endpoint, &other.id(), response, body)
            .await;
    }
}
