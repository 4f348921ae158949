//! Help texts: examples of each subcommand, and lines of a readable length.

use std::io::{Write, stderr, stdout};
use std::process::ExitCode;

use clap::Command;
use console::{colors_enabled, colors_enabled_stderr, measure_text_width};

use crate::terminal::text_columns;

/// Examples of each subcommand, by its words after `carrick`.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("", &["carrick demo", "carrick run -- iperf3 -s"]),
    ("demo", &["carrick demo", "carrick demo --json"]),
    (
        "reproduce",
        &[
            "carrick reproduce",
            "carrick reproduce failover --seed 7 --out report",
        ],
    ),
    (
        "perf",
        &["carrick perf server", "carrick perf client 192.0.2.1"],
    ),
    (
        "perf server",
        &[
            "carrick perf server",
            "carrick perf server --port 5202 --json",
        ],
    ),
    (
        "perf client",
        &[
            "carrick perf client 192.0.2.1",
            "carrick perf client 192.0.2.1,198.51.100.1 --seconds 30",
            "carrick perf client 192.0.2.1 --bitrate 10M --interval 0.5 --omit 2 --json",
        ],
    ),
    ("bench", &["carrick bench", "carrick bench --list"]),
    (
        "cat",
        &[
            "carrick cat --listen 5000",
            "carrick cat 192.0.2.1,198.51.100.1 5000",
            "carrick cat --listen 38412 --keep-open --json",
            "carrick cat --input hex --ppid 60 192.0.2.1 38412",
            "carrick cat --secure --certificate own.pem --trust peer.pem 192.0.2.1,198.51.100.1 5000",
            "carrick cat --dtls --certificate own.pem --trust peer.pem 192.0.2.1 5000",
        ],
    ),
    (
        "proxy",
        &[
            "carrick proxy tcp:127.0.0.1:3868 sctp:192.0.2.1,198.51.100.1:3868 --framing diameter",
            "carrick proxy sctp:2905 tcp:127.0.0.1:2905 --framing m3ua --verbose",
            "carrick proxy sctp:38412 unix-seqpacket:/run/amf.socket --ppid 60",
        ],
    ),
    (
        "run",
        &[
            "carrick run -- iperf3 -s",
            "carrick run -- iperf3 --sctp -c 192.0.2.1",
        ],
    ),
    (
        "daemon",
        &[
            "carrick daemon",
            "carrick daemon --config /etc/carrick/daemon.toml --check",
        ],
    ),
    (
        "ss",
        &[
            "carrick ss -i",
            "carrick ss --json",
            "carrick ss --events",
            "carrick ss --kill 7",
        ],
    ),
    ("top", &["carrick top", "carrick top --interval 5s --json"]),
    (
        "capture",
        &[
            "carrick capture --write all.pcapng",
            "carrick capture --port 38412 --write - | tshark -r -",
        ],
    ),
    (
        "script",
        &[
            "carrick script conformance",
            "carrick script --pcapng out.pcapng handshake.pkt",
            "carrick script --preset signaling failover.pkt",
        ],
    ),
    (
        "mtp",
        &["carrick mtp receive --gateway 192.0.2.1 --routing-context 100"],
    ),
    (
        "mtp send",
        &[
            "carrick mtp send --gateway 192.0.2.1 --routing-context 200 --opc 2-1-1 --dpc 3-0-0 hello",
        ],
    ),
    (
        "mtp receive",
        &["carrick mtp receive --gateway 192.0.2.1 --routing-context 100"],
    ),
    (
        "mtp load",
        &[
            "carrick mtp load --gateway 192.0.2.1 --routing-context 200 --opc 2-1-1 --dpc 3-0-0 --rate 1000",
        ],
    ),
    (
        "stp",
        &[
            "carrick stp --config stp.toml --check",
            "carrick stp --config stp.toml",
        ],
    ),
    (
        "simco",
        &[
            "carrick simco middlebox --config box.toml",
            "carrick simco agent list --middlebox sctp://192.0.2.1",
        ],
    ),
    (
        "simco middlebox",
        &[
            "carrick simco middlebox --config box.toml --check",
            "carrick simco middlebox --config box.toml",
        ],
    ),
    (
        "simco agent",
        &["carrick simco agent --middlebox sctp://192.0.2.1 list"],
    ),
    (
        "simco agent per",
        &[
            "carrick simco agent per --internal 10.0.0.5:7078 --external 203.0.113.9:5000 --lifetime 300 \\\n    --middlebox sctp://192.0.2.1",
        ],
    ),
    (
        "simco agent prr",
        &["carrick simco agent prr --protocol udp --lifetime 300 --middlebox sctp://192.0.2.1"],
    ),
    (
        "simco agent pea",
        &[
            "carrick simco agent pea 7 --internal 10.0.0.5:7078 --external 203.0.113.9:5000 \\\n    --middlebox sctp://192.0.2.1",
        ],
    ),
    (
        "simco agent pdr",
        &[
            "carrick simco agent pdr --internal 10.0.0.5 --external 203.0.113.0/24 --middlebox sctp://192.0.2.1",
        ],
    ),
    (
        "simco agent plc",
        &["carrick simco agent plc 7 600 --middlebox sctp://192.0.2.1"],
    ),
    (
        "simco agent status",
        &["carrick simco agent status 7 --middlebox sctp://192.0.2.1"],
    ),
    (
        "simco agent list",
        &["carrick simco agent list --long --middlebox sctp://192.0.2.1"],
    ),
    (
        "simco agent watch",
        &["carrick simco agent watch --middlebox sctp://192.0.2.1"],
    ),
    (
        "simco b2bua",
        &[
            "carrick simco b2bua --middlebox sctp://192.0.2.1 --listen 10.0.0.254:5060 \\\n    --internal 10.0.0.0/24 --inner 10.0.0.10:5060",
        ],
    ),
    (
        "simco load",
        &["carrick simco load --middlebox sctp://192.0.2.1 --streams 32 --rate 4000 --time 8s"],
    ),
    (
        "simco plan",
        &["carrick simco plan --rtt 20ms --loss 1 --rate 100"],
    ),
    (
        "lab",
        &[
            "carrick lab run mine.toml",
            "carrick lab trace failover --cell pmr2.failover",
        ],
    ),
    ("lab run", &["carrick lab run mine.toml --out report"]),
    (
        "lab sweep",
        &[
            "carrick lab sweep mine.toml --shard 2/5 --out sweep",
            "carrick lab sweep mine.toml --merge --out sweep",
        ],
    ),
    (
        "lab trace",
        &["carrick lab trace mine.toml --flow data --from 2s --to 5s"],
    ),
    ("lab cells", &["carrick lab cells failover"]),
    ("lab up", &["carrick lab up mine.toml"]),
    (
        "lab shell",
        &["carrick lab shell mine.toml a -- ping -c 1 10.0.0.2"],
    ),
    ("lab accuracy", &["carrick lab accuracy --rate 10M"]),
    ("man", &["carrick man ~/.local/share/man/man1"]),
    (
        "completions",
        &["carrick completions bash > ~/.local/share/bash-completion/completions/carrick"],
    ),
];

/// Returns the examples of a subcommand, by its words after `carrick`.
pub(crate) fn examples(words: &str) -> Option<&'static [&'static str]> {
    let found = EXAMPLES.iter().find(|(own, _)| *own == words);
    found.map(|(_, lines)| *lines)
}

/// Prints the help or the version, as clap does, with folded lines.
pub(crate) fn print(error: &clap::Error) -> ExitCode {
    let text = error.render();
    let is_failure = error.use_stderr();
    let is_colored = if is_failure {
        colors_enabled_stderr()
    } else {
        colors_enabled()
    };
    let text = if is_colored {
        text.ansi().to_string()
    } else {
        text.to_string()
    };
    let text = folded(&text, text_columns());
    // A reader that has closed the output wants no more.
    let _ = if is_failure {
        stderr().write_all(text.as_bytes())
    } else {
        stdout().write_all(text.as_bytes())
    };
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1))
}

/// Adds the examples to a command and all its subcommands.
pub(crate) fn with_examples(command: Command) -> Command {
    add_examples(command, "")
}

fn add_examples(command: Command, words: &str) -> Command {
    let command = match examples(words) {
        Some(lines) => command.after_help(format!("Examples:\n  {}", lines.join("\n  "))),
        None => command,
    };
    let names: Vec<String> = command
        .get_subcommands()
        .map(|own| own.get_name().to_owned())
        .collect();
    names.into_iter().fold(command, |command, name| {
        let below = format!("{words} {name}");
        command.mut_subcommand(name, |own| add_examples(own, below.trim_start()))
    })
}

/// Folds lines that are longer than `columns` at spaces. What follows a line is indented as its description.
pub(crate) fn folded(text: &str, columns: usize) -> String {
    let mut folded = String::new();
    for line in text.split_inclusive('\n') {
        fold_line(line, columns, &mut folded);
    }
    folded
}

fn fold_line(line: &str, columns: usize, to: &mut String) {
    let indent = " ".repeat(description_column(line).min(columns / 2));
    let mut column = 0;
    for word in line.split_inclusive(' ') {
        let width = measure_text_width(word.trim_end());
        if column + width > columns && column > indent.len() {
            to.truncate(to.trim_end_matches(' ').len());
            to.push('\n');
            to.push_str(&indent);
            column = indent.len();
        }
        to.push_str(word);
        column += measure_text_width(word.trim_end_matches('\n'));
    }
}

/// Returns the column of a description: behind the name and two spaces, or else the first that is not blank.
fn description_column(line: &str) -> usize {
    let text = line.trim_start_matches(' ');
    let first = line.len() - text.len();
    let Some(gap) = text.find("  ").filter(|_| first > 0) else {
        return first;
    };
    let description = text[gap..].trim_start_matches(' ');
    first + measure_text_width(&text[..text.len() - description.len()])
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::Cli;

    const COLUMNS: usize = 100;

    /// Returns the examples of the subcommands that this build has.
    fn built_examples() -> impl Iterator<Item = &'static (&'static str, &'static [&'static str])> {
        let is_built = |words: &str| match words.split(' ').next() {
            Some("simco") => cfg!(feature = "simco") || words == "simco",
            Some("lab") => cfg!(feature = "lab") || words == "lab",
            _ => true,
        };
        EXAMPLES.iter().filter(move |(words, _)| is_built(words))
    }

    /// Passes each subcommand that is not hidden and its words to `check`.
    fn each_command(
        command: &mut Command,
        words: &str,
        check: &mut impl FnMut(&mut Command, &str),
    ) {
        check(command, words);
        for own in command
            .get_subcommands_mut()
            .filter(|own| !own.is_hide_set() && own.get_name() != "help")
        {
            let below = format!("{words} {}", own.get_name());
            each_command(own, below.trim_start(), check);
        }
    }

    fn each(mut check: impl FnMut(&mut Command, &str)) {
        let mut all = with_examples(Cli::command());
        all.build();
        each_command(&mut all, "", &mut check);
    }

    #[test]
    fn each_help_has_an_example() {
        let mut left: Vec<&str> = built_examples().map(|(words, _)| *words).collect();
        each(|command, words| {
            for help in [command.render_help(), command.render_long_help()] {
                assert!(
                    help.to_string().contains("\nExamples:\n  carrick "),
                    "{words}"
                );
            }
            left.retain(|own| *own != words);
        });
        assert_eq!(left, [""; 0], "examples of no subcommand");
    }

    #[test]
    fn each_example_is_a_command_line() {
        for (words, lines) in built_examples() {
            for example in *lines {
                let is_short = |line: &str| line.len() + 2 <= COLUMNS;
                assert!(example.lines().all(is_short), "{example}");
                let line = example.split(['|', '>']).next().unwrap_or_default();
                let parsed =
                    Cli::try_parse_from(line.split_whitespace().filter(|word| *word != "\\"));
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
                assert!(
                    line.starts_with(format!("carrick {words}").trim_end()),
                    "{line}"
                );
            }
        }
    }

    #[test]
    fn no_line_of_a_help_is_too_long() {
        each(|command, words| {
            for help in [command.render_help(), command.render_long_help()] {
                for line in folded(&help.to_string(), COLUMNS).lines() {
                    assert!(line.chars().count() <= COLUMNS, "{words}: {line}");
                }
            }
        });
    }

    #[test]
    fn descriptions_are_folded_below_themselves() {
        let text = "Name: one two three\n  -n  one two\n      four five\n";
        let expected = "Name: one\ntwo three\n  -n  one\n      two\n      four\n      five\n";
        assert_eq!(folded(text, 12), expected);
        assert_eq!(folded(text, 100), text);
        // Terminals do not show the escape sequences.
        let bold = "\u{1b}[1mone\u{1b}[0m two\n";
        assert_eq!(folded(bold, 7), bold);
    }
}
