//! Offers within a call, and answers in ACKs.

use rsipstack::dialog::dialog::TransactionHandle;
use rsipstack::dialog::invite_dialog::InviteDialog;
use rsipstack::sip::{Method, Request, Response, StatusCode, StatusCodeKind};
use tokio::sync::mpsc;

use crate::call::{Call, CallEvent, EndReason, status_of};
use crate::call_leg::{CallLeg, CallSide, content_type, forwarded_status, relay, reply, retarget};
use crate::media::openings;
use crate::pinholes::Pinholes;
use crate::sdp::{self, SessionDescription};

/// Re-INVITE or UPDATE in progress, with the response of the other leg.
pub(crate) struct SessionChange {
    /// Sender of the request.
    pub(crate) side: CallSide,
    pub(crate) seq: u32,
    pub(crate) request: Request,
    pub(crate) handle: TransactionHandle,
    pub(crate) response: Option<Response>,
}

/// Offer in a 2xx whose answer is expected in the ACK.
pub(crate) struct PendingOffer {
    /// Side that has to answer.
    pub(crate) side: CallSide,
    /// `CSeq` number of the INVITE.
    pub(crate) seq: u32,
    /// 2xx of the other side.
    pub(crate) response: Response,
    pub(crate) offer: SessionDescription,
}

/// Forwards a re-INVITE or UPDATE whose description is usable, or that has none. Returns whether a response
/// will follow.
pub(crate) async fn begin_change(
    to: InviteDialog,
    mut change: SessionChange,
    is_usable: bool,
    events: mpsc::Sender<CallEvent>,
) -> bool {
    let SessionChange {
        request, handle, ..
    } = &change;
    let refusal = if request.body.is_empty() && request.method == Method::Update {
        // An UPDATE without a description refreshes the session.
        StatusCode::OK
    } else if !is_usable && !request.body.is_empty() {
        StatusCode::NotAcceptableHere
    } else {
        tokio::spawn(async move {
            change.response = relay(&to, &change.request).await;
            // The call may have ended.
            let _ = events.send(CallEvent::Changed(Box::new(change))).await;
        });
        return true;
    };
    let _ = handle.reply(refusal).await;
    false
}

impl<P: Pinholes> Call<P> {
    /// Handles the response to a re-INVITE or UPDATE. Returns the offer that is still to be answered.
    pub(crate) async fn changed(
        &mut self,
        change: SessionChange,
        callee: &mut CallLeg,
    ) -> Result<Option<PendingOffer>, EndReason> {
        let other = &self.dialog_of(change.side.other(), callee);
        let handle = &change.handle;
        let Some(response) = change.response else {
            // Not sent because the other side changes the session too, or not answered.
            let _ = handle.reply(StatusCode::RequestPending).await;
            return Ok(None);
        };
        if response.status_code.kind() != StatusCodeKind::Successful {
            let _ = handle.reply(forwarded_status(&response.status_code)).await;
            return Ok(None);
        }
        retarget(other, &response);
        let headers = vec![content_type(response.headers.iter())];
        let body = Some(response.body.clone());
        // The other side has changed the session: if this side can't, the call has to end.
        let described = self.describe(change.side.other(), &response.body);
        if change.request.body.is_empty() {
            let Ok(offer) = described else {
                self.shared
                    .acks
                    .send(&self.shared.layer.endpoint, &other.id(), &response, None)
                    .await;
                reply(handle, StatusCode::BadGateway, None).await;
                return Err(EndReason::Unusable);
            };
            let _ = handle.respond(StatusCode::OK, Some(headers), body).await;
            return Ok(Some(PendingOffer {
                side: change.side,
                seq: change.seq,
                response,
                offer,
            }));
        }
        let (Ok(offer), Ok(answer)) = (self.describe(change.side, &change.request.body), described)
        else {
            reply(handle, StatusCode::NotAcceptableHere, None).await;
            return Err(EndReason::Unusable);
        };
        let firewall_side = self.firewall_side_of(change.side);
        let Ok(wanted) = openings(&self.shared.config, &offer, &answer, firewall_side) else {
            reply(handle, StatusCode::NotAcceptableHere, None).await;
            return Err(EndReason::Unusable);
        };
        if let Err(why) = self.open(callee, &wanted).await {
            let status = match &why {
                EndReason::Refused(refusal) => status_of(refusal),
                _ => StatusCode::RequestTerminated,
            };
            // Sent before the BYE, which would end the INVITE without a final response.
            reply(handle, status, None).await;
            return Err(why);
        }
        let _ = handle.respond(StatusCode::OK, Some(headers), body).await;
        self.pinholes.prune(&wanted);
        Ok(None)
    }

    /// Handles the answer in an ACK: opens its pinholes, then forwards it.
    pub(crate) async fn answered_in_ack(
        &mut self,
        pending_offer: &PendingOffer,
        ack: &Request,
        callee: &mut CallLeg,
    ) -> Result<(), EndReason> {
        let other = self.dialog_of(pending_offer.side.other(), callee);
        let answer = self
            .describe(pending_offer.side, &ack.body)
            .map_err(|_| EndReason::Unusable)?;
        let firewall_side = self.firewall_side_of(pending_offer.side.other());
        let wanted = openings(
            &self.shared.config,
            &pending_offer.offer,
            &answer,
            firewall_side,
        );
        let wanted = wanted.map_err(|_| EndReason::Unusable)?;
        self.open(callee, &wanted).await?;
        let body = (content_type(ack.headers.iter()), ack.body.clone());
        let PendingOffer { response, .. } = pending_offer;
        self.shared
            .acks
            .send(
                &self.shared.layer.endpoint,
                &other.id(),
                response,
                Some(body),
            )
            .await;
        self.pinholes.prune(&wanted);
        Ok(())
    }

    /// Rejects all streams of an offer that has no usable answer. The 2xx requires an ACK, and a BYE
    /// follows (RFC 3261, section 13.2.2.4).
    pub(crate) async fn refuse_offer(&self, other: &InviteDialog, pending_offer: &PendingOffer) {
        let PendingOffer { response, .. } = pending_offer;
        let refusal = sdp::refusal(&response.body, self.shared.config.listen.ip());
        let body = refusal.map(|body| (content_type([].iter()), body));
        self.shared
            .acks
            .send(&self.shared.layer.endpoint, &other.id(), response, body)
            .await;
    }
}
