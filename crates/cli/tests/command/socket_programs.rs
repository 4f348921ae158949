//! The C program of the tests of sockets, programs of others, and daemons for them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::support::{Finished, Running, start, start_with};

/// Builds the preload library and the C program, once. `None` without a C compiler.
pub(crate) fn program() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(build).as_deref()
}

pub(crate) fn build() -> Option<PathBuf> {
    build_library();
    compile("cc", &[], "carrick-sockets-checks")
}

/// Compiles the C program with options of the compiler. `None` without the compiler.
pub(crate) fn compile(compiler: &str, options: &[&str], name: &str) -> Option<PathBuf> {
    let program = directory().join(name);
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/command/programs/sockets.c"
    );
    let compiled = Command::new(compiler)
        .args(["-O1", "-Wall", "-Werror"])
        .args(options)
        .arg("-o")
        .arg(&program)
        .arg(source)
        .status();
    match compiled {
        Ok(status) => assert!(status.success(), "{source} does not compile"),
        Err(error) => {
            println!("skipped: no C compiler {compiler}: {error}");
            return None;
        }
    }
    Some(program)
}

/// Returns the directory of the built program.
pub(crate) fn directory() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_carrick")).parent().unwrap()
}

/// Builds the preload library.
pub(crate) fn build_library() {
    build_package("carrick-preload");
}

/// A test does not depend on a library for other languages, so it is built here, in the same profile, unless
/// `CARRICK_LIBRARIES_BUILT` states that the whole workspace is built: a package alone has other features of its
/// dependencies, which would be compiled again.
pub(crate) fn build_package(name: &str) {
    if std::env::var_os("CARRICK_LIBRARIES_BUILT").is_some() {
        return;
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--locked", "--quiet", "-p", name]);
    cargo.args([
        "--manifest-path",
        concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
    ]);
    cargo.arg("--target-dir").arg(directory().parent().unwrap());
    if directory().ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().unwrap().success());
}

/// Runs a check of the C program with a daemon for it alone.
pub(crate) fn check(name: &str) {
    check_on(&["127.0.0.1"], name);
}

/// Runs a check with a daemon of these addresses.
pub(crate) fn check_on(addresses: &[&str], name: &str) {
    if let Some(program) = program() {
        succeeds(addresses, &[program.to_str().unwrap(), name]);
    }
}

/// Runs a check with options of `carrick run`.
pub(crate) fn run_check(options: &[&str], program: &Path, name: &str) {
    let program = [options, &["--", program.to_str().unwrap(), name]].concat();
    runs(&["127.0.0.1"], &program);
}

/// Runs a program with a daemon for it alone, and returns what it has written to standard error.
pub(crate) fn succeeds(addresses: &[&str], program: &[&str]) -> String {
    runs(addresses, &[&["--"], program].concat())
}

/// Runs a program, after options of `carrick run` and `--`.
pub(crate) fn runs(addresses: &[&str], program: &[&str]) -> String {
    let port = free_port().to_string();
    let mut arguments = vec!["run", "--udp-port", &port];
    for address in addresses {
        arguments.extend(["--bind", address]);
    }
    arguments.extend(program);
    let finished = crate::support::run(&arguments);
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
    finished.errors
}

/// Returns a UDP port that was free on the loopback address just now.
pub(crate) fn free_port() -> u16 {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap().port()
}

/// Programs that use one daemon.
pub(crate) struct Served {
    pub(crate) daemon: Running,
    pub(crate) socket: String,
    /// UDP port.
    pub(crate) port: String,
}

impl Served {
    pub(crate) fn start(name: &str) -> Self {
        Self::start_limited(name, 1024)
    }

    /// Starts a daemon with a limit of file descriptors.
    pub(crate) fn start_limited(name: &str, descriptors: u32) -> Self {
        Self::start_with_options(name, descriptors, &[])
    }

    /// Starts a daemon with a limit of file descriptors and further options.
    pub(crate) fn start_with_options(name: &str, descriptors: u32, options: &[&str]) -> Self {
        build_library();
        let socket = directory().join(format!("carrick-test-{name}-{}", std::process::id()));
        let socket = socket.to_str().unwrap().to_owned();
        let port = free_port().to_string();
        let mut daemon = start_with(
            "sh",
            &[
                &[
                    "-c",
                    "ulimit -n \"$1\"; shift; exec \"$@\"",
                    "sh",
                    &descriptors.to_string(),
                    env!("CARGO_BIN_EXE_carrick"),
                    "daemon",
                    "--socket",
                    &socket,
                    "--udp-port",
                    &port,
                    "--bind",
                    "127.0.0.1",
                ],
                options,
            ]
            .concat(),
        );
        let line = daemon.error_line();
        assert!(line.contains(&format!("UDP port {port}")), "{line}");
        Self {
            daemon,
            socket,
            port,
        }
    }

    pub(crate) fn start_program(&self, arguments: &[&str]) -> Running {
        let mut all = vec!["run", "--daemon", &self.socket, "--"];
        all.extend(arguments);
        start(&all)
    }

    pub(crate) fn end(self) -> Finished {
        self.daemon.interrupt();
        self.daemon.finish()
    }
}
