//! Live runs. Agents, tunnels, routers and the Mobile IP of the mobile node are programs of the
//! simulator; the transports of correspondent and mobile node are real.

use std::time::Duration;

use super::MobileIp;
use super::live_cells::{MESSAGES, all_cells};
use super::setup::PAPER_WINDOW;
use crate::error::LabError;
use crate::live::{self, LiveMeasurements, PacketRecording, RunOutcome};
use crate::result::{LiveResult, Setting};
use crate::scenario::{RunOptions, Scenario};
use crate::seed::derive;

/// Minimum time of the event in the first network, after the start of the flow; up to a second is
/// added.
const EVENT: Duration = Duration::from_secs(8);
/// The longest run is a failover with timeouts that double up to a minute.
const EXPECTED: Duration = Duration::from_secs(140);
/// Repetitions of a short and of a full run.
const REPETITIONS: (u64, u64) = (3, 10);

/// Returns the time of the event in a repetition, after the start of the flow.
fn moment(seed: u64) -> Duration {
    let mut random = carrick_netsim::Random::new(seed, 6);
    EVENT + random.duration_up_to(Duration::from_secs(1))
}

/// Returns the seed of a repetition, which is that of the simulated repetition of the same number.
fn seed(options: &RunOptions, repetition: u64) -> u64 {
    derive(options.seed, &[repetition])
}

pub(super) fn plan(scenario: MobileIp, options: &RunOptions) -> live::LivePlan {
    let repetitions = options.live_repetitions(REPETITIONS.0, REPETITIONS.1);
    let all_cells = all_cells();
    let mut runs = Vec::new();
    for repetition in 0..repetitions {
        let seed = seed(options, repetition);
        for kind in &all_cells {
            let kind = *kind;
            let network = derive(seed, &[0]);
            runs.push(live::LiveRun {
                name: format!("{}.{}.{repetition}", kind.id(), kind.suffix()),
                world: Box::new(move || kind.world(moment(seed), network)),
                flows: vec![kind.flow()],
                watch: PacketRecording::Lengths,
                expected: EXPECTED,
                limit: EXPECTED * 3,
                capture: None,
            });
        }
    }
    let options = *options;
    // One repetition after the other.
    live::LivePlan::new(runs, all_cells.len(), move |names, outcomes| {
        conclude(scenario, &options, repetitions, names, &outcomes)
    })
}

fn conclude(
    scenario: MobileIp,
    options: &RunOptions,
    repetitions: u64,
    names: &[String],
    outcomes: &[RunOutcome],
) -> Result<LiveResult, LabError> {
    let all_cells = all_cells();
    let extent = (all_cells.len(), repetitions);
    let simulations = live::simulate_cells(scenario.name(), extent, |kind, repetition| {
        let seed = seed(options, repetition);
        all_cells[kind].simulate(moment(seed), seed)
    })?;
    let live = LiveMeasurements::of(
        all_cells.len(),
        names,
        outcomes,
        |kind, repetition, record| {
            all_cells[kind].measure(record, moment(seed(options, repetition)))
        },
    );
    let (pairs, mut notes) = live.paired_with(simulations);
    notes.push(
        "Home agent, foreign agents and routers are the simulator’s programs in real time, as is the Mobile IP of the mobile \
         node: its namespace has the home address and receives the detunneled packets. The transports, their sockets and clocks are \
         real. In handovers by ASCONF there is no Mobile IP: addresses are added to and removed from the interfaces of the mobile node’s \
         namespace with ip at the times of the simulation; the kernel notifies its endpoint, which announces them to the correspondent. If the old \
         SACK rule loses the association, the run ends."
            .into(),
    );
    let rows = all_cells.iter().zip(&pairs);
    Ok(LiveResult {
        rows: rows.flat_map(|(kind, pairs)| kind.rows(pairs)).collect(),
        accuracy: None,
        notes,
        settings: settings(repetitions),
    })
}

fn settings(repetitions: u64) -> Vec<Setting> {
    vec![
        Setting::new(
            "live runs",
            format!(
                "{repetitions} repetitions, each cell in a separate network, all cells of a repetition at the same time; \
                 transfers of {MESSAGES} messages (3 MB) live and simulated; failures and handovers about {} s after the start",
                EVENT.as_secs()
            ),
        ),
        Setting::new(
            "live SCTP",
            "crate carrick with the settings of the simulated hosts, in UDP (RFC 6951, messages 8 bytes shorter) and on plain IP",
        ),
        Setting::new(
            "live TCP",
            format!(
                "the kernel’s TCP with its defaults, segments that fit the tunnel, windows limited by the route to {PAPER_WINDOW} bytes; \
                 compared with the simulated Reno",
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use carrick_netsim::mobile::MobileNode;
    use carrick_netsim::{Change, ExternalHost};

    use super::*;

    #[test]
    fn agents_and_mobile_ip_are_simulated() {
        let options = RunOptions {
            reps: Some(2),
            ..RunOptions::default()
        };
        let plan = plan(MobileIp, &options);
        let count = plan.runs.len() / 2;
        assert_eq!(count, 6 + 4 + 9 + 6 + 16);
        let mut names: Vec<String> = plan.runs.iter().map(|run| run.name.clone()).collect();
        assert_eq!(names[0], "config1.0.udp.0");
        assert_eq!(names[count], "config1.0.udp.1");
        for run in plan.runs {
            let mut world = (run.world)().expect("the network is valid");
            let [correspondent, mobile] = world.hosts[0];
            assert!(
                world.network.runs::<ExternalHost>(correspondent),
                "{}",
                run.name
            );
            let of_addresses = |(_, change): &(_, Change)| {
                matches!(
                    change,
                    Change::AddAddress { .. } | Change::RemoveAddress { .. }
                )
            };
            let moving = world.changes.iter().filter(|change| of_addresses(change));
            assert_eq!(
                moving.count(),
                if run.flows[0].roams == Some(1) { 2 } else { 0 }
            );
            if run.flows[0].roams.is_some() {
                assert!(world.network.runs::<ExternalHost>(mobile), "{}", run.name);
            } else {
                // The mobile node registers independently of a transport.
                assert!(world.network.runs::<MobileNode<ExternalHost>>(mobile));
                world.network.run_until(carrick_netsim::Time::from_secs(2));
                let node: &MobileNode<ExternalHost> = world.network.node(mobile);
                assert!(node.registered().is_some(), "{}", run.name);
            }
            let ends = run.flows[0]
                .addresses
                .as_ref()
                .expect("the addresses are selected");
            for (host, addresses) in world.hosts[0].iter().zip(ends) {
                let owned = |address| {
                    let owner = world.network.owner(address);
                    owner.is_some_and(|owner| world.network.node_of(owner) == *host)
                };
                assert!(addresses.iter().all(|address| owned(*address)));
            }
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 2 * count);
    }
}
