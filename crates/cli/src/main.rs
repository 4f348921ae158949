//! The `carrick` command: one module per subcommand.

#[cfg(target_os = "linux")]
mod bench;
#[cfg(target_os = "linux")]
mod capture;
mod cat;
mod cpu;
#[cfg(target_os = "linux")]
mod daemon;
mod demo;
mod endpoint;
mod event_log;
mod event_reports;
#[cfg(target_os = "linux")]
mod executable;
mod failure;
mod files;
#[cfg(target_os = "linux")]
mod given_options;
mod help;
#[cfg(target_os = "linux")]
mod lab;
#[cfg(not(target_os = "linux"))]
#[path = "lab_elsewhere.rs"]
mod lab;
mod lab_file;
#[cfg(target_os = "linux")]
mod lab_network;
#[cfg(target_os = "linux")]
mod live;
#[cfg(any(target_os = "linux", feature = "simco"))]
mod log;
mod manual;
mod mtp;
mod parameters;
mod perf;
mod progress;
mod reproduce;
#[cfg(target_os = "linux")]
mod run;
mod runtime;
mod script;
#[cfg(target_os = "linux")]
mod sctp_library;
#[cfg(feature = "simco")]
mod simco;
#[cfg(not(feature = "simco"))]
#[path = "simco_missing.rs"]
mod simco;
#[cfg(target_os = "linux")]
mod ss;
#[cfg(target_os = "linux")]
mod stp;
mod terminal;
mod units;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// SCTP (RFC 9260) in user space, with the laboratory that reproduces published experiments.
#[derive(Debug, Parser)]
#[command(name = "carrick", version = env!("CARRICK_VERSION"), arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Arguments),
    Reproduce(reproduce::Arguments),
    Perf(perf::Arguments),
    #[cfg(target_os = "linux")]
    Bench(bench::Arguments),
    /// Measured program of `carrick bench`.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    BenchEnd(bench::end::Arguments),
    Cat(cat::Arguments),
    #[cfg(target_os = "linux")]
    Run(run::Arguments),
    #[cfg(target_os = "linux")]
    Daemon(daemon::Arguments),
    #[cfg(target_os = "linux")]
    Ss(ss::Arguments),
    #[cfg(target_os = "linux")]
    Capture(capture::Arguments),
    Script(script::Arguments),
    Mtp(mtp::Arguments),
    #[cfg(target_os = "linux")]
    Stp(stp::Arguments),
    Simco(simco::Arguments),
    Lab(lab::Arguments),
    Man(manual::ManArguments),
    Completions(manual::CompletionArguments),
}

fn parse() -> Result<Cli, clap::Error> {
    let matches = help::with_examples(Cli::command()).try_get_matches()?;
    Cli::from_arg_matches(&matches)
}

fn main() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => match failure::of_command_line(&error) {
            Some(failure) => return failure.report(),
            None => return help::print(&error),
        },
    };
    let done = match cli.command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Perf(arguments) => perf::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Bench(arguments) => bench::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::BenchEnd(arguments) => bench::end::run(&arguments),
        Command::Cat(arguments) => cat::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Run(arguments) => run::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Daemon(arguments) => daemon::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Ss(arguments) => ss::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Capture(arguments) => capture::run(&arguments),
        Command::Script(arguments) => script::run(&arguments),
        Command::Mtp(arguments) => mtp::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Stp(arguments) => stp::run(&arguments),
        Command::Simco(arguments) => simco::run(&arguments),
        Command::Lab(arguments) => lab::run(&arguments),
        Command::Man(arguments) => manual::write_pages(&arguments, Cli::command()),
        Command::Completions(arguments) => manual::complete(&arguments, Cli::command()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        assert!(Cli::try_parse_from(["carrick", "reproduce", "--reps", "0"]).is_err());
        assert!(Cli::try_parse_from(["carrick", "reproduce", "a", "b", "--full"]).is_ok());
    }
}
