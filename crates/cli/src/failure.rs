//! Errors of the command: one line that names the cause and the remedy.

use std::io;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};

#[cfg(feature = "lab")]
use carrick_lab::LabError;

/// Exit code of a program that SIGINT ended, as in shells.
#[cfg(all(feature = "lab", target_os = "linux"))]
pub(crate) const INTERRUPTED: u8 = 130;

/// Failure of a subcommand.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line is invalid.
    Usage(String),
    /// The command line is valid, but the command failed.
    Run(String),
    /// The command ends with this exit code, e.g. that of the program that it ran.
    #[cfg(all(feature = "lab", target_os = "linux"))]
    Ended(u8, String),
    /// The failure is in the program's log already.
    #[cfg(any(target_os = "linux", feature = "simco"))]
    Logged,
    /// The reader of the output has closed it.
    OutputClosed,
}

impl Failure {
    /// Returns the line, for a log.
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Usage(line) | Self::Run(line) => line.clone(),
            _ => "the output was closed".into(),
        }
    }

    /// Prints the line and returns the exit code: 2 for the command line, 1 for all others without a code.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Self::Usage(line) => {
                eprintln!("carrick: {line}");
                ExitCode::from(2)
            }
            Self::Run(line) => {
                eprintln!("carrick: {line}");
                ExitCode::FAILURE
            }
            #[cfg(all(feature = "lab", target_os = "linux"))]
            Self::Ended(code, line) => {
                eprintln!("carrick: {line}");
                ExitCode::from(code)
            }
            #[cfg(any(target_os = "linux", feature = "simco"))]
            Self::Logged => ExitCode::FAILURE,
            // Success, so that `carrick ... | head` succeeds.
            Self::OutputClosed => ExitCode::SUCCESS,
        }
    }
}

/// Converts an error of the command line into one line; `None` if help or the version is to be printed.
pub(crate) fn of_command_line(error: &clap::Error) -> Option<Failure> {
    use clap::error::ErrorKind;

    if let ErrorKind::DisplayHelp
    | ErrorKind::DisplayVersion
    | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand = error.kind()
    {
        return None;
    }
    let text = error.render().to_string();
    // Advice and usage follow the first empty line.
    let words = |lines: &mut dyn Iterator<Item = &str>| {
        let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
        words.join(" ")
    };
    let line = words(&mut text.lines().take_while(|line| !line.trim().is_empty()));
    let line = in_plain_words(line.strip_prefix("error: ").unwrap_or(&line));
    let tip = if error.kind() == ErrorKind::UnknownArgument {
        unknown_option_tip(error)
    } else {
        let mut tips = text.lines().filter_map(|l| l.trim().strip_prefix("tip: "));
        tips.next().map(str::to_owned)
    };
    let tip = tip.map(|tip| format!(": {tip}"));
    Some(Failure::Usage(format!(
        "{line}{}; see --help",
        tip.unwrap_or_default()
    )))
}

/// Errors of Rust's parsers, and what they expect.
const PARSERS: [(&str, &str); 9] = [
    ("invalid digit found in string", "expected a whole number"),
    (
        "cannot parse integer from empty string",
        "expected a whole number",
    ),
    (
        "number too large to fit in target type",
        "the number is too large",
    ),
    (
        "number too small to fit in target type",
        "the number is too small",
    ),
    ("invalid float literal", "expected a number such as 2.5"),
    (
        "cannot parse float from empty string",
        "expected a number such as 2.5",
    ),
    (
        "invalid socket address syntax",
        "expected ADDRESS:PORT, such as 192.0.2.1:9143 or [2001:db8::1]:9143",
    ),
    (
        "invalid IPv4 address syntax",
        "expected an IPv4 address such as 192.0.2.1",
    ),
    (
        "invalid IP address syntax",
        "expected an IP address such as 192.0.2.1 or 2001:db8::1",
    ),
];

fn in_plain_words(line: &str) -> String {
    let replaced = PARSERS.iter().find(|(error, _)| line.contains(error));
    replaced.map_or_else(
        || line.to_owned(),
        |(error, words)| line.replace(error, words),
    )
}

/// Options of iperf3 whose names `carrick perf` does not have, and what to use instead.
const IPERF3: [(&[&str], &str); 17] = [
    (&["--client", "-c"], "use carrick perf client PEER"),
    (&["--server", "-s"], "use carrick perf server"),
    (&["--length", "-l", "--len"], "use --size"),
    (&["--nstreams"], "use --streams"),
    (
        &["--window", "-w"],
        "use --receive-buffer and --send-buffer",
    ),
    (&["--nodelay", "-N"], "use --no-delay"),
    (&["--set-mss", "-M"], "use --mtu"),
    (&["--json-stream"], "use --json"),
    (&["-C", "--linux-congestion"], "use --congestion"),
    (&["-B", "-X", "--xbind"], "use --bind"),
    (
        &["--sctp"],
        "leave it out, as carrick perf always uses SCTP",
    ),
    (
        &["--udp", "-u"],
        "carrick perf uses SCTP; use --unordered with --bitrate, or a --flow with retransmissions=0",
    ),
    (
        &["--version4", "-4"],
        "give an IPv4 address as PEER, and as --bind of the server",
    ),
    (
        &["--version6", "-6"],
        "give an IPv6 address as PEER, and as --bind of the server",
    ),
    (
        &["--verbose", "-V"],
        "leave it out, as the result has the details; --json has all of them",
    ),
    (
        &["--format", "-f"],
        "leave it out, as the text selects the prefix of each unit; --json has bit/s",
    ),
    (
        &["--blockcount", "-k"],
        "use --bytes with --size, or messages=N of a --flow",
    ),
];

/// Returns what the user may have meant by an unknown option; `None` if no option has a similar name.
fn unknown_option_tip(error: &clap::Error) -> Option<String> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let given = context(ContextKind::InvalidArg)?;
    let given = given.split('=').next().unwrap_or(given);
    let usage = error.get(ContextKind::Usage).map(ToString::to_string);
    if usage.is_some_and(|usage| usage.contains("carrick perf "))
        && let Some((_, advice)) = IPERF3.iter().find(|(names, _)| names.contains(&given))
    {
        return Some(format!("this is an option of iperf3; {advice}"));
    }
    let similar = context(ContextKind::SuggestedArg)?;
    let similar = similar.split([' ', '=']).next().unwrap_or(similar);
    is_similar(given, similar).then(|| format!("a similar option is '{similar}'"))
}

/// Returns whether a name is another one with few errors of typing: one in three letters, or with more or fewer words.
fn is_similar(given: &str, name: &str) -> bool {
    let [given, name] = [given, name].map(|text| text.trim_start_matches('-'));
    let is_part = given.len() >= 3 && name.starts_with(given);
    is_part || distance(given, name) <= (given.len() / 3).max(1)
}

/// Returns the number of letters to insert, delete, replace or exchange with their neighbour between two words.
fn distance(one: &str, other: &str) -> usize {
    let [one, other] = [one, other].map(str::as_bytes);
    let mut rows: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let mut least = (rows[i][j] + usize::from(a != b))
                .min(rows[i][j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(feature = "lab")]
impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        match error {
            LabError::UnknownExperiment { .. } | LabError::File(_) | LabError::Choice { .. } => {
                Self::Usage(error.to_string())
            }
            #[cfg(target_os = "linux")]
            LabError::Stopped => Self::Ended(INTERRUPTED, error.to_string()),
            _ => Self::Run(error.to_string()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Run(format!("cannot write the output: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    /// Returns the error of a command line in one line.
    fn usage_error(words: &[&str]) -> String {
        let parsed = crate::Cli::command().try_get_matches_from(words);
        let error = parsed.unwrap_err();
        match of_command_line(&error) {
            Some(Failure::Usage(line)) => line,
            other => panic!("{words:?}: {other:?}"),
        }
    }

    #[test]
    fn unknown_options_get_a_near_name_or_none() {
        for (words, tip) in [
            (
                vec!["perf", "client", "a", "--secnods", "3"],
                "a similar option is '--seconds'",
            ),
            (
                vec!["perf", "client", "a", "--udpport=3"],
                "a similar option is '--udp-port'",
            ),
            (
                vec!["perf", "client", "a", "--length", "3"],
                "this is an option of iperf3; use --size",
            ),
            (
                vec!["perf", "client", "a", "--json-stream"],
                "this is an option of iperf3; use --json",
            ),
            (
                vec!["perf", "-s"],
                "this is an option of iperf3; use carrick perf server",
            ),
            (
                vec!["cat", "--length", "3"],
                "unexpected argument '--length' found; see",
            ),
            (
                vec!["perf", "client", "a", "--get-server-output"],
                "unexpected argument '--get-server-output' found; see",
            ),
            (
                vec!["perf", "client", "a", "--timing"],
                "unexpected argument '--timing' found; see",
            ),
        ] {
            let line = usage_error(&[&["carrick"], &words[..]].concat());
            assert!(line.contains(tip), "{line}");
        }
    }

    /// The table of docs/guide/measuring.md has them, too.
    #[test]
    fn options_of_iperf3_name_what_to_use_instead() {
        for (option, advice) in [
            (&["-u"][..], "--unordered with --bitrate"),
            (&["--udp"], "--unordered with --bitrate"),
            (&["-4"], "an IPv4 address as PEER"),
            (&["-6"], "an IPv6 address as PEER"),
            (&["-V"], "leave it out"),
            (&["-f", "m"], "--json has bit/s"),
            (&["-k", "100"], "messages=N"),
            (&["--sctp"], "always uses SCTP"),
            (&["-C", "bbr"], "use --congestion"),
            (&["-B", "192.0.2.1"], "use --bind"),
        ] {
            let line = usage_error(&[&["carrick", "perf", "client", "a"], option].concat());
            assert!(line.contains("an option of iperf3; "), "{line}");
            assert!(line.contains(advice), "{line}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn unknown_options_before_a_program_are_refused() {
        let line = usage_error(&["carrick", "run", "--demon", "/run/a", "iperf3"]);
        assert!(
            line.starts_with("unexpected argument '--demon' found: a similar option is '--daemon'"),
            "{line}"
        );
        let line = usage_error(&["carrick", "run", "--foo", "iperf3"]);
        assert!(
            line.starts_with("unexpected argument '--foo' found; see"),
            "{line}"
        );
        let line = usage_error(&[
            "carrick", "lab", "shell", "a.toml", "--wiat", "a", "--", "true",
        ]);
        assert!(
            line.starts_with("unexpected argument '--wiat' found"),
            "{line}"
        );
        for words in [
            &["iperf3", "--foo", "-s"][..],
            &["--", "--foo", "-s"],
            &["--seccomp", "--", "iperf3", "--", "-s"],
        ] {
            let line = [&["carrick", "run"], words].concat();
            let parsed = crate::Cli::try_parse_from(&line);
            let Ok(crate::Command::Run(arguments)) = parsed.map(|cli| cli.command) else {
                panic!("{words:?}");
            };
            let program = words
                .iter()
                .skip_while(|word| ["--seccomp", "--"].contains(word));
            assert_eq!(
                arguments.program,
                program.copied().collect::<Vec<_>>(),
                "{words:?}"
            );
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn errors_of_options_have_no_words_of_rust() {
        for (words, expected) in [
            (
                vec!["daemon", "--metrics", "127.0.0.1"],
                "expected ADDRESS:PORT",
            ),
            (vec!["daemon", "--udp-port", "x"], "expected a whole number"),
            (
                vec!["daemon", "--udp-port", "70000"],
                "70000 is not in 0..=65535",
            ),
            (
                vec!["daemon", "--path-max-retrans", "-1"],
                "unexpected argument '-1'",
            ),
            (
                vec!["daemon", "--path-max-retrans", "99999999999"],
                "is not in",
            ),
            (
                vec!["daemon", "--linger", "5"],
                "a time needs its unit: write 5ms or 5s",
            ),
            (
                vec!["daemon", "--rto-min", "5"],
                "a time needs its unit: write 5ms or 5s",
            ),
            (
                vec!["daemon", "--rto-min", "5d"],
                "expected a time with its unit",
            ),
            (
                vec!["daemon", "--plpmtud-probe-interval", "5"],
                "a time needs its unit",
            ),
            (
                vec!["script", "--tolerance", "5", "--peer", "127.0.0.1:1", "a"],
                "a time needs its unit",
            ),
        ] {
            let line = usage_error(&[&["carrick"], &words[..]].concat());
            assert!(line.contains(expected), "{line}");
        }
        for words in [
            ["perf", "client", "a", "-t", "5"],
            ["perf", "client", "a", "--time", "5"],
            ["perf", "client", "a", "--connect-timeout", "5"],
        ] {
            assert!(crate::Cli::try_parse_from([&["carrick"], &words[..]].concat()).is_ok());
        }
    }

    #[test]
    fn distances_count_errors_of_typing() {
        for (one, other, expected) in [
            ("time", "time", 0),
            ("tiem", "time", 1),
            ("", "abc", 3),
            ("udpport", "udp-port", 1),
            ("time", "sack-timeout", 8),
        ] {
            assert_eq!(distance(one, other), expected, "{one} {other}");
            assert_eq!(distance(other, one), expected, "{one} {other}");
        }
    }

    #[test]
    #[cfg(feature = "lab")]
    fn an_unknown_name_is_a_usage_error() {
        let error = LabError::UnknownExperiment {
            name: "x".into(),
            known: "y".into(),
        };
        assert!(matches!(Failure::from(error), Failure::Usage(line) if line.contains('y')));
    }

    #[test]
    fn a_reader_that_has_enough_is_no_failure() {
        let closed = io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(matches!(Failure::from(closed), Failure::OutputClosed));
    }
}
