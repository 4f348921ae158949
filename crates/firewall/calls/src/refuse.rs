//! Negative final responses to the caller.

use rsipstack::sip::prelude::HeadersExt as _;
use rsipstack::sip::typed::Contact;
use rsipstack::sip::{Header, Response, Scheme, StatusCode, StatusCodeKind};
use rsipstack::transaction::transaction::TransactionEvent;
use rsipstack::transport::SipAddr;

use crate::call::{Call, reason, status_of};
use crate::call_leg::forwarded_status;
use crate::checks::ImmediateResponse;
use crate::counts::RefusedBy;
use crate::pinholes::{PinholeRefusal, Pinholes};

/// Maximum number of forwarded Contacts.
const MAX_CONTACTS: usize = 16;

impl<P: Pinholes> Call<P> {
    /// Records and counts the negative response to the INVITE, unless one was recorded before.
    pub(crate) fn record_refusal(&self, by: RefusedBy, status: &StatusCode, why: &str) {
        let refused = (status.code(), why.to_owned());
        if self.refused.set(refused).is_ok() {
            self.shared.counts.refused(by, status.code());
        }
    }

    /// Refuses the INVITE of the caller, with a Reason header.
    pub(crate) fn refuse(&self, by: RefusedBy, status: StatusCode, why: &str) {
        self.record_refusal(by, &status, why);
        let why = reason(status.code(), why);
        // A caller whose transaction has ended needs no response.
        let _ = self.caller.dialog.reject(Some(status), Some(why));
    }

    /// Refuses the INVITE because its pinholes were refused or not requested.
    pub(crate) fn refuse_for(&self, refusal: &PinholeRefusal) {
        let status = status_of(refusal);
        let why = refusal.to_string();
        if *refusal == PinholeRefusal::AddressLimit {
            let ImmediateResponse {
                status,
                mut headers,
            } = ImmediateResponse::busy();
            headers.push(Header::Reason(reason(status.code(), &why).into()));
            return self.refuse_with(RefusedBy::Agent, status, headers, &why);
        }
        self.refuse(RefusedBy::Middlebox, status, &why);
    }

    /// Sends a response to the caller's INVITE with headers that the dialog can't send.
    pub(crate) fn respond(&self, status: StatusCode, headers: Vec<Header>, body: Option<Vec<u8>>) {
        let invite = self.caller.dialog.initial_request();
        let endpoint = &self.shared.layer.endpoint;
        let mut response = endpoint.make_response(&invite, status, body);
        if let Ok(to) = invite.to_header() {
            let tag = self.caller.dialog.id().local_tag;
            let to = to.clone().with_tag(tag.into());
            response.headers.unique_push(to.into());
        }
        response.headers.extend(headers);
        let _ = self.respond.send(TransactionEvent::Respond(response));
    }

    /// Refuses the INVITE with headers that the dialog can't send.
    pub(crate) fn refuse_with(
        &self,
        by: RefusedBy,
        status: StatusCode,
        headers: Vec<Header>,
        why: &str,
    ) {
        self.record_refusal(by, &status, why);
        self.respond(status.clone(), headers, None);
        // Sent too late to reach the caller; it ends the dialog.
        let _ = self.caller.dialog.reject(Some(status), None);
    }

    /// Forwards the callee's negative response.
    pub(crate) fn forward_refusal(&self, response: &Response) {
        let mut status = forwarded_status(&response.status_code);
        let is_forwarded = |header: &&Header| {
            matches!(
                header,
                Header::WwwAuthenticate(_)
                    | Header::ProxyAuthenticate(_)
                    | Header::RetryAfter(_)
                    | Header::Warning(_)
                    | Header::Reason(_)
            )
        };
        let mut headers: Vec<Header> = response
            .headers
            .iter()
            .filter(is_forwarded)
            .cloned()
            .collect();
        match &response.status_code {
            // The caller has the credentials for a challenge.
            challenge @ (StatusCode::Unauthorized | StatusCode::ProxyAuthenticationRequired) => {
                status = challenge.clone();
            }
            // The call must not bypass a proxy.
            StatusCode::UseProxy => {}
            redirection if redirection.kind() == StatusCodeKind::Redirection => {
                let contacts = self.alternatives(response);
                if !contacts.is_empty() {
                    status = redirection.clone();
                    headers.extend(contacts);
                }
            }
            _ => {}
        }
        let why = format!("the callee answered {}", response.status_code.code());
        self.refuse_with(RefusedBy::Callee, status, headers, &why);
    }

    /// Returns the Contacts of a redirection (RFC 3261, section 8.1.3.4). Those at the called server
    /// are replaced by this agent's address.
    fn alternatives(&self, response: &Response) -> Vec<Header> {
        let config = &self.shared.config;
        let hops = [config.inner, config.outer].into_iter().flatten();
        let hops: Vec<_> = hops.map(|hop| SipAddr::from(hop.address).addr).collect();
        let contacts = response.typed_contact_headers().unwrap_or_default();
        let contacts = contacts.into_iter().take(MAX_CONTACTS);
        contacts
            .map(|mut contact: Contact| {
                let uri = &mut contact.uri;
                let plain = matches!(uri.scheme, None | Some(Scheme::Sip));
                let mut at = uri.host_with_port.clone();
                at.port = at.port.or(Some(5060.into()));
                if plain && hops.contains(&at) {
                    uri.host_with_port = SipAddr::from(config.listen).addr;
                    uri.params.clear();
                }
                Header::Contact(contact.into())
            })
            .collect()
    }
}
