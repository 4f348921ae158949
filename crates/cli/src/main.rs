//! The `carrick` command: one module per subcommand.

#[cfg(target_os = "linux")]
mod bench;
#[cfg(target_os = "linux")]
mod capture;
mod capture_file;
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
mod framing;
#[cfg(target_os = "linux")]
mod given_options;
mod help;
#[cfg(all(feature = "lab", target_os = "linux"))]
mod lab;
#[cfg(all(feature = "lab", not(target_os = "linux")))]
#[path = "lab_elsewhere.rs"]
mod lab;
#[cfg(feature = "lab")]
mod lab_file;
#[cfg(all(feature = "lab", target_os = "linux"))]
mod lab_network;
#[cfg(all(feature = "lab", target_os = "linux"))]
mod live;
#[cfg(any(target_os = "linux", feature = "simco"))]
mod log;
mod manual;
#[cfg(not(all(feature = "dtls", feature = "lab", feature = "simco")))]
mod missing;
mod mtp;
mod parameters;
mod perf;
mod progress;
mod proxy;
#[cfg(feature = "lab")]
mod reproduce;
#[cfg(target_os = "linux")]
mod run;
mod runtime;
mod script;
#[cfg(target_os = "linux")]
mod sctp_library;
mod security;
#[cfg(feature = "simco")]
mod simco;
#[cfg(feature = "lab")]
mod simulation_progress;
#[cfg(target_os = "linux")]
mod ss;
#[cfg(target_os = "linux")]
mod stp;
mod terminal;
#[cfg(target_os = "linux")]
mod top;
mod units;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// Version, and what else distinguishes two builds: for reports of defects.
const LONG_VERSION: &str = concat!(
    env!("CARRICK_VERSION"),
    "\ncommit of: ",
    env!("CARRICK_COMMIT_DATE"),
    "\ntarget: ",
    env!("CARRICK_TARGET"),
    "\nfeatures: ",
    env!("CARRICK_FEATURES"),
);

/// SCTP (RFC 9260) in user space, with the laboratory that reproduces published experiments.
#[derive(Debug, Parser)]
#[command(name = "carrick", version = env!("CARRICK_VERSION"), long_version = LONG_VERSION, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Arguments),
    #[cfg(feature = "lab")]
    Reproduce(reproduce::Arguments),
    /// Reproduce published experiments in virtual time; not part of this build
    #[cfg(not(feature = "lab"))]
    Reproduce(missing::Arguments),
    Perf(perf::Arguments),
    #[cfg(target_os = "linux")]
    Bench(bench::Arguments),
    /// Measured program of `carrick bench`.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    BenchEnd(bench::end::Arguments),
    Cat(cat::Arguments),
    Proxy(proxy::Arguments),
    #[cfg(target_os = "linux")]
    Run(run::Arguments),
    #[cfg(target_os = "linux")]
    Daemon(daemon::Arguments),
    #[cfg(target_os = "linux")]
    Ss(ss::Arguments),
    #[cfg(target_os = "linux")]
    Top(top::Arguments),
    #[cfg(target_os = "linux")]
    Capture(capture::Arguments),
    Script(script::Arguments),
    Mtp(mtp::Arguments),
    #[cfg(target_os = "linux")]
    Stp(stp::Arguments),
    #[cfg(feature = "simco")]
    Simco(simco::Arguments),
    /// Control firewalls and NATs with SIMCO (RFC 4540); not part of this build
    #[cfg(not(feature = "simco"))]
    Simco(missing::Arguments),
    #[cfg(feature = "lab")]
    Lab(lab::Arguments),
    /// Run scenario files in virtual time, and their networks in real time; not part of this build
    #[cfg(not(feature = "lab"))]
    Lab(missing::Arguments),
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
        #[cfg(feature = "lab")]
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        #[cfg(not(feature = "lab"))]
        Command::Reproduce(_) => Err(missing::failure("reproduce", "lab")),
        Command::Perf(arguments) => perf::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Bench(arguments) => bench::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::BenchEnd(arguments) => bench::end::run(&arguments),
        Command::Cat(arguments) => cat::run(&arguments),
        Command::Proxy(arguments) => proxy::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Run(arguments) => run::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Daemon(arguments) => daemon::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Ss(arguments) => ss::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Top(arguments) => top::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Capture(arguments) => capture::run(&arguments),
        Command::Script(arguments) => script::run(&arguments),
        Command::Mtp(arguments) => mtp::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Stp(arguments) => stp::run(&arguments),
        #[cfg(feature = "simco")]
        Command::Simco(arguments) => simco::run(&arguments),
        #[cfg(not(feature = "simco"))]
        Command::Simco(_) => Err(missing::failure("simco", "simco")),
        #[cfg(feature = "lab")]
        Command::Lab(arguments) => lab::run(&arguments),
        #[cfg(not(feature = "lab"))]
        Command::Lab(_) => Err(missing::failure("lab", "lab")),
        Command::Man(arguments) => manual::write_pages(&arguments, Cli::command()),
        Command::Completions(arguments) => manual::complete(&arguments, &Cli::command()),
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
        #[cfg(feature = "lab")]
        assert!(Cli::try_parse_from(["carrick", "reproduce", "--reps", "0"]).is_err());
        assert!(Cli::try_parse_from(["carrick", "reproduce", "a", "b", "--full"]).is_ok());
    }
}
