//! `carrick simco plan`: computes the number of streams that a load needs.

use std::io::{Write, stdout};
use std::time::Duration;

use carrick_simco::model::{PinholeDemand, ResponseTimeModel};
use clap::Args;
use serde::Serialize;

use crate::failure::Failure;
use crate::units;

/// Compute the number of SCTP streams that a load of pinholes needs, and the expected response times.
///
/// Uses the model of Kiesel and Scharf (2006): a lost message blocks the later messages of its stream
/// until it is retransmitted. The load is computed exactly; the approximation in the paper is 2 % lower
/// for its own load and a quarter lower for pinholes that close before a refresh. Lost retransmissions
/// are neglected, so the times are too low above one or two per cent loss.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Round-trip time between agent and middlebox.
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = positive)]
    rtt: Duration,
    /// Pinholes opened per second.
    #[arg(long, value_name = "N", default_value_t = 33.333, value_parser = rate)]
    rate: f64,
    /// Mean lifetime of a pinhole.
    #[arg(long, value_name = "TIME", default_value = "180s", value_parser = positive)]
    hold: Duration,
    /// Refresh interval of a pinhole.
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = positive)]
    refresh: Duration,
    /// Packet loss in each direction in per cent.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    loss: f64,
    /// Processing time of a request at both ends together.
    #[arg(long, value_name = "TIME", default_value = "500us", value_parser = units::duration)]
    processing: Duration,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Results of the model.
#[derive(Debug, PartialEq, Serialize)]
struct TransactionPlan {
    /// Number of stream pairs without head-of-line blocking: M = ⌈D/d⌉.
    streams: u32,
    /// Transactions per second.
    transactions_per_second: f64,
    /// Mean number of open pinholes.
    pinholes: f64,
    /// Time from the loss of a message to the arrival of its retransmission.
    recovery_ms: f64,
    /// Expected response time with 1, 2, … stream pairs.
    response_ms: Vec<f64>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let plan = plan(arguments);
    let mut out = stdout().lock();
    if arguments.json {
        let json = serde_json::to_string(&plan).map_err(|e| Failure::Run(e.to_string()))?;
        writeln!(out, "{json}")?;
        return Ok(());
    }
    writeln!(out, "streams needed          {}", plan.streams)?;
    writeln!(
        out,
        "transactions            {:.1} per second",
        plan.transactions_per_second
    )?;
    writeln!(out, "pinholes open           {:.0}", plan.pinholes)?;
    writeln!(out, "loss recovery           {:.1} ms", plan.recovery_ms)?;
    for (streams, response) in (1..).zip(&plan.response_ms) {
        writeln!(out, "response, {streams:>2} streams    {response:.3} ms")?;
    }
    Ok(())
}

fn plan(arguments: &Arguments) -> TransactionPlan {
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    let demand = PinholeDemand {
        opening_interval: 1e3 / arguments.rate,
        holding: ms(arguments.hold),
        refresh: ms(arguments.refresh),
    };
    let model = ResponseTimeModel {
        rtt: ms(arguments.rtt),
        interval: demand.exact_interval(),
        loss: arguments.loss / 100.0,
        processing: ms(arguments.processing),
    };
    let streams = model.streams();
    // Two more, to show that they gain nothing.
    let shown = streams.saturating_add(2).min(MAX_SHOWN);
    TransactionPlan {
        streams,
        transactions_per_second: 1e3 / demand.exact_interval(),
        pinholes: demand.pinholes(),
        recovery_ms: model.recovery(),
        response_ms: (1..=shown).map(|n| model.response(n)).collect(),
    }
}

/// Maximum number of response times.
const MAX_SHOWN: u32 = 64;

pub(super) fn positive(text: &str) -> Result<Duration, String> {
    units::duration(text).and_then(above_zero)
}

pub(super) fn above_zero(duration: Duration) -> Result<Duration, String> {
    match duration {
        Duration::ZERO => Err("must be longer than 0".into()),
        duration => Ok(duration),
    }
}

pub(super) fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if rate > 0.0 && rate <= 1e9 => Ok(rate),
        _ => Err("must be a number above 0, at most 1e9".into()),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(percent) if (0.0..=50.0).contains(&percent) => Ok(percent),
        _ => Err("must be a number from 0 to 50".into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn plan_of(line: &[&str]) -> TransactionPlan {
        let line = Line::parse_from(["plan"].iter().chain(line));
        plan(&line.arguments)
    }

    #[test]
    fn load_of_the_paper_needs_six_streams() {
        let plan = plan_of(&[]);
        assert_eq!((plan.streams, plan.response_ms.len()), (6, 8));
        // 100 by the paper's approximation.
        assert!((plan.transactions_per_second - 101.84).abs() < 0.01);
        assert!((plan.pinholes - 6000.0).abs() < 1.0);
        assert!(
            (plan.response_ms[0] - 23.573).abs() < 0.02,
            "{:?}",
            plan.response_ms
        );
        assert!((plan.response_ms[5] - 21.512).abs() < 0.02);
    }

    #[test]
    fn unrefreshed_pinhole_takes_two_transactions() {
        let plan = plan_of(&["--rate", "1000", "--hold", "1s", "--refresh", "120s"]);
        assert!((plan.transactions_per_second - 2000.0).abs() < 1e-6);
    }

    #[test]
    fn streams_grow_with_rtt_and_load() {
        assert!(plan_of(&["--rtt", "200ms"]).streams > 20);
        let quiet = plan_of(&["--rate", "0.01", "--hold", "10s"]);
        assert_eq!(
            quiet.streams, 4,
            "three reports after a loss take three messages"
        );
        let huge = plan_of(&["--rate", "1000000", "--rtt", "10s"]);
        assert_eq!(huge.response_ms.len(), 64);
    }

    #[test]
    fn values_out_of_range_are_rejected() {
        for line in [
            ["--rate", "0"],
            ["--rate", "x"],
            ["--loss", "51"],
            ["--rtt", "0"],
            ["--hold", "0s"],
        ] {
            assert!(
                Line::try_parse_from(["plan"].iter().chain(&line)).is_err(),
                "{line:?}"
            );
        }
    }
}
