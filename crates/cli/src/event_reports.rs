//! Events of associations of the library, in the words of the daemon's log.

use carrick::{Event, EventReport, ReportKind, SendHalf};

/// Returns the report of an event; `None` if its kind is not reported.
pub(crate) async fn report(event: &Event, sender: &SendHalf) -> Option<EventReport> {
    ReportKind::of(event)?;
    // The association may have ended meanwhile.
    let paths = sender.control().paths().await.unwrap_or_default();
    let stats = sender.control().stats().await.ok();
    EventReport::new(event, &paths, stats.as_ref())
}
