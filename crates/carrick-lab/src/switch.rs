//! How long a sender takes to change its path, from what both ends noted of a flow.
//!
//! After section 2.3 of the paper on `failover`: from the first sending of the first message that is sent
//! again, to the transmission on another path of the message that takes longest.

use std::time::Duration;

/// Messages sent this long after a change belong to the change of path that follows it.
pub(crate) const AFTERMATH: Duration = Duration::from_secs(2);

/// One transmission of a part of a message. Times are nanoseconds from the start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sent {
    pub(crate) message: u64,
    pub(crate) time: u64,
    /// It went to another than the primary path.
    pub(crate) alternate: bool,
}

/// What the two ends noted, by the numbers of the messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noted<'a> {
    /// SEND of each message.
    pub(crate) sends: &'a [u64],
    /// In order.
    pub(crate) transmissions: &'a [Sent],
    /// Number and time.
    pub(crate) deliveries: &'a [(u64, u64)],
}

/// A change of path after `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Switch {
    /// The first message that was sent again, by its first sending.
    pub(crate) first: u64,
    /// That sending.
    pub(crate) start: u64,
    /// When it was sent again for the first time.
    pub(crate) again: u64,
    /// The transmission on another path of the message that took longest.
    pub(crate) resent: u64,
    /// From SEND of that message to its delivery.
    pub(crate) transfer: u64,
}

impl Switch {
    /// The failover time, in nanoseconds.
    pub(crate) fn time(&self) -> u64 {
        self.resent.saturating_sub(self.start)
    }
}

/// The transmissions of a message that matter.
#[derive(Clone, Copy, Default)]
struct Life {
    first: Option<Sent>,
    /// The last one before its delivery: the one that brought it.
    bringing: Option<Sent>,
    delivery: Option<u64>,
}

/// What a change at `at` led to.
///
/// # Errors
/// If nothing was sent again, or nothing came over another path.
pub(crate) fn measure(noted: Noted<'_>, at: u64) -> Result<Switch, &'static str> {
    let mut lives = vec![Life::default(); noted.sends.len()];
    for (number, time) in noted.deliveries {
        if let Some(life) = lives.get_mut(*number as usize) {
            life.delivery = Some(*time);
        }
    }
    // First sending, number and first repetition.
    let mut begin: Option<(u64, u64, u64)> = None;
    for sent in noted.transmissions {
        let Some(life) = lives.get_mut(sent.message as usize) else {
            continue;
        };
        if life.delivery.is_some_and(|delivery| sent.time <= delivery) {
            life.bringing = Some(*sent);
        }
        match life.first {
            None => life.first = Some(*sent),
            Some(first) if sent.time > at && begin.is_none_or(|(time, ..)| first.time < time) => {
                begin = Some((first.time, sent.message, sent.time));
            }
            Some(_) => {}
        }
    }
    let (start, first, again) = begin.ok_or("nothing was sent again")?;
    let last = at + AFTERMATH.as_nanos() as u64;
    let brought = |own: fn(&Sent, &Sent) -> bool| {
        let all = noted.sends.iter().zip(&lives);
        all.filter_map(move |(send, life)| {
            let (delivery, bringing) = (life.delivery?, life.bringing?);
            let counts = bringing.alternate && own(&life.first?, &bringing);
            (counts && delivery > at && *send < last && bringing.time >= start)
                .then(|| (delivery.saturating_sub(*send), bringing.time))
        })
    };
    // Of messages that were first sent on the primary: what is first sent on the other path and lost
    // there, by other traffic, is not the failover's. Of equals the first counts.
    let longest = brought(|first, _| !first.alternate)
        .reduce(|longest, other| if other.0 > longest.0 { other } else { longest });
    // Where all had arrived and only SACKs were lost, the first new data shows the change.
    let found = longest.or_else(|| brought(|first, bringing| first.time == bringing.time).next());
    let (transfer, resent) = found.ok_or("nothing was delivered over the other path")?;
    Ok(Switch {
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

    /// Times in ms; the primary breaks at 999.
    fn switch(
        sends: &[u64],
        transmissions: &[(u64, u64, bool)],
        deliveries: &[(u64, u64)],
    ) -> Result<[u64; 5], &'static str> {
        let sends: Vec<u64> = sends.iter().map(|time| time * MS).collect();
        let sent = |(message, time, alternate): &(u64, u64, bool)| Sent {
            message: *message,
            time: time * MS,
            alternate: *alternate,
        };
        let transmissions: Vec<Sent> = transmissions.iter().map(sent).collect();
        let deliveries: Vec<(u64, u64)> = deliveries.iter().map(|(n, t)| (*n, t * MS)).collect();
        let noted = Noted {
            sends: &sends,
            transmissions: &transmissions,
            deliveries: &deliveries,
        };
        let switch = measure(noted, 999 * MS)?;
        let times = [switch.start, switch.again, switch.time(), switch.transfer].map(|t| t / MS);
        Ok([switch.first, times[0], times[1], times[2], times[3]])
    }

    #[test]
    fn the_longest_of_those_that_are_sent_again_counts_and_of_equals_the_first() {
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
    fn a_later_loss_on_the_other_path_is_not_the_failover() {
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
    fn where_only_sacks_were_lost_the_first_new_data_shows_the_change() {
        // Message 0 had arrived when it was sent again. Message 2 meets other traffic.
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
    fn what_did_not_happen_is_told() {
        let nothing = switch(&[1000], &[(0, 1000, false)], &[(0, 1022)]);
        assert_eq!(nothing, Err("nothing was sent again"));
        let same = switch(&[1000], &[(0, 1000, false), (0, 1100, false)], &[(0, 1122)]);
        assert_eq!(same, Err("nothing was delivered over the other path"));
    }
}
