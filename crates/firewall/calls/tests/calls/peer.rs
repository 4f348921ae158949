//! SIP user agent of the tests, which sends exactly the messages that a test names.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Received message.
#[derive(Clone, Debug)]
pub(crate) struct Message(pub(crate) String);

impl Message {
    pub(crate) fn header(&self, name: &str) -> &str {
        let wanted = format!("{name}:");
        let mut lines = self.0.lines();
        let line = lines.find(|line| {
            line.len() > wanted.len() && line[..wanted.len()].eq_ignore_ascii_case(&wanted)
        });
        let line = line.unwrap_or_else(|| panic!("no {name} in {}", self.0));
        line[wanted.len()..].trim()
    }

    pub(crate) fn body(&self) -> &str {
        self.0.split_once("\r\n\r\n").map_or("", |(_, body)| body)
    }

    pub(crate) fn is(&self, start: &str) -> bool {
        match start.parse::<u16>() {
            Ok(_) => self.0.starts_with(&format!("SIP/2.0 {start} ")),
            Err(_) => self.0.starts_with(&format!("{start} ")),
        }
    }

    /// The URI in a header, without brackets.
    fn uri(&self, name: &str) -> String {
        let value = self.header(name);
        let value = value.split_once('<').map_or(value, |(_, rest)| rest);
        value.split('>').next().unwrap().to_owned()
    }
}

static CALLS: AtomicU32 = AtomicU32::new(1);

/// User agent with the state of one call.
pub(crate) struct Peer {
    socket: UdpSocket,
    pub(crate) address: SocketAddr,
    pub(crate) b2bua: SocketAddr,
    call: u32,
    sequence: u32,
    /// From and To as sent by this side, Call-ID and remote target of the dialog.
    dialog: Option<[String; 4]>,
    /// Branches and start lines of the messages received so far.
    seen: BTreeSet<String>,
    /// True if the last final response was negative.
    refused: bool,
    /// Additional headers of the next message.
    pub(crate) more: Vec<String>,
    /// To tag of the next response, if it is not the usual one.
    pub(crate) branch: Option<String>,
    pub(crate) hops: u32,
    /// Last message sent.
    last: String,
}

impl Peer {
    pub(crate) fn new(b2bua: SocketAddr, socket: UdpSocket) -> Self {
        Self {
            address: socket.local_addr().unwrap(),
            socket,
            b2bua,
            call: CALLS.fetch_add(1, Ordering::Relaxed),
            sequence: 0,
            dialog: None,
            seen: BTreeSet::new(),
            refused: false,
            more: Vec::new(),
            branch: None,
            hops: 70,
            last: String::new(),
        }
    }

    /// Waits for a message with this method or status. Other messages are skipped.
    pub(crate) fn expect(&mut self, start: &str) -> Message {
        let until = Instant::now() + PATIENCE;
        let mut others = Vec::new();
        while Instant::now() < until {
            match self.receive(until - Instant::now()) {
                Some(message) if message.is(start) => return message,
                Some(message) => others.push(message.0.lines().next().unwrap().to_owned()),
                None => break,
            }
        }
        panic!("no {start}, but {others:?}");
    }

    /// Returns the next message, which must have this method or status. Provisional responses are skipped.
    pub(crate) fn expect_next(&mut self, start: &str) -> Message {
        loop {
            let message = self
                .receive(PATIENCE)
                .unwrap_or_else(|| panic!("no {start}"));
            if message.is(start) {
                return message;
            }
            assert!(
                message.0.starts_with("SIP/2.0 1"),
                "no {start}, but {message:?}"
            );
        }
    }

    /// Returns the next message, if one arrives in time.
    pub(crate) fn next_within(&mut self, within: Duration) -> Option<Message> {
        self.receive(within)
    }

    /// Returns whether a message with this method or status arrives in time. Others are skipped.
    pub(crate) fn receives(&mut self, start: &str, within: Duration) -> bool {
        let until = Instant::now() + within;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            match self.receive(left) {
                Some(message) if message.is(start) => return true,
                Some(_) => {}
                None => return false,
            }
        }
        false
    }

    fn receive(&mut self, within: Duration) -> Option<Message> {
        let mut buffer = [0; 8192];
        loop {
            let within = within.max(Duration::from_millis(1));
            self.socket.set_read_timeout(Some(within)).unwrap();
            let length = self.socket.recv(&mut buffer).ok()?;
            let message = Message(String::from_utf8(buffer[..length].to_vec()).unwrap());
            // Retransmissions are skipped.
            let branch = message.header("Via").to_owned();
            let start = message.0.lines().next().unwrap();
            if self.seen.insert(format!("{branch} {start}")) {
                match start.strip_prefix("SIP/2.0 ").map(|status| &status[..1]) {
                    None | Some("1") => {}
                    Some(class) => self.refused = class != "2",
                }
                return Some(message);
            }
        }
    }

    /// Waits for a message with this method or status, also if it is a retransmission.
    pub(crate) fn expect_again(&mut self, start: &str) -> Message {
        self.seen.clear();
        self.expect(start)
    }

    /// Forgets the call, so that another one can begin.
    pub(crate) fn fresh(&mut self) {
        self.call = CALLS.fetch_add(1, Ordering::Relaxed);
        self.dialog = None;
    }

    /// Uses a dialog that does not exist.
    pub(crate) fn forget(&mut self) {
        if let Some([_, _, id, _]) = &mut self.dialog {
            id.push_str("-other");
        }
    }

    /// Stops receiving: the socket accepts only datagrams of a port that nothing uses.
    pub(crate) fn stop_receiving(&self) {
        self.socket.connect("127.0.0.1:9").unwrap();
    }

    /// Sends octets as they are.
    pub(crate) fn send(&mut self, octets: &[u8]) {
        self.socket.send_to(octets, self.b2bua).unwrap();
    }

    /// Sends the last message again.
    pub(crate) fn repeat(&mut self) {
        let last = self.last.clone();
        self.send(last.as_bytes());
    }

    /// Sends the last message again with another branch, as if a proxy had forked it.
    pub(crate) fn repeat_with_other_branch(&mut self) {
        let other = self
            .last
            .replacen("branch=z9hG4bK", "branch=z9hG4bK-other", 1);
        self.send(other.as_bytes());
    }

    fn compose(&mut self, first: &str, headers: &[String], body: &str) {
        let mut text = format!("{first}\r\n");
        let more = std::mem::take(&mut self.more);
        for header in headers.iter().chain(&more) {
            write!(text, "{header}\r\n").unwrap();
        }
        let typed = more.iter().any(|header| header.starts_with("Content-Type"));
        let kind = if body.is_empty() || typed {
            ""
        } else {
            "Content-Type: application/sdp\r\n"
        };
        write!(text, "{kind}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        self.last = text;
        self.repeat();
    }

    /// Sends an INVITE for a call.
    pub(crate) fn invite(&mut self, body: &str) {
        self.begin("INVITE", body);
    }

    /// Begins another call. Returns the INVITE that the other side receives.
    pub(crate) fn fresh_invite(&mut self, other: &mut Self) -> Message {
        self.fresh();
        other.fresh();
        self.invite(&audio("10.0.0.1", 4000));
        other.expect("INVITE")
    }

    /// Sends a request outside of a dialog.
    pub(crate) fn begin(&mut self, method: &str, body: &str) {
        let from = format!("<sip:anna@{}>;tag=a{}", self.address, self.call);
        let to = format!("<sip:bert@{}>", self.b2bua);
        let id = format!("call-{}-{}", std::process::id(), self.call);
        let target = format!("sip:bert@{}", self.b2bua);
        self.dialog = Some([from, to, id, target]);
        self.request(method, body);
    }

    /// Sends a request in the dialog. ACK and CANCEL have the `CSeq` number of the request before.
    pub(crate) fn request(&mut self, method: &str, body: &str) {
        if !matches!(method, "ACK" | "CANCEL") {
            self.sequence += 1;
        }
        let [from, to, id, target] = self.dialog.clone().unwrap();
        let branch = match method {
            "CANCEL" => "INVITE",
            // Part of the transaction that was refused (RFC 3261, section 17.1.1.3).
            "ACK" if self.refused => "INVITE",
            other => other,
        };
        let headers = [
            format!(
                "Via: SIP/2.0/UDP {};branch=z9hG4bK-{}-{}-{branch}",
                self.address, self.call, self.sequence
            ),
            format!("From: {from}"),
            format!("To: {to}"),
            format!("Call-ID: {id}"),
            format!("CSeq: {} {method}", self.sequence),
            format!("Contact: <sip:me@{}>", self.address),
            format!("Max-Forwards: {}", self.hops),
        ];
        self.compose(&format!("{method} {target} SIP/2.0"), &headers, body);
    }

    /// Creates the dialog from a response to an INVITE.
    pub(crate) fn join(&mut self, answer: &Message) {
        let [from, _, id, _] = self.dialog.clone().unwrap();
        let to = answer.header("To").to_owned();
        self.dialog = Some([from, to, id, answer.uri("Contact")]);
    }

    /// Creates the dialog from a 2xx to an INVITE, and sends the ACK.
    pub(crate) fn confirm(&mut self, answer: &Message) {
        self.confirm_with(answer, "");
    }

    /// Creates the dialog from a 2xx to an INVITE, and sends an ACK with a body.
    pub(crate) fn confirm_with(&mut self, answer: &Message, body: &str) {
        self.join(answer);
        self.request("ACK", body);
    }

    /// Sends the ACK of a 2xx to a re-INVITE, with a body.
    pub(crate) fn acknowledge(&mut self, answer: &Message, body: &str) {
        let number = answer.header("CSeq").split(' ').next().unwrap();
        let last = std::mem::replace(&mut self.sequence, number.parse().unwrap());
        self.request("ACK", body);
        self.sequence = last;
    }

    /// Expects a BYE and answers it.
    pub(crate) fn expect_bye(&mut self) -> Message {
        let bye = self.expect("BYE");
        self.answer(&bye, "200 OK", "");
        bye
    }

    /// Answers a request.
    pub(crate) fn answer(&mut self, request: &Message, status: &str, body: &str) {
        let mut to = request.header("To").to_owned();
        if !to.contains(";tag=") {
            let usual = format!("b{}", self.call);
            to = format!("{to};tag={}", self.branch.take().unwrap_or(usual));
        }
        if request.is("INVITE") && self.dialog.is_none() && status.starts_with('2') {
            let from = request.header("From").to_owned();
            let id = request.header("Call-ID").to_owned();
            self.dialog = Some([to.clone(), from, id, request.uri("Contact")]);
        }
        let headers = [
            format!("Via: {}", request.header("Via")),
            format!("From: {}", request.header("From")),
            format!("To: {to}"),
            format!("Call-ID: {}", request.header("Call-ID")),
            format!("CSeq: {}", request.header("CSeq")),
            format!("Contact: <sip:me@{}>", self.address),
        ];
        self.compose(&format!("SIP/2.0 {status}"), &headers, body);
    }
}

/// Session description of one audio stream.
pub(crate) fn audio(address: &str, port: u16) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 {address}\r\ns=-\r\nc=IN IP4 {address}\r\nt=0 0\r\nm=audio {port} RTP/AVP 0\r\n"
    )
}

/// Session description of an audio and a video stream.
pub(crate) fn audio_and_video(address: &str, port: u16) -> String {
    format!(
        "{}m=video {} RTP/AVP 96\r\n",
        audio(address, port),
        port + 2
    )
}
