//! What is wrong with a request before anybody else looks at it (RFC 3261 section 8.2).

use rsipstack::sip::{Header, Method, Request, Scheme, StatusCode};

/// Seconds after which what came too early may be tried again.
const SOON: &str = "2";

/// How a request is refused.
pub(crate) struct Fault {
    pub(crate) status: StatusCode,
    pub(crate) headers: Vec<Header>,
}

impl Fault {
    pub(crate) fn new(status: StatusCode, headers: Vec<Header>) -> Self {
        Self { status, headers }
    }

    /// Something for a call that is not answered yet (RFC 3261 section 14.2, RFC 3311 section 5.2).
    pub(crate) fn too_early() -> Self {
        let later = Header::RetryAfter(SOON.into());
        Self::new(StatusCode::ServerInternalError, vec![later])
    }
}

/// What is wrong with a request that no answer by a call depends on.
pub(crate) fn fault(request: &Request) -> Option<Fault> {
    if matches!(request.method, Method::Ack | Method::Cancel) {
        return None;
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
