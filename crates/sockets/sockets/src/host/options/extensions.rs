//! Extensions, and authentication (RFC 6458, sections 8.1.17, 8.2 and 8.3; RFC 4895).

use bytes::Bytes;
use carrick_proto::{
    AuthenticationConfig, ChunkType, Extensions, HmacId, KeyError, SharedKey, SharedKeyId,
};

use crate::errno::Errno;
use crate::host::Sockets;
use crate::ids::SocketId;
use crate::linux::*;
use crate::table::Socket;

impl Sockets {
    /// `SCTP_PR_SUPPORTED` and the other options of extensions, of future associations
    pub(super) fn set_supported(
        &mut self,
        id: SocketId,
        name: i32,
        value: &[u8],
    ) -> Result<(), Errno> {
        let is_interleaving = name == SCTP_INTERLEAVING_SUPPORTED;
        // As Linux: longer values are allowed for interleaving alone.
        let value = if is_interleaving {
            AssocValue::read(value)?
        } else {
            AssocValue::decode(value)?
        };
        let socket = self.table.open(id)?;
        // As on Linux: an association may be named, and later ones are changed.
        if !socket.is_one_to_one()
            && value.assoc_id != SCTP_FUTURE_ASSOC
            && self.association_of(socket, value.assoc_id).is_none()
        {
            return Err(Errno::EINVAL);
        }
        // As Linux: interleaving needs SCTP_FRAGMENT_INTERLEAVE.
        if is_interleaving && !socket.options.fragment_interleave {
            return Err(Errno::EPERM);
        }
        let on = value.value != 0;
        self.change_future(id, |config| {
            let extensions = &mut config.extensions;
            match name {
                SCTP_PR_SUPPORTED => {
                    extensions.partial_reliability = on;
                    extensions.interleaved_partial_reliability = on;
                }
                SCTP_RECONFIG_SUPPORTED => extensions.reconfiguration = on,
                SCTP_ASCONF_SUPPORTED => extensions.dynamic_addresses = on,
                SCTP_AUTH_SUPPORTED => extensions.authentication = on,
                SCTP_ECN_SUPPORTED => extensions.ecn = on,
                _ => extensions.interleaving = on,
            }
        })
    }

    pub(super) fn get_supported(
        &self,
        socket: &Socket,
        name: i32,
        buffer: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let mut value = AssocValue::read(buffer)?;
        let association = self.source(socket, value.assoc_id)?;
        let stats = association.and_then(|id| self.stats(id));
        let offered = socket.options.config.extensions;
        let extensions: Extensions = stats.map_or(offered, |stats| stats.extensions);
        let on = match name {
            SCTP_PR_SUPPORTED => extensions.partial_reliability,
            SCTP_RECONFIG_SUPPORTED => extensions.reconfiguration,
            SCTP_ASCONF_SUPPORTED => extensions.dynamic_addresses,
            SCTP_AUTH_SUPPORTED => extensions.authentication,
            SCTP_ECN_SUPPORTED => extensions.ecn,
            _ => extensions.interleaving,
        };
        value.value = on.into();
        Ok(value.encode())
    }

    fn change_authentication(
        &mut self,
        id: SocketId,
        change: impl FnOnce(&mut AuthenticationConfig),
    ) -> Result<(), Errno> {
        // As Linux: without SCTP_AUTH_SUPPORTED the options are refused.
        if !self
            .table
            .open(id)?
            .options
            .config
            .extensions
            .authentication
        {
            return Err(Errno::EACCES);
        }
        self.change_future(id, |config| change(&mut config.security.authentication))
    }

    /// `SCTP_AUTH_CHUNK` (RFC 6458, section 8.3.2)
    pub(super) fn set_auth_chunk(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let [kind] = *value else {
            return Err(Errno::EINVAL);
        };
        self.change_authentication(id, |authentication| {
            let kind = ChunkType(kind);
            if !authentication.required.contains(&kind) {
                authentication.required.push(kind);
            }
        })
    }

    /// `SCTP_HMAC_IDENT` (RFC 6458, section 8.1.17)
    pub(super) fn set_hmac_ident(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let number = value.get(..4).ok_or(Errno::EINVAL)?;
        let number = u32::from_ne_bytes([number[0], number[1], number[2], number[3]]) as usize;
        let list = &value[4..];
        if number == 0 || number.checked_mul(2) != Some(list.len()) {
            return Err(Errno::EINVAL);
        }
        let algorithms: Vec<HmacId> = list
            .chunks_exact(2)
            .map(|pair| HmacId(u16::from_ne_bytes([pair[0], pair[1]])))
            .collect();
        let known = [HmacId::SHA_1, HmacId::SHA_256];
        if algorithms.iter().any(|id| !known.contains(id)) {
            return Err(Errno::EOPNOTSUPP);
        }
        // RFC 4895, section 3.3: SHA-1 is always in the list.
        if !algorithms.contains(&HmacId::SHA_1) {
            return Err(Errno::EINVAL);
        }
        self.change_authentication(id, |authentication| authentication.algorithms = algorithms)
    }

    pub(super) fn get_hmac_ident(socket: &Socket, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
        let config = &socket.options.config;
        if !config.extensions.authentication {
            return Err(Errno::EACCES);
        }
        let list = &config.security.authentication.algorithms;
        let mut bytes = (list.len() as u32).to_ne_bytes().to_vec();
        bytes.extend(list.iter().flat_map(|id| id.0.to_ne_bytes()));
        (bytes.len() <= buffer.len())
            .then_some(bytes)
            .ok_or(Errno::EINVAL)
    }

    /// `SCTP_AUTH_KEY` (RFC 6458, section 8.3.3). A key length of 0 means the rest of the option, which
    /// must not be empty.
    pub(super) fn set_auth_key(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let now = self.now;
        let header = AuthKey::read(value)?;
        let rest = &value[AuthKey::SIZE..];
        if rest.is_empty() {
            return Err(Errno::EINVAL);
        }
        let len = usize::from(header.key_length);
        let secret = if len == 0 {
            Some(rest)
        } else {
            rest.get(..len)
        };
        let key = SharedKey {
            id: SharedKeyId(header.key_number),
            secret: Bytes::copy_from_slice(secret.ok_or(Errno::EINVAL)?),
        };
        let target = self.target(self.table.open(id)?, header.assoc_id)?;
        self.perform(&target, |core, core_id| {
            core.add_key(now, core_id, key.clone()).map_err(key_error)
        })?;
        if !target.future {
            return Ok(());
        }
        self.change_authentication(id, |authentication| {
            authentication.keys.retain(|other| other.id != key.id);
            authentication.keys.push(key);
        })
    }

    /// `SCTP_AUTH_ACTIVE_KEY`, `SCTP_AUTH_DEACTIVATE_KEY` and `SCTP_AUTH_DELETE_KEY` (RFC 6458, sections
    /// 8.1.18, 8.3.4 and 8.3.5)
    pub(super) fn change_key(
        &mut self,
        id: SocketId,
        name: i32,
        value: &[u8],
    ) -> Result<(), Errno> {
        let now = self.now;
        let given = AuthKeyId::decode(value)?;
        let key = SharedKeyId(given.key_number);
        let target = self.target(self.table.open(id)?, given.assoc_id)?;
        for association in target.associations {
            let (core, core_id) = self.core_of(association).ok_or(Errno::EINVAL)?;
            let changed = match name {
                SCTP_AUTH_ACTIVE_KEY => core.activate_key(now, core_id, key),
                SCTP_AUTH_DEACTIVATE_KEY => core.deactivate_key(now, core_id, key),
                _ => core.delete_key(now, core_id, key),
            };
            changed.map_err(key_error)?;
            if let Some(association) = self.associations.get_mut(association)
                && name == SCTP_AUTH_ACTIVE_KEY
            {
                association.active_key = key.0;
            }
            self.settle_association(association);
        }
        if !target.future {
            return Ok(());
        }
        let config = &self.table.open(id)?.options.config;
        if !config.extensions.authentication {
            return Err(Errno::EACCES);
        }
        let authentication = &config.security.authentication;
        let is_null = key.0 == 0 && authentication.null_key;
        let exists = authentication.keys.iter().any(|other| other.id == key);
        let is_active = authentication.active == key;
        match name {
            SCTP_AUTH_ACTIVE_KEY if exists || is_null => {
                self.change_authentication(id, |authentication| authentication.active = key)
            }
            SCTP_AUTH_DELETE_KEY | SCTP_AUTH_DEACTIVATE_KEY if exists && !is_active => self
                .change_authentication(id, |authentication| {
                    authentication.keys.retain(|other| other.id != key);
                }),
            SCTP_AUTH_DELETE_KEY if is_null && !is_active => {
                self.change_authentication(id, |authentication| authentication.null_key = false)
            }
            _ => Err(Errno::EINVAL),
        }
    }

    pub(super) fn get_active_key(&self, socket: &Socket, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
        let mut key = AuthKeyId::read(buffer)?;
        let association = self.source(socket, key.assoc_id)?;
        if !socket.options.config.extensions.authentication {
            return Err(Errno::EACCES);
        }
        let future = socket.options.config.security.authentication.active.0;
        let association = association.and_then(|id| self.associations.get(id));
        key.key_number = association.map_or(future, |a| a.active_key);
        Ok(key.encode())
    }

    /// `SCTP_LOCAL_AUTH_CHUNKS` (RFC 6458, section 8.2.4)
    pub(super) fn get_local_auth_chunks(
        &self,
        socket: &Socket,
        buffer: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let header = AuthChunks::read(buffer)?;
        let association = self.source(socket, header.assoc_id)?;
        let config = self.config_of(socket, association);
        if !config.extensions.authentication {
            return Err(Errno::EACCES);
        }
        let required = &config.security.authentication.required;
        // RFC 5061, section 4.1.1: they are authenticated without being in the list of the user.
        let mut all = Vec::new();
        if config.extensions.dynamic_addresses {
            all.extend([ChunkType::ASCONF, ChunkType::ASCONF_ACK]);
        }
        for kind in required {
            if !all.contains(kind) {
                all.push(*kind);
            }
        }
        chunk_list(header, &all, buffer)
    }

    /// `SCTP_PEER_AUTH_CHUNKS` (RFC 6458, section 8.2.3)
    pub(super) fn get_peer_auth_chunks(
        &self,
        socket: &Socket,
        buffer: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let header = AuthChunks::read(buffer)?;
        let association = self.association_of(socket, header.assoc_id);
        let association = association.ok_or(Errno::EINVAL)?;
        let (core, core_id) = self.core_ref(association).ok_or(Errno::EINVAL)?;
        let stats = core.association_stats(core_id).ok_or(Errno::EINVAL)?;
        if !stats.extensions.authentication {
            return Err(Errno::EACCES);
        }
        let chunks: Vec<ChunkType> = core.peer_required_chunks(core_id).collect();
        chunk_list(header, &chunks, buffer)
    }
}

fn key_error(error: KeyError) -> Errno {
    match error {
        KeyError::NotInForce => Errno::EACCES,
        KeyError::TooManyKeys => Errno::ENOMEM,
        _ => Errno::EINVAL,
    }
}

/// Returns a list of chunk types for a buffer that holds it.
fn chunk_list(
    mut header: AuthChunks,
    chunks: &[ChunkType],
    buffer: &[u8],
) -> Result<Vec<u8>, Errno> {
    header.number = chunks.len() as u32;
    let mut bytes = header.encode();
    bytes.extend(chunks.iter().map(|kind| kind.0));
    (bytes.len() <= buffer.len())
        .then_some(bytes)
        .ok_or(Errno::EINVAL)
}
