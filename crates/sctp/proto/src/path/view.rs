//! View of a path for the policies that select one, and the selection of an alternate (RFC 9260, sections
//! 6.4 and 6.4.1).

use core::time::Duration;

use super::PathId;

/// View of a path for the rules that select one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathView {
    /// Number of the path.
    pub(crate) id: PathId,
    /// The address is confirmed, so that the path may carry data.
    pub(crate) confirmed: bool,
    /// The error counter has not exceeded Path.Max.Retrans.
    pub(crate) active: bool,
    /// The path is active, but potentially failed (RFC 7829).
    pub(crate) potentially_failed: bool,
    /// The path is the one for new data.
    pub(crate) primary: bool,
    /// The path is the one for retransmissions where they take turns: the path after the primary, until
    /// T3-rtx expires there, then the next active one, and so on.
    pub(crate) in_turn: bool,
    /// Smoothed round-trip time, once measured.
    pub(crate) srtt: Option<Duration>,
    /// Consecutive errors.
    pub(crate) error_count: u32,
    /// Congestion window in bytes.
    pub(crate) cwnd: usize,
    /// Slow-start threshold in bytes.
    pub(crate) ssthresh: usize,
    /// Loss rate of the data recently sent on the path, in chunks per million.
    pub(crate) loss_ppm: u32,
    /// The window permits another packet.
    pub(crate) has_room: bool,
}

impl PathView {
    /// Returns whether the path is confirmed, active and not potentially failed.
    pub(crate) fn is_usable(&self) -> bool {
        self.confirmed && self.active && !self.potentially_failed
    }
}

/// Returns the usable path other than `last` with the fewest errors, the primary first among equals, then
/// the one with the lowest round-trip time; `last` if there is none, or if it has fewer errors
/// itself: a path that stopped answering is not inactive yet, and the chunk would wait for it.
pub(crate) fn alternate(last: PathId, paths: impl Iterator<Item = PathView>) -> PathId {
    let mut errors_of_last = u32::MAX;
    let other = paths
        .inspect(|p| {
            if p.id == last && p.is_usable() {
                errors_of_last = p.error_count;
            }
        })
        .filter(|p| p.id != last && p.is_usable())
        .min_by_key(|p| {
            (
                p.error_count,
                !p.primary,
                p.srtt.unwrap_or(Duration::MAX),
                p.id,
            )
        });
    other
        .filter(|p| p.error_count <= errors_of_last)
        .map_or(last, |p| p.id)
}

/// Returns `last` while it is usable, otherwise an alternate.
pub(crate) fn same_while_usable(last: PathId, paths: impl Iterator<Item = PathView>) -> PathId {
    let mut last_usable = false;
    let other = alternate(
        last,
        paths.inspect(|p| last_usable |= p.id == last && p.is_usable()),
    );
    if last_usable { last } else { other }
}

/// Returns the usable path with the lowest key, the lowest number among equals; `last` if none
/// is usable.
pub(crate) fn alternate_by<K: Ord>(
    last: PathId,
    paths: impl Iterator<Item = PathView>,
    key: impl Fn(&PathView) -> K,
) -> PathId {
    paths
        .filter(PathView::is_usable)
        .min_by_key(key)
        .map_or(last, |p| p.id)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn path(id: u8, active: bool, srtt_ms: u64) -> PathView {
        PathView {
            id: PathId(id),
            confirmed: true,
            active,
            potentially_failed: false,
            primary: id == 0,
            in_turn: false,
            srtt: Some(Duration::from_millis(srtt_ms)),
            error_count: 0,
            cwnd: 4404,
            ssthresh: usize::MAX,
            loss_ppm: 0,
            has_room: true,
        }
    }

    #[test]
    fn the_alternate_is_a_live_path_if_one_exists() {
        let paths = [
            path(0, true, 100),
            path(1, false, 1),
            path(2, true, 50),
            path(3, true, 20),
        ];
        assert_eq!(alternate(PathId(0), paths.into_iter()), PathId(3));
        assert_eq!(
            alternate(PathId(3), paths.into_iter()),
            PathId(0),
            "the primary first"
        );
        let mut silent = [path(0, true, 100), path(1, true, 1)];
        silent[1].error_count = 2;
        silent[0].error_count = 1;
        assert_eq!(
            alternate(PathId(0), silent.into_iter()),
            PathId(0),
            "not to a path that answers even less"
        );
        let only = [path(0, true, 100), path(1, false, 1)];
        assert_eq!(alternate(PathId(0), only.into_iter()), PathId(0));
    }
}
