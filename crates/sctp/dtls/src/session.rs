//! One DTLS connection.

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use carrick_proto::Time;
use carrick_proto::sessions::{PacketSession, SessionState};
use dimpl::{Output, UnexpectedMessageError};

use crate::certificate::Fingerprint;
use crate::config::Trust;
use crate::error::DtlsError;
use crate::records::{
    HANDSHAKE, HandshakeRecords, Peer, RECORD_HEADER, SERVER_HELLO, client_hello,
};

/// Maximum number of datagrams that wait to be sent: more than the longest flight.
const MAX_WAITING: usize = 32;

/// Maximum length of a record in bytes, its header included.
const MAX_RECORD: usize = 1 << 15;

/// Maximum number of bytes of a client's hellos before it has returned the cookie.
const MAX_UNVALIDATED: usize = 1 << 14;

/// Interval after which a due timer of the library is repeated if it is still due.
const PATIENCE: Duration = Duration::from_millis(10);

/// One DTLS connection.
pub struct DtlsSession {
    dtls: dimpl::Dtls,
    epoch: Instant,
    trust: Trust,
    connects: bool,
    state: SessionState<DtlsError>,
    identity: Option<Fingerprint>,
    /// Random number of the client whose handshake this side answers.
    client: Option<[u8; 32]>,
    /// True if the client has returned the cookie.
    cookie_verified: bool,
    /// DER of the peer's certificate, for a check against a [`Trust`] that is set later.
    certificate: Vec<u8>,
    /// The peer is refused, and gets an alert once records are encrypted.
    refused: Option<DtlsError>,
    /// Request for the cookie, which is sent once for each `ClientHello` without it (RFC 9147, section 5.1).
    cookie_request: Vec<Vec<u8>>,
    /// Bytes of the client's hellos before it has returned the cookie.
    unvalidated: usize,
    /// Error that records in plain text caused, which may be forged: the reason if the handshake times out.
    suspected: Option<DtlsError>,
    waiting: VecDeque<Vec<u8>>,
    wake: Option<Time>,
    buffer: Vec<u8>,
}

impl fmt::Debug for DtlsSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DtlsSession")
            .field("state", &self.state)
            .field("connects", &self.connects)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// Output of the library that is not for the session itself.
enum LibraryOutput {
    Nothing,
    Peer(Vec<u8>),
    Connected,
    Closed,
    Larger(usize),
    Done,
}

impl DtlsSession {
    pub(crate) fn new(
        now: Time,
        mut dtls: dimpl::Dtls,
        epoch: Instant,
        trust: Trust,
        connects: bool,
    ) -> Self {
        if connects {
            dtls.set_active(true);
        }
        let mut session = Self {
            dtls,
            epoch,
            trust,
            connects,
            state: SessionState::Handshake,
            identity: None,
            client: None,
            cookie_verified: false,
            certificate: Vec::new(),
            refused: None,
            cookie_request: Vec::new(),
            unvalidated: 0,
            suspected: None,
            waiting: VecDeque::new(),
            wake: None,
            buffer: vec![0; 2048],
        };
        session.advance(now, &mut Vec::new());
        session
    }

    /// Returns whether the peer is trusted, or has to be trusted after the handshake.
    pub(crate) fn leads_to(&self, trust: &Trust) -> bool {
        match self.state {
            SessionState::Handshake => self.connects && self.trust.is_same(trust),
            SessionState::Established if self.certificate.is_empty() => trust.is_anyone(),
            SessionState::Established => trust.check(&self.certificate).is_ok(),
            SessionState::Closed | SessionState::Failed(_) => false,
        }
    }

    /// Returns whether the peer is a client that has not returned the cookie.
    fn awaits_cookie(&self) -> bool {
        !self.connects && !self.cookie_verified && self.state == SessionState::Handshake
    }

    fn peer(&self) -> Peer {
        match (self.connects, self.awaits_cookie()) {
            (true, _) => Peer::Server,
            (false, true) => Peer::UnvalidatedClient,
            (false, false) => Peer::Client,
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.state, SessionState::Closed | SessionState::Failed(_))
    }

    /// Ends the session with an error; nothing more is sent.
    fn fail(&mut self, error: DtlsError) {
        self.waiting.clear();
        self.wake = None;
        self.state = SessionState::Failed(error);
    }

    fn instant(&self, now: Time) -> Instant {
        self.epoch + now.since(Time::ZERO)
    }

    /// Advances the library's clock and takes its output.
    fn advance(&mut self, now: Time, packets: &mut Vec<Bytes>) {
        if self.is_over() {
            return;
        }
        match self.dtls.handle_timeout(self.instant(now)) {
            Ok(()) => self.drain(now, packets),
            Err(error) => {
                let error = DtlsError::from(error);
                let suspected = self.suspected.take();
                self.fail(match suspected {
                    Some(suspected) if error == DtlsError::TimedOut => suspected,
                    _ => error,
                });
            }
        }
    }

    /// Processes a datagram during the handshake, in which records in plain text may be forged: none of them
    /// ends it (RFC 6347, section 4.1.2.7), but an invalid `ClientHello` is not replied to.
    fn advance_handshake(&mut self, now: Time, datagram: &[u8], packets: &mut Vec<Bytes>) {
        let awaits_cookie = self.awaits_cookie();
        if awaits_cookie {
            if self.repeats_cookie_request(datagram) {
                return;
            }
            // The library's retransmissions of the request.
            self.waiting.clear();
        }
        let records = HandshakeRecords::of(datagram, self.peer());
        if let Some(description) = records.alert {
            self.suspected = Some(DtlsError::PeerAlert(description));
        }
        if records.accepted.is_empty() {
            return;
        }
        if awaits_cookie {
            self.unvalidated += records.accepted.len();
            if self.unvalidated > MAX_UNVALIDATED {
                return self.fail(DtlsError::Peer("its ClientHello is too long".into()));
            }
        }
        match self.dtls.handle_packet(&records.accepted) {
            // Before the server has selected a version, a datagram may come from any sender.
            Ok(())
            | Err(dimpl::Error::UnexpectedMessage(
                UnexpectedMessageError::UnrecognizedAutoServerResponse,
            )) => {}
            Err(error) if !records.plain || awaits_cookie => return self.fail(error.into()),
            Err(error) => self.suspected = Some(error.into()),
        }
        self.drain(now, packets);
        if self.awaits_cookie() && !self.waiting.is_empty() {
            self.cookie_request = self.waiting.iter().cloned().collect();
        }
    }

    /// Queues the request for the cookie again if a `ClientHello` without it is repeated. Returns whether
    /// the datagram was a part of such a `ClientHello`.
    fn repeats_cookie_request(&mut self, datagram: &[u8]) -> bool {
        let Some(hello) = client_hello(datagram).filter(|hello| hello.number == 0) else {
            return false;
        };
        if hello.offset == 0 {
            self.waiting = self.cookie_request.iter().cloned().collect();
        }
        !self.cookie_request.is_empty()
    }

    fn drain(&mut self, now: Time, packets: &mut Vec<Bytes>) {
        loop {
            match self.poll(now, packets) {
                LibraryOutput::Nothing => {}
                LibraryOutput::Done => break,
                LibraryOutput::Larger(needed) if needed <= MAX_RECORD => {
                    self.buffer.resize(needed, 0)
                }
                LibraryOutput::Larger(_) => {
                    return self.fail(DtlsError::Peer("a record is too large".into()));
                }
                LibraryOutput::Peer(certificate) => {
                    self.check_trust(certificate);
                    if self.is_over() {
                        return;
                    }
                }
                LibraryOutput::Connected => self.connected(),
                LibraryOutput::Closed => {
                    // The peer's alert is answered with an alert; its delivery does not matter.
                    let _ = self.dtls.close();
                    if !self.is_over() {
                        self.state = SessionState::Closed;
                    }
                }
            }
        }
    }

    fn poll(&mut self, now: Time, packets: &mut Vec<Bytes>) -> LibraryOutput {
        let mut buffer = std::mem::take(&mut self.buffer);
        let polled = match self.dtls.poll_output(&mut buffer) {
            Output::Packet(datagram) => {
                self.cookie_verified |= !self.connects && follows_cookie(datagram);
                if self.waiting.len() < MAX_WAITING {
                    self.waiting.push_back(datagram.to_vec());
                }
                LibraryOutput::Nothing
            }
            Output::ApplicationData(packet) => {
                if self.state == SessionState::Established {
                    packets.push(Bytes::copy_from_slice(packet));
                }
                LibraryOutput::Nothing
            }
            Output::BufferTooSmall { needed } => LibraryOutput::Larger(needed),
            Output::Timeout(at) => {
                let wanted = at.checked_duration_since(self.epoch);
                let wanted = Time::ZERO + wanted.unwrap_or_default();
                self.wake = Some(wanted.max(now + PATIENCE)).filter(|_| !self.is_over());
                LibraryOutput::Done
            }
            Output::PeerCert(certificate) => LibraryOutput::Peer(certificate.to_vec()),
            Output::Connected => LibraryOutput::Connected,
            Output::CloseNotify => LibraryOutput::Closed,
            // Keys for SRTP.
            _ => LibraryOutput::Nothing,
        };
        self.buffer = buffer;
        polled
    }

    fn check_trust(&mut self, certificate: Vec<u8>) {
        let fingerprint = Fingerprint::of(&certificate);
        match self.trust.check(&certificate) {
            Ok(()) => {
                self.identity = Some(fingerprint);
                self.certificate = certificate;
            }
            Err(reason) => {
                let error = DtlsError::PeerRefused {
                    fingerprint,
                    reason,
                };
                if self.connects {
                    // An untrusted peer gets nothing, not even this side's certificate.
                    self.fail(error);
                } else {
                    self.refused = Some(error);
                }
            }
        }
    }

    fn connected(&mut self) {
        if self.identity.is_none() && self.refused.is_none() && !self.trust.is_anyone() {
            self.refused = Some(DtlsError::NoPeerCertificate("the peer sent none".into()));
        }
        match self.refused.take() {
            None => self.state = SessionState::Established,
            Some(error) => {
                // The peer's handshake is complete, so that an encrypted alert can be sent.
                let _ = self.dtls.close();
                self.state = SessionState::Failed(error);
            }
        }
    }
}

/// Returns whether this datagram of a server begins with a `ServerHello`, which answers only a valid cookie,
/// and not with the request for one: `HelloVerifyRequest`, or a `ServerHello` with the random number of
/// `HelloRetryRequest` (RFC 8446 section 4.1.3).
fn follows_cookie(datagram: &[u8]) -> bool {
    /// Offset of the random number, after the headers of the record and of the message, and the version.
    const RANDOM: usize = RECORD_HEADER + 12 + 2;
    const RETRY: [u8; 8] = [0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11];
    let hello = datagram.first() == Some(&HANDSHAKE)
        && datagram.get(3..5) == Some(&[0, 0])
        && datagram.get(RECORD_HEADER) == Some(&SERVER_HELLO)
        && datagram.get(RECORD_HEADER + 6..RECORD_HEADER + 9) == Some(&[0; 3]);
    hello
        && datagram
            .get(RANDOM..RANDOM + 8)
            .is_some_and(|random| random != RETRY)
}

impl PacketSession for DtlsSession {
    type Error = DtlsError;

    fn state(&self) -> SessionState<DtlsError> {
        self.state.clone()
    }

    fn identity(&self) -> Option<&[u8]> {
        self.identity.as_ref().map(|fingerprint| &fingerprint.0[..])
    }

    fn protect(&mut self, now: Time, packet: &[u8], out: &mut Vec<u8>) -> bool {
        if self.state != SessionState::Established {
            return false;
        }
        // Pending output of the library is sent first, so that the next record is this packet.
        let mut packets = Vec::new();
        self.advance(now, &mut packets);
        let before = self.waiting.len();
        if self.is_over() || before >= MAX_WAITING {
            return false;
        }
        if let Err(error) = self.dtls.send_application_data(packet) {
            self.fail(error.into());
            return false;
        }
        self.drain(now, &mut packets);
        match self.waiting.remove(before) {
            Some(datagram) => {
                out.extend_from_slice(&datagram);
                true
            }
            None => false,
        }
    }

    fn is_begun_by(&self, datagram: &[u8]) -> bool {
        let random = client_hello(datagram).and_then(|hello| hello.random());
        match (self.client, random) {
            (Some(known), Some(random)) => known == random,
            (None, _) => !self.connects || self.state == SessionState::Handshake,
            (Some(_), None) => true,
        }
    }

    fn has_validated_address(&self) -> bool {
        self.cookie_verified || self.state == SessionState::Established
    }

    fn handle_datagram(&mut self, now: Time, datagram: &[u8], packets: &mut Vec<Bytes>) {
        self.advance(now, packets);
        if self.is_over() {
            return;
        }
        if !self.connects && self.client.is_none() {
            self.client = client_hello(datagram).and_then(|hello| hello.random());
        }
        if self.state == SessionState::Handshake {
            return self.advance_handshake(now, datagram, packets);
        }
        match self.dtls.handle_packet(datagram) {
            Ok(()) => self.drain(now, packets),
            Err(error) => self.fail(error.into()),
        }
    }

    fn poll_datagram(&mut self, _: Time, out: &mut Vec<u8>) -> bool {
        let next = self.waiting.pop_front();
        if let Some(datagram) = &next {
            out.extend_from_slice(datagram);
        }
        next.is_some()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.wake
            .filter(|_| !self.is_over() && !self.awaits_cookie())
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.awaits_cookie() {
            return;
        }
        self.advance(now, &mut Vec::new());
    }

    fn close(&mut self, now: Time) {
        self.advance(now, &mut Vec::new());
        if self.is_over() {
            return;
        }
        // No alert is sent during a handshake.
        let _ = self.dtls.close();
        self.drain(now, &mut Vec::new());
        self.wake = None;
        if !self.is_over() {
            self.state = SessionState::Closed;
        }
    }
}
