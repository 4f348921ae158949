//! Events of associations and paths for the operator: counters, and reports for a log. They do not depend
//! on what a program subscribes to or exposes.

use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use carrick_proto::export::{ExportReader, ExportWriter, ImportError, Portable};
use carrick_proto::{CloseReason, Event, EventReport, PathStats, ReportKind};

use super::Sockets;
use crate::ids::AssocId;

/// Reports that wait for the log.
const MAX_REPORTS: usize = 1024;

/// Report of an event of an association. `Display` writes it in one line.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct AssociationReport {
    /// Association identifier.
    pub association: AssocId,
    /// Name of the association in the log of its observer ([`Observer::trace`](carrick_proto::Observer::trace)).
    pub trace: Option<String>,
    /// Local address that its packets have now; `None` for one that the host chooses.
    pub local: Option<IpAddr>,
    /// Local SCTP port.
    pub local_port: u16,
    /// Address to which new data goes, and SCTP port of the peer.
    pub peer: SocketAddr,
    /// The association was established before.
    pub was_established: bool,
    /// The event.
    pub event: EventReport,
}

impl fmt::Display for AssociationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            association,
            trace,
            local,
            local_port,
            peer,
            event,
            ..
        } = self;
        write!(f, "association {association}")?;
        if let Some(trace) = trace {
            write!(f, " (trace {trace})")?;
        }
        f.write_str(", ")?;
        match local {
            Some(ip) => write!(f, "{}", SocketAddr::new(*ip, *local_port))?,
            None => write!(f, "*:{local_port}")?,
        }
        write!(f, " with {peer}: {event}")?;
        if event.kind == ReportKind::Ended && !self.was_established {
            f.write_str(", it was not established")?;
        }
        Ok(())
    }
}

/// Counters of events of paths and of ends of associations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct EventCounters {
    /// Events of paths, in the order of [`ReportKind::OF_PATHS`].
    pub paths: [u64; ReportKind::OF_PATHS.len()],
    /// Ends of associations, set-ups that failed included, in the order of [`CloseReason::NAMES`].
    pub ends: [u64; CloseReason::NAMES.len()],
}

// Lists of any length: another version may have fewer kinds and reasons, or further ones.
impl Portable for EventCounters {
    fn write(&self, out: &mut ExportWriter) {
        let Self { paths, ends } = self;
        paths.to_vec().write(out);
        ends.to_vec().write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let mut counters = Self::default();
        let Self { paths, ends } = &mut counters;
        for counts in [&mut paths[..], &mut ends[..]] {
            let exported = Vec::<u64>::read(input)?;
            for (count, exported) in counts.iter_mut().zip(exported) {
                *count = exported;
            }
        }
        Ok(counters)
    }
}

impl EventCounters {
    fn count(&mut self, kind: ReportKind, event: &Event) {
        let place = ReportKind::OF_PATHS.iter().position(|of| *of == kind);
        let counter = match (event, place) {
            (Event::Closed(reason), _) => reason.index().and_then(|at| self.ends.get_mut(at)),
            (_, Some(place)) => self.paths.get_mut(place),
            (_, None) => None,
        };
        if let Some(counter) = counter {
            *counter += 1;
        }
    }
}

impl std::ops::AddAssign for EventCounters {
    fn add_assign(&mut self, other: Self) {
        let Self { paths, ends } = other;
        let of_paths = self.paths.iter_mut().zip(paths);
        for (sum, count) in of_paths.chain(self.ends.iter_mut().zip(ends)) {
            *sum += count;
        }
    }
}

/// Reports of events of associations for a log. At most 1,024 wait; further ones are dropped.
#[derive(Debug, Default)]
pub struct Reports {
    /// A log takes the reports.
    is_on: bool,
    queue: VecDeque<AssociationReport>,
    /// Number of reports for which the queue had no room.
    dropped: u64,
}

impl Reports {
    /// Queues the events of associations from now on.
    pub fn enable(&mut self) {
        self.is_on = true;
    }

    /// Queues no further events.
    pub fn disable(&mut self) {
        self.is_on = false;
    }

    /// Returns the next report.
    pub fn poll(&mut self) -> Option<AssociationReport> {
        self.queue.pop_front()
    }

    /// Returns the number of reports that were dropped since the last call.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

impl Sockets {
    /// Returns the reports of events of associations.
    pub fn reports(&mut self) -> &mut Reports {
        &mut self.reports
    }
}

/// Counts an event of an association, and queues its report.
pub(crate) fn report(host: &mut Sockets, id: AssocId, event: &Event) {
    let Some(kind) = ReportKind::of(event) else {
        return;
    };
    host.removed.events.count(kind, event);
    if !host.reports.is_on {
        return;
    }
    if host.reports.queue.len() >= MAX_REPORTS {
        host.reports.dropped += 1;
        return;
    }
    let report = report_of(host, id, event);
    if let (Some(report), Some(association)) = (&report, host.associations.get_mut(id)) {
        association.reported_source = report.local;
    }
    host.reports.queue.extend(report);
}

fn report_of(host: &Sockets, id: AssocId, event: &Event) -> Option<AssociationReport> {
    let found = host.lookup().get(id)?;
    let (association, stats) = (found.own, found.stats());
    let paths: Vec<PathStats> = found.paths().collect();
    let current = stats.as_ref().and_then(|stats| stats.current);
    let current = paths.iter().find(|path| Some(path.id) == current);
    let peer = current.map_or(association.peer.ip(), |path| path.remote);
    Some(AssociationReport {
        association: id,
        trace: found
            .core
            .observer()
            .and_then(|observer| observer.trace(association.core().1)),
        local: current
            .and_then(|path| path.local)
            .or(association.reported_source),
        local_port: found.core.port(),
        peer: SocketAddr::new(peer, association.peer.port()),
        was_established: association.is_established(),
        event: EventReport::new(event, &paths, stats.as_ref())?,
    })
}

#[cfg(test)]
mod tests {
    use carrick_proto::Time;
    use carrick_proto::export::VERSION;

    use super::*;

    #[test]
    fn counters_of_another_version_are_read() {
        let bytes = [&[2, 7, 8, 40][..], &[9; 40]].concat();
        let mut input = ExportReader::new(VERSION, &bytes, Time::ZERO, None);
        let read = EventCounters::read(&mut input).unwrap();
        assert_eq!(read.paths[..3], [7, 8, 0]);
        assert_eq!(read.ends, [9; CloseReason::NAMES.len()]);
        input.finish().expect("no byte is left");
    }
}
