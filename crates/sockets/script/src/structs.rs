//! Structs of the sockets API in scripts: numbers and layouts are those of [`carrick_sockets::linux`].

use std::net::{IpAddr, SocketAddr};

use carrick_sockets::linux::{self, LAYOUTS, read_address, write_address};

use crate::constants::constant;
use crate::model::{Expression, ExpressionKind, Position, System};

/// Error of a call: place and reason.
pub(crate) type CallError = (Position, String);
type Result<T> = std::result::Result<T, CallError>;

/// Struct with its fields: name, offset and size.
#[derive(Clone, Debug)]
pub(crate) struct StructLayout {
    name: &'static str,
    size: usize,
    fields: Vec<(String, usize, usize)>,
    /// Name of the array behind the fields, and size of its elements.
    array: Option<(&'static str, usize)>,
}

/// Arrays at the end of structs.
const ARRAYS: [(&str, &str, usize); 8] = [
    ("struct sctp_assoc_change", "sac_info", 1),
    ("struct sctp_remote_error", "sre_data", 1),
    ("struct sctp_send_failed", "ssf_data", 1),
    ("struct sctp_send_failed_event", "ssfe_data", 1),
    ("struct sctp_stream_reset_event", "strreset_stream_list", 2),
    ("struct sctp_authkey", "sca_key", 1),
    ("struct sctp_authchunks", "gauth_chunks", 1),
    ("struct sctp_reset_streams", "srs_stream_list", 2),
];

/// Sizes of the structs that are larger or smaller on FreeBSD.
const FREEBSD_SIZES: [(&str, usize); 5] = [
    ("struct sctp_sndrcvinfo", 128),
    ("struct sctp_setpeerprim", 136),
    ("struct sctp_prim", 136),
    ("struct sctp_paddrparams", 152),
    ("struct sctp_udpencaps", 136),
];

/// Fields of `sctp_event_subscribe` (RFC 6458, section 6.2.1), a byte each.
const EVENT_FIELDS: [&str; 14] = [
    "sctp_data_io_event",
    "sctp_association_event",
    "sctp_address_event",
    "sctp_send_failure_event",
    "sctp_peer_error_event",
    "sctp_shutdown_event",
    "sctp_partial_delivery_event",
    "sctp_adaptation_layer_event",
    "sctp_authentication_event",
    "sctp_sender_dry_event",
    "sctp_stream_reset_event",
    "sctp_assoc_reset_event",
    "sctp_stream_change_event",
    "sctp_send_failure_event_event",
];

impl StructLayout {
    /// Returns the struct of a C name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let (name, size, fields) = LAYOUTS.iter().find(|(known, _, _)| *known == name)?;
        let mut layout = Self {
            name,
            size: *size,
            fields: fields
                .iter()
                .map(|(n, at, len)| ((*n).to_owned(), *at, *len))
                .collect(),
            array: ARRAYS
                .iter()
                .find(|(known, _, _)| known == name)
                .map(|(_, array, size)| (*array, *size)),
        };
        if *name == "struct sctp_status" {
            let primary = Self::named("struct sctp_paddrinfo")?;
            let moved = primary.fields.into_iter();
            layout.fields.extend(
                moved.map(|(field, at, len)| (format!("sstat_primary.{field}"), at + size, len)),
            );
            layout.size = linux::STATUS;
        }
        Some(layout)
    }

    /// Returns the struct of an option.
    pub(crate) fn of_option(level: i64, name: i64) -> Option<Self> {
        let name = name as i32;
        if level == i64::from(linux::SOL_SOCKET) {
            return Self::named(match name {
                linux::SO_LINGER => "struct linger",
                linux::SO_RCVTIMEO | linux::SO_SNDTIMEO => "struct timeval",
                _ => return None,
            });
        }
        Self::named(match name {
            linux::SCTP_EVENTS => {
                let field = |(at, name): (usize, &&str)| ((*name).to_owned(), at, 1);
                return Some(Self {
                    name: "struct sctp_event_subscribe",
                    size: EVENT_FIELDS.len(),
                    fields: EVENT_FIELDS.iter().enumerate().map(field).collect(),
                    array: None,
                });
            }
            linux::SCTP_ADAPTATION_LAYER => {
                return Some(Self {
                    name: "struct sctp_setadaptation",
                    size: 4,
                    fields: vec![("ssb_adaptation_ind".into(), 0, 4)],
                    array: None,
                });
            }
            linux::SCTP_AUTH_CHUNK => {
                return Some(Self {
                    name: "struct sctp_authchunk",
                    size: 1,
                    fields: vec![("sauth_chunk".into(), 0, 1)],
                    array: None,
                });
            }
            linux::SCTP_HMAC_IDENT => {
                return Some(Self {
                    name: "struct sctp_hmacalgo",
                    size: 4,
                    fields: vec![("shmac_number_of_idents".into(), 0, 4)],
                    array: Some(("shmac_idents", 2)),
                });
            }
            linux::SCTP_GET_ASSOC_ID_LIST => {
                return Some(Self {
                    name: "struct sctp_assoc_ids",
                    size: 4,
                    fields: vec![("gaids_number_of_ids".into(), 0, 4)],
                    array: Some(("gaids_assoc_id", 4)),
                });
            }
            linux::SCTP_AUTH_KEY => "struct sctp_authkey",
            linux::SCTP_LOCAL_AUTH_CHUNKS | linux::SCTP_PEER_AUTH_CHUNKS => {
                "struct sctp_authchunks"
            }
            linux::SCTP_RESET_STREAMS => "struct sctp_reset_streams",
            linux::SCTP_RTOINFO => "struct sctp_rtoinfo",
            linux::SCTP_ASSOCINFO => "struct sctp_assocparams",
            linux::SCTP_INITMSG => "struct sctp_initmsg",
            linux::SCTP_SET_PEER_PRIMARY_ADDR => "struct sctp_setpeerprim",
            linux::SCTP_PRIMARY_ADDR => "struct sctp_prim",
            linux::SCTP_PEER_ADDR_PARAMS => "struct sctp_paddrparams",
            linux::SCTP_DEFAULT_SEND_PARAM => "struct sctp_sndrcvinfo",
            linux::SCTP_DEFAULT_SNDINFO => "struct sctp_sndinfo",
            linux::SCTP_STATUS => "struct sctp_status",
            linux::SCTP_GET_PEER_ADDR_INFO => "struct sctp_paddrinfo",
            linux::SCTP_DELAYED_SACK => "struct sctp_sack_info",
            linux::SCTP_AUTH_ACTIVE_KEY
            | linux::SCTP_AUTH_DELETE_KEY
            | linux::SCTP_AUTH_DEACTIVATE_KEY => "struct sctp_authkeyid",
            linux::SCTP_PEER_ADDR_THLDS => "struct sctp_paddrthlds",
            linux::SCTP_PEER_ADDR_THLDS_V2 => "struct sctp_paddrthlds_v2",
            linux::SCTP_GET_ASSOC_STATS => "struct sctp_assoc_stats",
            linux::SCTP_DEFAULT_PRINFO => "struct sctp_default_prinfo",
            linux::SCTP_PR_ASSOC_STATUS | linux::SCTP_PR_STREAM_STATUS => "struct sctp_prstatus",
            linux::SCTP_ADD_STREAMS => "struct sctp_add_streams",
            linux::SCTP_STREAM_SCHEDULER_VALUE => "struct sctp_stream_value",
            linux::SCTP_EVENT => "struct sctp_event",
            linux::SCTP_REMOTE_UDP_ENCAPS_PORT => "struct sctp_udpencaps",
            linux::SCTP_PLPMTUD_PROBE_INTERVAL => "struct sctp_probeinterval",
            _ => "struct sctp_assoc_value",
        })
    }

    /// Returns the struct of ancillary data.
    pub(crate) fn of_control(kind: i64) -> Option<Self> {
        Self::named(match kind as i32 {
            linux::SCTP_INIT => "struct sctp_initmsg",
            linux::SCTP_SNDRCV => "struct sctp_sndrcvinfo",
            linux::SCTP_SNDINFO => "struct sctp_sndinfo",
            linux::SCTP_RCVINFO => "struct sctp_rcvinfo",
            linux::SCTP_NXTINFO => "struct sctp_nxtinfo",
            linux::SCTP_PRINFO => "struct sctp_prinfo",
            linux::SCTP_AUTHINFO => "struct sctp_authinfo",
            _ => return None,
        })
    }

    /// Returns the size in bytes, without an array at the end.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// Returns the size of a value here whose size in a script for a system is `len`.
    pub(crate) fn size_here(&self, len: usize, system: System) -> usize {
        let theirs = (self.name, len);
        match system {
            System::FreeBsd if FREEBSD_SIZES.contains(&theirs) => self.size,
            _ => len,
        }
    }

    /// Returns the struct that has a field.
    pub(crate) fn with_field(field: &str) -> Option<Self> {
        // The header that all notifications have.
        if field.starts_with("sn_") {
            let fields = [("sn_type", 0, 2), ("sn_flags", 2, 2), ("sn_length", 4, 4)];
            let owned = |(name, at, len): (&str, usize, usize)| (name.to_owned(), at, len);
            return Some(Self {
                name: "struct sctp_tlv",
                size: 8,
                fields: fields.into_iter().map(owned).collect(),
                array: None,
            });
        }
        // Names of RFC 6458, section 6.1.11.
        if field.starts_with("ssfe_") {
            return Self::named("struct sctp_send_failed_event");
        }
        let has_field =
            |fields: &[(&str, usize, usize)]| fields.iter().any(|(n, _, _)| *n == field);
        let (name, _, _) = LAYOUTS.iter().find(|(_, _, fields)| has_field(fields))?;
        Self::named(name)
    }

    fn field(&self, position: Position, name: &str) -> Result<(usize, usize)> {
        let found = self.fields.iter().find(|(known, _, _)| known == name);
        found.map(|(_, at, len)| (*at, *len)).ok_or_else(|| {
            let names: Vec<&str> = self.fields.iter().map(|(n, _, _)| n.as_str()).collect();
            let fields = names.join(", ");
            (
                position,
                format!("{} has no field {name}: there are {fields}", self.name),
            )
        })
    }

    /// Encodes the fields of a struct; others, and `...`, are zero.
    pub(crate) fn encode(&self, value: &Expression) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.size];
        for (name, value) in self.flat(value)? {
            if let Some((_, size)) = self.array.filter(|(array, _)| *array == name) {
                bytes.extend(encode_array(&value, size)?);
                continue;
            }
            let (at, len) = self.field(value.position, &name)?;
            if value.kind == ExpressionKind::Ellipsis {
                continue;
            }
            let part = &mut bytes[at..at + len];
            if len == linux::SOCKADDR_STORAGE {
                let written = write_address(address(&value)?);
                part[..written.len()].copy_from_slice(&written);
            } else {
                part.copy_from_slice(&number(&value)?.to_le_bytes()[..len]);
            }
        }
        Ok(native(bytes, self))
    }

    /// Compares the fields of a struct with its bytes; returns name, expected and actual value of the first difference.
    pub(crate) fn compare(
        &self,
        value: &Expression,
        bytes: &[u8],
    ) -> Result<Option<(String, String, String)>> {
        if value.kind == ExpressionKind::Ellipsis {
            return Ok(None);
        }
        let bytes = native(bytes.to_vec(), self);
        for (name, value) in self.flat(value)? {
            if let Some((_, size)) = self.array.filter(|(array, _)| *array == name) {
                let expected = encode_array(&value, size)?;
                let actual = bytes.get(self.size..).unwrap_or_default();
                if value.kind != ExpressionKind::Ellipsis && expected != actual {
                    return Ok(Some((name, format!("{expected:?}"), format!("{actual:?}"))));
                }
                continue;
            }
            let (at, len) = self.field(value.position, &name)?;
            if value.kind == ExpressionKind::Ellipsis {
                continue;
            }
            let Some(part) = bytes.get(at..at + len) else {
                return Ok(Some((
                    name,
                    "a value".into(),
                    "nothing: it is too short".into(),
                )));
            };
            if len == linux::SOCKADDR_STORAGE {
                let expected = address(&value)?;
                let actual = read_address(part).ok().map(|(address, _)| address);
                if actual != Some(expected) {
                    let actual = actual.map_or("none".into(), |a| a.to_string());
                    return Ok(Some((name, expected.to_string(), actual)));
                }
                continue;
            }
            let mut wide = [0; 8];
            wide[..len].copy_from_slice(part);
            let actual = u64::from_le_bytes(wide);
            let mask = u64::MAX >> (64 - 8 * len);
            let expected = number(&value)?.cast_unsigned() & mask;
            if expected != actual {
                return Ok(Some((name, expected.to_string(), actual.to_string())));
            }
        }
        Ok(None)
    }

    /// Returns the fields of a struct, with the names of inner ones behind a dot.
    fn flat(&self, value: &Expression) -> Result<Vec<(String, Expression)>> {
        let ExpressionKind::Struct(fields) = &value.kind else {
            return Err((value.position, format!("expected {} {{...}}", self.name)));
        };
        let mut flat = Vec::new();
        for (name, value) in fields {
            let prefix = format!("{name}.");
            let is_outer = self
                .fields
                .iter()
                .any(|(known, _, _)| known.starts_with(&prefix));
            match &value.kind {
                ExpressionKind::Struct(inner) if is_outer => {
                    flat.extend(
                        inner
                            .iter()
                            .map(|(n, v)| (format!("{prefix}{n}"), v.clone())),
                    );
                }
                ExpressionKind::Ellipsis if is_outer => {}
                _ => flat.push((self.linux_name(name), value.clone())),
            }
        }
        Ok(flat)
    }

    /// Returns the name that Linux has for a field: packetdrill writes `onoff`, RFC 6458 has `ssfe_type`.
    fn linux_name(&self, name: &str) -> String {
        match (self.name, name) {
            ("struct linger", "onoff" | "linger") => format!("l_{name}"),
            ("struct sctp_send_failed_event", "ssf_data") => "ssfe_data".into(),
            (
                "struct sctp_send_failed_event",
                "ssfe_type" | "ssfe_flags" | "ssfe_length" | "ssfe_error" | "ssfe_assoc_id",
            ) => name.replacen("ssfe", "ssf", 1),
            _ => name.to_owned(),
        }
    }
}

/// Encodes the array at the end of a struct, with the byte order of the host.
fn encode_array(value: &Expression, size: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match &value.kind {
        ExpressionKind::Ellipsis => {}
        ExpressionKind::Text(text) if size == 1 => bytes.extend(text),
        ExpressionKind::Array(list) => {
            for element in list {
                let number = number(element)?;
                if cfg!(target_endian = "big") {
                    bytes.extend(&number.to_be_bytes()[8 - size..]);
                } else {
                    bytes.extend(&number.to_le_bytes()[..size]);
                }
            }
        }
        _ => return Err((value.position, "expected a list [...]".into())),
    }
    Ok(bytes)
}

/// Converts integers between little-endian order and that of the host; addresses have the order of the network.
fn native(mut bytes: Vec<u8>, layout: &StructLayout) -> Vec<u8> {
    if cfg!(target_endian = "big") {
        for (_, at, len) in &layout.fields {
            if *len <= 8
                && let Some(part) = bytes.get_mut(*at..at + len)
            {
                part.reverse();
            }
        }
    }
    bytes
}

/// Returns the number of an expression.
pub(crate) fn number(value: &Expression) -> Result<i64> {
    let error = |text: String| Err((value.position, text));
    match &value.kind {
        ExpressionKind::Number(number) => Ok(*number),
        ExpressionKind::Name(name) => match constant(name) {
            Some(value) => Ok(value),
            None => error(format!("unknown constant {name}")),
        },
        ExpressionKind::Flags(flags) => flags
            .iter()
            .try_fold(0, |sum, flag| Ok(sum | number(flag)?)),
        ExpressionKind::Function(name, arguments) => match (name.as_str(), arguments.as_slice()) {
            ("htons" | "ntohs", [value]) => {
                let short = number(value)? as u16;
                Ok(u16::from_ne_bytes(short.to_be_bytes()).into())
            }
            ("htonl" | "ntohl", [value]) => {
                let long = number(value)? as u32;
                Ok(u32::from_ne_bytes(long.to_be_bytes()).into())
            }
            _ => error(format!(
                "unknown function {name}: htons, htonl, ntohs and ntohl are known"
            )),
        },
        _ => error("expected a number".into()),
    }
}

/// Returns the socket address of `{sa_family=..., sin_port=htons(...), sin_addr=inet_addr("...")}`.
pub(crate) fn address(value: &Expression) -> Result<SocketAddr> {
    let error = || {
        let text =
            "expected {sa_family=AF_INET, sin_port=htons(PORT), sin_addr=inet_addr(\"ADDRESS\")}";
        (value.position, text.to_owned())
    };
    let ExpressionKind::Struct(fields) = &value.kind else {
        return Err(error());
    };
    let (mut port, mut ip) = (0, None);
    for (name, value) in fields {
        match name.as_str() {
            "sin_port" | "sin6_port" => {
                port = u16::from_be_bytes((number(value)? as u16).to_ne_bytes());
            }
            "sin_addr" | "sin6_addr" => ip = Some(ip_address(value)?),
            "sa_family" | "sin_family" | "sin6_family" | "sin6_flowinfo" | "sin6_scope_id" => {}
            _ => return Err((value.position, format!("{name} is no field of an address"))),
        }
    }
    Ok(SocketAddr::new(ip.ok_or_else(error)?, port))
}

/// Returns the address of `inet_addr("...")` or `inet_pton(AF_INET6, "...")`.
pub(crate) fn ip_address(value: &Expression) -> Result<IpAddr> {
    let text = match &value.kind {
        ExpressionKind::Function(name, arguments) if name.starts_with("inet_") => {
            arguments.last().map(|a| &a.kind)
        }
        ExpressionKind::Name(name) if name == "INADDR_ANY" => return Ok([0; 4].into()),
        kind => Some(kind),
    };
    let parsed = match text {
        Some(ExpressionKind::Text(text)) => {
            std::str::from_utf8(text).ok().and_then(|t| t.parse().ok())
        }
        _ => None,
    };
    parsed.ok_or_else(|| (value.position, "expected inet_addr(\"ADDRESS\")".into()))
}
