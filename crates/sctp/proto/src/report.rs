//! Reports of events to operators: the lines of logs and commands, in the words of the RFCs.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::net::IpAddr;

use crate::event::{CloseReason, Event};
use crate::path::{PathErrorCause, PathId, PathStats};
use crate::stats::AssociationStats;

/// Event of an association that logs report to the operator, whatever the program has subscribed to.
/// `Display` writes it in one line.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct EventReport {
    /// Kind of the event.
    pub kind: ReportKind,
    /// Path concerned, as it is after the event; `None` for an event of the association.
    pub path: Option<PathReport>,
    /// The event in one line.
    pub text: String,
}

/// Kind of an [`EventReport`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "kebab-case")
)]
pub enum ReportKind {
    /// [`Event::Established`]
    Established,
    /// [`Event::PathConfirmed`]
    Confirmed,
    /// [`Event::PathUnconfirmed`]
    Unconfirmed,
    /// [`Event::PathPotentiallyFailed`], exposed to the program or not
    PotentiallyFailed,
    /// [`Event::PathFailed`]
    Failed,
    /// [`Event::PathRecovered`], exposed to the program or not
    Recovered,
    /// [`Event::PathLocalAddressChanged`]
    SourceChanged,
    /// [`Event::PrimaryChanged`]: another path carries new data
    CurrentChanged,
    /// [`Event::PrimarySwitchover`]
    PrimaryChanged,
    /// [`Event::Dormant`]
    Dormant,
    /// [`Event::NoProgress`]
    NoProgress,
    /// [`Event::Restarted`]
    Restarted,
    /// [`Event::PeerError`]
    PeerError,
    /// [`Event::Closed`]
    Ended,
}

impl ReportKind {
    /// Kinds that concern one path. Their places are part of exported states: a further kind is the last one.
    pub const OF_PATHS: [Self; 8] = [
        Self::PotentiallyFailed,
        Self::Failed,
        Self::Recovered,
        Self::SourceChanged,
        Self::CurrentChanged,
        Self::PrimaryChanged,
        Self::Confirmed,
        Self::Unconfirmed,
    ];

    /// Returns the kind of an event; `None` if it is not reported.
    pub fn of(event: &Event) -> Option<Self> {
        Some(match event {
            Event::Established { .. } => Self::Established,
            Event::PathConfirmed(_) => Self::Confirmed,
            Event::PathUnconfirmed(_) => Self::Unconfirmed,
            Event::PathPotentiallyFailed(_)
            | Event::UnexposedPathChange {
                potentially_failed: true,
                ..
            } => Self::PotentiallyFailed,
            Event::PathFailed(_) => Self::Failed,
            Event::PathRecovered(_) | Event::UnexposedPathChange { .. } => Self::Recovered,
            Event::PathLocalAddressChanged(_) => Self::SourceChanged,
            Event::PrimaryChanged(_) => Self::CurrentChanged,
            Event::PrimarySwitchover(_) => Self::PrimaryChanged,
            Event::Dormant => Self::Dormant,
            Event::NoProgress => Self::NoProgress,
            Event::Restarted => Self::Restarted,
            Event::PeerError(_) => Self::PeerError,
            Event::Closed(_) => Self::Ended,
            _ => return None,
        })
    }

    /// Returns the name, as labels of metrics have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Established => "established",
            Self::Confirmed => "confirmed",
            Self::Unconfirmed => "unconfirmed",
            Self::PotentiallyFailed => "potentially-failed",
            Self::Failed => "failed",
            Self::Recovered => "recovered",
            Self::SourceChanged => "source-changed",
            Self::CurrentChanged => "current-changed",
            Self::PrimaryChanged => "primary-changed",
            Self::Dormant => "dormant",
            Self::NoProgress => "no-progress",
            Self::Restarted => "restarted",
            Self::PeerError => "peer-error",
            Self::Ended => "ended",
        }
    }
}

/// Path of an [`EventReport`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PathReport {
    /// Identifier of the path.
    pub id: PathId,
    /// Present source address; `None` for one that the host chooses.
    pub source: Option<IpAddr>,
    /// Source address that the routes of the host select.
    pub selected_source: Option<IpAddr>,
    /// Address of the peer.
    pub destination: IpAddr,
    /// Error counter of the path.
    pub error_count: u32,
    /// Reason of the last error; `None` while the counter is 0.
    pub error: Option<PathErrorCause>,
}

impl From<&PathStats> for PathReport {
    fn from(path: &PathStats) -> Self {
        Self {
            id: path.id,
            source: path.local,
            selected_source: path.selected,
            destination: path.remote,
            error_count: path.error_count,
            error: path.last_error.filter(|_| path.error_count > 0),
        }
    }
}

impl fmt::Display for PathReport {
    /// Writes source and destination, such as `192.0.2.1 -> 192.0.2.2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source {
            Some(source) => write!(f, "{source} -> {}", self.destination),
            None => write!(f, "* -> {}", self.destination),
        }
    }
}

impl fmt::Display for EventReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl EventReport {
    /// Reports an event of an association with these paths; `None` if its kind is not reported, or if its
    /// path does not exist any longer.
    pub fn new(
        event: &Event,
        paths: &[PathStats],
        association: Option<&AssociationStats>,
    ) -> Option<Self> {
        let kind = ReportKind::of(event)?;
        let path = match event {
            Event::PathConfirmed(id)
            | Event::PathUnconfirmed(id)
            | Event::PathPotentiallyFailed(id)
            | Event::UnexposedPathChange { path: id, .. }
            | Event::PathFailed(id)
            | Event::PathRecovered(id)
            | Event::PathLocalAddressChanged(id)
            | Event::PrimaryChanged(id)
            | Event::PrimarySwitchover(id) => {
                let path = paths.iter().find(|path| path.id == *id)?;
                Some(PathReport::from(path))
            }
            _ => None,
        };
        let primary = association.and_then(|stats| stats.primary);
        let primary = paths.iter().find(|path| Some(path.id) == primary);
        let text = match (event, &path) {
            (_, Some(path)) => path_text(kind, path, primary),
            (Event::NoProgress, None) => stall_text(paths, association),
            (event, None) => association_text(event, paths),
        };
        Some(Self { kind, path, text })
    }
}

/// Returns the line of an event of a path.
fn path_text(kind: ReportKind, path: &PathReport, primary: Option<&PathStats>) -> String {
    let errors = match path.error {
        Some(cause) => format!("{}, {cause}", path.error_count),
        None => path.error_count.to_string(),
    };
    match kind {
        ReportKind::Confirmed => format!("path {path} is confirmed"),
        ReportKind::Unconfirmed => {
            format!("path {path} is not confirmed and carries no data: error count {errors}")
        }
        ReportKind::PotentiallyFailed => {
            format!("path {path} is potentially failed: error count {errors}")
        }
        // Its source may have changed with the failure.
        ReportKind::Failed => {
            format!(
                "path to {} is inactive: error count {errors}",
                path.destination
            )
        }
        ReportKind::SourceChanged => match path.selected_source {
            Some(selected) if path.source != Some(selected) => format!(
                "path {path} has a new source address, the routes select {selected}: error count {errors}"
            ),
            _ => format!("path {path} has a new source address: error count {errors}"),
        },
        ReportKind::CurrentChanged => match primary {
            Some(primary) if primary.id != path.id => format!(
                "path {path} carries new data, the primary path is {}",
                PathReport::from(primary)
            ),
            _ => format!("path {path}, the primary path, carries new data"),
        },
        ReportKind::PrimaryChanged => format!("path {path} is the primary path now"),
        _ => format!("path {path} is active again"),
    }
}

/// Returns the line of an event of the association.
fn association_text(event: &Event, paths: &[PathStats]) -> String {
    match event {
        Event::Established { accepted, .. } => {
            let mut text = String::from(if *accepted {
                "established by the peer"
            } else {
                "established by this host"
            });
            for (place, path) in paths.iter().enumerate() {
                text += if place == 0 { ": path " } else { ", path " };
                text += &PathReport::from(path).to_string();
            }
            text
        }
        Event::Dormant => "all paths are inactive".into(),
        Event::Restarted => "the peer has restarted".into(),
        Event::PeerError(error) => format!("the peer reports an error: {}", error.cause),
        Event::Closed(reason) => format!("ended: {}", end_text(reason)),
        _ => String::new(),
    }
}

/// Returns the line of a stall: where the data is, and what may hold it up.
fn stall_text(paths: &[PathStats], association: Option<&AssociationStats>) -> String {
    let what = "no progress: the peer answers heartbeats and acknowledges no data";
    let Some(stats) = association else {
        return what.into();
    };
    let current = paths.iter().find(|path| Some(path.id) == stats.current);
    let place = current.map_or_else(String::new, |path| {
        format!(", on path {}", PathReport::from(path))
    });
    let why = match stats.peer_rwnd {
        0 => "the peer's receive window is 0".into(),
        window => format!(
            "the peer has room for {window} bytes, so that something on the way may drop packets with data, or large ones"
        ),
    };
    let (bytes, queued) = (stats.outstanding_bytes, stats.queued_messages);
    format!(
        "{what}; {bytes} bytes are outstanding, {queued} messages wait behind them{place}; {why}"
    )
}

/// Returns the end of an association in the words of the RFCs.
fn end_text(reason: &CloseReason) -> String {
    match reason {
        CloseReason::Shutdown => "SHUTDOWN COMPLETE".into(),
        CloseReason::AbortedByUser => "aborted by the user".into(),
        CloseReason::AbortedByPeer(cause) => format!("ABORT received: {cause}"),
        CloseReason::AbortedByProtocol(cause) => format!("ABORT sent: {cause}"),
        CloseReason::SetupTimedOut => "Max.Init.Retransmits exceeded".into(),
        CloseReason::StaleCookie => "Stale Cookie Error received".into(),
        CloseReason::PeerUnreachable => "Association.Max.Retrans exceeded".into(),
        CloseReason::ShutdownTimedOut => "T5-shutdown-guard expired".into(),
        CloseReason::ProtocolUnreachable => "ICMP Protocol or Port Unreachable received".into(),
        CloseReason::LowerLayerLost => "lower layer lost".into(),
        CloseReason::AlreadyConnected => "another association with this peer exists".into(),
        CloseReason::HandedOver => "handed over".into(),
    }
}

impl CloseReason {
    /// Names of the reasons of ends, in their order: all but [`Self::HandedOver`], which is none.
    pub const NAMES: [&'static str; 11] = [
        "shutdown",
        "aborted-by-user",
        "aborted-by-peer",
        "aborted-by-protocol",
        "setup-timed-out",
        "stale-cookie",
        "peer-unreachable",
        "shutdown-timed-out",
        "protocol-unreachable",
        "lower-layer-lost",
        "already-connected",
    ];

    /// Returns the place in [`Self::NAMES`]; `None` for [`Self::HandedOver`].
    pub const fn index(&self) -> Option<usize> {
        Some(match self {
            Self::Shutdown => 0,
            Self::AbortedByUser => 1,
            Self::AbortedByPeer(_) => 2,
            Self::AbortedByProtocol(_) => 3,
            Self::SetupTimedOut => 4,
            Self::StaleCookie => 5,
            Self::PeerUnreachable => 6,
            Self::ShutdownTimedOut => 7,
            Self::ProtocolUnreachable => 8,
            Self::LowerLayerLost => 9,
            Self::AlreadyConnected => 10,
            Self::HandedOver => return None,
        })
    }
}
