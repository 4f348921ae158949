//! Report of the messages that an endpoint did not deliver by the time it was closed.

use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use carrick_proto::CloseReason;
use tokio::sync::watch;

use crate::shared::SharedState;

/// Maximum number of associations in a report.
const MAX_LISTED: usize = 64;

/// Report of [`Endpoint::close`](crate::Endpoint::close): associations that did not end gracefully, and messages that were
/// not delivered. Empty if each association was shut down, or aborted by the program, and no message was lost.
///
/// An association that ended before `close` was called, and not gracefully, is not in the report if a handle has
/// returned its end to the program, by [`SendHalf::closed`](crate::SendHalf::closed), [`RecvHalf::recv`](crate::RecvHalf::recv), an error or a
/// notification; [`SendHalf::undelivered`](crate::SendHalf::undelivered) returns what it lost.
#[must_use = "it lists the messages that were not delivered"]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct CloseReport {
    /// Associations that did not end gracefully, or with messages that were not delivered or not read, in
    /// the order of their ends for each shard; at most 64.
    pub associations: Vec<AssociationEnd>,
    /// Number of further associations, which are not listed.
    pub omitted: u64,
    /// Number of messages that [`SendHalf::send`](crate::SendHalf::send) accepted and the peers did not acknowledge, of all
    /// associations, those included that are not listed.
    pub undelivered: u64,
    /// Number of received messages that were discarded unread, likewise.
    pub unread: u64,
}

/// End of an association in a [`CloseReport`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct AssociationEnd {
    /// Addresses of the peer at the set-up.
    pub peer_addresses: Vec<IpAddr>,
    /// SCTP port of the peer.
    pub peer_port: u16,
    /// Reason.
    pub reason: CloseReason,
    /// The association was aborted ([`CloseReason::AbortedByUser`]) because the time of
    /// [`Endpoint::close_within`](crate::Endpoint::close_within) or [`Config::linger`](crate::Config::linger) was over.
    pub timed_out: bool,
    /// Number of messages that [`SendHalf::send`](crate::SendHalf::send) accepted and the peer did not acknowledge: those
    /// of [`Event::SendFailed`](crate::Event::SendFailed) without those whose lifetime expired or that their
    /// [`Reliability`](crate::Reliability) abandoned. The peer may have received some of them.
    pub undelivered: u64,
    /// Number of received messages that were acknowledged to the peer and discarded unread, because
    /// [`RecvHalf`](crate::RecvHalf) had been dropped or the association had not been accepted. Messages that a
    /// handle can still return are not among them.
    pub unread: u64,
}

impl AssociationEnd {
    /// Returns whether nothing is to be reported: no message was lost, and the association was shut down, or the
    /// program aborted it itself.
    fn is_clean(&self) -> bool {
        let is_expected = match self.reason {
            CloseReason::Shutdown => true,
            CloseReason::AbortedByUser => !self.timed_out,
            _ => false,
        };
        is_expected && self.undelivered == 0 && self.unread == 0
    }
}

impl CloseReport {
    /// Returns whether there is nothing to report.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn add(&mut self, end: AssociationEnd) {
        self.undelivered += end.undelivered;
        self.unread += end.unread;
        if self.associations.len() < MAX_LISTED {
            self.associations.push(end);
        } else {
            self.omitted += 1;
        }
    }

    /// Adds the report of another shard.
    pub(crate) fn merge(&mut self, other: Self) {
        self.omitted += other.omitted;
        self.undelivered += other.undelivered;
        self.unread += other.unread;
        self.associations.extend(other.associations);
        let beyond = self.associations.len().saturating_sub(MAX_LISTED);
        self.associations.truncate(MAX_LISTED);
        self.omitted += beyond as u64;
    }
}

/// Writes one line, such as `3 messages not delivered; 192.0.2.1 port 5000: the peer no longer answers on
/// any of its addresses (3 messages not delivered)`.
impl fmt::Display for CloseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("all messages delivered");
        }
        write_counts(f, self.undelivered, self.unread)?;
        for end in &self.associations {
            write!(f, "; {end}")?;
        }
        if self.omitted > 0 {
            write!(f, "; and {} further associations", self.omitted)?;
        }
        Ok(())
    }
}

/// Writes the peer, the reason and the numbers of messages.
impl fmt::Display for AssociationEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, address) in self.peer_addresses.iter().enumerate() {
            let separator = if number == 0 { "" } else { "," };
            write!(f, "{separator}{address}")?;
        }
        write!(f, " port {}: {}", self.peer_port, self.reason)?;
        if self.timed_out {
            f.write_str(", because it was not shut down in time")?;
        }
        f.write_str(" (")?;
        write_counts(f, self.undelivered, self.unread)?;
        f.write_str(")")
    }
}

fn write_counts(f: &mut fmt::Formatter<'_>, undelivered: u64, unread: u64) -> fmt::Result {
    let plural = |count: u64| if count == 1 { "" } else { "s" };
    write!(
        f,
        "{undelivered} message{} not delivered",
        plural(undelivered)
    )?;
    if unread > 0 {
        write!(f, ", {unread} received message{} not read", plural(unread))?;
    }
    Ok(())
}

/// Ends of associations that are to be reported, for the endpoint's task.
pub(crate) struct ReportedEnds {
    report: CloseReport,
    /// Ends before the endpoint is closed, at most [`MAX_LISTED`], without those that a handle has returned.
    earlier: VecDeque<(Arc<SharedState>, AssociationEnd)>,
    is_closing: bool,
    reports: watch::Sender<Option<CloseReport>>,
}

/// Report of a task, as soon as it has ended.
pub(crate) type PublishedReport = watch::Receiver<Option<CloseReport>>;

impl ReportedEnds {
    pub(crate) fn new() -> (Self, PublishedReport) {
        let (reports, published) = watch::channel(None);
        let ends = Self {
            report: CloseReport::default(),
            earlier: VecDeque::new(),
            is_closing: false,
            reports,
        };
        (ends, published)
    }

    /// Records the end of an association.
    pub(crate) fn add(&mut self, shared: &Arc<SharedState>, end: AssociationEnd) {
        if end.is_clean() {
            return;
        }
        if self.is_closing {
            return self.report.add(end);
        }
        self.earlier
            .retain(|(shared, _)| !shared.end_was_returned());
        if self.earlier.len() == MAX_LISTED
            && let Some((_, oldest)) = self.earlier.pop_front()
        {
            self.report.omitted += 1;
            self.report.undelivered += oldest.undelivered;
            self.report.unread += oldest.unread;
        }
        self.earlier.push_back((Arc::clone(shared), end));
    }

    /// Counts messages that were accepted when their association had just ended.
    pub(crate) fn add_undelivered(&mut self, messages: u64) {
        self.report.undelivered += messages;
    }

    /// Reports all ends from now on, and those before that no handle has returned.
    pub(crate) fn close(&mut self) {
        self.is_closing = true;
        for (shared, end) in self.earlier.drain(..) {
            if !shared.end_was_returned() {
                self.report.add(end);
            }
        }
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing
    }
}

/// Publishes the report at the end of the task.
impl Drop for ReportedEnds {
    fn drop(&mut self) {
        self.close();
        let report = std::mem::take(&mut self.report);
        self.reports.send_replace(Some(report));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(reason: CloseReason, undelivered: u64, unread: u64) -> AssociationEnd {
        AssociationEnd {
            peer_addresses: vec![[192, 0, 2, 1].into(), [192, 0, 2, 2].into()],
            peer_port: 5000,
            reason,
            timed_out: false,
            undelivered,
            unread,
        }
    }

    #[test]
    fn a_report_is_one_line() {
        let mut report = CloseReport::default();
        assert!(report.is_empty());
        assert_eq!(report.to_string(), "all messages delivered");
        report.add(end(CloseReason::PeerUnreachable, 1, 0));
        let timed_out = AssociationEnd {
            timed_out: true,
            ..end(CloseReason::AbortedByUser, 0, 2)
        };
        report.add(timed_out);
        assert!(!report.is_empty());
        assert_eq!(
            report.to_string(),
            "1 message not delivered, 2 received messages not read; \
             192.0.2.1,192.0.2.2 port 5000: the peer no longer answers on any of its addresses \
             (1 message not delivered); \
             192.0.2.1,192.0.2.2 port 5000: this side aborted it, because it was not shut down in time \
             (0 messages not delivered, 2 received messages not read)"
        );
    }

    #[test]
    fn a_report_lists_64_associations_and_counts_all() {
        let mut report = CloseReport::default();
        for _ in 0..60 {
            report.add(end(CloseReason::PeerUnreachable, 2, 1));
        }
        let mut other = report.clone();
        report.merge(other.clone());
        assert_eq!((report.associations.len(), report.omitted), (64, 56));
        assert_eq!((report.undelivered, report.unread), (240, 120));
        for _ in 0..10 {
            other.add(end(CloseReason::Shutdown, 1, 0));
        }
        assert_eq!((other.associations.len(), other.omitted), (64, 6));
        assert!(other.to_string().ends_with("; and 6 further associations"));
    }
}
