//! Proof of equal behaviour: drives crate `carrick-sockets` of the working tree and that of a commit with the same
//! random calls, packets and times, and compares all outputs after each input. `scripts/twin.sh` builds and runs it.

#![allow(clippy::unit_arg, clippy::wildcard_imports)]

/// Host with the sockets of the commit.
#[allow(dead_code)]
mod base {
    use carrick_sockets_twin as api;
    #[cfg(not(feature = "old_face"))]
    include!("face.rs");
    #[cfg(feature = "old_face")]
    include!("old_face.rs");
    include!("host.rs");
}
mod calls;
/// Host with the sockets of the working tree.
mod current {
    use carrick_sockets as api;
    include!("face.rs");
    include!("host.rs");
}
mod input;
mod network;
mod numbers;

use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use carrick_sockets::linux::{IPPROTO_SCTP, SCTP_EVENTS};

use input::{Input, Message, Outputs};
use network::{Difference, ExportComparison, Network, Stop, ip};
use numbers::Numbers;

/// Random inputs of a sequence.
const STEPS: usize = 220;

/// Time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(2);

/// Parameters of a run, in the order of the arguments.
struct TwinRun {
    count: u64,
    first: u64,
    threads: u64,
    exports: ExportComparison,
}

impl TwinRun {
    /// Reads the arguments.
    fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Option<Self> {
        let mut number = || arguments.next()?.parse::<u64>().ok();
        let (count, first, threads) = (number()?, number()?, number()?.max(1));
        let exports = match arguments.next()?.as_str() {
            "imports" => ExportComparison::None,
            "bytes" if count == 1 => ExportComparison::All,
            "bytes" => ExportComparison::Listed,
            _ => return None,
        };
        Some(Self {
            count,
            first,
            threads,
            exports,
        })
    }
}

/// Sequences that have been run, and their results.
struct Progress {
    begin: Instant,
    next_line: Instant,
    /// Next seed.
    next: u64,
    done: u64,
    inputs: u64,
    panics: u64,
    has_failed: bool,
}

impl Progress {
    /// Returns the next seed, unless all sequences have begun or one failed.
    fn next(&mut self, run: &TwinRun) -> Option<u64> {
        if self.has_failed || self.next == run.first + run.count {
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    /// Counts a sequence.
    fn finish(&mut self, run: &TwinRun, seed: u64, result: Result<u64, Stop>) -> ControlFlow<()> {
        self.done += 1;
        match result {
            Ok(inputs) => self.inputs += inputs,
            Err(Stop::Difference(difference)) => {
                self.has_failed = true;
                report(seed, &difference);
                return ControlFlow::Break(());
            }
            Err(Stop::Panic(input)) => {
                self.panics += 1;
                println!("twin: both crates panic in seed {seed} at {input:?}");
            }
        }
        let now = Instant::now();
        if now >= self.next_line || self.done == run.count {
            self.next_line = now + PROGRESS;
            let rate = self.done as f64 / now.duration_since(self.begin).as_secs_f64();
            println!(
                "twin: {} of {} sequences equal, {} inputs, {} panics, {rate:.0} sequences a second",
                self.done - self.panics,
                run.count,
                self.inputs,
                self.panics
            );
        }
        ControlFlow::Continue(())
    }
}

fn main() -> ExitCode {
    let Some(run) = TwinRun::from_arguments(std::env::args().skip(1)) else {
        eprintln!("twin: usage: twin SEQUENCES FIRST THREADS bytes|imports");
        return ExitCode::from(2);
    };
    // Both crates have the same core, whose panics end a sequence. A single one prints them.
    if run.count > 1 {
        std::panic::set_hook(Box::new(|_| {}));
    }
    let begin = Instant::now();
    let progress = Mutex::new(Progress {
        begin,
        next_line: begin + PROGRESS,
        next: run.first,
        done: 0,
        inputs: 0,
        panics: 0,
        has_failed: false,
    });
    let locked = || progress.lock().expect("no thread panics with the lock");
    thread::scope(|scope| {
        for _ in 0..run.threads {
            scope.spawn(|| {
                loop {
                    let Some(seed) = locked().next(&run) else {
                        return;
                    };
                    let result = sequence(seed, run.exports);
                    if locked().finish(&run, seed, result).is_break() {
                        return;
                    }
                }
            });
        }
    });
    if locked().has_failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Runs the sequence of a seed. Returns the number of inputs.
fn sequence(seed: u64, exports: ExportComparison) -> Result<u64, Stop> {
    let mut numbers = Numbers::new(seed);
    let numbers = &mut numbers;
    let mut network = Network::new(numbers, exports);
    let hands_over = seed % 2 == 1;
    connect(numbers, &mut network)?;
    for step in 0..STEPS {
        let host = numbers.below(2);
        if hands_over && (step == STEPS / 2 || numbers.below(40) == 0) {
            network.input(numbers, host, Input::Handover)?;
        } else if numbers.below(4) == 0 {
            let time = numbers.one_of(&[5, 20, 50, 200, 1000, 5000]);
            let time = 1 + numbers.below(time) as u64;
            network.run(numbers, Duration::from_millis(time))?;
        } else if numbers.below(80) == 0
            && let Some((host, input)) = network.icmp(numbers)
        {
            network.input(numbers, host, input)?;
        } else {
            let input = calls::random(numbers, &network, host);
            network.input(numbers, host, input)?;
        }
    }
    network.run(numbers, Duration::from_secs(300))?;
    Ok(network.inputs())
}

/// Sets up associations between the hosts, so that most random calls find one.
fn connect(numbers: &mut Numbers, network: &mut Network) -> Result<(), Stop> {
    let is_one_to_one = numbers.below(2) == 0;
    let address = (ip(1, 0), 5000).into();
    for host in [0, 1] {
        let socket = Input::Socket {
            is_one_to_one,
            is_v6: false,
        };
        network.input(numbers, host, socket)?;
        if numbers.below(2) == 0 {
            let events = Input::SetOption(0, (IPPROTO_SCTP, SCTP_EVENTS), vec![1; 14]);
            network.input(numbers, host, events)?;
        }
    }
    network.input(numbers, 1, Input::Bind(0, address))?;
    network.input(numbers, 1, Input::Listen(0, 5))?;
    network.input(numbers, 0, Input::Connectx(0, vec![address]))?;
    network.run(numbers, Duration::from_millis(200))?;
    if is_one_to_one {
        network.input(numbers, 1, Input::Accept(0))?;
    }
    for host in [0, 1] {
        let message = Message {
            address: (host == 0).then_some(address),
            len: 100,
            control: Vec::new(),
        };
        network.input(
            numbers,
            host,
            Input::Send(host.min(network.socket_count(host) - 1), message),
        )?;
    }
    network.run(numbers, Duration::from_millis(100))
}

fn report(seed: u64, difference: &Difference) {
    let Difference {
        input,
        base,
        current,
    } = difference;
    eprintln!("twin: the outputs of seed {seed} differ after {input:?}");
    let parts = |outputs: &Outputs| {
        let packets = outputs.packets.iter().map(|packet| format!("{packet:?}"));
        let lines = outputs.text.lines().map(str::to_owned);
        let export = outputs.export.chunks(64).enumerate();
        let export = export.map(|(n, bytes)| format!("export at {}: {bytes:?}", 64 * n));
        lines.chain(packets).chain(export).collect::<Vec<_>>()
    };
    let (base, current) = (parts(base), parts(current));
    let missing = "nothing".to_owned();
    for n in 0..base.len().max(current.len()) {
        let (old, new) = (
            base.get(n).unwrap_or(&missing),
            current.get(n).unwrap_or(&missing),
        );
        if old != new {
            eprintln!("  commit:       {old:.2000}\n  working tree: {new:.2000}");
        }
    }
}
