//! The scenario in real time. Agents, tunnels, routers and the mobile node's own Mobile IP are the
//! simulator's programs; the transports of correspondent and mobile node are real.

use std::time::Duration;

use super::MobileIp;
use super::live_cells::{MESSAGES, kinds};
use super::setup::PAPER_WINDOW;
use crate::error::LabError;
use crate::live::{self, Measured, Outcome, Watch};
use crate::result::{LiveResult, Setting};
use crate::scenario::{RunOptions, Scenario};
use crate::seed::derive;

/// When something happens to the first network, after the beginning of the flow, and later by up to a
/// second.
const EVENT: Duration = Duration::from_secs(8);
/// A failover whose timeouts double up to a minute takes the longest.
const EXPECTED: Duration = Duration::from_secs(140);
/// Repetitions of a short run, and of a full one.
const REPETITIONS: (u64, u64) = (3, 10);

/// When something happens in a repetition, after the beginning of the flow.
fn moment(seed: u64) -> Duration {
    let mut random = carrick_netsim::Random::new(seed, 6);
    EVENT + random.duration_up_to(Duration::from_secs(1))
}

/// The seed of a repetition: the simulated repetition of this number has the same.
fn seed(options: &RunOptions, repetition: u64) -> u64 {
    derive(options.seed, &[repetition])
}

pub(super) fn plan(scenario: MobileIp, options: &RunOptions) -> live::Plan {
    let repetitions = options.live_repetitions(REPETITIONS.0, REPETITIONS.1);
    let kinds = kinds();
    let mut runs = Vec::new();
    for repetition in 0..repetitions {
        let seed = seed(options, repetition);
        for kind in &kinds {
            let kind = *kind;
            let network = derive(seed, &[0]);
            runs.push(live::Run {
                name: format!("{}.{}.{repetition}", kind.id(), kind.suffix()),
                world: Box::new(move || kind.world(moment(seed), network)),
                flows: vec![kind.flow()],
                watch: Watch::Lengths,
                expected: EXPECTED,
                limit: EXPECTED * 3,
                capture: None,
            });
        }
    }
    let options = *options;
    // One repetition after the other.
    live::Plan::new(runs, kinds.len(), move |names, outcomes| {
        conclude(scenario, &options, repetitions, names, &outcomes)
    })
}

fn conclude(
    scenario: MobileIp,
    options: &RunOptions,
    repetitions: u64,
    names: &[String],
    outcomes: &[Outcome],
) -> Result<LiveResult, LabError> {
    let kinds = kinds();
    let extent = (kinds.len(), repetitions);
    let twins = live::twins(scenario.name(), extent, |kind, repetition| {
        let seed = seed(options, repetition);
        kinds[kind].simulate(moment(seed), seed)
    })?;
    let live = Measured::of(kinds.len(), names, outcomes, |kind, repetition, record| {
        kinds[kind].measure(record, moment(seed(options, repetition)))
    });
    let (pairs, mut notes) = live.beside(twins);
    notes.push(
        "Home agent, foreign agents and routers are the simulator’s programs in real time, and so is the Mobile IP of the mobile \
         node: its namespace has the Mobile IP address and is handed what comes out of the tunnel. Real are the transports, their \
         sockets and clocks. In the handovers by ASCONF there is no Mobile IP: addresses come and go on the interfaces of the mobile node’s \
         namespace, by ip at the moments of the simulation, its endpoint hears of them from the kernel and tells the correspondent. Where the old \
         SACK rule loses the association, that ends the run."
            .into(),
    );
    let rows = kinds.iter().zip(&pairs);
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
                "{repetitions} repetitions, each cell in a network of its own, all cells of a repetition at the same time; \
                 transfers of {MESSAGES} messages (3 MB) live and simulated; failures and moves about {} s after the beginning",
                EVENT.as_secs()
            ),
        ),
        Setting::new(
            "live SCTP",
            "crate carrick with the settings of the simulated hosts, in UDP (RFC 6951, 8 bytes less in a message) and on plain IP",
        ),
        Setting::new(
            "live TCP",
            format!(
                "the kernel’s with its own defaults, segments that fit the tunnel, windows limited by the route to {PAPER_WINDOW} bytes; \
                 beside it the simulated Reno"
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use carrick_netsim::mobile::MobileNode;
    use carrick_netsim::{Change, Port};

    use super::*;

    #[test]
    fn agents_are_simulated_and_the_mobile_node_keeps_its_mobile_ip() {
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
            let mut world = (run.world)().expect("the network is right");
            let [correspondent, mobile] = world.hosts[0];
            assert!(world.network.runs::<Port>(correspondent), "{}", run.name);
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
                assert!(world.network.runs::<Port>(mobile), "{}", run.name);
            } else {
                // It registers without a transport.
                assert!(world.network.runs::<MobileNode<Port>>(mobile));
                world.network.run_until(carrick_netsim::Time::from_secs(2));
                let node: &MobileNode<Port> = world.network.node(mobile);
                assert!(node.registered().is_some(), "{}", run.name);
            }
            let ends = run.flows[0].addresses.as_ref().expect("they are chosen");
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
