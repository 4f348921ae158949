//! One simulation: one repetition of a cell.

use std::time::Duration;

use carrick_netsim::{Network, Node, NodeId};
use carrick_proto::{Endpoint, EndpointConfig};
use carrick_simco::PORT;
use carrick_simco::load::{Latency, Measures, Workload};

use super::programs::{AgentProgram, MiddleboxProgram};
use super::setup::{AGENT, Cell, MIDDLEBOX, Variant, network};
use super::sides::{AgentSide, MiddleboxSide};
use super::tcp::{self, TcpAgent, TcpMiddlebox};
use crate::capture::Capture;
use crate::sctp_host::SctpHost;
use crate::seed::{derive, derive_bytes};
use crate::tcp_host::TcpHost;

/// Maximum time until the load is in its steady state.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Time between the end of the preload and the start of the measurement.
pub(super) const SETTLING: Duration = Duration::from_secs(5);

/// Result of one simulation.
#[derive(Debug)]
pub(super) struct SimulationRun {
    /// Response times.
    pub(super) measures: Measures,
    /// Expirations of T3-rtx at the agent during the measurement; 0 over TCP.
    pub(super) timeouts: u64,
    /// Requests without a reply at the end.
    pub(super) waiting: usize,
    /// Mean number of pending requests in the steady state: those that arrive in a response time
    /// (Little's law).
    pub(super) usual: f64,
    /// Mean response times of PER requests in the two halves, in ms.
    pub(super) halves: [f64; 2],
}

impl SimulationRun {
    fn new(side: &AgentSide, first: &Measures, timeouts: u64, duration: Duration) -> Self {
        let measures = side.generator.measures().clone();
        let all = [&measures.enable, &measures.refresh, &measures.close];
        let usual = all.map(total).iter().sum::<f64>() / duration.as_secs_f64();
        let sums = [total(&first.enable), total(&measures.enable)];
        let counts = [first.enable.count(), measures.enable.count()].map(|count| count as f64);
        Self {
            timeouts,
            waiting: side.pending(),
            usual,
            halves: [
                sums[0] / counts[0] * 1e3,
                (sums[1] - sums[0]) / (counts[1] - counts[0]) * 1e3,
            ],
            measures,
        }
    }
}

/// Returns whether the backlog grows in these runs. A load above the capacity makes the response
/// time grow from the start: the mean of the second half is three times that of the first, and at
/// the end twice as many requests are pending as arrive in the mean response time. Retransmission
/// timeouts alone cause one of the two conditions, but not both.
pub(super) fn grows(runs: &[SimulationRun]) -> bool {
    let halves = [0, 1].map(|half| runs.iter().map(|run| run.halves[half]).sum::<f64>());
    let waiting: usize = runs.iter().map(|run| run.waiting).sum();
    let usual: f64 = runs.iter().map(|run| run.usual).sum();
    halves[1] > 2.0 * halves[0] && waiting as f64 > 1.5 * usual
}

/// Returns the sum of all response times, in s.
fn total(latency: &Latency) -> f64 {
    let mean = latency.mean().unwrap_or_default();
    mean.as_secs_f64() * latency.count() as f64
}

/// Hosts with the agent and the middlebox, independent of the transport.
trait Hosts {
    type Agent: Node;
    type Middlebox: Node;
    fn agent(host: &Self::Agent) -> &AgentSide;
    fn agent_mut(host: &mut Self::Agent) -> &mut AgentSide;
    fn timeouts(host: &Self::Agent) -> u64;
    fn middlebox(host: &Self::Middlebox) -> &MiddleboxSide;
}

struct Sctp;

impl Hosts for Sctp {
    type Agent = SctpHost<AgentProgram>;
    type Middlebox = SctpHost<MiddleboxProgram>;

    fn agent(host: &Self::Agent) -> &AgentSide {
        &host.application().side
    }

    fn agent_mut(host: &mut Self::Agent) -> &mut AgentSide {
        &mut host.application_mut().side
    }

    fn timeouts(host: &Self::Agent) -> u64 {
        host.application().timeouts
    }

    fn middlebox(host: &Self::Middlebox) -> &MiddleboxSide {
        &host.application().side
    }
}

struct Tcp;

impl Hosts for Tcp {
    type Agent = TcpHost<TcpAgent>;
    type Middlebox = TcpHost<TcpMiddlebox>;

    fn agent(host: &Self::Agent) -> &AgentSide {
        &host.application().side
    }

    fn agent_mut(host: &mut Self::Agent) -> &mut AgentSide {
        &mut host.application_mut().side
    }

    fn timeouts(_: &Self::Agent) -> u64 {
        0
    }

    fn middlebox(host: &Self::Middlebox) -> &MiddleboxSide {
        &host.application().side
    }
}

/// Runs a cell, and measures for `duration` in the steady state.
pub(super) fn run(
    variant: &Variant,
    cell: Cell,
    workload: Workload,
    duration: Duration,
    seed: u64,
    capture: Capture<'_>,
) -> Result<SimulationRun, String> {
    let Some(config) = variant.config() else {
        return measure::<Tcp>(cell, tcp::hosts(workload, seed)?, duration, seed, capture);
    };
    let config = capture.config(config);
    let endpoint = |address, label| {
        let mut own = EndpointConfig::new(PORT, vec![address], derive_bytes(seed, &[label]));
        own.association = config.clone();
        own.association.streams.outbound_streams = cell.streams;
        Endpoint::new(own).map_err(|error| error.to_string())
    };
    let program = AgentProgram::new(config.clone(), cell.streams, workload, seed);
    let agent = SctpHost::new(endpoint(AGENT, 1)?, program);
    let agent = capture.watch("requests", ["agent", "middlebox"], agent);
    let middlebox = SctpHost::new(endpoint(MIDDLEBOX, 2)?, MiddleboxProgram::new(seed)?);
    let middlebox = capture.watch("replies", ["middlebox", "agent"], middlebox);
    let run = measure::<Sctp>(cell, (agent, middlebox), duration, seed, capture)?;
    if run.measures.failures() > 0 {
        return Err(format!("transactions failed: {:?}", run.measures));
    }
    Ok(run)
}

fn measure<H: Hosts>(
    cell: Cell,
    (agent, middlebox): (H::Agent, H::Middlebox),
    duration: Duration,
    seed: u64,
    capture: Capture<'_>,
) -> Result<SimulationRun, String> {
    let (mut net, [a, b]) = network(
        derive(seed, &[0]),
        cell.loss(),
        Box::new(agent),
        Box::new(middlebox),
    )
    .map_err(|error| error.to_string())?;
    capture.begin(&mut net)?;
    let end = carrick_netsim::Time::ZERO + PATIENCE;
    while H::agent(net.node(a)).generator.steady_since().is_none() {
        check::<H>(&net, a, b)?;
        if net.now() >= end {
            return Err("the load did not get to its steady state".into());
        }
        net.run_until(net.now() + Duration::from_secs(1));
    }
    net.run_until(net.now() + SETTLING);
    let before = H::timeouts(net.node(a));
    net.with_node::<H::Agent, _>(a, |host, _, _| {
        H::agent_mut(host).generator.start_measuring();
    });
    let begin = net.now();
    net.run_until(begin + duration / 2);
    let first = H::agent(net.node(a)).generator.measures().clone();
    net.run_until(begin + duration);
    capture.end(&mut net)?;
    check::<H>(&net, a, b)?;
    agree::<H>(&net, a, b)?;
    let timeouts = H::timeouts(net.node(a)) - before;
    let side = H::agent(net.node(a));
    Ok(SimulationRun::new(side, &first, timeouts, duration))
}

/// Checks that both sides count the same pinholes, except for requests in transit.
fn agree<H: Hosts>(net: &Network, agent: NodeId, middlebox: NodeId) -> Result<(), String> {
    let side = H::agent(net.node(agent));
    let pinholes = side.generator.pinholes();
    let rules = H::middlebox(net.node(middlebox)).rules();
    if pinholes.abs_diff(rules) > side.pending() {
        return Err(format!("{pinholes} pinholes, but {rules} rules"));
    }
    Ok(())
}

fn check<H: Hosts>(net: &Network, agent: NodeId, middlebox: NodeId) -> Result<(), String> {
    let failure = H::agent(net.node(agent)).failure.as_ref();
    let other = H::middlebox(net.node(middlebox));
    match failure.or(other.failure.as_ref()) {
        Some(failure) => Err(failure.clone()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::setup::{PAPER, TCP, workload};
    use super::*;

    /// Runs a load that reaches its steady state soon, for `seconds`.
    fn small(
        variant: &Variant,
        (loss, streams): (u32, u16),
        seconds: u64,
        seed: u64,
    ) -> SimulationRun {
        let small = Workload {
            holding: Duration::from_secs(10),
            refresh: Duration::from_secs(6),
            preload: 333,
            ..workload()
        };
        let cell = Cell { loss, streams };
        let duration = Duration::from_secs(seconds);
        run(variant, cell, small, duration, seed, Capture::NONE).unwrap()
    }

    #[test]
    fn a_growing_backlog_is_detected() {
        let carried = |(waiting, usual, halves)| SimulationRun {
            waiting,
            usual,
            halves,
            ..small(&PAPER, (0, 1), 1, 1)
        };
        // Many requests are pending, because each takes long, at the end as in the middle.
        assert!(!grows(&[carried((500, 400.0, [4000.0, 4100.0]))]));
        // A timeout near the end, in one of four runs.
        let [quiet, late] = [(3, 3.0, [30.0, 31.0]), (40, 5.0, [30.0, 70.0])].map(carried);
        assert!(!grows(&[quiet, late]));
        // The delay grows in proportion to the time.
        assert!(grows(&[carried((800, 400.0, [2000.0, 6000.0]))]));
    }

    #[test]
    fn pending_requests_follow_littles_law() {
        let run = small(&PAPER, (0, 1), 20, 1);
        let rate = run.measures.transactions() as f64 / 20.0;
        assert!(
            (run.usual - rate * 0.0205).abs() < 0.05,
            "{} of {rate}",
            run.usual
        );
        for half in run.halves {
            assert!((half - 20.5).abs() < 0.1, "{:?}", run.halves);
        }
    }

    #[test]
    fn lossless_transactions_take_one_round_trip() {
        let run = small(&PAPER, (0, 1), 60, 1);
        let enable = &run.measures.enable;
        let [mean, longest] = [enable.mean(), enable.quantile(1.0)].map(Option::unwrap);
        assert!(mean > Duration::from_micros(20_500) && longest < Duration::from_micros(20_600));
        // 60 s with one PER request every 30 ms; a mean lifetime of 10 s with a refresh every 6 s.
        assert!((1800..2200).contains(&enable.count()), "{}", enable.count());
        let per_pinhole = run.measures.transactions() as f64 / enable.count() as f64;
        let expected = 2.0 + 1.0 / ((6.0_f64 / 10.0).exp() - 1.0);
        assert!(
            (per_pinhole / expected - 1.0).abs() < 0.1,
            "{per_pinhole}, not {expected}"
        );
    }

    #[test]
    fn both_sides_agree_on_the_rules_after_losses() {
        for streams in [1, 4] {
            let run = small(&PAPER, (100, streams), 60, 2);
            assert!((1800..2200).contains(&run.measures.enable.count()));
            assert!(run.measures.enable.mean() > Some(Duration::from_millis(25)));
        }
    }

    #[test]
    fn more_streams_shorten_response_times_with_loss() {
        let mean = |streams| {
            let run = small(&PAPER, (50, streams), 120, 3);
            run.measures.enable.mean().unwrap()
        };
        let [one, six] = [1, 6].map(mean);
        assert!(one > six + Duration::from_millis(5), "{one:?} and {six:?}");
    }

    #[test]
    fn tcp_is_slower_only_with_loss() {
        let mean = |loss| {
            let run = small(&TCP, (loss, 1), 60, 4);
            assert!((1800..2200).contains(&run.measures.enable.count()));
            assert_eq!(run.measures.failures(), 0);
            run.measures.enable.mean().unwrap()
        };
        let [none, some] = [0, 20].map(mean);
        assert!(none > Duration::from_micros(20_500) && none < Duration::from_micros(20_700));
        assert!(some > Duration::from_millis(27), "{some:?}");
    }
}
