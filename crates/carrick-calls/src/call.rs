//! One call, from INVITE to its end.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use carrick_simco::PeerText;
use rsipstack::dialog::dialog::TransactionHandle;
use rsipstack::dialog::invite_dialog::InviteDialog;
use rsipstack::sip::{Auth, Request, Scheme, StatusCode, Uri};
use rsipstack::transaction::transaction::TransactionEventSender;
use tokio::sync::{Semaphore, mpsc};

use crate::change::{Change, Unanswered, begin_change};
use crate::checks::Fault;
use crate::config::Place;
use crate::holes::Holes;
use crate::legs::{
    Leg, PeerAction, Side, end, is_there, number, passed_on, relay, retarget, spawn_begun,
};
use crate::media::Opening;
use crate::pinholes::{Pinholes, Refusal};
use crate::record::{CallEnd, CallRecord};
use crate::server::Shared;

/// What the sides of a call say to each other at a time; more is refused.
const MAX_PASSING: usize = 16;

pub(crate) struct Call<P: Pinholes> {
    pub(crate) shared: Arc<Shared<P>>,
    pub(crate) caller: Leg,
    /// Answers the caller's INVITE, in cases that the dialog does not know.
    pub(crate) respond: TransactionEventSender,
    /// Where the caller is, by where its INVITE came from.
    pub(crate) place: Place,
    /// Where the requests of the caller are to go.
    pub(crate) contact: Uri,
    /// When its INVITE came.
    pub(crate) begun: Instant,
    /// The status of the answer to it, and the reason, if that is a refusal.
    pub(crate) refused: OnceLock<(u16, String)>,
    pub(crate) holes: Holes<P>,
}

/// What tasks of a call tell it.
pub(crate) enum Told {
    /// The other side answered a re-INVITE or UPDATE.
    Changed(Box<Change>),
    /// A side does not have the call any more.
    Vanished,
}

/// Why a call that was established ends.
#[derive(Clone, Debug)]
pub(crate) enum End {
    /// A side said so.
    HungUp,
    /// A side does not have it any more.
    Vanished,
    /// The middlebox ended a pinhole, or lost it.
    PinholeLost,
    /// The middlebox refused what a new offer needs.
    Refused(Refusal),
    /// A side has sent an offer or an answer that can't be used.
    Unusable,
    /// The agent is stopped.
    Stopped,
}

impl End {
    /// The status that tells why, and the text to it; `None` if a side ended the call.
    fn why(&self) -> Option<(u16, String)> {
        Some(match self {
            Self::HungUp => return None,
            Self::Vanished => (408, "the other side does not answer".to_owned()),
            Self::PinholeLost => (503, "the middlebox closed the pinhole".to_owned()),
            Self::Refused(refusal) => (status_of(refusal).code(), refusal.to_string()),
            Self::Unusable => (488, "the session description can't be used".to_owned()),
            Self::Stopped => (503, "the agent is stopped".to_owned()),
        })
    }
}

impl<P: Pinholes> Call<P> {
    /// Lives until the call has ended on both sides, and nothing is open.
    pub(crate) async fn run(mut self) {
        let mut ended = CallEnd::NotEstablished;
        let mut set_up = None;
        let mut reason_of_end = None;
        if let Some((mut callee, unanswered)) = self.set_up().await {
            let took = self.begun.elapsed();
            set_up = Some(took);
            self.holes.established();
            self.shared.counts.established(took);
            let why = self.established(&mut callee, unanswered).await;
            ended = CallEnd::from(&why);
            self.shared.counts.ended(ended);
            reason_of_end = why.why();
            // The header Reason (RFC 3326) for BYE.
            let why = reason_of_end.as_ref();
            let why = why.map(|(cause, text)| reason(*cause, text));
            let why = why.as_deref();
            // The middlebox or a side may not answer.
            tokio::join!(
                self.holes.close(),
                end(&self.caller.dialog, why),
                end(&callee.dialog, why)
            );
            self.remove(&callee.dialog);
        }
        self.holes.close().await;
        self.remove(&self.caller.dialog);
        let invite = self.caller.dialog.initial_request();
        self.shared.loops.forget_taken(&invite);
        let refused = self.refused.get();
        let record = CallRecord {
            set_up,
            refused: refused.map(|(status, _)| *status),
            reason: refused.cloned().or(reason_of_end).map(|(_, text)| text),
            ..CallRecord::new(&invite, self.begun.elapsed(), ended)
        };
        // Nobody may listen.
        let _ = self.shared.records.send(record);
    }

    /// Where a side is.
    pub(crate) fn place_of(&self, side: Side) -> Place {
        match side {
            Side::Caller => self.place,
            Side::Callee => self.place.other(),
        }
    }

    /// A dialog is over.
    pub(crate) fn remove(&self, dialog: &InviteDialog) {
        self.shared.layer.remove_dialog(&dialog.id());
        self.shared.acks.forget(&dialog.id());
        self.shared.loops.forget_sent(&dialog.id());
        self.shared.turns.forget(&dialog.id());
    }

    /// Until one side ends the call or vanishes, or a pinhole is lost. Who owes an answer has none of it
    /// then: what is still unanswered is refused here.
    async fn established(&mut self, callee: &mut Leg, mut owed: Option<Unanswered>) -> End {
        let why = self.connected(callee, &mut owed).await;
        if let Some(unanswered) = owed {
            let other = self.dialog_of(unanswered.side.other(), callee);
            self.refuse_offer(&other, &unanswered).await;
        }
        why
    }

    /// Opens what is wanted, unless the call ends meanwhile.
    pub(crate) async fn open(&mut self, callee: &mut Leg, wanted: &[Opening]) -> Result<(), End> {
        tokio::select! {
            opened = self.holes.open(wanted) => opened.map_err(End::Refused),
            () = self.caller.over() => Err(End::HungUp),
            () = callee.over() => Err(End::HungUp),
            () = self.shared.stop.cancelled() => Err(End::Stopped),
        }
    }

    /// The dialog with a side.
    pub(crate) fn dialog_of(&self, side: Side, callee: &Leg) -> InviteDialog {
        match side {
            Side::Caller => self.caller.dialog.clone(),
            Side::Callee => callee.dialog.clone(),
        }
    }

    async fn connected(&mut self, callee: &mut Leg, owed: &mut Option<Unanswered>) -> End {
        let (tell, mut told) = mpsc::channel::<Told>(8);
        let stop = self.shared.stop.clone();
        let mut probe = tokio::time::interval(self.shared.config.probe);
        probe.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // The first tick is at once.
        probe.tick().await;
        let mut changing = false;
        let passing = Arc::new(Semaphore::new(MAX_PASSING));
        loop {
            let (side, action) = tokio::select! {
                action = self.caller.next() => (Side::Caller, action),
                action = callee.next() => (Side::Callee, action),
                Some(told) = told.recv() => match told {
                    Told::Vanished => return End::Vanished,
                    Told::Changed(change) => {
                        match self.changed(*change, callee).await {
                            Ok(unanswered) => *owed = unanswered,
                            Err(why) => return why,
                        }
                        changing = owed.is_some();
                        continue;
                    }
                },
                _ = probe.tick() => {
                    ask_both([&self.caller.dialog, &callee.dialog], &tell, self.shared.config.probe);
                    continue;
                }
                () = self.holes.lost() => return End::PinholeLost,
                () = stop.cancelled() => return End::Stopped,
            };
            let (own, other) = match side {
                Side::Caller => (&self.caller, &callee.dialog),
                Side::Callee => (&*callee, &self.caller.dialog),
            };
            match action {
                None => return End::HungUp,
                Some(PeerAction::Confirms) => {
                    let ack = owed.as_ref().filter(|owed| owed.side == side);
                    let ack = ack.and_then(|owed| own.ack_of(owed.seq));
                    if let (Some(ack), Some(unanswered)) = (ack, owed.as_ref()) {
                        if let Err(why) = self.answered_late(unanswered, &ack, callee).await {
                            return why;
                        }
                        *owed = None;
                        changing = false;
                    }
                }
                Some(PeerAction::Asks(handle)) => {
                    let _ = handle.reply(StatusCode::NotImplemented).await;
                }
                Some(PeerAction::Says(request, handle)) => {
                    pass(other.clone(), request, handle, &passing);
                }
                Some(PeerAction::Changes(_, handle)) if changing || owed.is_some() => {
                    let _ = handle.reply(StatusCode::RequestPending).await;
                }
                Some(PeerAction::Changes(request, handle)) => {
                    retarget(&own.dialog, &request);
                    let seq = number(&request).unwrap_or_default();
                    let change = Change {
                        side,
                        seq,
                        request,
                        handle,
                        response: None,
                    };
                    changing = begin_change(other.clone(), change, tell.clone()).await;
                }
            }
        }
    }
}

/// Passes a request and its answer on, in a task of its own, if there are not too many of them.
fn pass(to: InviteDialog, request: Request, handle: TransactionHandle, passing: &Arc<Semaphore>) {
    let room = Arc::clone(passing).try_acquire_owned();
    spawn_begun(async move {
        let Ok(_room) = room else {
            let Fault { status, headers } = Fault::too_early();
            let _ = handle.respond(status, Some(headers), None).await;
            return;
        };
        let status = match relay(&to, &request).await {
            Some(response) => passed_on(&response.status_code),
            None => StatusCode::RequestTimeout,
        };
        let _ = handle.reply(status).await;
    });
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

/// A middlebox that refuses, one that is silent, and one that was not asked.
pub(crate) fn status_of(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::Refused(_) | Refusal::Crowded => StatusCode::ServiceUnavailable,
        Refusal::Silent(_) => StatusCode::ServerTimeOut,
    }
}

/// The header Reason (RFC 3326), without quotes of its own.
pub(crate) fn reason(code: u16, why: &str) -> String {
    let text = PeerText::new(why).to_string().replace(['"', '\\'], "'");
    format!("SIP;cause={code};text=\"{text}\"")
}

pub(crate) fn uri(at: std::net::SocketAddr, auth: Option<Auth>) -> Uri {
    Uri {
        scheme: Some(Scheme::Sip),
        auth,
        host_with_port: rsipstack::transport::SipAddr::from(at).addr,
        ..Uri::default()
    }
}
