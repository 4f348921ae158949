//! Validation of requests before any other processing (RFC 3261, section 8.2).

use rsipstack::sip::{Header, Method, Request, Scheme, StatusCode};

/// Retry-After in seconds of a request that came too early.
const RETRY_SOON: &str = "2";

/// Retry-After in seconds of a caller above its limits.
const RETRY_AFTER: &str = "10";

/// Response that is sent at once, mostly a refusal.
pub(crate) struct ImmediateResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: Vec<Header>,
}

impl ImmediateResponse {
    pub(crate) fn new(status: StatusCode, headers: Vec<Header>) -> Self {
        Self { status, headers }
    }

    /// Refuses a call for lack of room (RFC 3261, section 21.5.4).
    pub(crate) fn busy() -> Self {
        let later = Header::RetryAfter(RETRY_AFTER.into());
        Self::new(StatusCode::ServiceUnavailable, vec![later])
    }

    /// Refuses a request within a call that is not answered yet (RFC 3261, section 14.2; RFC 3311,
    /// section 5.2).
    pub(crate) fn too_early() -> Self {
        let later = Header::RetryAfter(RETRY_SOON.into());
        Self::new(StatusCode::ServerInternalError, vec![later])
    }
}

/// Maximum size of a body in octets, far above that of a description with the maximum number of
/// streams.
pub(crate) const MAX_BODY: usize = 16 << 10;

/// Octets of a datagram that the library reads; the rest of it is lost.
const MAX_DATAGRAM: usize = rsipstack::transport::connection::MAX_UDP_BUF_SIZE;

/// Supported methods.
const ALLOWED: &str = "INVITE, ACK, CANCEL, BYE, OPTIONS, INFO, UPDATE, MESSAGE";

pub(crate) fn allow() -> Header {
    Header::Allow(ALLOWED.into())
}

/// Answers OPTIONS (RFC 3261, section 11.2).
pub(crate) fn capabilities() -> ImmediateResponse {
    let accept = Header::Accept("application/sdp".into());
    ImmediateResponse::new(StatusCode::OK, vec![allow(), accept])
}

/// Returns the refusal of a request that is invalid in any state of its call. `begins`: the request is
/// outside of a dialog.
pub(crate) fn check_request(request: &Request, begins: bool) -> Option<ImmediateResponse> {
    match request.method {
        Method::Ack | Method::Cancel => return None,
        Method::Invite | Method::Bye | Method::Info | Method::Update | Method::Options => {}
        // Messages outside of calls have no destination.
        Method::Message if !begins => {}
        Method::Message
        | Method::Notify
        | Method::PRack
        | Method::Publish
        | Method::Refer
        | Method::Register
        | Method::Subscribe => {
            return Some(ImmediateResponse::new(
                StatusCode::MethodNotAllowed,
                vec![allow()],
            ));
        }
    }
    // A datagram may end before its message does (RFC 3261, section 18.3).
    let claimed = request.headers.iter().find_map(|header| match header {
        Header::ContentLength(length) => Some(length.value().trim().parse::<usize>()),
        _ => None,
    });
    let complete = claimed
        .as_ref()
        .is_none_or(|length| matches!(length, Ok(length) if *length <= request.body.len()));
    let length = claimed.and_then(Result::ok);
    let longest = length.unwrap_or_default().max(request.body.len());
    if longest > MAX_BODY || !complete && is_cut(request, longest) {
        return Some(ImmediateResponse::new(
            StatusCode::RequestEntityTooLarge,
            Vec::new(),
        ));
    }
    if !complete {
        return Some(ImmediateResponse::new(StatusCode::BadRequest, Vec::new()));
    }
    if !matches!(request.uri.scheme, None | Some(Scheme::Sip)) {
        return Some(ImmediateResponse::new(
            StatusCode::UnsupportedUriScheme,
            Vec::new(),
        ));
    }
    // No extension is supported, including 100rel and timer.
    let required: Vec<&str> = request.headers.iter().filter_map(required).collect();
    if !required.is_empty() {
        let unsupported = Header::Unsupported(required.join(", ").into());
        return Some(ImmediateResponse::new(
            StatusCode::BadExtension,
            vec![unsupported],
        ));
    }
    check_body(request)
}

/// Returns whether a request with a body of this length is longer than the datagrams that are read.
fn is_cut(request: &Request, length: usize) -> bool {
    let header = request.to_string().len().saturating_sub(request.body.len());
    header + length > MAX_DATAGRAM
}

fn required(header: &Header) -> Option<&str> {
    match header {
        Header::Require(tags) => Some(tags.value().trim()).filter(|tags| !tags.is_empty()),
        _ => None,
    }
}

/// Returns the refusal of an INVITE or UPDATE whose body is not a plain session description.
fn check_body(request: &Request) -> Option<ImmediateResponse> {
    if request.body.is_empty() || !matches!(request.method, Method::Invite | Method::Update) {
        return None;
    }
    let encoded = request.headers.iter().any(|header| {
        matches!(header, Header::ContentEncoding(how)
            if !how.value().trim().eq_ignore_ascii_case("identity"))
    });
    let other_type = request.headers.iter().any(|header| {
        let Header::ContentType(kind) = header else {
            return false;
        };
        let kind = kind.value().split(';').next().unwrap_or_default().trim();
        !kind.eq_ignore_ascii_case("application/sdp")
    });
    let headers = match (encoded, other_type) {
        (true, _) => Header::AcceptEncoding("identity".into()),
        (false, true) => Header::Accept("application/sdp".into()),
        (false, false) => return None,
    };
    Some(ImmediateResponse::new(
        StatusCode::UnsupportedMediaType,
        vec![headers],
    ))
}

/// Returns whether a request is outside of a dialog.
pub(crate) fn begins_dialog(request: &Request) -> bool {
    use rsipstack::sip::prelude::HeadersExt as _;
    request
        .to_header()
        .is_ok_and(|to| to.tag().is_ok_and(|tag| tag.is_none()))
}
