//! RACK (RFC 8985, section 6): loss detection of all paths by the state in each [`path::PathRecovery`](crate::path::PathRecovery).

use alloc::vec::Vec;
use core::time::Duration;

use crate::path::Paths;
use crate::time::Time;
use crate::tx::LossSignal;
use crate::tx::outstanding::Outstanding;

/// Limit of the chunks beyond the last Gap Ack Block that a single loss detection postpones; the peer
/// determines their number.
const MAX_POSTPONED: usize = 256;
/// Delay of the detection of the chunks above that limit.
const POSTPONED_DELAY: Duration = Duration::from_millis(1);

/// Marks the lost chunks of each path (RFC 8985, section 6.2, step 5) and starts the reordering
/// timers. The oldest transmissions come first, so that only lost chunks are examined.
///
/// A chunk above `complete_up_to` counts as sent now: the last SACK had no room to report it.
pub(super) fn detect(
    now: Time,
    complete_up_to: u64,
    outstanding: &mut Outstanding,
    paths: &mut Paths,
) -> Vec<u64> {
    let mut lost = Vec::new();
    let mut postponed = 0;
    for id in paths.ids() {
        let path = &paths[id];
        let recovery = path.recovery();
        let window =
            recovery
                .rack()
                .reordering_window(!recovery.is_open(), path.pmdcs(), path.srtt());
        let timer = loop {
            let recovery = paths[id].recovery();
            let (rack, oldest) = (recovery.rack(), recovery.oldest());
            let Some(chunk) = outstanding.chunk(oldest) else {
                break None;
            };
            match rack.lost_at(chunk.serial, chunk.sent, window) {
                None => break None,
                Some(at) if at > now => break Some(rack.all_lost_at(window).max(at)),
                Some(_) if oldest > complete_up_to => {
                    if postponed == MAX_POSTPONED {
                        break Some(now + POSTPONED_DELAY);
                    }
                    postponed += 1;
                    outstanding.postpone(oldest, now, paths);
                    continue;
                }
                Some(_) => {}
            }
            outstanding.mark(oldest, LossSignal::MissingReports, paths);
            lost.push(oldest);
        };
        if let Some(recovery) = paths[id].used_recovery() {
            recovery.rack_mut().set_timer(timer);
        }
    }
    lost
}
