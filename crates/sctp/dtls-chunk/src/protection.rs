//! The protection of one association: its key contexts, and what agrees on their keys.

use std::sync::Arc;

use carrick_proto::export::{ExportReader, ExportWriter, Format, ImportError, Portable};
use carrick_proto::protection::{ChunkProtection, KeyManagementState, Offers, PacketContext, Seal};
use carrick_proto::{ChunkType, Time};
use carrick_wire::CauseCode;

use crate::cipher::KeyMaterial;
use crate::contexts::{FIRST_EPOCH, KeyContexts, KeySet, NotSealed, R_BIT};
use crate::derive::SetupParameters;
use crate::key_manager::KeyManager;
use crate::offer::{DTLS, ReadyKeySource, Shared};
use crate::parameter::{Agreement, KeyManagementParameter, Role};
use crate::restart_keys::RestartKeys;

const FORMAT: Format = Format::new(*b"CARR-DTC");

/// Protection of an association by the DTLS chunk.
#[derive(Debug)]
pub struct DtlsProtection {
    shared: Shared,
    agreement: Agreement,
    contexts: KeyContexts,
    keys: Keys,
}

/// Key management of an association.
#[derive(Debug)]
enum Keys {
    /// Handshakes of TLS.
    Tls(Box<KeyManager>),
    /// Keys of a pre-shared secret, derived at set-up.
    PreShared(PreShared),
    /// The peer restarted with parameters that do not fit: the association is to be aborted.
    Refused(String),
}

/// State of keys of a pre-shared secret.
///
/// The client of the key management protects its packets once the association is established, and its first one
/// shows the server that both have the keys. Until then the server accepts COOKIE ECHO again, in the clear.
#[derive(Debug)]
enum PreShared {
    /// Keys for sending, which are not in use.
    Ready(Vec<(KeySet, KeyMaterial)>),
    /// The keys are in use; a message for the peer may wait.
    InUse { notice: bool },
}

/// Message with which the client shows that it has the keys of a pre-shared secret: Protection Established of the
/// first epoch (draft-porfiri-tsvwg-sctp-dtls-handshake, section 4.1.1).
const NOTICE: [u8; 2] = [0x80 | FIRST_EPOCH as u8, 1];

impl DtlsProtection {
    pub(crate) fn new(shared: Shared, agreement: Agreement, offers: &Offers<'_>) -> Self {
        let mut contexts = KeyContexts::default();
        contexts.set_window(shared.replay_window());
        let restart_keys = shared.take_restart_keys().filter(|_| offers.initiated);
        if let Some(keys) = restart_keys {
            keys.install(&mut contexts);
        }
        let parameters = SetupParameters::new(agreement.role, offers.ours, offers.theirs);
        let keys = Keys::new(&shared, agreement, parameters, &mut contexts);
        Self {
            shared,
            agreement,
            contexts,
            keys,
        }
    }

    /// Makes a protection without keys, which ends the association.
    pub(crate) fn refused(shared: Shared, refusal: CauseCode) -> Self {
        let agreement = Agreement {
            role: Role::Server,
            method: crate::Method::PRE_SHARED,
            restart: false,
        };
        Self {
            shared,
            agreement,
            contexts: KeyContexts::default(),
            keys: Keys::Refused(refusal.to_string()),
        }
    }

    /// Returns the agreement of both sides: role and method (abstract API, section 7.2).
    pub fn agreement(&self) -> Agreement {
        self.agreement
    }

    /// Returns the epoch of the keys that protect packets; `None` without keys, or with those for a restart.
    pub fn epoch(&self) -> Option<u64> {
        self.contexts.epoch()
    }

    /// Returns the numbers of records of an epoch: protected, opened, not authentic (abstract API, sections 7.10 to
    /// 7.12).
    pub fn records(&self, set: KeySet, epoch: u64) -> (u64, u64, u64) {
        self.contexts.records(set, epoch)
    }

    /// Returns the number of key management messages of the peer that were of no use.
    pub fn ignored_key_messages(&self) -> u64 {
        match &self.keys {
            Keys::Tls(manager) => manager.ignored(),
            Keys::PreShared(_) | Keys::Refused(_) => 0,
        }
    }

    /// Sets the size of the replay windows in records, 64 to 65536 (abstract API, section 7.13).
    pub fn set_replay_window(&mut self, records: u32) {
        self.contexts.set_window(records);
    }

    /// Begins a handshake for new keys at once. Returns `false` if one is in progress, or if the keys are pre-shared.
    pub fn rekey(&mut self, now: Time) -> bool {
        match &mut self.keys {
            Keys::Tls(manager) => manager.rekey(now),
            Keys::PreShared(_) | Keys::Refused(_) => false,
        }
    }

    /// Returns the keys with which this side can restart the association after it has lost its state; `None` if
    /// there are none, or if they have been used. They change with the keys of the association ([`Self::epoch`]).
    pub fn restart_keys(&self) -> Option<RestartKeys> {
        RestartKeys::of(&self.contexts)
    }

    /// Restores the state of [`ChunkProtection::export`].
    pub(crate) fn import(shared: Shared, now: Time, state: &[u8]) -> Result<Self, ImportError> {
        let mut input = FORMAT.open(state, now, None)?;
        let input = &mut input;
        let contexts = KeyContexts::read(input)?;
        let (is_client, method, restart): (bool, u8, bool) = Portable::read(input)?;
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
        let keys = match u8::read(input)? {
            0 => match shared.source(agreement.method) {
                Some(ReadyKeySource::Tls(config)) => {
                    Keys::Tls(Box::new(KeyManager::read(Arc::clone(config), input)?))
                }
                _ => return Err(ImportError::Malformed("Keys")),
            },
            1 => Keys::PreShared(PreShared::read(input)?),
            2 => Keys::Refused(String::from_utf8_lossy(input.octets()?).into_owned()),
            _ => return Err(ImportError::Malformed("Keys")),
        };
        input.finish()?;
        Ok(Self {
            shared,
            agreement,
            contexts,
            keys,
        })
    }

    /// Puts the keys of a pre-shared secret into use.
    fn use_pre_shared(&mut self) {
        if let Keys::PreShared(keys) = &mut self.keys {
            let notice = self.agreement.role == Role::Client;
            if let PreShared::Ready(materials) =
                std::mem::replace(keys, PreShared::InUse { notice })
            {
                for (set, material) in materials {
                    self.contexts.install_send(set, FIRST_EPOCH, material);
                }
                self.contexts.require_protection();
            }
        }
    }
}

impl PreShared {
    fn write(&self, out: &mut ExportWriter) {
        match self {
            Self::Ready(materials) => {
                true.write(out);
                materials.len().write(out);
                for (set, material) in materials {
                    (*set == KeySet::Restart).write(out);
                    material.write(out);
                }
            }
            Self::InUse { notice } => (false, *notice).write(out),
        }
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        if !bool::read(input)? {
            let notice = Portable::read(input)?;
            return Ok(Self::InUse { notice });
        }
        let mut materials = Vec::new();
        for _ in 0..usize::read(input)?.min(2) {
            let set = if bool::read(input)? {
                KeySet::Restart
            } else {
                KeySet::Primary
            };
            materials.push((set, Portable::read(input)?));
        }
        Ok(Self::Ready(materials))
    }
}

impl ChunkProtection for DtlsProtection {
    fn protect(&mut self, _: &PacketContext, chunks: &mut Vec<u8>) -> Seal {
        match self.contexts.seal(chunks) {
            Ok(flags) => Seal::Sealed { flags },
            Err(NotSealed::NoKeys) => Seal::Clear,
            Err(NotSealed::KeysUsedUp) => Seal::Drop,
        }
    }

    /// Opens a record. With restart keys, only a COOKIE ECHO is accepted unless the association was restarted
    /// (section 5.4).
    fn unprotect(&mut self, _: &PacketContext, flags: u8, value: &mut Vec<u8>) -> bool {
        if self.contexts.open(flags, value).is_err() {
            return false;
        }
        let first = value.first().copied().map(ChunkType);
        if flags & R_BIT != 0
            && !self.contexts.is_restarted()
            && first != Some(ChunkType::COOKIE_ECHO)
        {
            return false;
        }
        if flags & R_BIT == 0 {
            self.use_pre_shared();
        }
        true
    }

    /// Accepts INIT and INIT ACK in the clear, and until protection is required, what the set-up and the messages of
    /// the key management take.
    fn admits(&self, chunk: ChunkType) -> bool {
        let of_set_up = matches!(chunk, ChunkType::INIT | ChunkType::INIT_ACK);
        let refused = [
            ChunkType::ASCONF,
            ChunkType::ASCONF_ACK,
            ChunkType::RE_CONFIG,
            ChunkType::FORWARD_TSN,
            ChunkType::I_FORWARD_TSN,
            ChunkType::AUTH,
            DTLS,
        ];
        of_set_up || !self.contexts.requires_protection() && !refused.contains(&chunk)
    }

    fn restarted(&mut self, now: Time, offers: &Offers<'_>) {
        let agreement = KeyManagementParameter::agree_on_values(offers.ours, offers.theirs);
        let is_protected = self.contexts.requires_protection();
        let Ok(agreement) = agreement else {
            let reason = "the peer restarted with parameters that do not fit";
            self.keys = Keys::Refused(reason.into());
            return;
        };
        if !is_protected {
            self.contexts.reset();
        } else if !self.contexts.restart() {
            self.keys = Keys::Refused("there are no keys for a restart".into());
            return;
        }
        let parameters = SetupParameters::new(agreement.role, offers.ours, offers.theirs);
        self.agreement = agreement;
        match &mut self.keys {
            Keys::Tls(manager) => manager.restart(now, agreement, parameters, is_protected),
            Keys::PreShared(_) | Keys::Refused(_) => {
                self.keys = Keys::new(&self.shared, agreement, parameters, &mut self.contexts);
            }
        }
    }

    fn key_management_state(&self) -> KeyManagementState {
        match &self.keys {
            Keys::Tls(manager) => manager.state(),
            Keys::PreShared(PreShared::Ready(_)) if !self.contexts.is_restarted() => {
                KeyManagementState::Pending
            }
            Keys::PreShared(_) => KeyManagementState::Established,
            Keys::Refused(reason) => KeyManagementState::Failed(reason.clone()),
        }
    }

    fn start_key_management(&mut self, now: Time) {
        match &mut self.keys {
            Keys::Tls(manager) if self.contexts.is_restarted() => manager.start_restarted(now),
            Keys::Tls(manager) => manager.start(now),
            Keys::PreShared(_) if self.agreement.role == Role::Client => self.use_pre_shared(),
            Keys::PreShared(_) | Keys::Refused(_) => {}
        }
    }

    fn on_key_message(&mut self, now: Time, message: &[u8]) {
        if let Keys::Tls(manager) = &mut self.keys {
            manager.on_message(now, message, &mut self.contexts);
        }
    }

    fn poll_key_message(&mut self, now: Time) -> Option<Vec<u8>> {
        match &mut self.keys {
            Keys::Tls(manager) => {
                manager.check_limits(now, &self.contexts);
                manager.poll_message()
            }
            Keys::PreShared(PreShared::InUse { notice }) => {
                std::mem::take(notice).then(|| NOTICE.to_vec())
            }
            Keys::PreShared(PreShared::Ready(_)) | Keys::Refused(_) => None,
        }
    }

    fn next_key_timeout(&self) -> Option<Time> {
        match &self.keys {
            Keys::Tls(manager) => manager.next_timeout(),
            Keys::PreShared(_) | Keys::Refused(_) => None,
        }
    }

    fn handle_key_timeout(&mut self, now: Time) {
        if let Keys::Tls(manager) = &mut self.keys {
            manager.handle_timeout(now, &mut self.contexts);
        }
    }

    fn export(&self, now: Time) -> Option<Vec<u8>> {
        let exported = FORMAT.export(now, |out| {
            self.contexts.write(out);
            let agreement = &self.agreement;
            (agreement.role == Role::Client).write(out);
            (agreement.method.0, agreement.restart).write(out);
            match &self.keys {
                Keys::Tls(manager) => {
                    0_u8.write(out);
                    manager.write(out);
                }
                Keys::PreShared(keys) => {
                    1_u8.write(out);
                    keys.write(out);
                }
                Keys::Refused(reason) => {
                    2_u8.write(out);
                    out.octets(reason.as_bytes());
                }
            }
        });
        exported.ok()
    }
}

impl Keys {
    fn new(
        shared: &Shared,
        agreement: Agreement,
        parameters: SetupParameters,
        contexts: &mut KeyContexts,
    ) -> Self {
        match shared.source(agreement.method) {
            Some(ReadyKeySource::Tls(config)) => {
                let manager = KeyManager::new(Arc::clone(config), agreement, parameters);
                Self::Tls(Box::new(manager))
            }
            Some(ReadyKeySource::PreShared(secret)) => {
                let keys = |sender| secret.keys(shared.suite(), &parameters, sender);
                let (client, server) = (keys(Role::Client), keys(Role::Server));
                let (ours, theirs) = match agreement.role {
                    Role::Client => (client, server),
                    Role::Server => (server, client),
                };
                let (Some(ours), Some(theirs)) = (ours, theirs) else {
                    return Self::Refused("no keys can be derived".into());
                };
                for (set, material) in theirs {
                    contexts.install_receive(set, FIRST_EPOCH, material);
                }
                Self::PreShared(PreShared::Ready(ours.into()))
            }
            None => Self::Refused("the method that was agreed on is not configured".into()),
        }
    }
}
