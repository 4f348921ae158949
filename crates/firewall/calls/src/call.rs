//! A call from its INVITE to its end.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use carrick_simco::PeerText;
use rsipstack::dialog::dialog::TransactionHandle;
use rsipstack::dialog::invite_dialog::InviteDialog;
use rsipstack::sip::{Auth, Request, Scheme, StatusCode, Uri};
use rsipstack::transaction::transaction::TransactionEventSender;
use tokio::sync::{Semaphore, mpsc};

use crate::call_leg::{
    CallLeg, CallSide, PeerAction, cseq_number, end, forwarded_status, relay, retarget,
    spawn_polled_once, still_has_dialog,
};
use crate::call_pinholes::CallPinholes;
use crate::change::{PendingOffer, SessionChange, begin_change};
use crate::checks::ImmediateResponse;
use crate::config::FirewallSide;
use crate::inside_media::InsideMediaOfCall;
use crate::media::PinholeRequest;
use crate::pinholes::{PinholeRefusal, Pinholes};
use crate::record::{CallEnd, CallRecord};
use crate::sdp::{SdpError, SessionDescription};
use crate::server::Shared;

/// Maximum number of INFO and MESSAGE requests being forwarded in a call.
const MAX_FORWARDED: usize = 16;

pub(crate) struct Call<P: Pinholes> {
    pub(crate) shared: Arc<Shared<P>>,
    pub(crate) caller: CallLeg,
    /// Sends responses to the caller's INVITE that the dialog can't send.
    pub(crate) respond: TransactionEventSender,
    /// Side of the caller, by the source of its INVITE.
    pub(crate) firewall_side: FirewallSide,
    /// Contact given to the caller.
    pub(crate) contact: Uri,
    /// Time at which the INVITE arrived.
    pub(crate) begun: Instant,
    /// Status and reason of a negative final response.
    pub(crate) refused: OnceLock<(u16, String)>,
    pub(crate) pinholes: CallPinholes<P>,
    pub(crate) inside_media: InsideMediaOfCall,
}

/// Event from one of the tasks of a call.
pub(crate) enum CallEvent {
    /// Outcome of a forwarded re-INVITE or UPDATE.
    Changed(Box<SessionChange>),
    /// A side has stopped answering.
    Vanished,
}

/// Reason for which an established call ends.
#[derive(Clone, Debug)]
pub(crate) enum EndReason {
    /// BYE from a side.
    HungUp,
    /// A side has stopped answering.
    Vanished,
    /// A pinhole was ended by the middlebox or lost.
    PinholeLost,
    /// The middlebox refused the pinholes of a new offer.
    Refused(PinholeRefusal),
    /// A side sent an unusable offer or answer.
    Unusable,
    /// The agent is shutting down.
    Stopped,
}

impl EndReason {
    /// Returns status and text for the Reason header; `None` if a side ended the call.
    fn status_and_text(&self) -> Option<(u16, String)> {
        Some(match self {
            Self::HungUp => return None,
            Self::Vanished => (408, "the other side does not answer".to_owned()),
            Self::PinholeLost => (503, "the middlebox closed the pinhole".to_owned()),
            Self::Refused(refusal) => (status_of(refusal).code(), refusal.to_string()),
            Self::Unusable => (488, "unusable session description".to_owned()),
            Self::Stopped => (503, "the agent is shutting down".to_owned()),
        })
    }
}

impl<P: Pinholes> Call<P> {
    /// Runs until the call has ended on both sides and all pinholes are closed.
    pub(crate) async fn run(mut self) {
        let mut ended = CallEnd::NotEstablished;
        let mut set_up = None;
        let mut reason_of_end = None;
        if let Some((mut callee, pending_offer)) = self.set_up().await {
            let took = self.begun.elapsed();
            set_up = Some(took);
            self.pinholes.established();
            self.shared.counts.established(took);
            let why = self.established(&mut callee, pending_offer).await;
            ended = CallEnd::from(&why);
            self.shared.counts.ended(ended);
            reason_of_end = why.status_and_text();
            // Reason header (RFC 3326) of the BYE.
            let why = reason_of_end.as_ref();
            let why = why.map(|(cause, text)| reason(*cause, text));
            let why = why.as_deref();
            // In parallel: the middlebox or a side may not answer.
            tokio::join!(
                self.pinholes.close(),
                end(&self.caller.dialog, why),
                end(&callee.dialog, why)
            );
            self.remove(&callee.dialog);
        }
        self.pinholes.close().await;
        self.remove(&self.caller.dialog);
        let invite = self.caller.dialog.initial_request();
        self.shared.loops.forget_received(&invite);
        let refused = self.refused.get();
        let record = CallRecord {
            set_up,
            refused: refused.map(|(status, _)| *status),
            reason: refused.cloned().or(reason_of_end).map(|(_, text)| text),
            ..CallRecord::new(&invite, self.begun.elapsed(), ended)
        };
        // There may be no receiver.
        let _ = self.shared.records.send(record);
    }

    /// Returns the firewall side of a leg.
    pub(crate) fn firewall_side_of(&self, side: CallSide) -> FirewallSide {
        match side {
            CallSide::Caller => self.firewall_side,
            CallSide::Callee => self.firewall_side.other(),
        }
    }

    /// Parses the description of a leg, and checks its addresses.
    pub(crate) fn describe(
        &self,
        side: CallSide,
        body: &[u8],
    ) -> Result<SessionDescription, SdpError> {
        let side = self.firewall_side_of(side);
        self.inside_media.parse(&self.shared.config, side, body)
    }

    /// Removes the state of a dialog.
    pub(crate) fn remove(&self, dialog: &InviteDialog) {
        self.shared.layer.remove_dialog(&dialog.id());
        self.shared.acks.forget(&dialog.id());
        self.shared.loops.forget_sent(&dialog.id());
        self.shared.sequencer.forget(&dialog.id());
    }

    /// Runs an established call until it ends. An offer that is still unanswered is rejected.
    async fn established(
        &mut self,
        callee: &mut CallLeg,
        mut pending_offer: Option<PendingOffer>,
    ) -> EndReason {
        let why = self.connected(callee, &mut pending_offer).await;
        if let Some(pending_offer) = pending_offer {
            let other = self.dialog_of(pending_offer.side.other(), callee);
            self.refuse_offer(&other, &pending_offer).await;
        }
        why
    }

    /// Opens pinholes unless the call ends meanwhile.
    pub(crate) async fn open(
        &mut self,
        callee: &mut CallLeg,
        wanted: &[PinholeRequest],
    ) -> Result<(), EndReason> {
        tokio::select! {
            opened = self.pinholes.open(wanted) => opened.map_err(EndReason::Refused),
            () = self.caller.over() => Err(EndReason::HungUp),
            () = callee.over() => Err(EndReason::HungUp),
            () = self.shared.stop.cancelled() => Err(EndReason::Stopped),
        }
    }

    /// Returns the dialog of a leg.
    pub(crate) fn dialog_of(&self, side: CallSide, callee: &CallLeg) -> InviteDialog {
        match side {
            CallSide::Caller => self.caller.dialog.clone(),
            CallSide::Callee => callee.dialog.clone(),
        }
    }

    /// Handles the requests of both sides until the call has to end.
    async fn connected(
        &mut self,
        callee: &mut CallLeg,
        pending_offer: &mut Option<PendingOffer>,
    ) -> EndReason {
        let (events, mut received) = mpsc::channel::<CallEvent>(8);
        let stop = self.shared.stop.clone();
        let mut probe = tokio::time::interval(self.shared.config.probe);
        probe.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // The first tick is immediate.
        probe.tick().await;
        let mut changing = false;
        let forwarding = Arc::new(Semaphore::new(MAX_FORWARDED));
        loop {
            let (side, action) = tokio::select! {
                action = self.caller.next() => (CallSide::Caller, action),
                action = callee.next() => (CallSide::Callee, action),
                Some(event) = received.recv() => match event {
                    CallEvent::Vanished => return EndReason::Vanished,
                    CallEvent::Changed(change) => {
                        match self.changed(*change, callee).await {
                            Ok(offer) => *pending_offer = offer,
                            Err(why) => return why,
                        }
                        changing = pending_offer.is_some();
                        continue;
                    }
                },
                _ = probe.tick() => {
                    probe_both([&self.caller.dialog, &callee.dialog], &events, self.shared.config.probe);
                    continue;
                }
                () = self.pinholes.lost() => return EndReason::PinholeLost,
                () = stop.cancelled() => return EndReason::Stopped,
            };
            let (own, other) = match side {
                CallSide::Caller => (&self.caller, &callee.dialog),
                CallSide::Callee => (&*callee, &self.caller.dialog),
            };
            match action {
                None => return EndReason::HungUp,
                Some(PeerAction::Acknowledge) => {
                    let ack = pending_offer.as_ref().filter(|offer| offer.side == side);
                    let ack = ack.and_then(|offer| own.ack_of(offer.seq));
                    if let (Some(ack), Some(offer)) = (ack, pending_offer.as_ref()) {
                        if let Err(why) = self.answered_in_ack(offer, &ack, callee).await {
                            return why;
                        }
                        *pending_offer = None;
                        changing = false;
                    }
                }
                Some(PeerAction::Unsupported(handle)) => {
                    let _ = handle.reply(StatusCode::NotImplemented).await;
                }
                Some(PeerAction::Relay(request, handle)) => {
                    forward(other.clone(), request, handle, &forwarding);
                }
                Some(PeerAction::Modify(_, handle)) if changing || pending_offer.is_some() => {
                    let _ = handle.reply(StatusCode::RequestPending).await;
                }
                Some(PeerAction::Modify(request, handle)) => {
                    retarget(&own.dialog, &request);
                    let seq = cseq_number(&request).unwrap_or_default();
                    let change = SessionChange {
                        side,
                        seq,
                        request,
                        handle,
                        response: None,
                    };
                    let described = self.describe(side, &change.request.body);
                    changing =
                        begin_change(other.clone(), change, described.is_ok(), events.clone())
                            .await;
                }
            }
        }
    }
}

/// Forwards a request and its response in a separate task, unless too many are being forwarded.
fn forward(
    to: InviteDialog,
    request: Request,
    handle: TransactionHandle,
    forwarding: &Arc<Semaphore>,
) {
    let room = Arc::clone(forwarding).try_acquire_owned();
    spawn_polled_once(async move {
        let Ok(_room) = room else {
            let ImmediateResponse { status, headers } = ImmediateResponse::too_early();
            let _ = handle.respond(status, Some(headers), None).await;
            return;
        };
        let status = match relay(&to, &request).await {
            Some(response) => forwarded_status(&response.status_code),
            None => StatusCode::RequestTimeout,
        };
        let _ = handle.reply(status).await;
    });
}

/// Probes both legs with OPTIONS.
fn probe_both(dialogs: [&InviteDialog; 2], events: &mpsc::Sender<CallEvent>, every: Duration) {
    for dialog in dialogs {
        let (dialog, events) = (dialog.clone(), events.clone());
        tokio::spawn(async move {
            // The library times out after 32 s. With a shorter probe interval, stop waiting earlier.
            let probed = tokio::time::timeout(
                every.max(Duration::from_secs(1)) * 2,
                still_has_dialog(&dialog),
            );
            if !probed.await.unwrap_or(false) {
                let _ = events.send(CallEvent::Vanished).await;
            }
        });
    }
}

/// Returns the status code for a refusal.
pub(crate) fn status_of(refusal: &PinholeRefusal) -> StatusCode {
    match refusal {
        PinholeRefusal::Refused(_) | PinholeRefusal::AddressLimit => StatusCode::ServiceUnavailable,
        PinholeRefusal::NoAnswer(_) => StatusCode::ServerTimeOut,
    }
}

/// Returns a Reason header (RFC 3326) with quotes in the text replaced.
pub(crate) fn reason(code: u16, why: &str) -> String {
    let text = PeerText::new(why).to_string().replace(['"', '\\'], "'");
    format!("SIP;cause={code};text=\"{text}\"")
}

/// Returns the SIP URI of an address.
pub(crate) fn uri(at: std::net::SocketAddr, auth: Option<Auth>) -> Uri {
    Uri {
        scheme: Some(Scheme::Sip),
        auth,
        host_with_port: rsipstack::transport::SipAddr::from(at).addr,
        ..Uri::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3326: the text of a middlebox cannot add header fields to a SIP message, or end the quotes.
    #[test]
    fn a_reason_is_one_quoted_line() {
        let header = reason(503, "no\"\r\nRoute: <sip:192.0.2.1>\u{1b}[2J\\");
        let text = header.strip_prefix("SIP;cause=503;text=\"").unwrap();
        let text = text.strip_suffix('"').unwrap();
        assert!(text.starts_with("no") && text.contains("Route"), "{text}");
        assert!(
            !text.contains(|c: char| c.is_control() || c == '"' || c == '\\'),
            "{text}"
        );
    }
}
