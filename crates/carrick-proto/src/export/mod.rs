//! Export of an endpoint with all its associations, and its import by another process: handover.
//!
//! ```text
//! magic (8) | version (2) | length of the state (8) | state | CRC32c of everything before (4)
//! ```
//!
//! The state consists of the fields of the structs of the core, each in its module: `portable_struct!`,
//! `portable_tuple!` and `portable_enum!` list them. Indexes, caches and buffers that the state determines are not
//! stored but rebuilt. `docs/decisions/handover.md` has the reasons.
//!
//! The crate with the sockets exports its own state by the same codec. The codec is hidden from the documentation:
//! it serves the crates of this workspace and changes without notice.

#[macro_use]
mod codec;
mod wire;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use alloc::boxed::Box;
use carrick_wire::{ChunkType, ParameterType, crc32c};

#[doc(hidden)]
pub use codec::{Portable, Reader, Writer};

use crate::cc::Algorithm;
use crate::config::ConfigError;
use crate::endpoint::Endpoint;
use crate::peer_text::PeerText;
use crate::protection::ChunkProtectionOffer;
use crate::route::{MatchingAddress, SourceSelection};
use crate::time::Time;

/// Format of an endpoint. Its version changes with every change of the state, also within a release of the crate.
const FORMAT: Format = Format::new(*b"carrick\x1a", 1);

/// Bytes in front of the state.
const HEADER: usize = 8 + 2 + 8;

/// Bytes behind the state.
const TRAILER: usize = 4;

/// Limit of the length of an algorithm's name in errors.
const MAX_NAME: usize = 64;

/// State of an endpoint and of all its associations, exported by [`Endpoint::export`].
///
/// It contains secrets: the key of State Cookies, the state of the random number generator, shared keys, and
/// messages of the user. Keep it where only the successor can read it, and erase it after the import. `Debug` shows its
/// length only.
#[derive(Clone, PartialEq, Eq)]
pub struct EndpointExport(Vec<u8>);

impl EndpointExport {
    /// Returns the bytes, for [`Endpoint::import`].
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the bytes, for [`Endpoint::import`].
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl AsRef<[u8]> for EndpointExport {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for EndpointExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EndpointExport({} bytes)", self.0.len())
    }
}

/// Parts of a configuration that are code, which an export refers to but does not contain.
#[derive(Debug)]
pub struct ImportConfig {
    /// Source address selection of the endpoint. Default: [`MatchingAddress`].
    pub source_selection: Box<dyn SourceSelection>,
    /// Algorithms of congestion control besides [`crate::cc::algorithms`], found by their names. Default: none.
    pub algorithms: Vec<Arc<dyn Algorithm>>,
    /// Chunk protections, found by the type of their parameter. Default: none.
    pub protections: Vec<Arc<dyn ChunkProtectionOffer>>,
}

impl Default for ImportConfig {
    fn default() -> Self {
        Self {
            source_selection: Box::new(MatchingAddress),
            algorithms: Vec::new(),
            protections: Vec::new(),
        }
    }
}

/// Error of [`Endpoint::export`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ExportError {
    /// A congestion controller does not implement [`crate::cc::Controller::export`].
    Controller,
    /// A chunk protection does not implement [`crate::protection::ChunkProtection::export`]; the type of its
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

/// Error of [`Endpoint::import`] and of other imports by the same codec.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ImportError {
    /// The bytes are no export of this kind.
    NoExport,
    /// Another version of the crate exported the state, with this version of the format.
    Version {
        /// Version of the export.
        found: u16,
        /// Version that this crate imports.
        supported: u16,
    },
    /// The bytes are incomplete or damaged.
    Damaged,
    /// The checksum is right, but this state cannot occur; the part that it was found in.
    Malformed(&'static str),
    /// A parameter is out of its range.
    InvalidConfig(ConfigError),
    /// An association uses an algorithm of congestion control that is not in [`ImportConfig::algorithms`].
    UnknownAlgorithm(String),
    /// An algorithm of congestion control refused the state of its controller.
    Controller(&'static str),
    /// An association offers or has a chunk protection that is not in [`ImportConfig::protections`].
    MissingProtection(ParameterType),
    /// A chunk protection refused its state; the type of its chunk.
    Protection(ChunkType),
}

impl ImportError {
    fn unknown_algorithm(name: &[u8]) -> Self {
        let shown = &name[..name.len().min(MAX_NAME)];
        Self::UnknownAlgorithm(alloc::format!("{}", PeerText::new(shown)))
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoExport => f.write_str("the bytes are no export of this kind"),
            Self::Version { found, supported } => write!(
                f,
                "the state was exported with version {found} of the format, and this program \
                 imports version {supported}: import it with the program's release that exported it"
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

impl Endpoint {
    /// Exports the endpoint with all its associations, so that another process can continue them with
    /// [`Self::import`], at any moment: during set-up and shutdown, with data outstanding, incomplete messages, and
    /// events and messages that the user has not fetched. Packets, events and messages that this endpoint returns after
    /// the export are unknown to the successor: drop it, without another call.
    ///
    /// The export is as large as the data in the buffers, and one to two kilobytes for each association.
    ///
    /// # Errors
    /// [`ExportError`], if a congestion controller or chunk protection of the user can't be exported.
    pub fn export(&self, now: Time) -> Result<EndpointExport, ExportError> {
        let bytes = FORMAT.export(now, |out| self.write_state(out))?;
        Ok(EndpointExport(bytes))
    }

    /// Continues the endpoint that another one exported with [`Self::export`]. Its parameters, also those that changed
    /// at run time, associations and local addresses are those of the export; identifiers of associations remain valid.
    ///
    /// `now` is the moment of the export by this program's clock: all timers and round-trip times continue from
    /// there. If both programs read the same clock, pass the time of the export, and call [`Self::handle_timeout`] with
    /// the present time next; if the time between the two is unknown, pass the present time. Moments of the past that
    /// are before the epoch of this program's clock count as its epoch: let it begin at an hour, for instance, and not
    /// at zero.
    ///
    /// # Errors
    /// [`ImportError`]. Memory is bounded by a small multiple of the bytes.
    pub fn import(config: ImportConfig, now: Time, bytes: &[u8]) -> Result<Self, ImportError> {
        let state = FORMAT.open(bytes)?;
        let mut input = Reader::new(state, now, Some(&config));
        let mut endpoint = Self::read_state(&mut input)?;
        input.finish()?;
        endpoint.set_source_selection(config.source_selection);
        Ok(endpoint)
    }
}

/// Magic number and version of an export.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format {
    magic: [u8; 8],
    version: u16,
}

impl Format {
    /// Returns the format with a magic number, and a version that changes with every change of the state.
    pub const fn new(magic: [u8; 8], version: u16) -> Self {
        Self { magic, version }
    }

    /// Returns an export of the state at `now` that `write` appends.
    ///
    /// # Errors
    /// [`ExportError`], if a part can't be exported.
    pub fn export(
        &self,
        now: Time,
        write: impl FnOnce(&mut Writer),
    ) -> Result<Vec<u8>, ExportError> {
        let mut out = Writer::new(now);
        out.raw(&self.magic);
        out.raw(&self.version.to_be_bytes());
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

    /// Checks magic number, version, length and checksum of an export. Returns the state in it.
    ///
    /// # Errors
    /// [`ImportError::NoExport`], [`ImportError::Version`] or [`ImportError::Damaged`].
    pub fn open<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], ImportError> {
        let rest = bytes
            .strip_prefix(&self.magic)
            .ok_or(ImportError::NoExport)?;
        let (version, rest) = rest.split_first_chunk().ok_or(ImportError::Damaged)?;
        let found = u16::from_be_bytes(*version);
        if found != self.version {
            return Err(ImportError::Version {
                found,
                supported: self.version,
            });
        }
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
        Ok(state)
    }
}

/// Returns a part of the state by itself, such as that of a controller.
pub(crate) fn to_bytes(state: &impl Portable, now: Time) -> Vec<u8> {
    let mut out = Writer::new(now);
    state.write(&mut out);
    out.bytes
}

/// Returns the state in the bytes of [`to_bytes`].
pub(crate) fn from_bytes<T: Portable>(bytes: &[u8], now: Time) -> Option<T> {
    let mut input = Reader::new(bytes, now, None);
    let state = T::read(&mut input).ok()?;
    input.finish().ok()?;
    Some(state)
}

#[cfg(test)]
mod tests;
