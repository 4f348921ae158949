//! Until both sides have a call, or none has.

use std::sync::Arc;

use rsipstack::dialog::DialogId;
use rsipstack::dialog::dialog::DialogState;
use rsipstack::dialog::invitation::InviteOption;
use rsipstack::dialog::invite_dialog::InviteDialog;
use rsipstack::sip::prelude::{HeadersExt as _, ToTypedHeader as _};
use rsipstack::sip::{Header, Param, Request, Response, StatusCode, StatusCodeKind, Transport};
use rsipstack::transaction::transaction::TransactionEvent;
use rsipstack::transport::SipAddr;
use tokio::task::JoinHandle;

use crate::call::{Call, reason, status_of, uri};
use crate::change::Unanswered;
use crate::legs::{Leg, PeerAction, Side, content_type, end, max_forwards, number, passed_on};
use crate::media::openings;
use crate::pinholes::{Pinholes, Refusal};
use crate::sdp::Description;

/// The outcome of an INVITE.
type Answer = JoinHandle<rsipstack::Result<(DialogId, Option<Response>)>>;

impl<P: Pinholes> Call<P> {
    fn refuse(&self, status: StatusCode, why: Option<String>) {
        // A caller who has gone needs no answer.
        let _ = self.caller.dialog.reject(Some(status), why);
    }

    /// Refuses with headers that the dialog does not know of.
    fn refuse_with(&self, status: StatusCode, headers: Vec<Header>) {
        let invite = self.caller.dialog.initial_request();
        let endpoint = &self.shared.layer.endpoint;
        let mut response = endpoint.make_response(&invite, status.clone(), None);
        if let Ok(to) = invite.to_header() {
            let tag = self.caller.dialog.id().local_tag;
            let to = to.clone().with_tag(tag.into());
            response.headers.unique_push(to.into());
        }
        response.headers.extend(headers);
        // Before the dialog's own, which comes too late then.
        let _ = self.respond.send(TransactionEvent::Respond(response));
        self.refuse(status, None);
    }

    /// Calls the callee, and has the pinholes opened. `None` if the call came to nothing; then neither
    /// side has it any more, or soon hasn't. Without an offer in the INVITE, the answer is yet to come.
    pub(crate) async fn set_up(&mut self) -> Option<(Leg, Option<Unanswered>)> {
        let invite = self.caller.dialog.initial_request();
        let offer = match Description::parse(&invite.body) {
            Ok(offer) => Some(offer),
            Err(_) if invite.body.is_empty() => None,
            Err(error) => {
                self.refuse(StatusCode::NotAcceptableHere, Some(reason(488, &error)));
                return None;
            }
        };
        let Some(option) = self.option(&invite, offer.as_ref()) else {
            self.refuse(StatusCode::NotFound, None);
            return None;
        };
        let layer = Arc::clone(&self.shared.layer);
        let (told, states) = layer.new_dialog_state_channel();
        let Ok((dialog, answer)) = layer.do_invite_async(option, told) else {
            self.refuse(StatusCode::ServerInternalError, None);
            return None;
        };
        let mut callee = Leg { dialog, states };
        let response = self.answered(&mut callee, answer, offer.as_ref()).await?;
        if response.status_code.kind() != StatusCodeKind::Successful {
            self.refused(&response);
            self.remove(&callee.dialog);
            return None;
        }
        let connected = match offer {
            Some(offer) => self.connect(&offer, &response).await.map(|()| None),
            None => self.connect_without(&callee, response).await.map(Some),
        };
        if let Ok(unanswered) = connected {
            return Some((callee, unanswered));
        }
        self.holes.prune(&[]).await;
        end(&callee.dialog, None).await;
        self.remove(&callee.dialog);
        None
    }

    /// The request for the callee, if it is known where calls go.
    fn option(&self, invite: &Request, offer: Option<&Description>) -> Option<InviteOption> {
        let config = &self.shared.config;
        let streams = offer.into_iter().flat_map(|offer| &offer.streams);
        let first = streams.flatten().find_map(|m| m.address);
        let to = match first.map(|end| end.ip()).or(self.from) {
            Some(end) if config.is_internal(end) => config.outer?,
            _ => config.inner?,
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

    /// Waits for the final answer of the callee, and passes on what comes before. `None` if the call
    /// ended before; the caller knows then.
    async fn answered(
        &mut self,
        callee: &mut Leg,
        mut answer: Answer,
        offer: Option<&Description>,
    ) -> Option<Response> {
        let stop = self.shared.stop.clone();
        let mut patience = std::pin::pin!(tokio::time::sleep(self.shared.config.answer));
        let refusal = loop {
            tokio::select! {
                biased;
                action = self.caller.next() => match action {
                    // CANCEL, or BYE, which leaves the INVITE to be answered (RFC 3261 section 15.1.2).
                    None => {
                        self.refuse_with(StatusCode::RequestTerminated, Vec::new());
                        break None;
                    }
                    Some(PeerAction::Changes(_, handle)
                        | PeerAction::Says(_, handle)
                        | PeerAction::Asks(handle)) => {
                        let _ = handle.reply(StatusCode::RequestPending).await;
                    }
                    Some(PeerAction::Confirms) => {}
                },
                Some(state) = callee.states.recv() => {
                    if let DialogState::Early(_, response) = state
                        && let Err(refusal) = self.early(offer, &response).await
                    {
                        break Some(status_of(&refusal));
                    }
                }
                outcome = &mut answer => {
                    let response = outcome.ok().and_then(Result::ok).and_then(|(_, r)| r);
                    if response.is_none() {
                        self.refuse(StatusCode::RequestTimeout, None);
                        self.remove(&callee.dialog);
                    }
                    return response;
                }
                () = &mut patience => break Some(StatusCode::RequestTimeout),
                () = stop.cancelled() => break Some(StatusCode::ServiceUnavailable),
            }
        };
        if let Some(status) = refusal {
            self.refuse(status, None);
        }
        self.holes.prune(&[]).await;
        // An answer that is on its way is acknowledged by the library from now on.
        self.shared.acks.forget(&callee.dialog.id());
        abandon(&callee.dialog, answer).await;
        self.remove(&callee.dialog);
        None
    }

    /// Passes a provisional answer on, with pinholes if it has a description.
    async fn early(
        &mut self,
        offer: Option<&Description>,
        response: &Response,
    ) -> Result<(), Refusal> {
        let described = Description::parse(&response.body).ok();
        let described = described.filter(|_| !response.body.is_empty());
        let mut wanted = None;
        let (headers, body) = match (offer, described) {
            (Some(offer), Some(answer)) => {
                let needed = openings(&self.shared.config, offer, &answer);
                self.holes.open(&needed).await?;
                wanted = Some(needed);
                let headers = vec![content_type(response.headers.iter())];
                (Some(headers), Some(response.body.clone()))
            }
            // An offer would have to be in a reliable one, which was not asked for.
            _ => (None, None),
        };
        // A caller who has gone is noticed elsewhere.
        let _ = self.caller.dialog.ringing(headers, body);
        // Of several branches the caller hears the one that was the last to say where it is.
        if let Some(wanted) = wanted {
            self.holes.prune(&wanted).await;
        }
        Ok(())
    }

    /// The callee does not want, or can't.
    fn refused(&self, response: &Response) {
        let status = &response.status_code;
        let challenges: Vec<Header> = response
            .headers
            .iter()
            .filter(|header| {
                matches!(
                    header,
                    Header::WwwAuthenticate(_)
                        | Header::ProxyAuthenticate(_)
                        | Header::RetryAfter(_)
                        | Header::Warning(_)
                        | Header::Reason(_)
                )
            })
            .cloned()
            .collect();
        let asks = matches!(
            status,
            StatusCode::Unauthorized | StatusCode::ProxyAuthenticationRequired
        );
        // A challenge is for the caller, who knows the answer.
        let status = if asks {
            status.clone()
        } else {
            passed_on(status)
        };
        self.refuse_with(status, challenges);
    }

    /// Opens what the answer needs, then lets it pass. An error if the call can't be.
    async fn connect(&mut self, offer: &Description, response: &Response) -> Result<(), ()> {
        let answer = match Description::parse(&response.body) {
            Ok(answer) => answer,
            Err(error) => {
                self.refuse(StatusCode::BadGateway, Some(reason(502, &error)));
                return Err(());
            }
        };
        let wanted = openings(&self.shared.config, offer, &answer);
        if let Err(refusal) = self.holes.open(&wanted).await {
            let status = status_of(&refusal);
            self.refuse(status.clone(), Some(reason(status.code(), &refusal)));
            return Err(());
        }
        self.accept(response)?;
        self.holes.prune(&wanted).await;
        Ok(())
    }

    /// The offer is in the answer of the callee: the caller answers it with ACK.
    async fn connect_without(&self, callee: &Leg, response: Response) -> Result<Unanswered, ()> {
        let offer = Description::parse(&response.body);
        let seq = number(&self.caller.dialog.initial_request());
        let (Ok(offer), Some(seq)) = (offer, seq) else {
            let why = reason(502, &"the answer has no offer that can be used");
            self.refuse(StatusCode::BadGateway, Some(why));
            let (endpoint, id) = (&self.shared.layer.endpoint, callee.dialog.id());
            self.shared.acks.send(endpoint, &id, &response, None).await;
            return Err(());
        };
        let accepted = self.accept(&response);
        let unanswered = Unanswered {
            side: Side::Caller,
            seq,
            response,
            offer,
        };
        if accepted.is_err() {
            self.refuse_offer(&callee.dialog, &unanswered).await;
            return Err(());
        }
        Ok(unanswered)
    }

    /// Passes a final answer to the caller, if that is still there.
    fn accept(&self, response: &Response) -> Result<(), ()> {
        if self.caller.is_over() {
            return Err(());
        }
        let headers = vec![content_type(response.headers.iter())];
        let body = response.body.clone();
        let accepted = self.caller.dialog.accept(Some(headers), Some(body));
        accepted.map_err(|_| ())
    }
}

/// Gives a call up that is not answered, or just was.
async fn abandon(callee: &InviteDialog, answer: Answer) {
    // What the callee says to that is not needed: the answer tells.
    let _ = callee.cancel().await;
    let _ = answer.await;
    end(callee, None).await;
}
