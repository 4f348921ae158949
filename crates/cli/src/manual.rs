//! `carrick man` and `carrick completions`: what an installation has beside the program.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::failure::Failure;
use crate::help;

/// Write the manual pages: one of the program and one of each subcommand
#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// Directory of the pages, such as share/man/man1; it is created if it does not exist
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

/// Print the completions of a shell
///
/// bash reads them from share/bash-completion/completions/carrick, zsh from share/zsh/site-functions/_carrick, fish from
/// `share/fish/vendor_completions.d/carrick.fish`.
#[derive(Debug, Args)]
pub(crate) struct CompletionArguments {
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(crate) fn complete(arguments: &CompletionArguments, command: &Command) -> Result<(), Failure> {
    Ok(io::stdout().write_all(&completions(arguments.shell, command))?)
}

/// Returns the script with the completions of a shell. Those of clap have the hidden subcommands, too.
fn completions(shell: Shell, command: &Command) -> Vec<u8> {
    let mut shown = Command::new("carrick")
        .args(command.get_arguments().cloned())
        .subcommands(visible_subcommands(command).cloned());
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut shown, "carrick", &mut script);
    script
}

pub(crate) fn write_pages(arguments: &ManArguments, command: Command) -> Result<(), Failure> {
    let directory = &arguments.directory;
    let failed = |error| {
        Failure::Run(format!(
            "cannot write manual pages to {}: {error}",
            directory.display()
        ))
    };
    fs::create_dir_all(directory).map_err(failed)?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write_page(&command, "", directory).map_err(failed)
}

/// Writes the page of a command, whose words after `carrick` are `words`, and those of its subcommands.
fn write_page(command: &Command, words: &str, directory: &Path) -> io::Result<()> {
    for own in visible_subcommands(command) {
        let below = format!("{words} {}", own.get_name());
        write_page(own, below.trim_start(), directory)?;
    }
    let name = format!("carrick {words}").trim_end().replace(' ', "-");
    fs::write(directory.join(format!("{name}.1")), page(command, words)?)
}

fn visible_subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|own| !own.is_hide_set())
}

/// Returns the section with the usage, as the help has it: a list of all options would take half a screen.
fn synopsis(command: &Command) -> Roff {
    let mut section = Roff::new();
    section.control("SH", ["SYNOPSIS"]);
    section.control("nf", []);
    let usage = command.clone().render_usage().to_string();
    for line in usage.trim_start_matches("Usage:").lines() {
        section.text([roman(line.trim())]);
    }
    section.control("fi", []);
    section
}

/// Returns the page of a command as roff.
fn page(command: &Command, words: &str) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone())
        .source(format!("carrick {}", env!("CARGO_PKG_VERSION")))
        .manual("Carrick");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    synopsis(command).to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if visible_subcommands(command).next().is_some() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut rest = Roff::new();
    if let Some(examples) = help::examples(words) {
        rest.control("SH", ["EXAMPLES"]);
        rest.control("nf", []);
        for example in examples {
            rest.text([roman(*example)]);
        }
        rest.control("fi", []);
    }
    rest.control("SH", ["SEE ALSO"]);
    let above = words.rsplit_once(' ').map_or("", |(above, _)| above);
    if !words.is_empty() {
        let name = format!("carrick {above}").trim_end().replace(' ', "-");
        rest.text([bold(name), roman("(1), ")]);
    }
    rest.text([roman(concat!("<", env!("CARGO_PKG_REPOSITORY"), ">"))]);
    rest.to_writer(&mut page)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Cli;

    fn page_of(words: &[&str]) -> String {
        let mut all = Cli::command();
        all.build();
        let command = words
            .iter()
            .fold(&all, |own, word| own.find_subcommand(word).unwrap());
        String::from_utf8(page(command, &words.join(" ")).unwrap()).unwrap()
    }

    #[test]
    fn a_page_has_usage_options_and_examples() {
        let page = page_of(&["perf", "client"]);
        let lines = [
            ".TH carrick-perf-client 1",
            "carrick perf client [OPTIONS] <PEER[,PEER...]>",
            "carrick perf client 192.0.2.1",
            ".SH EXAMPLES",
            "\\fBcarrick\\-perf\\fR(1), ",
        ];
        for line in lines {
            let escaped = line.to_owned();
            assert!(page.contains(&escaped), "{escaped} in {page}");
        }
        assert!(page_of(&[]).contains("carrick\\-demo(1)"));
    }

    #[test]
    fn no_page_of_a_hidden_subcommand_is_written() {
        let directory = std::env::temp_dir().join(format!("carrick-man-{}", std::process::id()));
        let arguments = ManArguments {
            directory: directory.join("man1"),
        };
        write_pages(&arguments, Cli::command()).unwrap();
        let files = fs::read_dir(&arguments.directory).unwrap();
        let mut names: Vec<String> = files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        fs::remove_dir_all(&directory).unwrap();
        assert!(
            names.iter().any(|name| name == "carrick-lab-run.1"),
            "{names:?}"
        );
        assert!(
            names.iter().all(|name| name != "carrick-bench-end.1"),
            "{names:?}"
        );
    }

    #[test]
    fn completions_offer_no_hidden_subcommand() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = String::from_utf8(completions(shell, &Cli::command())).unwrap();
            assert!(script.contains("perf"), "{shell}");
            assert!(!script.contains("bench-end"), "{shell}");
        }
    }
}
