//! Values of the live cells and of their simulations, and the rows with them.

use std::time::Duration;

use carrick_proto::Time;

use super::live_cells::{LiveCell, MESSAGES};
use super::rows::{PUBLISHED_ONE, PUBLISHED_TCP, PUBLISHED_TWO};
use super::run::{self, Configuration, Measures, Move};
use super::setup::{LOSSES, MESSAGE, SETTLING, START, Stack, millis};
use super::tcp;
use super::traffic::silence;
use crate::capture::Capture;
use crate::live::{Drain, RunRecord, Sink};
use crate::result::LiveRow;

/// Approximate start of the simulated flow: registration, set-up, path verification.
const BEGIN: Duration = START
    .saturating_add(SETTLING)
    .saturating_add(Duration::from_millis(300));

/// Values of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Value {
    /// Throughput of a transfer in Mbit/s, or longest delivery gap in ms after the event.
    main: f64,
    /// Delivered proportion of the transfer in per cent.
    delivered: f64,
    /// Time from the failure to the loss of the association, in s.
    lost_after: Option<f64>,
}

impl Value {
    fn of(main: f64) -> Self {
        Self {
            main,
            delivered: 100.0,
            lost_after: None,
        }
    }
}

impl LiveCell {
    /// Evaluates a run with its event at this time after the start.
    pub(super) fn measure(self, record: &RunRecord, event: Duration) -> Result<Value, String> {
        let other = "another program ran";
        let moment = record.begin + event;
        let silent = |deliveries: &[Time], until: Option<Time>| {
            let last = deliveries.last().copied().unwrap_or(moment);
            millis(silence(deliveries, moment, until.unwrap_or(last)).0)
        };
        if let Self::Move(..) = self {
            let sink: &Sink = record.program(1).ok_or(other)?;
            let deliveries: Vec<Time> = sink.deliveries.iter().map(|(_, time)| *time).collect();
            return Ok(Value::of(silent(&deliveries, None)));
        }
        let sink: &Drain = record.program(1).ok_or(other)?;
        if let Self::Failure(..) = self {
            let deliveries: Vec<Time> = sink.taken.iter().map(|(time, _)| *time).collect();
            let lost = record.lost.map(|lost| (lost - moment).as_secs_f64());
            return Ok(Value {
                main: silent(&deliveries, record.lost),
                delivered: deliveries.len() as f64 / MESSAGES as f64 * 100.0,
                lost_after: lost,
            });
        }
        let last = sink.taken.last().map(|(time, _)| *time);
        let last = last.filter(|last| *last > record.begin);
        let took = last.ok_or("nothing was delivered")? - record.begin;
        let rate = sink.bytes as f64 * 8.0 / 1e6 / took.as_secs_f64();
        Ok(Value::of(rate))
    }

    /// Runs the corresponding simulation.
    pub(super) fn simulate(self, event: Duration, seed: u64) -> Result<Value, String> {
        let throughput = |measures: Measures| Value::of(measures.throughput);
        match self {
            Self::Transfer(configuration, loss, _) => {
                let of = (LOSSES[loss], MESSAGES);
                run::transfer(configuration, Stack::Paper, of, seed, Capture::NONE).map(throughput)
            }
            Self::Tcp(loss, _) => {
                let bytes = MESSAGES * MESSAGE as u64;
                tcp::transfer(LOSSES[loss], bytes, seed, Capture::NONE).map(throughput)
            }
            Self::Failure(stack, _) => {
                let at = carrick_netsim::Time::ZERO + BEGIN + event;
                let run = run::failure_at(stack, at, (MESSAGES, false), seed, Capture::NONE);
                run.map(|measures| Value {
                    main: measures.interruption,
                    delivered: measures.delivered * 100.0,
                    lost_after: measures.lost_after,
                })
            }
            Self::Move(kind, stack, _) => run::handover(kind, stack, seed, false, Capture::NONE)
                .map(|measures| Value::of(measures.interruption)),
        }
    }

    /// Returns the rows with the live and simulated values of each repetition.
    pub(super) fn rows(self, pairs: &[(Value, Value)]) -> Vec<LiveRow> {
        let main = |value: &Value| Some(value.main);
        let delivered = |value: &Value| Some(value.delivered);
        match self {
            Self::Transfer(Configuration::One, loss, _) => {
                let published = Some(PUBLISHED_ONE[loss]);
                vec![self.throughput(pairs, published).because(self.why())]
            }
            Self::Transfer(_, loss, _) => {
                vec![
                    self.throughput(pairs, PUBLISHED_TWO[loss])
                        .because(self.why()),
                ]
            }
            Self::Tcp(loss, _) => {
                let published = Some(PUBLISHED_TCP[loss]);
                vec![self.throughput(pairs, published).another_stack(self.why())]
            }
            Self::Failure(stack, _) => {
                let delivered = self.row(pairs, ["delivered", "delivered", "%"], delivered);
                let second = if stack == Stack::OldRule {
                    let text = ["lost-after", "association lost after", "s"];
                    let row = self.row(pairs, text, |value| value.lost_after);
                    row.note(&lost(pairs))
                } else {
                    self.row(pairs, ["silence", "longest delivery gap", "ms"], main)
                };
                [delivered, second]
                    .map(|row| row.because(self.why()))
                    .into()
            }
            Self::Move(..) => {
                let row = self.row(pairs, ["interruption", "interruption", "ms"], main);
                vec![row.because(self.why())]
            }
        }
    }

    fn throughput(self, pairs: &[(Value, Value)], published: Option<f64>) -> LiveRow {
        let text = ["throughput", "throughput", "Mbit/s"];
        let row = self.row(pairs, text, |value| Some(value.main));
        row.published(published)
    }

    /// Returns a row of the values that `value` selects, with its identifier, label and unit.
    fn row(
        self,
        pairs: &[(Value, Value)],
        [what, text, unit]: [&str; 3],
        value: impl Fn(&Value) -> Option<f64>,
    ) -> LiveRow {
        let live: Vec<f64> = pairs.iter().filter_map(|(live, _)| value(live)).collect();
        let simulated: Vec<f64> = pairs
            .iter()
            .filter_map(|(_, simulation)| value(simulation))
            .collect();
        let id = format!("{}.{what}.{}", self.id(), self.suffix());
        let label = format!("{}: {text}", self.label());
        LiveRow::new(&id, &label, unit, &simulated, &live)
    }

    /// Returns the reason why a live value may differ from the simulated one.
    fn why(self) -> &'static str {
        match self {
            Self::Transfer(..) => {
                "The same packets are lost, but the chunks in them depend on the timing of both hosts; a \
                 transfer of 3 MB has few losses."
            }
            Self::Tcp(_, "bbr") => {
                "BBR paces by its measured rate, which a loss does not reduce; it is compared with the simulated Reno."
            }
            Self::Tcp(..) => {
                "The kernel has SACK, RACK, tail loss probes and an initial window of 10 segments; the simulated TCP, smoltcp, \
                 has none of them."
            }
            Self::Move(Move::BreakBeforeMake | Move::MakeBeforeBreak, ..) => {
                "An address is assigned to its interface by ip some milliseconds after it is valid in the network, and the endpoint is notified \
                 by netlink; afterwards, messages sent every 10 ms encounter a window that opens with each SACK."
            }
            Self::Failure(..) | Self::Move(..) => {
                "The interruption consists of the timeouts and the path delay: the message in flight at the event depends on the timing of both \
                 hosts, and the endpoint’s timers have a resolution of milliseconds."
            }
        }
    }
}

/// Describes the number of associations lost.
fn lost(pairs: &[(Value, Value)]) -> String {
    let count = |value: fn(&(Value, Value)) -> &Value| {
        pairs
            .iter()
            .filter(|pair| value(pair).lost_after.is_some())
            .count()
    };
    let all = pairs.len();
    format!(
        "{} of {all} associations were lost in live runs, {} of {all} in simulations.",
        count(|pair| &pair.0),
        count(|pair| &pair.1)
    )
}

#[cfg(test)]
mod tests {
    use super::super::live_cells::all_cells;
    use super::*;

    #[test]
    fn rows_have_unique_names_and_published_values() {
        let rows: Vec<LiveRow> = all_cells().iter().flat_map(|kind| kind.rows(&[])).collect();
        let mut ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(ids[2], "config1.1.throughput.udp");
        assert_eq!(rows[2].published, Some(1.225));
        for id in [
            "config3.best.silence.raw",
            "config3.old-rule.lost-after.udp",
            "config3.paper.delivered.raw",
            "standard.re-registration.interruption.udp",
            "best.make-before-break.interruption.raw",
        ] {
            assert!(ids.contains(&id), "{id}");
        }
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), rows.len());
    }

    #[test]
    fn surviving_associations_have_no_time_of_loss() {
        let lost = Value {
            main: 0.0,
            delivered: 50.0,
            lost_after: Some(44.0),
        };
        let pairs = [(lost, lost), (Value::of(900.0), lost)];
        let rows = LiveCell::Failure(Stack::OldRule, true).rows(&pairs);
        assert_eq!(rows[0].live, Some(75.0));
        assert_eq!((rows[1].live, rows[1].n), (Some(44.0), 1));
        assert!(
            rows[1]
                .note
                .contains("1 of 2 associations were lost in live runs, 2 of 2")
        );
    }
}
