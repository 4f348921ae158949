//! The saturated flows in real time: what the lossy network carries at most.

use std::time::Duration;

use super::setup::{MESSAGE, PORT, STANDARD, live_world};
use super::{run, tcp};
use crate::capture::Capture;
use crate::live::{self, Bulk, Drain, Flow, Outcome, Record, Stack, Watch};
use crate::parallel;
use crate::result::{LiveRow, Setting};
use crate::scenario::RunOptions;
use crate::seed::derive;

/// When measuring begins, as in the simulation, and how long it takes.
const SETTLED: Duration = Duration::from_secs(10);
const MEASURED: Duration = Duration::from_secs(50);
/// Ways of SCTP, and congestion controls of the kernel.
const WAYS: [&str; 5] = ["udp", "raw", "reno", "cubic", "bbr"];
const SCTP: usize = 2;

/// The seed of a repetition: the simulated repetition of this number has the same.
fn seed(options: &RunOptions, repetition: u64) -> u64 {
    derive(options.seed, &[2, repetition])
}

/// How a flow is carried; TCP as in the other runs of this scenario.
fn stack(way: usize, tcp: &dyn Fn(&'static str) -> Stack) -> Stack {
    if way >= SCTP {
        return tcp(WAYS[way]);
    }
    let mut config = STANDARD.config();
    config.research.trace = false;
    config.buffers.send_buffer = 4 * STANDARD.window;
    Stack::Sctp {
        encapsulated: way == 0,
        port: PORT,
        config: Box::new(config),
    }
}

/// The runs, those of a repetition together.
pub(super) fn runs(
    options: &RunOptions,
    repetitions: u64,
    tcp: &dyn Fn(&'static str) -> Stack,
) -> Vec<live::Run> {
    let length = SETTLED + MEASURED + Duration::from_secs(1);
    let mut runs = Vec::new();
    for repetition in 0..repetitions {
        let network = derive(seed(options, repetition), &[0]);
        for (way, name) in WAYS.iter().enumerate() {
            let source = Bulk::lasting(length, Duration::ZERO, MESSAGE);
            let sink = Drain::new(0);
            runs.push(live::Run {
                name: format!("lossy.{name}.{repetition}"),
                world: Box::new(move || live_world(network)),
                flows: vec![Flow::new(
                    stack(way, tcp),
                    0,
                    [Box::new(source), Box::new(sink)],
                )],
                watch: Watch::Lengths,
                expected: length,
                limit: length * 3,
                capture: None,
            });
        }
    }
    runs
}

/// KByte/s of user data.
fn measure(record: &Record) -> Option<f64> {
    let sink: &Drain = record.program(1)?;
    let (from, until) = (record.begin + SETTLED, record.begin + SETTLED + MEASURED);
    let within = sink
        .taken
        .iter()
        .filter(|(time, _)| *time >= from && *time < until);
    let bytes: usize = within.map(|(_, bytes)| bytes).sum();
    Some(bytes as f64 / 1e3 / MEASURED.as_secs_f64())
}

/// The rows, of the outcomes in the order of the runs, beside the same simulated.
pub(super) fn rows(
    options: &RunOptions,
    repetitions: u64,
    outcomes: &[Outcome],
) -> Result<Vec<LiveRow>, String> {
    let twins = parallel::run(repetitions as usize * 2, |job| {
        let seed = seed(options, (job / 2) as u64);
        match job % 2 {
            0 => run::saturated(&STANDARD, true, MEASURED, seed, Capture::NONE),
            _ => tcp::saturated(true, MEASURED, seed, Capture::NONE),
        }
    });
    let twins: Vec<f64> = twins.into_iter().collect::<Result<_, String>>()?;
    let row = |(way, name): (usize, &&str)| {
        let is_tcp = way >= SCTP;
        let ran = outcomes.iter().skip(way).step_by(WAYS.len());
        let pairs = ran.zip(twins.iter().skip(usize::from(is_tcp)).step_by(2));
        let pairs = pairs
            .filter_map(|(outcome, twin)| Some((twin / 1e3, outcome.record().and_then(measure)?)));
        let (simulated, live): (Vec<f64>, Vec<f64>) = pairs.unzip();
        let (id, label) = match way {
            0 => ("lossy", "saturated, SCTP in UDP".to_string()),
            1 => ("lossy", "saturated, SCTP on IP".to_string()),
            _ => ("tcp.lossy", format!("saturated, kernel’s TCP ({name})")),
        };
        let why = if is_tcp {
            "The simulated TCP is smoltcp’s Reno, which repairs one loss a round trip and has no SACK; and the kernel may \
             exceed the window that the route allows once it lets the receive buffer grow."
        } else {
            "The same packets are lost; how large the window is at that moment depends on the timing of both hosts."
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

/// What is needed to repeat them.
pub(super) fn setting() -> Setting {
    Setting::new(
        "live saturation",
        format!(
            "a source that always has more, measured for {} s from {} s on, live and simulated",
            MEASURED.as_secs(),
            SETTLED.as_secs()
        ),
    )
}
