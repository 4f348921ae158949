//! Proof of equal behaviour: drives crate `carrick-sockets` of the working tree and that of a commit with the same
//! random calls, packets and times, and compares all outputs after each input. Arguments: number of sequences, and
//! optionally the first seed.

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

use std::process::ExitCode;
use std::time::Duration;

use carrick_sockets::linux::{IPPROTO_SCTP, SCTP_EVENTS};

use input::{Input, Message, Outputs};
use network::{Difference, Network, Stop, ip};
use numbers::Numbers;

/// Random inputs of a sequence.
const STEPS: usize = 220;

fn main() -> ExitCode {
    let mut arguments = std::env::args()
        .skip(1)
        .map(|argument| argument.parse::<u64>());
    let (Some(Ok(count)), first) = (arguments.next(), arguments.next().unwrap_or(Ok(0))) else {
        eprintln!("twin: the number of sequences is missing; usage: twin SEQUENCES [FIRST]");
        return ExitCode::from(2);
    };
    let first = first.unwrap_or(0);
    // Both crates have the same core, whose panics end a sequence. A single one prints them.
    if count > 1 {
        std::panic::set_hook(Box::new(|_| {}));
    }
    let (mut inputs, mut panics) = (0, 0);
    for seed in first..first + count {
        match sequence(seed) {
            Ok(number) => inputs += number,
            Err(Stop::Difference(difference)) => {
                report(seed, &difference);
                return ExitCode::FAILURE;
            }
            Err(Stop::Panic(input)) => {
                panics += 1;
                println!("twin: both crates panic in seed {seed} at {input:?}");
            }
        }
        let done = seed - first + 1;
        if done % 100 == 0 || done == count {
            println!("twin: {done} of {count} sequences equal, {inputs} inputs, {panics} panics");
        }
    }
    ExitCode::SUCCESS
}

/// Runs the sequence of a seed. Returns the number of inputs.
fn sequence(seed: u64) -> Result<u64, Stop> {
    let mut numbers = Numbers::new(seed);
    let numbers = &mut numbers;
    let mut network = Network::new(numbers);
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
        let export = format!("export {:?}", outputs.export);
        lines.chain(packets).chain([export]).collect::<Vec<_>>()
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
