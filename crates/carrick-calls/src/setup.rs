//! Until both sides have a call, or none has.

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
use crate::change::Unanswered;
use crate::config::Place;
use crate::counts::By;
use crate::legs::{Leg, PeerAction, Side, content_type, end, max_forwards, number};
use crate::media::openings;
use crate::pinholes::{Pinholes, Refusal};
use crate::sdp::Description;

const CANCELLED: &str = "the caller ended the call before it was answered";
const UNANSWERED: &str = "the callee did not answer";

/// The outcome of an INVITE.
type Answer = JoinHandle<rsipstack::Result<(DialogId, Option<Response>)>>;

impl<P: Pinholes> Call<P> {
    /// Calls the callee, and has the pinholes opened. `None` if the call came to nothing; then neither
    /// side has it any more, or soon hasn't. Without an offer in the INVITE, the answer is yet to come.
    pub(crate) async fn set_up(&mut self) -> Option<(Leg, Option<Unanswered>)> {
        let invite = self.caller.dialog.initial_request();
        let offer = match Description::parse(&invite.body) {
            Ok(offer) => Some(offer),
            Err(_) if invite.body.is_empty() => None,
            Err(error) => {
                let why = error.to_string();
                self.refuse(By::Agent, StatusCode::NotAcceptableHere, &why);
                return None;
            }
        };
        let Some(option) = self.option(&invite) else {
            let why = "no SIP server is configured for calls from this side";
            self.refuse(By::Agent, StatusCode::NotFound, why);
            return None;
        };
        if self.shared.loops.is_back(&invite, &option.callee) {
            let why = "the call has come back to this agent";
            self.refuse(By::Agent, StatusCode::LoopDetected, why);
            return None;
        }
        let to = option.callee.clone();
        let layer = Arc::clone(&self.shared.layer);
        let (told, states) = layer.new_dialog_state_channel();
        let Ok((dialog, answer)) = layer.do_invite_async(option, told) else {
            let why = "the INVITE for the callee could not be made";
            self.refuse(By::Agent, StatusCode::ServerInternalError, why);
            return None;
        };
        self.shared.loops.send(&dialog.id(), &to);
        let turn = self.shared.turns.begin_taken(&dialog.id());
        let mut callee = Leg::new(dialog, states);
        let answering = self.answered(&mut callee, (answer, turn), offer.as_ref());
        let response = answering.await?;
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
        tokio::join!(self.holes.close(), end(&callee.dialog, None));
        self.remove(&callee.dialog);
        None
    }

    /// The request for the callee, if it is known where calls go.
    fn option(&self, invite: &Request) -> Option<InviteOption> {
        let config = &self.shared.config;
        let to = match self.place {
            Place::Inside => config.outer?,
            Place::Outside => config.inner?,
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
    /// ended before; the caller knows then. The turn of the callee's dialog is given back when the
    /// library has the dialog: requests right behind the ACK wait for that.
    async fn answered(
        &mut self,
        callee: &mut Leg,
        (mut answer, turn): (Answer, Option<OwnedMutexGuard<()>>),
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
                        let status = StatusCode::RequestTerminated;
                        self.refuse_with(By::Caller, status, Vec::new(), CANCELLED);
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
                        self.refuse_for(&refusal);
                        break None;
                    }
                }
                outcome = &mut answer => {
                    let response = outcome.ok().and_then(Result::ok).and_then(|(_, r)| r);
                    if response.is_none() {
                        self.refuse(By::Callee, StatusCode::RequestTimeout, UNANSWERED);
                        self.remove(&callee.dialog);
                    }
                    return response;
                }
                () = &mut patience => {
                    break Some((By::Callee, StatusCode::RequestTimeout, UNANSWERED));
                }
                () = stop.cancelled() => {
                    let why = "the agent is stopped";
                    break Some((By::Agent, StatusCode::ServiceUnavailable, why));
                }
            }
        };
        drop(turn);
        if let Some((by, status, why)) = refusal {
            self.refuse(by, status, why);
        }
        // An answer that is on its way is acknowledged by the library from now on.
        self.shared.acks.forget(&callee.dialog.id());
        tokio::join!(self.holes.close(), abandon(&callee.dialog, answer));
        self.remove(&callee.dialog);
        None
    }

    /// Passes a provisional answer on, with pinholes if it has a description.
    async fn early(
        &mut self,
        offer: Option<&Description>,
        response: &Response,
    ) -> Result<(), Refusal> {
        // Who has answered, or given up, hears no more of it.
        if !self.caller.dialog.state().can_cancel() {
            return Ok(());
        }
        // That a branch has ended matters to who knows of branches (RFC 6228).
        if response.status_code == StatusCode::EarlyDialogTerminated {
            return Ok(());
        }
        let described = Description::parse(&response.body).ok();
        let described = described.filter(|_| !response.body.is_empty());
        let mut wanted = None;
        let mut headers = self.dialog_headers();
        let body = match (offer, described) {
            (Some(offer), Some(answer)) => {
                // The answer will tell why not.
                let Ok(needed) = openings(&self.shared.config, offer, &answer, self.place) else {
                    return Ok(());
                };
                tokio::select! {
                    opened = self.holes.open(&needed) => opened?,
                    () = self.caller.over() => return Ok(()),
                }
                wanted = Some(needed);
                headers.push(content_type(response.headers.iter()));
                Some(response.body.clone())
            }
            // An offer would have to be in a reliable one, which was not asked for.
            _ => None,
        };
        // A caller who has gone is noticed elsewhere.
        self.respond(response.status_code.clone(), headers, body);
        // Of several branches the caller hears the one that was the last to say where it is.
        if let Some(wanted) = wanted {
            self.holes.prune(&wanted);
        }
        Ok(())
    }

    /// Opens what the answer needs, then lets it pass. An error if the call can't be.
    async fn connect(&mut self, offer: &Description, response: &Response) -> Result<(), ()> {
        let answer = match Description::parse(&response.body) {
            Ok(answer) => answer,
            Err(error) => {
                self.refuse(By::Callee, StatusCode::BadGateway, &error.to_string());
                return Err(());
            }
        };
        let wanted = match openings(&self.shared.config, offer, &answer, self.place) {
            Ok(wanted) => wanted,
            Err(misplaced) => {
                let why = misplaced.to_string();
                self.refuse(By::Agent, StatusCode::NotAcceptableHere, &why);
                return Err(());
            }
        };
        tokio::select! {
            opened = self.holes.open(&wanted) => if let Err(refusal) = opened {
                self.refuse_for(&refusal);
                return Err(());
            },
            // To accept it fails, and notes why.
            () = self.caller.over() => {}
        }
        self.accept(response).await?;
        self.holes.prune(&wanted);
        Ok(())
    }

    /// The offer is in the answer of the callee: the caller answers it with ACK.
    async fn connect_without(&self, callee: &Leg, response: Response) -> Result<Unanswered, ()> {
        let offer = Description::parse(&response.body);
        let seq = number(&self.caller.dialog.initial_request());
        let (Ok(offer), Some(seq)) = (offer, seq) else {
            let why = "the answer has no offer that can be used";
            self.refuse(By::Callee, StatusCode::BadGateway, why);
            let (endpoint, id) = (&self.shared.layer.endpoint, callee.dialog.id());
            self.shared.acks.send(endpoint, &id, &response, None).await;
            return Err(());
        };
        let accepted = self.accept(&response).await;
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

    /// Passes a final answer to the caller, if that is still there. The turn of the caller's dialog is
    /// taken meanwhile: the ACK and a request behind it may arrive before the dialog's state has changed.
    async fn accept(&self, response: &Response) -> Result<(), ()> {
        let headers = vec![content_type(response.headers.iter())];
        let body = response.body.clone();
        let dialog = &self.caller.dialog;
        let _turn = self.shared.turns.of(&dialog.id()).lock().await;
        if self.caller.is_over() || dialog.accept(Some(headers), Some(body)).is_err() {
            self.note(By::Caller, &StatusCode::RequestTerminated, CANCELLED);
            return Err(());
        }
        Ok(())
    }

    /// What a provisional answer has that begins a dialog (RFC 3261 section 12.1.1).
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

/// Gives a call up that is not answered, or just was.
async fn abandon(callee: &InviteDialog, answer: Answer) {
    // What the callee says to that is not needed: the answer tells.
    let _ = callee.cancel().await;
    let _ = answer.await;
    end(callee, None).await;
}
