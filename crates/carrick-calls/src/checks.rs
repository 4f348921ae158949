//! What is wrong with a request before anybody else looks at it (RFC 3261 section 8.2).

use rsipstack::sip::{Header, Method, Request, Scheme, StatusCode};

/// Seconds after which what came too early may be tried again.
const SOON: &str = "2";

/// Seconds after which who called too much may try again.
const RETRY_AFTER: &str = "10";

/// How a request is answered at once, mostly refused.
pub(crate) struct Fault {
    pub(crate) status: StatusCode,
    pub(crate) headers: Vec<Header>,
}

impl Fault {
    pub(crate) fn new(status: StatusCode, headers: Vec<Header>) -> Self {
        Self { status, headers }
    }

    /// There is no room for a call now (RFC 3261 section 21.5.4).
    pub(crate) fn busy() -> Self {
        let later = Header::RetryAfter(RETRY_AFTER.into());
        Self::new(StatusCode::ServiceUnavailable, vec![later])
    }

    /// Something for a call that is not answered yet (RFC 3261 section 14.2, RFC 3311 section 5.2).
    pub(crate) fn too_early() -> Self {
        let later = Header::RetryAfter(SOON.into());
        Self::new(StatusCode::ServerInternalError, vec![later])
    }
}

/// Octets of a body: far more than a description of as many streams as may be has.
pub(crate) const MAX_BODY: usize = 16 << 10;

/// What may be asked for.
const ALLOWED: &str = "INVITE, ACK, CANCEL, BYE, OPTIONS, INFO, UPDATE, MESSAGE";

pub(crate) fn allow() -> Header {
    Header::Allow(ALLOWED.into())
}

/// What this agent can do (RFC 3261 section 11.2).
pub(crate) fn capabilities() -> Fault {
    let accept = Header::Accept("application/sdp".into());
    Fault::new(StatusCode::OK, vec![allow(), accept])
}

/// What is wrong with a request that no answer by a call depends on. It may be one that begins
/// something.
pub(crate) fn fault(request: &Request, begins: bool) -> Option<Fault> {
    match request.method {
        Method::Ack | Method::Cancel => return None,
        Method::Invite | Method::Bye | Method::Info | Method::Update | Method::Options => {}
        // Messages belong to calls here: there is nobody to bring others to.
        Method::Message if !begins => {}
        Method::Message
        | Method::Notify
        | Method::PRack
        | Method::Publish
        | Method::Refer
        | Method::Register
        | Method::Subscribe => {
            return Some(Fault::new(StatusCode::MethodNotAllowed, vec![allow()]));
        }
    }
    // A datagram may end before the message does (RFC 3261 section 18.3).
    let claimed = request.headers.iter().find_map(|header| match header {
        Header::ContentLength(length) => Some(length.value().trim().parse()),
        _ => None,
    });
    let whole =
        claimed.is_none_or(|length| length.is_ok_and(|length: usize| length <= request.body.len()));
    if !whole {
        return Some(Fault::new(StatusCode::BadRequest, Vec::new()));
    }
    if request.body.len() > MAX_BODY {
        return Some(Fault::new(StatusCode::RequestEntityTooLarge, Vec::new()));
    }
    if !matches!(request.uri.scheme, None | Some(Scheme::Sip)) {
        return Some(Fault::new(StatusCode::UnsupportedUriScheme, Vec::new()));
    }
    // No extension is supported, 100rel and timer among them.
    let required: Vec<&str> = request.headers.iter().filter_map(required).collect();
    if !required.is_empty() {
        let unsupported = Header::Unsupported(required.join(", ").into());
        return Some(Fault::new(StatusCode::BadExtension, vec![unsupported]));
    }
    unreadable(request)
}

fn required(header: &Header) -> Option<&str> {
    match header {
        Header::Require(tags) => Some(tags.value().trim()).filter(|tags| !tags.is_empty()),
        _ => None,
    }
}

/// Offers are in session descriptions as they are, and in nothing else.
fn unreadable(request: &Request) -> Option<Fault> {
    if request.body.is_empty() || !matches!(request.method, Method::Invite | Method::Update) {
        return None;
    }
    let encoded = request.headers.iter().any(|header| {
        matches!(header, Header::ContentEncoding(how)
            if !how.value().trim().eq_ignore_ascii_case("identity"))
    });
    let strange = request.headers.iter().any(|header| {
        let Header::ContentType(kind) = header else {
            return false;
        };
        let kind = kind.value().split(';').next().unwrap_or_default().trim();
        !kind.eq_ignore_ascii_case("application/sdp")
    });
    let headers = match (encoded, strange) {
        (true, _) => Header::AcceptEncoding("identity".into()),
        (false, true) => Header::Accept("application/sdp".into()),
        (false, false) => return None,
    };
    Some(Fault::new(StatusCode::UnsupportedMediaType, vec![headers]))
}

/// Whether a request begins something: it is for no dialog.
pub(crate) fn begins(request: &Request) -> bool {
    use rsipstack::sip::prelude::HeadersExt as _;
    request
        .to_header()
        .is_ok_and(|to| to.tag().is_ok_and(|tag| tag.is_none()))
}
