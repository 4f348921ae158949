//! When a packet is reported that brings both duplicate and new DATA (RFC 9260 section 6.2, which
//! leaves the choice).

/// Whether duplicates beside new DATA in a packet ask for a SACK at once. Duplicates alone always do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BundledDuplicates {
    /// They do: the sender learns sooner that it sent too much.
    ReportAtOnce,
    /// They don't: the packet counts as any other with new DATA.
    ReportLater,
}
