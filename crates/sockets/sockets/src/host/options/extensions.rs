//! Extensions, and authentication (RFC 6458, sections 8.1.17, 8.2 and 8.3; RFC 4895).

use bytes::Bytes;
use carrick_proto::{
    AssociationConfig, AuthenticationConfig, ChunkType, Extensions, HmacId, KeyError, SharedKey,
    SharedKeyId,
};

use super::scope::{OptionView, ScopeRule, change_future, perform, scope};
use super::table::{self, AtLeast, Get, Raw, Set, SetValue, fitting, options};
use crate::errno::Errno;
use crate::host::Sockets;
use crate::host::associations::AssociationRef;
use crate::ids::SocketId;
use crate::linux::*;

options! {
    [IPPROTO_SCTP]
    SCTP_PR_SUPPORTED, ID, AssocValue, [future set_pr_supported],
        [number |view, a| extensions(view, a).partial_reliability.into()];
    SCTP_RECONFIG_SUPPORTED, ID, AssocValue, [future |view, c, v| offer(view, v, &mut c.extensions.reconfiguration)],
        [number |view, a| extensions(view, a).reconfiguration.into()];
    SCTP_ASCONF_SUPPORTED, ID, AssocValue, [future |view, c, v| offer(view, v, &mut c.extensions.dynamic_addresses)],
        [number |view, a| extensions(view, a).dynamic_addresses.into()];
    SCTP_AUTH_SUPPORTED, ID, AssocValue, [future |view, c, v| offer(view, v, &mut c.extensions.authentication)],
        [number |view, a| extensions(view, a).authentication.into()];
    SCTP_ECN_SUPPORTED, ID, AssocValue, [future |view, c, v| offer(view, v, &mut c.extensions.ecn)],
        [number |view, a| extensions(view, a).ecn.into()];
    // As Linux: longer values are allowed for interleaving alone.
    SCTP_INTERLEAVING_SUPPORTED, ID, AtLeast<AssocValue>, [future set_interleaving_supported],
        [number |view, a| extensions(view, a).interleaving.into()];
    SCTP_AUTH_CHUNK, NONE, Raw, [future set_auth_chunk], [refused EOPNOTSUPP];
    SCTP_HMAC_IDENT, NONE, Raw, [future set_hmac_ident], [bytes hmac_ident];
    SCTP_AUTH_KEY, NONE, Raw, [operation set_auth_key], [refused EOPNOTSUPP];
    SCTP_AUTH_ACTIVE_KEY, ID, AuthKeyId, [operation |s, id, key| change_key(s, id, key, KeyChange::Activate)],
        [value active_key];
    SCTP_AUTH_DEACTIVATE_KEY, NONE, AuthKeyId, [operation |s, id, key| change_key(s, id, key, KeyChange::Deactivate)],
        [refused EOPNOTSUPP];
    SCTP_AUTH_DELETE_KEY, NONE, AuthKeyId, [operation |s, id, key| change_key(s, id, key, KeyChange::Delete)],
        [refused EOPNOTSUPP];
    SCTP_LOCAL_AUTH_CHUNKS, ID, _, [none], [bytes local_auth_chunks];
    SCTP_PEER_AUTH_CHUNKS, ID, _, [none], [bytes peer_auth_chunks];
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyChange {
    Activate,
    Deactivate,
    Delete,
}

/// Sets whether future associations offer an extension.
fn offer(view: &OptionView<'_>, given: AssocValue, extension: &mut bool) -> Result<(), Errno> {
    // As on Linux: an association may be named, and later ones are changed.
    if !view.socket.is_one_to_one() && given.assoc_id != SCTP_FUTURE_ASSOC {
        view.association(given.assoc_id)?;
    }
    *extension = given.value != 0;
    Ok(())
}

fn set_pr_supported(
    view: &OptionView<'_>,
    config: &mut AssociationConfig,
    given: AssocValue,
) -> Result<(), Errno> {
    let extensions = &mut config.extensions;
    offer(view, given, &mut extensions.partial_reliability)?;
    extensions.interleaved_partial_reliability = extensions.partial_reliability;
    Ok(())
}

fn set_interleaving_supported(
    view: &OptionView<'_>,
    config: &mut AssociationConfig,
    given: AssocValue,
) -> Result<(), Errno> {
    offer(view, given, &mut config.extensions.interleaving)?;
    // As Linux: interleaving needs SCTP_FRAGMENT_INTERLEAVE.
    let is_allowed = view.socket.options().fragment_interleave;
    is_allowed.then_some(()).ok_or(Errno::EPERM)
}

/// Returns the extensions of an association, or those that future ones offer.
fn extensions(view: &OptionView<'_>, association: Option<AssociationRef<'_>>) -> Extensions {
    let stats = association.and_then(|association| association.stats());
    let offered = view.socket.options().config.extensions;
    stats.map_or(offered, |stats| stats.extensions)
}

/// Refuses the options of authentication without `SCTP_AUTH_SUPPORTED`, as Linux.
fn check_authentication(config: &AssociationConfig) -> Result<&AuthenticationConfig, Errno> {
    if !config.extensions.authentication {
        return Err(Errno::EACCES);
    }
    Ok(&config.security.authentication)
}

/// `SCTP_AUTH_CHUNK` (RFC 6458, section 8.3.2)
fn set_auth_chunk(
    _: &OptionView<'_>,
    config: &mut AssociationConfig,
    value: &[u8],
) -> Result<(), Errno> {
    let [kind] = *value else {
        return Err(Errno::EINVAL);
    };
    let kind = ChunkType(kind);
    if !check_authentication(config)?.required.contains(&kind) {
        config.security.authentication.required.push(kind);
    }
    Ok(())
}

/// `SCTP_HMAC_IDENT` (RFC 6458, section 8.1.17)
fn set_hmac_ident(
    _: &OptionView<'_>,
    config: &mut AssociationConfig,
    value: &[u8],
) -> Result<(), Errno> {
    let number = i32::parse(value)? as u32 as usize;
    let list = &value[4..];
    if number == 0 || number.checked_mul(2) != Some(list.len()) {
        return Err(Errno::EINVAL);
    }
    let pairs = list.chunks_exact(2);
    let ids = pairs.map(|pair| HmacId(u16::from_ne_bytes([pair[0], pair[1]])));
    let algorithms: Vec<HmacId> = ids.collect();
    let known = [HmacId::SHA_1, HmacId::SHA_256];
    if algorithms.iter().any(|id| !known.contains(id)) {
        return Err(Errno::EOPNOTSUPP);
    }
    // RFC 4895, section 3.3: SHA-1 is always in the list.
    if !algorithms.contains(&HmacId::SHA_1) {
        return Err(Errno::EINVAL);
    }
    check_authentication(config)?;
    config.security.authentication.algorithms = algorithms;
    Ok(())
}

fn hmac_ident(view: &OptionView<'_>, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
    let list = &check_authentication(&view.socket.options().config)?.algorithms;
    let mut bytes = (list.len() as u32).to_ne_bytes().to_vec();
    bytes.extend(list.iter().flat_map(|id| id.0.to_ne_bytes()));
    fitting(buffer, bytes)
}

/// `SCTP_AUTH_KEY` (RFC 6458, section 8.3.3). A key length of 0 means the rest of the option, which
/// must not be empty.
fn set_auth_key(host: &mut Sockets, id: SocketId, value: &[u8]) -> Result<(), Errno> {
    let header = AuthKey::read(value)?;
    let rest = &value[AuthKey::SIZE..];
    if rest.is_empty() {
        return Err(Errno::EINVAL);
    }
    let secret = match usize::from(header.key_length) {
        0 => Some(rest),
        len => rest.get(..len),
    };
    let key = SharedKey {
        id: SharedKeyId(header.key_number),
        secret: Bytes::copy_from_slice(secret.ok_or(Errno::EINVAL)?),
    };
    let scope = scope(host, id, ScopeRule::Any, header.assoc_id)?;
    perform(host, &scope, |a| {
        let mut core = a.in_core().ok_or(Errno::EINVAL)?;
        core.add_key(key.clone()).map_err(key_error)
    })?;
    change_future(host, id, &scope, |config| {
        check_authentication(config)?;
        let keys = &mut config.security.authentication.keys;
        keys.retain(|other| other.id != key.id);
        keys.push(key);
        Ok(())
    })
}

/// `SCTP_AUTH_ACTIVE_KEY`, `SCTP_AUTH_DEACTIVATE_KEY` and `SCTP_AUTH_DELETE_KEY` (RFC 6458, sections
/// 8.1.18, 8.3.4 and 8.3.5)
fn change_key(
    host: &mut Sockets,
    id: SocketId,
    given: AuthKeyId,
    change: KeyChange,
) -> Result<(), Errno> {
    let key = SharedKeyId(given.key_number);
    let scope = scope(host, id, ScopeRule::Any, given.assoc_id)?;
    perform(host, &scope, |a| {
        let mut core = a.in_core().ok_or(Errno::EINVAL)?;
        let changed = match change {
            KeyChange::Activate => core.activate_key(key),
            KeyChange::Deactivate => core.deactivate_key(key),
            KeyChange::Delete => core.delete_key(key),
        };
        drop(core);
        changed.map_err(key_error)?;
        if change == KeyChange::Activate {
            a.own.active_key = key.0;
        }
        Ok(())
    })?;
    change_future(host, id, &scope, |config| {
        check_authentication(config)?;
        let authentication = &mut config.security.authentication;
        let is_null = key.0 == 0 && authentication.null_key;
        let exists = authentication.keys.iter().any(|other| other.id == key);
        let is_active = authentication.active == key;
        match change {
            KeyChange::Activate if exists || is_null => authentication.active = key,
            KeyChange::Delete | KeyChange::Deactivate if exists && !is_active => {
                authentication.keys.retain(|other| other.id != key);
            }
            KeyChange::Delete if is_null && !is_active => authentication.null_key = false,
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    })
}

fn active_key(view: &OptionView<'_>, key: &mut AuthKeyId) -> Result<(), Errno> {
    let association = view.source(key.assoc_id)?;
    let future = check_authentication(&view.socket.options().config)?
        .active
        .0;
    key.key_number = association.map_or(future, |a| a.own.active_key);
    Ok(())
}

/// `SCTP_LOCAL_AUTH_CHUNKS` (RFC 6458, section 8.2.4)
fn local_auth_chunks(view: &OptionView<'_>, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
    let header = AuthChunks::read(buffer)?;
    let config = view.parameters(view.source(header.assoc_id)?);
    let required = &check_authentication(config)?.required;
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
fn peer_auth_chunks(view: &OptionView<'_>, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
    let header = AuthChunks::read(buffer)?;
    let association = view.association(header.assoc_id)?;
    let core = association.in_core().ok_or(Errno::EINVAL)?;
    if !core.stats().extensions.authentication {
        return Err(Errno::EACCES);
    }
    let chunks: Vec<ChunkType> = core.peer_required_chunks().collect();
    chunk_list(header, &chunks, buffer)
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
    fitting(buffer, bytes)
}
