//! Format, codec and errors of the export of state and of its import by another process: handover. All parts of the
//! core use this module, which uses none of them; [`Endpoint::export`](crate::Endpoint::export) is in `endpoint/export.rs`.
//!
//! ```text
//! magic (8) | version (2) | length of the state (8) | state | CRC32c of everything before (4)
//! ```
//!
//! The state consists of the fields of the structs of the core, each in its module: `portable_struct!`,
//! `portable_tuple!` and `portable_enum!` list them. Indexes, caches and buffers that the state determines are not
//! stored but rebuilt. `docs/decisions/handover.md` has the reasons.
//!
//! The version of the state is that of all crates of the workspace. A reader reads its own and older ones: a field of a
//! later version is listed with it, and with its value in older exports (`since` in `portable_struct!`).
//!
//! The crate with the sockets exports its own state by the same codec. The codec is hidden from the documentation:
//! it serves the crates of this workspace and changes without notice.

#[macro_use]
mod codec;
mod shared_values;
mod wire;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use carrick_wire::{ChunkType, ParameterType, crc32c};

#[doc(hidden)]
pub use codec::{ExportReader, ExportWriter, Portable};
#[doc(hidden)]
pub use shared_values::{ImportParts, SharedValues};

use crate::error::ConfigError;
use crate::peer_text::PeerText;
use crate::time::Time;

/// Version of the state that is written, of all crates of the workspace.
#[doc(hidden)]
pub const VERSION: u16 = 1;

/// Oldest version of the state that is read.
#[doc(hidden)]
pub const OLDEST_VERSION: u16 = 1;

/// Bytes in front of the state.
const HEADER: usize = 8 + 2 + 8;

/// Bytes behind the state.
const TRAILER: usize = 4;

/// Limit of the length of an algorithm's name in errors.
const MAX_NAME: usize = 64;

/// Error of [`Endpoint::export`](crate::Endpoint::export).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ExportError {
    /// A congestion controller does not implement [`cc::Controller::export`](crate::cc::Controller::export).
    Controller,
    /// A chunk protection does not implement [`protection::ChunkProtection::export`](crate::protection::ChunkProtection::export); the type of its
    /// chunk.
    Protection(ChunkType),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controller => {
                f.write_str("a congestion controller has no export: implement Controller::export")
            }
            Self::Protection(kind) => write!(
                f,
                "the chunk protection with chunk type 0x{:02x} has no export: implement \
                 ChunkProtection::export",
                kind.0
            ),
        }
    }
}

impl core::error::Error for ExportError {}

/// Error of [`Endpoint::import`](crate::Endpoint::import) and of other imports by the same codec.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ImportError {
    /// The bytes are no export of this kind.
    NoExport,
    /// The state has a version that this release does not import.
    Version {
        /// Version of the export.
        found: u16,
        /// Oldest version that is imported.
        oldest: u16,
        /// Latest version that is imported.
        latest: u16,
    },
    /// The bytes are incomplete or damaged.
    Damaged,
    /// The checksum is right, but this state cannot occur; the part that it was found in.
    Malformed(&'static str),
    /// A parameter is out of its range.
    InvalidConfig(ConfigError),
    /// An association uses an algorithm of congestion control that is not in [`ImportConfig::algorithms`](crate::ImportConfig::algorithms).
    UnknownAlgorithm(String),
    /// An algorithm of congestion control refused the state of its controller.
    Controller(&'static str),
    /// An association offers or has a chunk protection that is not in [`ImportConfig::protections`](crate::ImportConfig::protections).
    MissingProtection(ParameterType),
    /// A chunk protection refused its state; the type of its chunk.
    Protection(ChunkType),
}

impl ImportError {
    pub(crate) fn unknown_algorithm(name: &[u8]) -> Self {
        let shown = &name[..name.len().min(MAX_NAME)];
        Self::UnknownAlgorithm(alloc::format!("{}", PeerText::new(shown)))
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoExport => f.write_str("the bytes are no export of this kind"),
            Self::Version {
                found,
                oldest,
                latest,
            } => write!(
                f,
                "the state was exported with version {found} of the format, and this program imports versions \
                 {oldest} to {latest}: import it with the release that exported it, or with one between the two"
            ),
            Self::Damaged => {
                f.write_str("the export is incomplete or damaged: its checksum is wrong")
            }
            Self::Malformed(part) => {
                write!(f, "the export contains a state that cannot occur ({part})")
            }
            Self::InvalidConfig(error) => fmt::Display::fmt(error, f),
            Self::UnknownAlgorithm(name) => write!(
                f,
                "unknown congestion control \"{name}\": add it to ImportConfig::algorithms"
            ),
            Self::Controller(name) => {
                write!(
                    f,
                    "congestion control \"{name}\" refused the state of a path"
                )
            }
            Self::MissingProtection(kind) => write!(
                f,
                "no chunk protection for parameter 0x{:04x}: add it to ImportConfig::protections",
                kind.0
            ),
            Self::Protection(kind) => write!(
                f,
                "the chunk protection with chunk type 0x{:02x} refused its state",
                kind.0
            ),
        }
    }
}

impl core::error::Error for ImportError {}

/// Magic number of an export.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format {
    magic: [u8; 8],
}

impl Format {
    /// Returns the format with a magic number.
    pub const fn new(magic: [u8; 8]) -> Self {
        Self { magic }
    }

    /// Returns an export of the state at `now` that `write` appends.
    ///
    /// # Errors
    /// [`ExportError`], if a part can't be exported.
    pub fn export(
        &self,
        now: Time,
        write: impl FnOnce(&mut ExportWriter),
    ) -> Result<Vec<u8>, ExportError> {
        let mut out = ExportWriter::new(now);
        out.raw(&self.magic);
        out.raw(&VERSION.to_be_bytes());
        out.raw(&[0; 8]);
        write(&mut out);
        if let Some(fault) = out.fault {
            return Err(fault);
        }
        let mut bytes = out.bytes;
        let len = (bytes.len() - HEADER) as u64;
        bytes[HEADER - 8..HEADER].copy_from_slice(&len.to_be_bytes());
        let sum = crc32c(&bytes);
        bytes.extend_from_slice(&sum.to_be_bytes());
        Ok(bytes)
    }

    /// Checks magic number, version, length and checksum of an export. Begins to read the state in it, as
    /// [`ExportReader::new`] does.
    ///
    /// # Errors
    /// [`ImportError::NoExport`], [`ImportError::Version`] or [`ImportError::Damaged`].
    pub fn open<'a>(
        &self,
        bytes: &'a [u8],
        now: Time,
        parts: Option<&dyn ImportParts>,
    ) -> Result<ExportReader<'a>, ImportError> {
        let rest = bytes
            .strip_prefix(&self.magic)
            .ok_or(ImportError::NoExport)?;
        let (version, rest) = rest.split_first_chunk().ok_or(ImportError::Damaged)?;
        let version = supported(u16::from_be_bytes(*version))?;
        let (len, rest) = rest.split_first_chunk().ok_or(ImportError::Damaged)?;
        let (state, sum) = rest
            .split_last_chunk::<TRAILER>()
            .ok_or(ImportError::Damaged)?;
        let covered = &bytes[..bytes.len() - TRAILER];
        if state.len() as u64 != u64::from_be_bytes(*len)
            || crc32c(covered) != u32::from_be_bytes(*sum)
        {
            return Err(ImportError::Damaged);
        }
        Ok(ExportReader::new(version, state, now, parts))
    }
}

/// Checks that a version is imported.
fn supported(found: u16) -> Result<u16, ImportError> {
    let (oldest, latest) = (OLDEST_VERSION, VERSION);
    if (oldest..=latest).contains(&found) {
        Ok(found)
    } else {
        Err(ImportError::Version {
            found,
            oldest,
            latest,
        })
    }
}

/// Returns a part of the state by itself, such as that of a controller, with its version.
pub(crate) fn to_bytes(state: &impl Portable, now: Time) -> Vec<u8> {
    let mut out = ExportWriter::new(now);
    VERSION.write(&mut out);
    state.write(&mut out);
    out.bytes
}

/// Returns the state in the bytes of [`to_bytes`].
pub(crate) fn from_bytes<T: Portable>(bytes: &[u8], now: Time) -> Option<T> {
    let mut input = ExportReader::new(VERSION, bytes, now, None);
    input.version = supported(u16::read(&mut input).ok()?).ok()?;
    let state = T::read(&mut input).ok()?;
    input.finish().ok()?;
    Some(state)
}

#[cfg(test)]
mod tests;
