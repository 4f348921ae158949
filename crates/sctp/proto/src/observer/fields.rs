//! Names, levels and fields of observed events, for logs.

use core::fmt;
use core::time::Duration;

use super::ObservedEvent;
use crate::event::Event;
use crate::path::PathId;
use crate::report::ReportKind;

/// Value of a field of an [`ObservedEvent`].
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum ObservedValue<'a> {
    /// Number: a count, an identifier, a length in bytes.
    Number(u64),
    /// Duration.
    Duration(Duration),
    /// Condition.
    Flag(bool),
    /// Name of a fixed set, or an address.
    Text(&'a dyn fmt::Display),
}

impl fmt::Debug for ObservedValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ObservedValue<'_> {
    /// Writes the value; durations in s.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Duration(duration) => write!(f, "{} s", duration.as_secs_f64()),
            Self::Flag(flag) => flag.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// Level of an event, for the levels of a log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ObservedDetail {
    /// Beginning and end of the association, states, states of paths: a few events in its life.
    Association,
    /// Errors of paths, changes of their routes, timeouts, refused chunks: what explains the former.
    Decision,
    /// Events of single chunks, samples and windows: several for each packet.
    Chunk,
}

impl ObservedEvent {
    /// Returns the level of the event.
    pub fn detail(&self) -> ObservedDetail {
        match self {
            Self::ChunkSent { .. }
            | Self::ChunkAcknowledged { .. }
            | Self::ChunkReceived { .. }
            | Self::SackSent { .. }
            | Self::Window { .. }
            | Self::RoundTrip { .. }
            | Self::Rto { .. } => ObservedDetail::Chunk,
            Self::Begun { .. } | Self::StateChanged { .. } => ObservedDetail::Association,
            Self::Notified(event) => Self::detail_of(event),
            Self::PathChanged { .. }
            | Self::PathRemoved { .. }
            | Self::PathError { .. }
            | Self::SilenceCheckBegun { .. }
            | Self::LossDetected { .. }
            | Self::TailLossProbe { .. }
            | Self::ReductionUndone { .. }
            | Self::Timeout { .. }
            | Self::ChunkDiscarded { .. } => ObservedDetail::Decision,
        }
    }

    /// Returns the level of [`Self::Notified`] with an event.
    pub(crate) fn detail_of(event: &Event) -> ObservedDetail {
        match event {
            Event::MessageReceived | Event::SendBufferFree | Event::AllAcknowledged => {
                ObservedDetail::Chunk
            }
            _ if ReportKind::of(event).is_some() => ObservedDetail::Association,
            _ => ObservedDetail::Decision,
        }
    }

    /// Returns the name, with its subject in front: `path:error`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Begun { .. } => "association:begun",
            Self::StateChanged { .. } => "association:state",
            Self::PathChanged { .. } => "path:changed",
            Self::PathRemoved { .. } => "path:removed",
            Self::PathError { .. } => "path:error",
            Self::SilenceCheckBegun { .. } => "path:silence-check",
            Self::ChunkSent { .. } => "chunk:sent",
            Self::ChunkAcknowledged { .. } => "chunk:acknowledged",
            Self::LossDetected { .. } => "recovery:loss",
            Self::TailLossProbe { .. } => "recovery:tail-loss-probe",
            Self::ReductionUndone { .. } => "recovery:reduction-undone",
            Self::Timeout { .. } => "recovery:t3-expired",
            Self::ChunkReceived { .. } => "chunk:received",
            Self::ChunkDiscarded { .. } => "chunk:discarded",
            Self::SackSent { .. } => "chunk:sack-sent",
            Self::Window { .. } => "path:window",
            Self::RoundTrip { .. } => "path:round-trip",
            Self::Rto { .. } => "path:rto",
            Self::Notified(event) => notification_name(event),
        }
    }

    /// Calls `visit` with the name and the value of each field that has a value, in their order.
    pub fn visit(&self, visit: &mut dyn FnMut(&'static str, ObservedValue<'_>)) {
        use ObservedValue::{Flag, Number, Text};
        let path = |visit: &mut dyn FnMut(&'static str, ObservedValue<'_>), id: PathId| {
            visit("path", Number(id.0.into()));
        };
        match self {
            Self::Begun {
                local_port,
                peer_port,
                accepted,
            } => {
                visit("local_port", Number((*local_port).into()));
                visit("peer_port", Number((*peer_port).into()));
                visit("accepted", Flag(*accepted));
            }
            Self::StateChanged { from, to } => {
                if let Some(from) = from {
                    visit("from", Text(from));
                }
                visit("to", Text(to));
            }
            Self::PathChanged {
                path: id,
                local,
                remote,
                encapsulation,
                mtu,
            } => {
                path(visit, *id);
                if let Some(local) = local {
                    visit("local", Text(local));
                }
                visit("remote", Text(remote));
                if let Some(port) = encapsulation {
                    visit("udp_port", Number((*port).into()));
                }
                visit("mtu", Number((*mtu).into()));
            }
            Self::PathError {
                path: id,
                cause,
                error_count,
            } => {
                path(visit, *id);
                visit("cause", Text(cause));
                visit("error_count", Number((*error_count).into()));
            }
            Self::PathRemoved { path: id }
            | Self::SilenceCheckBegun { path: id }
            | Self::TailLossProbe { path: id }
            | Self::ReductionUndone { path: id }
            | Self::Timeout { path: id } => path(visit, *id),
            Self::Notified(event) => visit_notification(event, visit),
            _ => self.visit_chunk_event(visit),
        }
    }

    /// Visits the fields of an event about chunks or measurements.
    fn visit_chunk_event(&self, visit: &mut dyn FnMut(&'static str, ObservedValue<'_>)) {
        use ObservedValue::{Duration, Number, Text};
        let path = |visit: &mut dyn FnMut(&'static str, ObservedValue<'_>), id: PathId| {
            visit("path", Number(id.0.into()));
        };
        match self {
            Self::ChunkSent {
                tsn,
                stream,
                path: id,
                transmission,
                bytes,
                context,
            } => {
                path(visit, *id);
                visit("tsn", Number(tsn.value().into()));
                visit("stream", Number(stream.0.into()));
                visit("transmission", Number((*transmission).into()));
                visit("bytes", Number(*bytes as u64));
                visit("context", Number(*context));
            }
            Self::ChunkAcknowledged { tsn } | Self::ChunkReceived { tsn } => {
                visit("tsn", Number(tsn.value().into()));
            }
            Self::LossDetected { tsn, path: id } => {
                path(visit, *id);
                visit("tsn", Number(tsn.value().into()));
            }
            Self::ChunkDiscarded { chunk, reason } => {
                visit("chunk", Number(chunk.0.into()));
                visit("reason", Text(reason));
            }
            Self::SackSent { path: id, gaps } => {
                path(visit, *id);
                visit("gaps", Number(*gaps as u64));
            }
            Self::Window {
                path: id,
                cwnd,
                ssthresh,
                flight_size,
            } => {
                path(visit, *id);
                visit("cwnd", Number(*cwnd as u64));
                visit("ssthresh", Number(*ssthresh as u64));
                visit("flight_size", Number(*flight_size as u64));
            }
            Self::RoundTrip { path: id, sample } => {
                path(visit, *id);
                visit("sample", Duration(*sample));
            }
            Self::Rto { path: id, rto } => {
                path(visit, *id);
                visit("rto", Duration(*rto));
            }
            Self::Begun { .. }
            | Self::StateChanged { .. }
            | Self::PathChanged { .. }
            | Self::PathRemoved { .. }
            | Self::PathError { .. }
            | Self::SilenceCheckBegun { .. }
            | Self::TailLossProbe { .. }
            | Self::ReductionUndone { .. }
            | Self::Timeout { .. }
            | Self::Notified(_) => {}
        }
    }
}

/// Returns the name of a notification.
fn notification_name(event: &Event) -> &'static str {
    match event {
        Event::Established { .. } => "association:established",
        Event::Restarted => "association:restarted",
        Event::Dormant => "association:dormant",
        Event::NoProgress => "association:no-progress",
        Event::PeerError(_) => "association:peer-error",
        Event::PeerShutdown => "association:peer-shutdown",
        Event::Closed(_) => "association:ended",
        Event::MessageReceived => "message:received",
        Event::MessageAborted { .. } => "message:aborted",
        Event::SendBufferFree => "message:send-buffer-free",
        Event::SendFailed(_) => "message:send-failed",
        Event::AllAcknowledged => "message:all-acknowledged",
        Event::PathConfirmed(_) => "path:confirmed",
        Event::PathUnconfirmed(_) => "path:unconfirmed",
        Event::PathFailed(_) => "path:inactive",
        Event::PathPotentiallyFailed(_)
        | Event::UnexposedPathChange {
            potentially_failed: true,
            ..
        } => "path:potentially-failed",
        Event::PathRecovered(_) | Event::UnexposedPathChange { .. } => "path:active",
        Event::PathLocalAddressChanged(_) => "path:source-changed",
        Event::PrimaryChanged(_) => "path:carries-data",
        Event::PrimarySwitchover(_) => "path:primary",
        Event::Authentication(_) => "authentication:key",
        Event::Address(_) => "address:changed",
        Event::StreamsReset { .. } => "streams:reset",
        Event::AssociationReset { .. } => "streams:association-reset",
        Event::StreamsChanged { .. } => "streams:changed",
    }
}

/// Visits the fields of a notification that a log has.
fn visit_notification(event: &Event, visit: &mut dyn FnMut(&'static str, ObservedValue<'_>)) {
    use ObservedValue::{Flag, Number, Text};
    match event {
        Event::Established {
            outbound_streams,
            inbound_streams,
            accepted,
            ..
        } => {
            visit("outbound_streams", Number((*outbound_streams).into()));
            visit("inbound_streams", Number((*inbound_streams).into()));
            visit("accepted", Flag(*accepted));
        }
        Event::PathConfirmed(id)
        | Event::PathUnconfirmed(id)
        | Event::PathFailed(id)
        | Event::PathPotentiallyFailed(id)
        | Event::UnexposedPathChange { path: id, .. }
        | Event::PathRecovered(id)
        | Event::PathLocalAddressChanged(id)
        | Event::PrimaryChanged(id)
        | Event::PrimarySwitchover(id) => visit("path", Number(id.0.into())),
        Event::PeerError(error) => visit("cause", Text(&error.cause)),
        Event::Closed(reason) => visit("reason", Text(reason)),
        Event::MessageAborted { stream, .. } => visit("stream", Number(stream.0.into())),
        Event::SendFailed(failure) => {
            visit("stream", Number(failure.stream.0.into()));
            visit("sent", Flag(failure.sent));
            visit("expired", Flag(failure.expired));
        }
        Event::StreamsChanged {
            outbound_streams,
            inbound_streams,
            ..
        } => {
            visit("outbound_streams", Number((*outbound_streams).into()));
            visit("inbound_streams", Number((*inbound_streams).into()));
        }
        Event::Restarted
        | Event::MessageReceived
        | Event::SendBufferFree
        | Event::AllAcknowledged
        | Event::Dormant
        | Event::NoProgress
        | Event::Authentication(_)
        | Event::Address(_)
        | Event::PeerShutdown
        | Event::StreamsReset { .. }
        | Event::AssociationReset { .. } => {}
    }
}
