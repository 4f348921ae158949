//! One call, from INVITE to its end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rsipstack::dialog::DialogId;
use rsipstack::dialog::dialog::{DialogState, TransactionHandle};
use rsipstack::dialog::invitation::InviteOption;
use rsipstack::dialog::invite_dialog::InviteDialog;
use rsipstack::sip::prelude::{HeadersExt as _, ToTypedHeader as _};
use rsipstack::sip::{
    Auth, Header, Method, Request, Response, Scheme, StatusCode, StatusCodeKind, Uri,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::legs::{
    Leg, PeerAction, Side, content_type, end, is_there, max_forwards, passed_on, relay,
};
use crate::media::{Opening, openings};
use crate::pinholes::{Held, Pinholes, Refusal};
use crate::sdp::Description;
use crate::server::Shared;

/// The outcome of an INVITE.
type Answer = JoinHandle<rsipstack::Result<(DialogId, Option<Response>)>>;

pub(crate) struct Call<P: Pinholes> {
    shared: Arc<Shared<P>>,
    caller: Leg,
    held: BTreeMap<Opening, P::Held>,
}

/// What tasks of a call tell it.
enum Told {
    /// The other side answered a re-INVITE or UPDATE.
    Changed(Box<Change>),
    /// A side does not have the call any more.
    Vanished,
}

/// A new offer, how to answer it, and what the other side said.
struct Change {
    request: Request,
    handle: TransactionHandle,
    response: Option<Response>,
}

impl<P: Pinholes> Call<P> {
    pub(crate) fn new(shared: Arc<Shared<P>>, caller: Leg) -> Self {
        Self {
            shared,
            caller,
            held: BTreeMap::new(),
        }
    }

    /// Lives until the call has ended on both sides, and nothing is open.
    pub(crate) async fn run(mut self) {
        let callee = self.set_up().await;
        if let Some(mut callee) = callee {
            self.established(&mut callee).await;
            // First what is open, then those who may not answer.
            self.prune(&[]).await;
            tokio::join!(end(&self.caller.dialog), end(&callee.dialog));
            self.shared.layer.remove_dialog(&callee.dialog.id());
        }
        self.prune(&[]).await;
        self.shared.layer.remove_dialog(&self.caller.dialog.id());
    }

    fn refuse(&self, status: StatusCode, why: Option<String>) {
        // A caller who has gone needs no answer.
        let _ = self.caller.dialog.reject(Some(status), why);
    }

    /// Calls the callee, and has the pinholes opened. `None` if the call came to nothing; then neither
    /// side has it any more, or soon hasn't.
    async fn set_up(&mut self) -> Option<Leg> {
        let invite = self.caller.dialog.initial_request();
        let offer = match Description::parse(&invite.body) {
            Ok(offer) => offer,
            Err(error) => {
                self.refuse(StatusCode::NotAcceptableHere, Some(reason(488, &error)));
                return None;
            }
        };
        let Some(option) = self.option(&invite, &offer) else {
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
        let response = self.answered(&mut callee, answer, &offer).await?;
        if response.status_code.kind() != StatusCodeKind::Successful {
            self.refuse(passed_on(&response.status_code), None);
            return None;
        }
        if self.connect(&offer, &response).await {
            return Some(callee);
        }
        self.prune(&[]).await;
        end(&callee.dialog).await;
        layer.remove_dialog(&callee.dialog.id());
        None
    }

    /// The request for the callee, if it is known where calls go.
    fn option(&self, invite: &Request, offer: &Description) -> Option<InviteOption> {
        let config = &self.shared.config;
        let first = offer.streams.iter().flatten().find_map(|m| m.address);
        let to = match first {
            Some(end) if config.is_internal(end.ip()) => config.outer?,
            _ => config.inner?,
        };
        let mut callee = uri(to, invite.uri.auth.clone());
        callee.params.clone_from(&invite.uri.params);
        let from = invite.from_header().ok()?.typed().ok()?;
        let hops = max_forwards(invite).saturating_sub(1);
        let mut headers = vec![Header::MaxForwards(hops.into())];
        headers.push(content_type(invite.headers.iter()));
        Some(InviteOption {
            caller: from.uri,
            caller_display_name: from.display_name,
            callee,
            destination: Some(to.into()),
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
        offer: &Description,
    ) -> Option<Response> {
        let stop = self.shared.stop.clone();
        let mut patience = std::pin::pin!(tokio::time::sleep(self.shared.config.answer));
        let refusal = loop {
            tokio::select! {
                biased;
                action = self.caller.next() => match action {
                    // CANCEL.
                    None => break None,
                    Some(PeerAction::Changes(_, handle)
                        | PeerAction::Says(_, handle)
                        | PeerAction::Asks(handle)) => {
                        let _ = handle.reply(StatusCode::RequestPending).await;
                    }
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
        self.prune(&[]).await;
        abandon(&callee.dialog, answer).await;
        self.shared.layer.remove_dialog(&callee.dialog.id());
        None
    }

    /// Passes a provisional answer on, with pinholes if it has a description.
    async fn early(&mut self, offer: &Description, response: &Response) -> Result<(), Refusal> {
        let described = Description::parse(&response.body).ok();
        let described = described.filter(|_| !response.body.is_empty());
        let (headers, body) = match described {
            Some(answer) => {
                let wanted = openings(&self.shared.config, offer, &answer);
                self.open(&wanted).await?;
                let headers = vec![content_type(response.headers.iter())];
                (Some(headers), Some(response.body.clone()))
            }
            None => (None, None),
        };
        // A caller who has gone is noticed elsewhere.
        let _ = self.caller.dialog.ringing(headers, body);
        Ok(())
    }

    /// Opens what the answer needs, then lets it pass. False if the call can't be.
    async fn connect(&mut self, offer: &Description, response: &Response) -> bool {
        let answer = match Description::parse(&response.body) {
            Ok(answer) => answer,
            Err(error) => {
                self.refuse(StatusCode::BadGateway, Some(reason(502, &error)));
                return false;
            }
        };
        let wanted = openings(&self.shared.config, offer, &answer);
        if let Err(refusal) = self.open(&wanted).await {
            let status = status_of(&refusal);
            self.refuse(status.clone(), Some(reason(status.code(), &refusal)));
            return false;
        }
        if self.caller.is_over() {
            return false;
        }
        let headers = vec![content_type(response.headers.iter())];
        let body = response.body.clone();
        let accepted = self.caller.dialog.accept(Some(headers), Some(body));
        self.prune(&wanted).await;
        accepted.is_ok()
    }

    /// Until one side ends the call or vanishes.
    async fn established(&mut self, callee: &mut Leg) {
        self.shared.counts.established();
        let (tell, mut told) = mpsc::channel::<Told>(8);
        let stop = self.shared.stop.clone();
        let mut probe = tokio::time::interval(self.shared.config.probe);
        probe.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // The first tick is at once.
        probe.tick().await;
        let mut changing = false;
        loop {
            let (side, action) = tokio::select! {
                action = self.caller.next() => (Side::Caller, action),
                action = callee.next() => (Side::Callee, action),
                Some(told) = told.recv() => match told {
                    Told::Vanished => return,
                    Told::Changed(change) => {
                        changing = false;
                        if self.changed(*change).await.is_err() {
                            return;
                        }
                        continue;
                    }
                },
                _ = probe.tick() => {
                    ask_both([&self.caller.dialog, &callee.dialog], &tell, self.shared.config.probe);
                    continue;
                }
                () = stop.cancelled() => return,
            };
            let other = match side.other() {
                Side::Caller => &self.caller.dialog,
                Side::Callee => &callee.dialog,
            };
            match action {
                None => return,
                Some(PeerAction::Asks(handle)) => {
                    let _ = handle.reply(StatusCode::NotImplemented).await;
                }
                Some(PeerAction::Says(request, handle)) => pass(other.clone(), request, handle),
                Some(PeerAction::Changes(_, handle)) if changing => {
                    let _ = handle.reply(StatusCode::RequestPending).await;
                }
                Some(PeerAction::Changes(request, handle)) => {
                    changing = begin_change(other.clone(), request, handle, tell.clone()).await;
                }
            }
        }
    }

    /// The other side has answered a new offer.
    async fn changed(&mut self, change: Change) -> Result<(), ()> {
        let Change {
            request,
            handle,
            response,
        } = change;
        let Some(response) = response else {
            // Not sent, since the other side was at it itself; or not answered.
            let _ = handle.reply(StatusCode::RequestPending).await;
            return Ok(());
        };
        if response.status_code.kind() != StatusCodeKind::Successful {
            let _ = handle.reply(passed_on(&response.status_code)).await;
            return Ok(());
        }
        // The other side has changed: if this one can't, the call is no longer one.
        let described = (
            Description::parse(&request.body),
            Description::parse(&response.body),
        );
        let (Ok(offer), Ok(answer)) = described else {
            let _ = handle.reply(StatusCode::NotAcceptableHere).await;
            return Err(());
        };
        let wanted = openings(&self.shared.config, &offer, &answer);
        if let Err(refusal) = self.open(&wanted).await {
            let _ = handle.reply(status_of(&refusal)).await;
            return Err(());
        }
        let headers = vec![content_type(response.headers.iter())];
        let body = Some(response.body.clone());
        let _ = handle.respond(StatusCode::OK, Some(headers), body).await;
        self.prune(&wanted).await;
        Ok(())
    }

    /// Opens those that are not open yet: all or none. Is never given up half-way.
    async fn open(&mut self, wanted: &[Opening]) -> Result<(), Refusal> {
        let missing: Vec<&Opening> = wanted
            .iter()
            .filter(|opening| !self.held.contains_key(opening))
            .collect();
        let asked = missing.iter().map(|o| self.shared.pinholes.open(o));
        let answers = join_all(asked).await;
        let (mut opened, mut refused) = (Vec::new(), None);
        for (opening, answer) in missing.into_iter().zip(answers) {
            match answer {
                Ok(held) => opened.push((*opening, held)),
                Err(refusal) => refused = Some(refusal),
            }
        }
        if let Some(refusal) = refused {
            self.shared.counts.refused_by_middlebox();
            join_all(opened.into_iter().map(|(_, held)| held.close())).await;
            return Err(refusal);
        }
        self.shared.counts.opened(opened.len());
        self.held.extend(opened);
        Ok(())
    }

    /// Closes those that are not wanted.
    async fn prune(&mut self, wanted: &[Opening]) {
        let held = std::mem::take(&mut self.held);
        let (keep, gone): (BTreeMap<_, _>, BTreeMap<_, _>) = held
            .into_iter()
            .partition(|(opening, _)| wanted.contains(opening));
        self.held = keep;
        let count = gone.len();
        join_all(gone.into_values().map(Held::close)).await;
        self.shared.counts.closed(count);
    }
}

/// Gives a call up that is not answered, or just was.
async fn abandon(callee: &InviteDialog, answer: Answer) {
    // What the callee says to that is not needed: the answer tells.
    let _ = callee.cancel().await;
    let _ = answer.await;
    end(callee).await;
}

/// Passes a request and its answer on, in a task of its own.
fn pass(to: InviteDialog, request: Request, handle: TransactionHandle) {
    tokio::spawn(async move {
        let status = match relay(&to, &request).await {
            Some(response) => passed_on(&response.status_code),
            None => StatusCode::RequestTimeout,
        };
        let _ = handle.reply(status).await;
    });
}

/// Passes a re-INVITE or UPDATE on. Whether an answer is to come.
async fn begin_change(
    to: InviteDialog,
    request: Request,
    handle: TransactionHandle,
    tell: mpsc::Sender<Told>,
) -> bool {
    let refusal = match Description::parse(&request.body) {
        // A refresh by UPDATE has no description.
        _ if request.body.is_empty() && request.method == Method::Update => StatusCode::OK,
        Ok(_) => {
            tokio::spawn(async move {
                let response = relay(&to, &request).await;
                let changed = Told::Changed(Box::new(Change {
                    request,
                    handle,
                    response,
                }));
                // The call may be over.
                let _ = tell.send(changed).await;
            });
            return true;
        }
        Err(_) => StatusCode::NotAcceptableHere,
    };
    let _ = handle.reply(refusal).await;
    false
}

/// Asks both sides whether they still have the call.
fn ask_both(dialogs: [&InviteDialog; 2], tell: &mpsc::Sender<Told>, every: Duration) {
    for dialog in dialogs {
        let (dialog, tell) = (dialog.clone(), tell.clone());
        tokio::spawn(async move {
            // No answer in 32 s is the library's; a probe that is asked more often is not waited for.
            let asked =
                tokio::time::timeout(every.max(Duration::from_secs(1)) * 2, is_there(&dialog));
            if !asked.await.unwrap_or(false) {
                let _ = tell.send(Told::Vanished).await;
            }
        });
    }
}

/// A middlebox that refuses, and one that is silent.
fn status_of(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::Refused(_) => StatusCode::ServiceUnavailable,
        Refusal::Silent(_) => StatusCode::ServerTimeOut,
    }
}

/// The header Reason (RFC 3326), without quotes of its own.
fn reason(code: u16, why: &impl ToString) -> String {
    let text = why.to_string().replace(['"', '\\', '\r', '\n'], "'");
    format!("SIP;cause={code};text=\"{text}\"")
}

fn uri(at: std::net::SocketAddr, auth: Option<Auth>) -> Uri {
    Uri {
        scheme: Some(Scheme::Sip),
        auth,
        host_with_port: rsipstack::transport::SipAddr::from(at).addr,
        ..Uri::default()
    }
}
