//! Duration of a sender's change of path, from the records of both ends of a flow.
//!
//! Defined as in section 2.3 of the paper on `failover`: from the first transmission of the first
//! message that is retransmitted, to the transmission on another path of the message with the
//! longest delivery.

use std::time::Duration;

use super::measure::{FlowRecord, Transmission};

/// Time after a change of path in which messages are attributed to it.
pub(super) const CHANGE_WINDOW: Duration = Duration::from_secs(2);

/// A change of path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PathChange {
    /// First message that was retransmitted, in the order of the first transmissions.
    pub(super) first: u64,
    /// Time of its first transmission.
    pub(super) start: u64,
    /// Time of its first retransmission.
    pub(super) again: u64,
    /// Time of the transmission on another path of the message with the longest delivery.
    pub(super) resent: u64,
    /// Time from the SEND of that message to its delivery.
    pub(super) transfer: u64,
}

impl PathChange {
    /// Returns the failover time in nanoseconds.
    pub(super) fn time(&self) -> u64 {
        self.resent.saturating_sub(self.start)
    }
}

/// Relevant transmissions of a message.
#[derive(Clone, Copy, Default)]
struct RelevantTransmissions {
    first: Option<Transmission>,
    /// Last transmission before the delivery.
    delivered_by: Option<Transmission>,
    delivery: Option<u64>,
}

/// Measures the change of path after an event at `at`.
///
/// # Errors
/// If no message was retransmitted, or none was delivered over another path.
pub(super) fn measure(record: &FlowRecord, at: u64) -> Result<PathChange, &'static str> {
    let mut histories = vec![RelevantTransmissions::default(); record.sends.len()];
    for (number, time) in &record.deliveries {
        if let Some(history) = histories.get_mut(*number as usize) {
            history.delivery = Some(*time);
        }
    }
    // First transmission, number and first retransmission.
    let mut begin: Option<(u64, u64, u64)> = None;
    for sent in &record.transmissions {
        let Some(history) = histories.get_mut(sent.message as usize) else {
            continue;
        };
        if history
            .delivery
            .is_some_and(|delivery| sent.time <= delivery)
        {
            history.delivered_by = Some(*sent);
        }
        match history.first {
            None => history.first = Some(*sent),
            Some(first) if sent.time > at && begin.is_none_or(|(time, ..)| first.time < time) => {
                begin = Some((first.time, sent.message, sent.time));
            }
            Some(_) => {}
        }
    }
    let (start, first, again) = begin.ok_or("no message was retransmitted")?;
    let last = at + CHANGE_WINDOW.as_nanos() as u64;
    let delivered = |own: fn(&Transmission, &Transmission) -> bool| {
        let all = record.sends.iter().zip(&histories);
        all.filter_map(move |(send, history)| {
            let (delivery, delivered_by) = (history.delivery?, history.delivered_by?);
            let counts = delivered_by.alternate && own(&history.first?, &delivered_by);
            (counts && delivery > at && *send < last && delivered_by.time >= start)
                .then(|| (delivery.saturating_sub(*send), delivered_by.time))
        })
    };
    // Only messages whose first transmission was on the primary path: messages first sent on the
    // other path and lost there, through cross traffic, are not part of the failover. Of equal ones
    // the first is selected.
    let longest = delivered(|first, _| !first.alternate)
        .reduce(|longest, other| if other.0 > longest.0 { other } else { longest });
    // If all messages had arrived and only SACKs were lost, the first new data marks the change.
    let found =
        longest.or_else(|| delivered(|first, delivered_by| first.time == delivered_by.time).next());
    let (transfer, resent) = found.ok_or("no message was delivered over the other path")?;
    Ok(PathChange {
        first,
        start,
        again,
        resent,
        transfer,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Times in ms; the primary path fails at 999.
    fn switch(
        sends: &[u64],
        transmissions: &[(u64, u64, bool)],
        deliveries: &[(u64, u64)],
    ) -> Result<[u64; 5], &'static str> {
        let sent = |(message, time, alternate): &(u64, u64, bool)| Transmission {
            message: *message,
            time: time * MS,
            alternate: *alternate,
            tsn: None,
            bytes: 0,
            again: false,
        };
        let record = FlowRecord {
            sends: sends.iter().map(|time| time * MS).collect(),
            transmissions: transmissions.iter().map(sent).collect(),
            deliveries: deliveries.iter().map(|(n, t)| (*n, t * MS)).collect(),
            ..FlowRecord::default()
        };
        let switch = measure(&record, 999 * MS)?;
        let times = [switch.start, switch.again, switch.time(), switch.transfer].map(|t| t / MS);
        Ok([switch.first, times[0], times[1], times[2], times[3]])
    }

    #[test]
    fn the_longest_retransmitted_delivery_counts() {
        let found = switch(
            &[1000, 1010, 1020],
            &[
                (0, 1000, false),
                (1, 1010, false),
                (2, 1020, false),
                (0, 1110, true),
                (1, 1130, true),
                (2, 1140, true),
            ],
            &[(0, 1131), (1, 1150), (2, 1160)],
        );
        assert_eq!(found, Ok([0, 1000, 1110, 130, 140]));
    }

    #[test]
    fn later_losses_on_the_other_path_do_not_count() {
        let found = switch(
            &[1000, 1200],
            &[
                (0, 1000, false),
                (0, 1110, true),
                (1, 1200, true),
                (1, 1500, true),
            ],
            &[(0, 1130), (1, 1520)],
        );
        assert_eq!(found, Ok([0, 1000, 1110, 110, 130]));
    }

    #[test]
    fn the_first_new_data_marks_the_change() {
        // Message 0 had arrived when it was retransmitted. Message 2 encounters cross traffic.
        let found = switch(
            &[990, 1200, 1210],
            &[
                (0, 990, false),
                (0, 1110, true),
                (1, 1200, true),
                (2, 1210, true),
            ],
            &[(0, 1012), (1, 1222), (2, 1290)],
        );
        assert_eq!(found, Ok([0, 990, 1110, 210, 22]));
    }

    #[test]
    fn missing_transmissions_are_errors() {
        let nothing = switch(&[1000], &[(0, 1000, false)], &[(0, 1022)]);
        assert_eq!(nothing, Err("no message was retransmitted"));
        let same = switch(&[1000], &[(0, 1000, false), (0, 1100, false)], &[(0, 1122)]);
        assert_eq!(same, Err("no message was delivered over the other path"));
    }
}
