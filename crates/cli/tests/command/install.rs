//! `./install`: what it installs runs from there, and goes again. Without a C compiler the tests pass with a message.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::c_libraries::{libraries, repository};
use crate::socket_programs::{directory, free_port, program};
use crate::support::start_with;

/// A prefix that does not exist yet.
fn new_prefix(name: &str) -> PathBuf {
    let name = format!("carrick-install-{name}-{}", std::process::id());
    let prefix = std::env::temp_dir().join(name).join("usr");
    assert!(!prefix.exists());
    prefix
}

fn install(prefix: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(repository("install"));
    command.arg("--prefix").arg(prefix).args(arguments);
    command.env_remove("DESTDIR").output().unwrap()
}

/// Installs what is built.
fn install_built(prefix: &Path) -> String {
    let done = install(prefix, &["--built", directory().to_str().unwrap()]);
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{errors}");
    String::from_utf8(done.stdout).unwrap()
}

/// Returns what a program prints that succeeds.
fn printed(program: &str, arguments: &[&str]) -> String {
    let mut running = start_with(program, arguments);
    running.close_input();
    let finished = running.finish();
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
    String::from_utf8(finished.out).unwrap()
}

#[test]
fn an_installation_is_whole_and_goes_again() {
    let (Some(_), Some(checks)) = (libraries(), program()) else {
        return;
    };
    let prefix = new_prefix("whole");
    let output = install_built(&prefix);
    let bin = prefix.join("bin");
    assert!(
        output.contains(&format!("not in PATH: add {}", bin.display())),
        "{output}"
    );
    let carrick = bin.join("carrick");
    let carrick = carrick.to_str().unwrap();

    // The command finds the preload library of the same installation.
    let port = free_port().to_string();
    let run = ["run", "--udp-port", &port, "--bind", "127.0.0.1", "--"];
    let preloaded = [&run[..], &[checks.to_str().unwrap(), "echo"]].concat();
    printed(
        "env",
        &[&["--unset=CARRICK_PRELOAD", carrick], &preloaded[..]].concat(),
    );

    // A program that is compiled against the installation.
    let page = fs::read_to_string(repository("docs/sockets.md")).unwrap();
    let (_, source) = page.split_once("```c\n").unwrap();
    let (source, _) = source.split_once("```").unwrap();
    let (file, hello) = (prefix.join("hello.c"), prefix.join("hello"));
    fs::write(&file, source).unwrap();
    let (include, lib) = (prefix.join("include"), prefix.join("lib"));
    let compiled = Command::new("cc")
        .args([
            &file,
            Path::new("-o"),
            &hello,
            Path::new("-I"),
            &include,
            Path::new("-L"),
            &lib,
        ])
        .arg("-lcarrick")
        .status();
    assert!(compiled.unwrap().success());
    let path = format!("LD_LIBRARY_PATH={}", lib.display());
    let linked = ["env", "--unset=LD_PRELOAD", &path, hello.to_str().unwrap()];
    let output = printed(carrick, &[&run[..], &linked].concat());
    assert_eq!(output, "hello on stream 3, PPID 60\n");

    // Units start the program where it is; pages and completions are those of this program.
    let unit =
        fs::read_to_string(prefix.join("lib/systemd/system/carrick-daemon.service")).unwrap();
    assert!(
        unit.contains(&format!("\nExecStart={carrick} daemon ")),
        "{unit}"
    );
    let page = fs::read_to_string(prefix.join("share/man/man1/carrick-demo.1")).unwrap();
    assert!(page.contains(".SH EXAMPLES"), "{page}");
    let completions = prefix.join("share/bash-completion/completions/carrick");
    let completions = fs::read_to_string(completions).unwrap();
    assert!(completions.contains("--connect-timeout"));
    let described = fs::read_to_string(prefix.join("lib/pkgconfig/carrick.pc")).unwrap();
    assert!(
        described.starts_with(&format!("prefix={}\n", prefix.display())),
        "{described}"
    );

    // What others have put there stays.
    fs::remove_file(&hello).unwrap();
    let removed = install(&prefix, &["--uninstall"]);
    assert!(removed.status.success(), "{removed:?}");
    let left: Vec<_> = fs::read_dir(&prefix)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    assert_eq!(left, [file]);
    fs::remove_dir_all(prefix.parent().unwrap()).unwrap();
}

#[test]
fn a_second_installation_replaces_the_first() {
    if libraries().is_none() {
        return;
    }
    let prefix = new_prefix("again");
    install_built(&prefix);
    // A page of an older version, in a directory that no version has now.
    let list = prefix.join("share/carrick/installed");
    let older = prefix.join("share/older");
    fs::create_dir(&older).unwrap();
    fs::write(older.join("page"), "").unwrap();
    let mut lines = fs::read_to_string(&list).unwrap();
    writeln!(lines, "{0}/\n{0}/page", older.display()).unwrap();
    fs::write(&list, lines).unwrap();
    install_built(&prefix);
    assert!(!older.join("page").exists());
    let removed = install(&prefix, &["--uninstall"]);
    assert!(removed.status.success(), "{removed:?}");
    assert!(
        !prefix.parent().unwrap().exists(),
        "something is left of {prefix:?}"
    );
    let again = install(&prefix, &["--uninstall"]);
    let errors = String::from_utf8(again.stderr).unwrap();
    assert_eq!(again.status.code(), Some(1));
    assert!(
        errors.starts_with("install: nothing to remove from "),
        "{errors}"
    );
}

#[test]
fn a_missing_destdir_is_named() {
    let mut command = Command::new(repository("install"));
    command
        .args(["--uninstall", "--prefix", "/usr"])
        .env("DESTDIR", "/nowhere");
    let done = command.output().unwrap();
    let errors = String::from_utf8(done.stderr).unwrap();
    assert_eq!(
        (done.status.code(), &errors[..]),
        (Some(1), "install: DESTDIR /nowhere is no directory\n")
    );
}

#[test]
fn wrong_arguments_of_install_are_named() {
    let cases = [
        (
            &["--frefix", "/x"][..],
            2,
            "install: unknown argument --frefix\n",
        ),
        (&["--built"], 1, "install: --built needs a directory\n"),
        (
            &["--prefix", "/a b"],
            1,
            "install: --prefix /a b has another character than letters, digits and /._+@~-\n",
        ),
        (
            &["--prefix=/a/../b"],
            1,
            "install: --prefix /a/../b has a ..\n",
        ),
        (
            &["--prefix", "x"],
            1,
            "install: --prefix x is not an absolute path\n",
        ),
        (
            &["--prefix", "/x", "--built", "/nowhere"],
            1,
            "install: --built /nowhere has no carrick: build carrick-cli, carrick-preload and carrick-c\n",
        ),
    ];
    for (arguments, code, expected) in cases {
        let done = Command::new(repository("install"))
            .args(arguments)
            .output()
            .unwrap();
        let errors = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(code), "{errors}");
        assert!(errors.starts_with(expected), "{errors}");
    }
}
