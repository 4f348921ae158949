//! Key management by TLS 1.3 handshakes over messages of the association
//! (draft-porfiri-tsvwg-sctp-dtls-handshake).
//!
//! ```text
//! T (1 bit) | epoch (7 bits) | TLS records (T = 0), or a control message (T = 1)
//! ```
//!
//! The contexts in the comments are those of [`KeyContexts`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use carrick_proto::Time;
use carrick_proto::export::{ExportReader, ExportWriter, ImportError, Portable};
use carrick_proto::protection::KeyManagementState;

use crate::cipher::KeyMaterial;
use crate::contexts::{FIRST_EPOCH, KeyContexts, KeySet};
use crate::derive::SetupParameters;
use crate::handshake::{
    DirectionKeys, Handshake, TlsConfigs, is_client_hello, is_hello_retry_request,
};
use crate::parameter::{Agreement, Role};
use crate::trust::PeerIdentity;

/// T bit of a message: it is a control message.
const CONTROL: u8 = 0x80;

/// Control message "Protection Established" (section 4.1.1).
const PROTECTION_ESTABLISHED: u8 = 1;

/// Time for which keys of the previous epoch are kept for packets in flight: until SCTP has ended
/// the association because of the last handshake message, whose delivery is not observed (section 6.2.3).
const DRAIN: Duration = Duration::from_secs(303);

/// Pause before a handshake for new keys that failed is repeated.
const RETRY: Duration = Duration::from_secs(10);

/// Time before the end of a certificate's validity at which a handshake replaces it.
const BEFORE_EXPIRY: Duration = Duration::from_secs(600);

/// Configuration of the key management.
#[derive(Debug)]
pub(crate) struct KeyManagerConfig {
    pub(crate) tls: TlsConfigs,
    pub(crate) rekey_after: Duration,
    pub(crate) rekey_bytes: u64,
    pub(crate) handshake_timeout: Duration,
    /// End of the validity of this side's certificates in seconds since 1970.
    pub(crate) expiry: Option<u64>,
}

/// Handshake for the keys of an epoch.
#[derive(Debug)]
struct Exchange {
    epoch: u64,
    handshake: Handshake,
    /// Time at which it counts as failed.
    deadline: Time,
    /// Its keys for receiving are installed.
    is_installed: bool,
    /// The server of TLS has requested another `ClientHello` (RFC 8446, section 4.1.4).
    retry_requested: bool,
}

/// Key management of an association.
#[derive(Debug)]
pub(crate) struct KeyManager {
    config: Arc<KeyManagerConfig>,
    agreement: Agreement,
    parameters: SetupParameters,
    state: KeyManagementState,
    /// Epoch of the keys in use; the one before the first if there are none.
    epoch: u64,
    exchange: Option<Exchange>,
    /// Keys for sending of the next epoch, which the client of TLS uses once the server has the same (section 6.1, step
    /// 12). They outlast the deadline of their handshake, since the server may have changed to them.
    unconfirmed: Option<DirectionKeys>,
    messages: VecDeque<Vec<u8>>,
    peer: Option<PeerIdentity>,
    /// Time at which keys have to be replaced.
    rekey_at: Option<Time>,
    /// Time at which keys that could not be replaced end the association.
    expires_at: Option<Time>,
    /// Time at which contexts below [`Self::epoch`] are removed.
    drained_at: Option<Time>,
    /// Bytes that all contexts had protected and opened when the keys in use were installed.
    bytes_before: u64,
    /// Reason why the last handshake for new keys failed.
    last_failure: Option<String>,
    /// Messages of the peer that were of no use.
    ignored: u64,
}

impl KeyManager {
    pub(crate) fn new(
        config: Arc<KeyManagerConfig>,
        agreement: Agreement,
        parameters: SetupParameters,
    ) -> Self {
        Self {
            config,
            agreement,
            parameters,
            state: KeyManagementState::Pending,
            epoch: FIRST_EPOCH - 1,
            exchange: None,
            unconfirmed: None,
            messages: VecDeque::new(),
            peer: None,
            rekey_at: None,
            expires_at: None,
            drained_at: None,
            bytes_before: 0,
            last_failure: None,
            ignored: 0,
        }
    }

    pub(crate) fn state(&self) -> KeyManagementState {
        self.state.clone()
    }

    /// Returns the number of the peer's messages that were of no use.
    pub(crate) fn ignored(&self) -> u64 {
        self.ignored
    }

    pub(crate) fn poll_message(&mut self) -> Option<Vec<u8>> {
        self.messages.pop_front()
    }

    /// Begins the first handshake, or waits for it (section 6.1, step 4).
    pub(crate) fn start(&mut self, now: Time) {
        match self.agreement.role {
            Role::Client => self.begin(now),
            Role::Server => self.expires_at = Some(now + self.config.handshake_timeout),
        }
    }

    /// Begins at the side that restarts the association with stored keys (section 6.3.2, steps 6 to 8): those
    /// protect its packets until there are new ones.
    pub(crate) fn start_restarted(&mut self, now: Time) {
        self.state = KeyManagementState::Established;
        self.start(now);
        self.expires_at = Some(now + 2 * self.config.rekey_after);
    }

    /// Begins again after a restart of the association with the parameters of its set-up: `is_protected` if it has
    /// restart contexts (section 6.3.2, steps 6 to 8).
    pub(crate) fn restart(
        &mut self,
        now: Time,
        agreement: Agreement,
        parameters: SetupParameters,
        is_protected: bool,
    ) {
        let peer = self.peer.take().filter(|_| is_protected);
        *self = Self {
            peer,
            ..Self::new(Arc::clone(&self.config), agreement, parameters)
        };
        if is_protected {
            self.start_restarted(now);
        } else {
            self.start(now);
        }
    }

    /// Begins a handshake as client of TLS for the next epoch (section 6.2.2, step 1).
    fn begin(&mut self, now: Time) {
        match self.config.tls.begin(Role::Client) {
            Ok(handshake) => {
                self.rekey_at = None;
                self.exchange = Some(self.exchange(now, handshake));
                self.send_records();
            }
            Err(reason) => self.fail(now, reason),
        }
    }

    fn is_retry_requested(&self) -> bool {
        let exchange = self.exchange.as_ref();
        exchange.is_some_and(|exchange| exchange.retry_requested)
    }

    fn exchange(&self, now: Time, handshake: Handshake) -> Exchange {
        Exchange {
            epoch: self.epoch + 1,
            handshake,
            deadline: now + self.config.handshake_timeout,
            is_installed: false,
            retry_requested: false,
        }
    }

    /// Queues the TLS records of the handshake as a message.
    fn send_records(&mut self) {
        if let Some(exchange) = &mut self.exchange {
            let records = exchange.handshake.records();
            if !records.is_empty() {
                exchange.retry_requested = is_hello_retry_request(&records);
                let front = exchange.epoch as u8 & !CONTROL;
                self.messages.push_back([&[front], &records[..]].concat());
            }
        }
    }

    /// Processes a message of the peer; messages of other epochs and unknown ones are ignored.
    pub(crate) fn on_message(&mut self, now: Time, message: &[u8], contexts: &mut KeyContexts) {
        let Some((front, payload)) = message.split_first() else {
            self.ignored += 1;
            return;
        };
        if front & !CONTROL != (self.epoch + 1) as u8 & !CONTROL {
            self.ignored += 1;
        } else if front & CONTROL == 0 {
            self.on_records(now, payload, contexts);
        } else if payload.first() == Some(&PROTECTION_ESTABLISHED) {
            self.on_protection_established(now, contexts);
        } else {
            self.ignored += 1;
        }
    }

    /// Processes TLS records.
    ///
    /// 1. A `ClientHello` begins a handshake. If this side has begun one as well, that of the client of the key
    ///    management continues (section 6.2.4).
    /// 2. Pass the records to TLS.
    /// 3. Refuse a peer that is another one than in the handshake before (section 3.3).
    /// 4. Install the keys, once the handshake is complete.
    fn on_records(&mut self, now: Time, records: &[u8], contexts: &mut KeyContexts) {
        // 1.
        if is_client_hello(records) {
            let own = self
                .exchange
                .as_ref()
                .map(|exchange| exchange.handshake.role());
            let begins = match own {
                None => true,
                Some(Role::Client) => self.agreement.role == Role::Server,
                // The second one of this handshake, or the first one of another, after the peer has ended this one.
                Some(Role::Server) => !self.is_retry_requested(),
            };
            if own == Some(Role::Client) && !begins {
                self.ignored += 1;
                return;
            }
            if begins {
                match self.config.tls.begin(Role::Server) {
                    Ok(handshake) => {
                        self.exchange = Some(self.exchange(now, handshake));
                        if self.state == KeyManagementState::Pending {
                            // The deadline of the handshake counts from here.
                            self.expires_at = None;
                        }
                    }
                    Err(reason) => return self.fail(now, reason),
                }
            }
        }
        let Some(exchange) = &mut self.exchange else {
            self.ignored += 1;
            return;
        };
        // 2.
        if let Err(reason) = exchange.handshake.process(records) {
            self.send_records();
            return self.fail(now, reason);
        }
        if !exchange.handshake.is_complete() || exchange.is_installed {
            return self.send_records();
        }
        // 3.
        let peer = self.config.tls.peer(&exchange.handshake);
        let Some(peer) = peer else {
            return self.fail(now, "the certificate can't be read".into());
        };
        if self
            .peer
            .as_ref()
            .is_some_and(|known| known.digest != peer.digest)
        {
            let reason = "the identity of a side has changed during the association";
            return self.fail(now, reason.into());
        }
        self.peer = Some(peer);
        // 4.
        self.install(now, contexts);
    }

    /// Installs the keys of a complete handshake (sections 6.1 and 6.2.2): both sides those for receiving, and the
    /// server of TLS those for sending. It sends Protection Established, and the client then follows.
    fn install(&mut self, now: Time, contexts: &mut KeyContexts) {
        let Some(exchange) = &mut self.exchange else {
            return;
        };
        let role = exchange.handshake.role();
        let other = match role {
            Role::Client => Role::Server,
            Role::Server => Role::Client,
        };
        let (ours, theirs) = (
            exchange.handshake.export(&self.parameters, role),
            exchange.handshake.export(&self.parameters, other),
        );
        let (Some(ours), Some(theirs)) = (ours, theirs) else {
            return self.fail(now, "the keys can't be exported from TLS".into());
        };
        let epoch = exchange.epoch;
        for (set, material) in wanted(self.agreement, theirs) {
            contexts.install_receive(set, epoch, material);
        }
        exchange.is_installed = true;
        match role {
            Role::Client => {
                self.unconfirmed = Some(ours);
                self.send_records();
            }
            Role::Server => {
                self.send_records();
                self.messages
                    .push_back(vec![epoch as u8 | CONTROL, PROTECTION_ESTABLISHED]);
                self.complete(now, ours, contexts);
            }
        }
    }

    /// The server of TLS has the keys: the client uses them as well (section 6.1, step 12).
    fn on_protection_established(&mut self, now: Time, contexts: &mut KeyContexts) {
        match self.unconfirmed.take() {
            Some(ours) => self.complete(now, ours, contexts),
            None => self.ignored += 1,
        }
    }

    /// Installs the keys for sending, after which nothing is accepted in the clear, and ends the handshake.
    fn complete(&mut self, now: Time, ours: DirectionKeys, contexts: &mut KeyContexts) {
        let epoch = self.epoch + 1;
        for (set, material) in wanted(self.agreement, ours) {
            contexts.install_send(set, epoch, material);
        }
        contexts.require_protection();
        self.epoch = epoch;
        self.exchange = None;
        self.unconfirmed = None;
        self.last_failure = None;
        self.state = KeyManagementState::Established;
        self.bytes_before = contexts.bytes();
        self.drained_at = Some(now + DRAIN);
        self.expires_at = Some(now + 2 * self.config.rekey_after);
        // Later at the server of the key management: two handshakes at the same time are an exception.
        let age = match self.agreement.role {
            Role::Client => self.config.rekey_after,
            Role::Server => self.config.rekey_after + self.config.rekey_after / 8,
        };
        let age = self.before_expiry().map_or(age, |until| until.min(age));
        self.rekey_at = Some(now + age);
    }

    /// Returns the time until a handshake shows the peer's certificate again before it ends; `None` if it does not end,
    /// or so soon that no handshake can be repeated.
    fn before_expiry(&self) -> Option<Duration> {
        let of_peer = self.peer.as_ref().and_then(|peer| peer.expiry);
        let first = self.config.expiry.into_iter().chain(of_peer).min()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        let left = Duration::from_secs(first).saturating_sub(now);
        left.checked_sub(BEFORE_EXPIRY).filter(|left| *left > RETRY)
    }

    /// Begins a handshake for new keys if the limits of the present ones are near (section 6.2.1).
    pub(crate) fn check_limits(&mut self, now: Time, contexts: &KeyContexts) {
        let is_in_use = self.epoch >= FIRST_EPOCH && self.exchange.is_none();
        let bytes = contexts.bytes().saturating_sub(self.bytes_before);
        // After a handshake that failed, the next one waits for its time.
        let waits = self.rekey_at.is_some_and(|at| at <= now + RETRY);
        if is_in_use && !waits && (bytes >= self.config.rekey_bytes || contexts.is_half_used()) {
            self.begin(now);
        }
    }

    /// Begins a handshake for new keys now. Returns `false` while there are no keys, or while a handshake is in
    /// progress.
    pub(crate) fn rekey(&mut self, now: Time) -> bool {
        let begins = self.epoch >= FIRST_EPOCH && self.exchange.is_none();
        if begins {
            self.begin(now);
        }
        begins
    }

    /// Ends the handshake that failed. Without keys this ends the association; else the handshake is repeated
    /// (section 7).
    fn fail(&mut self, now: Time, reason: String) {
        self.exchange = None;
        if self.state == KeyManagementState::Pending {
            self.state = KeyManagementState::Failed(reason);
        } else {
            self.last_failure = Some(reason);
            self.rekey_at = Some(now + RETRY);
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let deadline = self.exchange.as_ref().map(|exchange| exchange.deadline);
        let rekey = self.rekey_at.filter(|_| self.exchange.is_none());
        let timers = [deadline, rekey, self.expires_at, self.drained_at];
        timers.into_iter().flatten().min()
    }

    /// Handles the timers that have expired.
    pub(crate) fn handle_timeout(&mut self, now: Time, contexts: &mut KeyContexts) {
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if is_due(self.drained_at) {
            self.drained_at = None;
            contexts.remove_below(self.epoch);
        }
        if is_due(self.exchange.as_ref().map(|exchange| exchange.deadline)) {
            let limit = self.config.handshake_timeout;
            self.fail(
                now,
                format!("the peer has not completed the handshake within {limit:?}"),
            );
        }
        if is_due(self.expires_at) {
            self.expires_at = None;
            let reason = if self.state == KeyManagementState::Pending {
                let limit = self.config.handshake_timeout;
                format!("the peer has begun no handshake within {limit:?}")
            } else {
                let limit = 2 * self.config.rekey_after;
                let last = self.last_failure.take();
                let last = last.map(|reason| format!(": {reason}")).unwrap_or_default();
                format!("no new keys were agreed on within {limit:?}{last}")
            };
            self.state = KeyManagementState::Failed(reason);
        } else if is_due(self.rekey_at) && self.exchange.is_none() {
            self.begin(now);
        }
    }

    /// Appends the state for another process. A handshake in progress does not travel: the first one fails, and
    /// others are repeated. Keys that the peer may use already do.
    pub(crate) fn write(&self, out: &mut ExportWriter) {
        self.parameters.write(out);
        (self.agreement.role == Role::Client).write(out);
        (self.agreement.method.0, self.agreement.restart).write(out);
        (self.state == KeyManagementState::Established).write(out);
        self.epoch.write(out);
        let peer = self.peer.as_ref().map(|peer| (peer.digest.0, peer.expiry));
        peer.write(out);
        (self.rekey_at, self.expires_at, self.drained_at).write(out);
        self.bytes_before.write(out);
        self.messages.write(out);
        let unconfirmed = self.unconfirmed.as_ref();
        unconfirmed.is_some().write(out);
        for (_, material) in unconfirmed.into_iter().flatten() {
            material.write(out);
        }
    }

    /// Reads what [`Self::write`] appended.
    pub(crate) fn read(
        config: Arc<KeyManagerConfig>,
        input: &mut ExportReader<'_>,
    ) -> Result<Self, ImportError> {
        let parameters = Portable::read(input)?;
        let is_client = bool::read(input)?;
        let (method, restart) = Portable::read(input)?;
        let role = if is_client {
            Role::Client
        } else {
            Role::Server
        };
        let agreement = Agreement {
            role,
            method: crate::Method(method),
            restart,
        };
        let mut read = Self::new(config, agreement, parameters);
        if bool::read(input)? {
            read.state = KeyManagementState::Established;
        } else {
            let reason = "the first handshake was interrupted by a handover";
            read.state = KeyManagementState::Failed(reason.into());
        }
        read.epoch = Portable::read(input)?;
        let peer: Option<([u8; 32], Option<u64>)> = Portable::read(input)?;
        read.peer = peer.map(|(digest, expiry)| PeerIdentity {
            digest: carrick_dtls::Fingerprint(digest),
            expiry,
        });
        (read.rekey_at, read.expires_at, read.drained_at) = Portable::read(input)?;
        read.bytes_before = Portable::read(input)?;
        read.messages = Portable::read(input)?;
        if bool::read(input)? {
            let (primary, restart) = (Portable::read(input)?, Portable::read(input)?);
            read.unconfirmed = Some([(KeySet::Primary, primary), (KeySet::Restart, restart)]);
        }
        // That of an interrupted handshake.
        read.rekey_at = read.rekey_at.or(Some(input.now() + RETRY));
        Ok(read)
    }
}

/// Returns the keys of a direction that are installed: those for a restart only if both sides support it.
fn wanted(
    agreement: Agreement,
    keys: DirectionKeys,
) -> impl Iterator<Item = (KeySet, KeyMaterial)> {
    let all = keys.into_iter();
    all.filter(move |(set, _)| agreement.restart || *set == KeySet::Primary)
}
