//! Set-up of a call: from the caller's INVITE to the established call, or to its refusal.

use std::sync::Arc;

use rsipstack::dialog::DialogId;
use rsipstack::dialog::dialog::DialogState;
use rsipstack::dialog::invitation::InviteOption;
use rsipstack::dialog::invite_dialog::InviteDialog;
use rsipstack::sip::prelude::{HeadersExt as _, ToTypedHeader as _};
use rsipstack::sip::typed::Contact;
use rsipstack::sip::{Header, Param, Request, Response, StatusCode, StatusCodeKind, Transport};
use rsipstack::transport::SipAddr;
use tokio::sync::OwnedMutexGuard;
use tokio::task::JoinHandle;

use crate::call::{Call, uri};
use crate::call_leg::{
    CallLeg, CallSide, PeerAction, content_type, cseq_number, end, max_forwards,
};
use crate::change::PendingOffer;
use crate::config::FirewallSide;
use crate::counts::RefusedBy;
use crate::media::openings;
use crate::pinholes::{PinholeRefusal, Pinholes};
use crate::sdp::{SdpError, SessionDescription};

const CANCELLED: &str = "the caller cancelled the call";
const UNANSWERED: &str = "the callee did not answer";

/// Task that waits for the final response to an INVITE.
type InviteAnswer = JoinHandle<rsipstack::Result<(DialogId, Option<Response>)>>;

impl<P: Pinholes> Call<P> {
    /// Calls the callee and opens the pinholes. Returns `None` if the call failed; both dialogs have
    /// then ended or are about to. If the INVITE had no offer, the answer is still pending.
    ///
    /// 1. Check the offer (RFC 3264, section 5) and the route (RFC 3261, section 16.3).
    /// 2. Send the INVITE to the callee (RFC 3261, section 13.2.1).
    /// 3. Forward provisional responses and wait for the final one (RFC 3261, section 13.2.2).
    /// 4. Open the pinholes of the answer, then forward it (RFC 3261, section 13.3.1.4). If the 2xx has
    ///    an offer, its answer is in the ACK (RFC 3261, section 13.2.2.4).
    pub(crate) async fn set_up(&mut self) -> Option<(CallLeg, Option<PendingOffer>)> {
        let invite = self.caller.dialog.initial_request();
        // 1.
        let offer = match self.describe(CallSide::Caller, &invite.body) {
            Ok(offer) => Some(offer),
            Err(_) if invite.body.is_empty() => None,
            Err(error) => {
                let why = error.to_string();
                self.refuse(RefusedBy::Agent, StatusCode::NotAcceptableHere, &why);
                return None;
            }
        };
        let Some(option) = self.callee_invite(&invite) else {
            let why = "no SIP server is configured for calls from this side";
            self.refuse(RefusedBy::Agent, StatusCode::NotFound, why);
            return None;
        };
        if self.shared.loops.is_loop(&invite, &option.callee) {
            let why = "the call was routed back to this agent";
            self.refuse(RefusedBy::Agent, StatusCode::LoopDetected, why);
            return None;
        }
        // 2.
        let to = option.callee.clone();
        let layer = Arc::clone(&self.shared.layer);
        let (reported, states) = layer.new_dialog_state_channel();
        let begun = self.shared.sequencer.begin_locked(|| {
            let (dialog, answer) = layer.do_invite_async(option, reported).ok()?;
            self.shared.loops.add_sent(&dialog.id(), &to);
            Some((dialog.id(), (dialog, answer)))
        });
        let Some(((dialog, answer), guard)) = begun else {
            let why = "the INVITE for the callee could not be created";
            self.refuse(RefusedBy::Agent, StatusCode::ServerInternalError, why);
            return None;
        };
        let mut callee = CallLeg::new(dialog, states);
        // 3.
        let answering = self.answered(&mut callee, (answer, guard), offer.as_ref());
        let response = answering.await?;
        if response.status_code.kind() != StatusCodeKind::Successful {
            self.forward_refusal(&response);
            self.remove(&callee.dialog);
            return None;
        }
        // 4.
        let connected = match offer {
            Some(offer) => self.connect(&offer, &response).await.map(|()| None),
            None => self
                .connect_without_offer(&callee, response)
                .await
                .map(Some),
        };
        if let Ok(pending_offer) = connected {
            return Some((callee, pending_offer));
        }
        tokio::join!(self.pinholes.close(), end(&callee.dialog, None));
        self.remove(&callee.dialog);
        None
    }

    /// Returns the INVITE for the callee, or `None` if no server is configured for it.
    fn callee_invite(&self, invite: &Request) -> Option<InviteOption> {
        let config = &self.shared.config;
        let to = match self.firewall_side {
            FirewallSide::Inside => config.outer?,
            FirewallSide::Outside => config.inner?,
        };
        let mut callee = uri(to.address, invite.uri.auth.clone());
        let params = invite.uri.params.iter();
        callee.params = params
            .filter(|param| !matches!(param, Param::Transport(_)))
            .cloned()
            .collect();
        let mut destination = SipAddr::from(to.address);
        if to.tcp {
            destination.r#type = Some(Transport::Tcp);
            callee.params.push(Param::Transport(Transport::Tcp));
        }
        let from = invite.from_header().ok()?.typed().ok()?;
        let hops = max_forwards(invite).saturating_sub(1);
        let mut headers = vec![Header::MaxForwards(hops.into())];
        headers.push(content_type(invite.headers.iter()));
        let credentials = |header: &&Header| {
            matches!(
                header,
                Header::Authorization(_) | Header::ProxyAuthorization(_)
            )
        };
        headers.extend(invite.headers.iter().filter(credentials).cloned());
        Some(InviteOption {
            caller: from.uri,
            caller_display_name: from.display_name,
            callee,
            destination: Some(destination),
            offer: Some(invite.body.clone()),
            contact: uri(config.listen, None),
            headers: Some(headers),
            ..InviteOption::default()
        })
    }

    /// Waits for the callee's final response and forwards provisional ones. Returns `None` if the call
    /// ended before; the caller has been answered then. The lock of the callee's dialog is released
    /// once the library has the dialog, since requests may follow the ACK immediately.
    async fn answered(
        &mut self,
        callee: &mut CallLeg,
        (mut answer, guard): (InviteAnswer, Option<OwnedMutexGuard<()>>),
        offer: Option<&SessionDescription>,
    ) -> Option<Response> {
        let stop = self.shared.stop.clone();
        let mut patience = std::pin::pin!(tokio::time::sleep(self.shared.config.answer));
        let refusal = loop {
            tokio::select! {
                biased;
                action = self.caller.next() => match action {
                    // CANCEL, or BYE, after which the INVITE still needs a final response (RFC 3261,
                    // section 15.1.2).
                    None => {
                        let status = StatusCode::RequestTerminated;
                        self.refuse_with(RefusedBy::Caller, status, Vec::new(), CANCELLED);
                        break None;
                    }
                    Some(PeerAction::Modify(_, handle)
                        | PeerAction::Relay(_, handle)
                        | PeerAction::Unsupported(handle)) => {
                        let _ = handle.reply(StatusCode::RequestPending).await;
                    }
                    Some(PeerAction::Acknowledge) => {}
                },
                Some(state) = callee.states.recv() => {
                    if let DialogState::Early(_, response) = state
                        && let Err(refusal) = self.early(offer, &response).await
                    {
                        self.refuse_for(&refusal);
                        break None;
                    }
                }
                outcome = &mut answer => {
                    let response = outcome.ok().and_then(Result::ok).and_then(|(_, r)| r);
                    if response.is_none() {
                        self.refuse(RefusedBy::Callee, StatusCode::RequestTimeout, UNANSWERED);
                        self.remove(&callee.dialog);
                    }
                    return response;
                }
                () = &mut patience => {
                    break Some((RefusedBy::Callee, StatusCode::RequestTimeout, UNANSWERED));
                }
                () = stop.cancelled() => {
                    let why = "the agent is shutting down";
                    break Some((RefusedBy::Agent, StatusCode::ServiceUnavailable, why));
                }
            }
        };
        drop(guard);
        if let Some((by, status, why)) = refusal {
            self.refuse(by, status, why);
        }
        // From here on the library acknowledges a 2xx that is on its way.
        self.shared.acks.forget(&callee.dialog.id());
        tokio::join!(self.pinholes.close(), abandon(&callee.dialog, answer));
        self.remove(&callee.dialog);
        None
    }

    /// Forwards a provisional response, with pinholes if it has a description.
    async fn early(
        &mut self,
        offer: Option<&SessionDescription>,
        response: &Response,
    ) -> Result<(), PinholeRefusal> {
        // The INVITE has a final response.
        if !self.caller.dialog.state().can_cancel() {
            return Ok(());
        }
        // A 199 concerns only a caller with several early dialogs (RFC 6228), which this agent never creates.
        if response.status_code == StatusCode::EarlyDialogTerminated {
            return Ok(());
        }
        let described = self.describe(CallSide::Callee, &response.body).ok();
        let described = described.filter(|_| !response.body.is_empty());
        let mut wanted = None;
        let mut headers = self.dialog_headers();
        let body = match (offer, described) {
            (Some(offer), Some(answer)) => {
                // The final response reports the error.
                let Ok(needed) = openings(&self.shared.config, offer, &answer, self.firewall_side)
                else {
                    return Ok(());
                };
                tokio::select! {
                    opened = self.pinholes.open(&needed) => opened?,
                    () = self.caller.over() => return Ok(()),
                }
                wanted = Some(needed);
                headers.push(content_type(response.headers.iter()));
                Some(response.body.clone())
            }
            // An offer would have to be in a reliable provisional response, which was not requested.
            _ => None,
        };
        // A caller whose transaction has ended is detected elsewhere.
        self.respond(response.status_code.clone(), headers, body);
        // With several branches, only the pinholes of the latest description are kept.
        if let Some(wanted) = wanted {
            self.pinholes.prune(&wanted);
        }
        Ok(())
    }

    /// Opens the pinholes of the answer, then forwards it. Returns an error if the call can't be
    /// established.
    async fn connect(&mut self, offer: &SessionDescription, response: &Response) -> Result<(), ()> {
        let answer = match self.describe(CallSide::Callee, &response.body) {
            Ok(answer) => answer,
            Err(error) => {
                let (by, status) = match error {
                    SdpError::Misplaced(_) | SdpError::Agent(_) => {
                        (RefusedBy::Agent, StatusCode::NotAcceptableHere)
                    }
                    _ => (RefusedBy::Callee, StatusCode::BadGateway),
                };
                self.refuse(by, status, &error.to_string());
                return Err(());
            }
        };
        let wanted = match openings(&self.shared.config, offer, &answer, self.firewall_side) {
            Ok(wanted) => wanted,
            Err(misplaced) => {
                let why = misplaced.to_string();
                self.refuse(RefusedBy::Agent, StatusCode::NotAcceptableHere, &why);
                return Err(());
            }
        };
        tokio::select! {
            opened = self.pinholes.open(&wanted) => if let Err(refusal) = opened {
                self.refuse_for(&refusal);
                return Err(());
            },
            // `accept` fails then and records the reason.
            () = self.caller.over() => {}
        }
        self.accept(response).await?;
        self.pinholes.prune(&wanted);
        Ok(())
    }

    /// Forwards a 2xx with the callee's offer, which the caller answers in its ACK.
    async fn connect_without_offer(
        &self,
        callee: &CallLeg,
        response: Response,
    ) -> Result<PendingOffer, ()> {
        let offer = self.describe(CallSide::Callee, &response.body);
        let seq = cseq_number(&self.caller.dialog.initial_request());
        let (Ok(offer), Some(seq)) = (offer, seq) else {
            let why = "the answer contains no usable offer";
            self.refuse(RefusedBy::Callee, StatusCode::BadGateway, why);
            let (endpoint, id) = (&self.shared.layer.endpoint, callee.dialog.id());
            self.shared.acks.send(endpoint, &id, &response, None).await;
            return Err(());
        };
        let accepted = self.accept(&response).await;
        let pending_offer = PendingOffer {
            side: CallSide::Caller,
            seq,
            response,
            offer,
        };
        if accepted.is_err() {
            self.refuse_offer(&callee.dialog, &pending_offer).await;
            return Err(());
        }
        Ok(pending_offer)
    }

    /// Forwards a final response to the caller, if it is still there. Holds the lock of the caller's
    /// dialog, since the ACK and a request behind it may arrive before the dialog's state has changed.
    async fn accept(&self, response: &Response) -> Result<(), ()> {
        let headers = vec![content_type(response.headers.iter())];
        let body = response.body.clone();
        let dialog = &self.caller.dialog;
        let _guard = self.shared.sequencer.of(&dialog.id()).lock().await;
        if self.caller.is_over() || dialog.accept(Some(headers), Some(body)).is_err() {
            self.record_refusal(RefusedBy::Caller, &StatusCode::RequestTerminated, CANCELLED);
            return Err(());
        }
        Ok(())
    }

    /// Returns the headers of a provisional response that creates a dialog (RFC 3261, section 12.1.1).
    fn dialog_headers(&self) -> Vec<Header> {
        let invite = self.caller.dialog.initial_request();
        let routes = invite.headers.iter();
        let routes = routes.filter(|header| matches!(header, Header::RecordRoute(_)));
        let contact = Contact {
            display_name: None,
            uri: self.contact.clone(),
            params: Vec::new(),
        };
        let contact = Header::Contact(contact.into());
        routes.cloned().chain([contact]).collect()
    }
}

/// Cancels a call that is not answered yet; if the answer crosses the CANCEL, ends the call.
async fn abandon(callee: &InviteDialog, answer: InviteAnswer) {
    // The final response of the INVITE shows the outcome.
    let _ = callee.cancel().await;
    let _ = answer.await;
    end(callee, None).await;
}
