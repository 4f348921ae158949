//! Live runs of saturated flows: the capacity of the lossy network.

use std::time::Duration;

use super::setup::{MESSAGE, PORT, RFC, kbytes, live_world};
use super::{run, tcp};
use crate::capture::Capture;
use crate::live::{self, Bulk, Connection, Drain, PacketRecording, RunOutcome, RunRecord, Stack};
use crate::parallel;
use crate::result::{LiveRow, Setting};
use crate::scenario::RunOptions;
use crate::seed::derive;

/// Start, as in the simulation, and duration of the measurement.
const SETTLED: Duration = Duration::from_secs(10);
const MEASURED: Duration = Duration::from_secs(50);
/// Encapsulations of SCTP, and congestion control algorithms of the kernel.
const WAYS: [&str; 5] = ["udp", "raw", "reno", "cubic", "bbr"];
const SCTP: usize = 2;

/// Returns the seed of a repetition, which is that of the simulated repetition of the same number.
fn seed(options: &RunOptions, repetition: u64) -> u64 {
    derive(options.seed, &[2, repetition])
}

/// Returns the stack of a flow; TCP as in the other runs of this scenario.
fn stack(way: usize, tcp: &dyn Fn(&'static str) -> Stack) -> Stack {
    if way >= SCTP {
        let mut stack = tcp(WAYS[way]);
        if let Stack::Tcp { send_buffer, .. } = &mut stack {
            *send_buffer = None;
        }
        return stack;
    }
    let mut config = RFC.config();
    config.research.trace = false;
    config.buffers.send_buffer = 4 * RFC.window;
    Stack::Sctp {
        encapsulated: way == 0,
        port: PORT,
        config: Box::new(config),
    }
}

/// Returns the runs, ordered by repetition.
pub(super) fn runs(
    options: &RunOptions,
    repetitions: u64,
    tcp: &dyn Fn(&'static str) -> Stack,
) -> Vec<live::LiveRun> {
    let length = SETTLED + MEASURED + Duration::from_secs(1);
    let mut runs = Vec::new();
    for repetition in 0..repetitions {
        let network = derive(seed(options, repetition), &[0]);
        for (way, name) in WAYS.iter().enumerate() {
            let source = Bulk::lasting(length, Duration::ZERO, MESSAGE);
            let sink = Drain::new(0);
            runs.push(live::LiveRun {
                name: format!("lossy.{name}.{repetition}"),
                world: Box::new(move || live_world(network)),
                flows: vec![Connection::new(
                    stack(way, tcp),
                    0,
                    [Box::new(source), Box::new(sink)],
                )],
                watch: PacketRecording::Lengths,
                expected: length,
                limit: length * 3,
                capture: None,
            });
        }
    }
    runs
}

/// Returns the rate of user data in KByte/s.
fn measure(record: &RunRecord) -> Option<f64> {
    let sink: &Drain = record.program(1)?;
    let (from, until) = (record.begin + SETTLED, record.begin + SETTLED + MEASURED);
    let within = sink
        .taken
        .iter()
        .filter(|(time, _)| *time >= from && *time < until);
    let bytes: usize = within.map(|(_, bytes)| bytes).sum();
    Some(kbytes(bytes as f64) / MEASURED.as_secs_f64())
}

/// Returns the rows of the outcomes in the order of the runs, with the corresponding simulations.
pub(super) fn rows(
    options: &RunOptions,
    repetitions: u64,
    outcomes: &[RunOutcome],
) -> Result<Vec<LiveRow>, String> {
    let simulations = parallel::run(repetitions as usize * 2, |job| {
        let seed = seed(options, (job / 2) as u64);
        match job % 2 {
            0 => run::saturated(&RFC, true, MEASURED, seed, Capture::NONE),
            _ => tcp::saturated(true, MEASURED, seed, Capture::NONE),
        }
    });
    let simulations: Vec<f64> = simulations.into_iter().collect::<Result<_, String>>()?;
    let row = |(way, name): (usize, &&str)| {
        let is_tcp = way >= SCTP;
        let ran = outcomes.iter().skip(way).step_by(WAYS.len());
        let pairs = ran.zip(simulations.iter().skip(usize::from(is_tcp)).step_by(2));
        let pairs = pairs.filter_map(|(outcome, simulation)| {
            Some((kbytes(*simulation), outcome.record().and_then(measure)?))
        });
        let (simulated, live): (Vec<f64>, Vec<f64>) = pairs.unzip();
        let (id, label) = match way {
            0 => ("lossy", "saturated, SCTP in UDP".to_string()),
            1 => ("lossy", "saturated, SCTP on IP".to_string()),
            _ => ("tcp.lossy", format!("saturated, kernel’s TCP ({name})")),
        };
        let why = if is_tcp {
            "The simulated TCP, smoltcp with Reno, recovers one loss per round trip and has no SACK; in addition, the kernel may \
                         exceed the window that the route allows once it increases the receive buffer."
        } else {
            "The same packets are lost; the window at that time depends on the timing of both hosts."
        };
        let id = format!("{id}.throughput.{name}");
        let label = format!("{label}: mean throughput");
        let row = LiveRow::new(&id, &label, "KByte/s", &simulated, &live);
        if is_tcp {
            row.another_stack(why)
        } else {
            row.because(why)
        }
    };
    Ok(WAYS.iter().enumerate().map(row).collect())
}

/// Returns the setting needed to repeat the runs.
pub(super) fn setting() -> Setting {
    Setting::new(
        "live saturation",
        format!(
            "a source that always has another message, measured for {} s from {} s on, live and simulated",
            MEASURED.as_secs(),
            SETTLED.as_secs()
        ),
    )
}
