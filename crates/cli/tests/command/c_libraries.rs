//! The C libraries of crate `carrick-c`. Programs with the functions of libsctp get the same results with
//! Debian's library and with Carrick's. Without a C compiler the tests pass with a message.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::socket_programs::{build_library, build_package, directory};
use crate::support::{Finished, free_udp_port, start_with};

/// Library of Debian's package `libsctp1`.
const INSTALLED: &str = "/usr/lib/x86_64-linux-gnu/libsctp.so.1";

/// Returns a path of this repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// Builds the libraries, once, and returns their directory. `None` without a C compiler.
pub(crate) fn libraries() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        if let Err(error) = Command::new("cc").arg("--version").output() {
            println!("skipped: no C compiler: {error}");
            return None;
        }
        build_library();
        build_package("carrick-c");
        let linked = Command::new(repository("crates/sockets/c/link.sh"))
            .arg(directory())
            .status();
        assert!(linked.unwrap().success());
        Some(directory().join("lib"))
    };
    BUILT.get_or_init(build).as_deref()
}

/// Compiles a C program under a name and returns its path.
fn compile(name: &str, source: &Path, arguments: &[&str]) -> PathBuf {
    let program = directory().join(format!("carrick-checks-{name}"));
    let compiler = Command::new("cc")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(source)
        .args(arguments)
        .status();
    assert!(compiler.unwrap().success(), "{}", source.display());
    program
}

fn test_program(name: &str) -> PathBuf {
    repository("crates/cli/tests/command/programs").join(name)
}

/// Runs a command with a search path of libraries.
fn run_with(libraries: Option<&Path>, command: &[&str]) -> Finished {
    let path = libraries.map_or("", |path| path.to_str().unwrap());
    let path = format!("LD_LIBRARY_PATH={path}");
    let mut running = start_with("env", &[&[path.as_str()], command].concat());
    running.close_input();
    running.finish()
}

/// Returns the output of a program that succeeds without errors.
fn output(finished: Finished) -> String {
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
    assert_eq!(finished.errors, "");
    String::from_utf8(finished.out).unwrap()
}

/// Returns the command line of `carrick run` with a daemon for it alone, which has two addresses.
fn carrick_run(port: &str) -> Vec<&str> {
    vec![
        env!("CARGO_BIN_EXE_carrick"),
        "run",
        "--udp-port",
        port,
        "--bind",
        "127.0.0.1",
        "--bind",
        "127.0.0.2",
        "--",
    ]
}

/// RFC 6458, section 9
#[test]
#[ignore = "needs libsctp-dev (interop/install.sh)"]
fn each_function_makes_the_calls_of_debians() {
    let Some(ours) = libraries() else {
        return;
    };
    let program = compile(
        "libsctp-calls",
        &test_program("libsctp_calls.c"),
        &["-rdynamic", "-lsctp"],
    );
    let command = [program.to_str().unwrap()];
    let calls = output(run_with(Some(ours), &command));
    assert_eq!(calls, output(run_with(None, &command)));
    assert!(calls.contains("sctp_recvv(9,"), "{calls}");
}

/// RFC 6458, sections 9.12 and 9.13
#[test]
#[ignore = "needs libsctp-dev (interop/install.sh)"]
fn flags_sizes_and_all_attributes_are_passed() {
    let Some(ours) = libraries() else {
        return;
    };
    let program = compile(
        "libsctp-rfc",
        &test_program("libsctp_calls.c"),
        &["-rdynamic", "-lsctp"],
    );
    let calls = output(run_with(Some(ours), &[program.to_str().unwrap(), "rfc"]));
    assert!(
        calls.contains("sendmsg 8 flags 40\n"),
        "MSG_DONTWAIT\n{calls}"
    );
    for attribute in ["type 2   16: 09", "type 5   8: 09", "type 6   2: 09"] {
        assert!(calls.contains(attribute), "{attribute}\n{calls}");
    }
    assert_eq!(calls.matches("= -1 Invalid argument").count(), 3, "{calls}");
    assert_eq!(calls.matches("type 3 of 44 bytes").count(), 4, "{calls}");
    assert!(!calls.contains("no space"), "{calls}");
}

/// RFC 6458, section 9
#[test]
#[ignore = "needs libsctp-dev (interop/install.sh)"]
fn libsctp_serves_both_roles_and_styles() {
    let Some(ours) = libraries() else {
        return;
    };
    let program = compile("libsctp", &test_program("libsctp.c"), &["-lsctp"]);
    let port = free_udp_port();
    let mut command = carrick_run(&port);
    command.push(program.to_str().unwrap());
    let results = output(run_with(Some(ours), &command));
    assert_eq!(results, output(run_with(None, &command)));
    assert!(
        results.ends_with("local: 1 addresses, 1 0, port listening\n"),
        "{results}"
    );
    assert!(!results.contains("nothing arrives"), "{results}");
}

/// Returns the functions and versions that a library defines.
fn symbols(library: &Path) -> Vec<String> {
    let listed = Command::new("nm")
        .args(["--dynamic", "--defined-only", "--with-symbol-versions"])
        .arg(library)
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let names = listed.lines().filter_map(|line| line.split(' ').nth(2));
    names.map(str::to_owned).collect()
}

#[test]
#[ignore = "needs libsctp1 (interop/install.sh)"]
fn libsctp_has_the_symbols_of_debians() {
    let Some(ours) = libraries() else {
        return;
    };
    let ours = symbols(&ours.join("libsctp.so.1"));
    let installed = symbols(Path::new(INSTALLED));
    assert!(installed.len() > 15, "{installed:?}");
    for symbol in installed {
        assert!(ours.contains(&symbol), "{symbol} in {ours:?}");
    }
    for symbol in &ours {
        let is_api = symbol.starts_with("sctp_") || symbol.starts_with("VERS_");
        assert!(is_api, "{symbol}");
    }
    assert!(ours.contains(&"sctp_peeloff_flags@@VERS_1".into()));
}

/// Returns the options of the C compiler for programs with `libcarrick.so`.
fn with_libcarrick(libraries: &Path) -> Vec<String> {
    let include = repository("crates/sockets/c/include");
    vec![
        format!("-I{}", include.display()),
        format!("-L{}", libraries.display()),
        "-lcarrick".into(),
    ]
}

/// Runs a program with a daemon, and without the preload library.
fn run_without_preload(libraries: &Path, program: &Path) -> String {
    let port = free_udp_port();
    let mut command = carrick_run(&port);
    command.extend(["env", "--unset=LD_PRELOAD", program.to_str().unwrap()]);
    output(run_with(Some(libraries), &command))
}

#[test]
fn the_c_example_of_the_documentation_runs() {
    let Some(libraries) = libraries() else {
        return;
    };
    let page = std::fs::read_to_string(repository("docs/sockets.md")).unwrap();
    let (_, example) = page.split_once("```c\n").unwrap();
    let (example, rest) = example.split_once("```").unwrap();
    let source = directory().join("carrick-example.c");
    std::fs::write(&source, example).unwrap();
    let options = with_libcarrick(libraries);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let program = compile("example", &source, &options);
    let printed = run_without_preload(libraries, &program);
    assert_eq!(printed, "hello on stream 3, PPID 60\n");
    assert!(rest.contains(&format!("It prints `{}`", printed.trim())));
}

/// RFC 6458, section 9
#[test]
#[ignore = "needs libsctp-dev (interop/install.sh)"]
fn libcarrick_has_the_results_of_libsctp() {
    let Some(libraries) = libraries() else {
        return;
    };
    let source = test_program("libsctp.c");
    let names = test_program("carrick_names.h");
    let mut options = with_libcarrick(libraries);
    options.extend(["-include".into(), names.to_str().unwrap().into()]);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let program = compile("libcarrick", &source, &options);
    let results = run_without_preload(libraries, &program);
    let port = free_udp_port();
    let program = compile("libsctp-again", &source, &["-lsctp"]);
    let mut command = carrick_run(&port);
    command.push(program.to_str().unwrap());
    assert_eq!(results, output(run_with(None, &command)));
}

/// A Python program that opens `libcarrick.so.0` at run time.
const PYTHON_LIBCARRICK: &str = r#"
import ctypes, os, select, socket, struct

carrick = ctypes.CDLL("libcarrick.so.0", use_errno=True)
address = struct.pack("=H", socket.AF_INET) + struct.pack("!H", 5001) + socket.inet_aton("127.0.0.1") + bytes(8)
listener, client = (carrick.carrick_socket(socket.AF_INET, socket.SOCK_STREAM, 132) for _ in range(2))
assert listener >= 0, os.strerror(ctypes.get_errno())
assert carrick.carrick_bind(listener, address, 16) == 0
assert carrick.carrick_listen(listener, 5) == 0
assert carrick.carrick_connect(client, address, 16) == 0
server = carrick.carrick_accept(listener, None, None)
assert carrick.carrick_send(client, b"hello", 5, 0) == 5
buffer = ctypes.create_string_buffer(100)
assert carrick.carrick_recv(server, buffer, 100, 0) == 5 and buffer.value == b"hello"
reader, writer = os.pipe()
assert carrick.carrick_write(writer, b"pipe", 4) == 4
assert carrick.carrick_read(reader, buffer, 100) == 4
os.close(reader)
# The number of another descriptor becomes Carrick's without a call of the library.
os.dup2(server, reader)
assert carrick.carrick_send(client, b"again", 5, 0) == 5
assert carrick.carrick_read(reader, buffer, 100) == 5 and buffer.value == b"again"

# sctp_peeloff_flags
many, client = (carrick.carrick_socket(socket.AF_INET, socket.SOCK_SEQPACKET, 132) for _ in range(2))
address = struct.pack("=H", socket.AF_INET) + struct.pack("!H", 5002) + address[4:]
assert carrick.carrick_bind(many, address, 16) == 0
assert carrick.carrick_listen(many, 5) == 0
data_io_event = bytes([1]) + bytes(9)
assert carrick.carrick_setsockopt(many, 132, 11, data_io_event, len(data_io_event)) == 0
assert carrick.carrick_sctp_sendmsg(client, b"hello", 5, address, 16, 0, 0, 0, 0, 0) == 5
info = ctypes.create_string_buffer(32)
assert carrick.carrick_sctp_recvmsg(many, buffer, 100, None, None, info, None) == 5
(association,) = struct.unpack_from("=i", info, 28)
branched = carrick.carrick_sctp_peeloff_flags(many, association, socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
assert branched >= 0, os.strerror(ctypes.get_errno())
assert not os.get_blocking(branched) and not os.get_inheritable(branched)
assert carrick.carrick_sctp_sendmsg(client, b"again", 5, address, 16, 0, 0, 0, 0, 0) == 5
select.select([branched], [], [], 10)
assert carrick.carrick_recv(branched, buffer, 100, 0) == 5 and buffer.value == b"again"
"#;

#[test]
#[ignore = "needs python3 (interop/install.sh)"]
fn libcarrick_is_opened_at_run_time() {
    let Some(libraries) = libraries() else {
        return;
    };
    let port = free_udp_port();
    let mut command = carrick_run(&port);
    command.extend([
        "env",
        "--unset=LD_PRELOAD",
        "python3",
        "-c",
        PYTHON_LIBCARRICK,
    ]);
    assert_eq!(output(run_with(Some(libraries), &command)), "");
}

/// A Python program that opens the library by its name, with an association of two addresses.
const PYTHON: &str = r#"
import ctypes, os, socket, struct

sctp = ctypes.CDLL("libsctp.so.1", use_errno=True)
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
client = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
address = lambda text: struct.pack("=H", socket.AF_INET) + struct.pack("!H", 5001) + socket.inet_aton(text) + bytes(8)
both = address("127.0.0.1") + address("127.0.0.2")
assert sctp.sctp_bindx(listener.fileno(), both, 2, 1) == 0, os.strerror(ctypes.get_errno())
listener.listen()
association = ctypes.c_int()
assert sctp.sctp_connectx(client.fileno(), both, 2, ctypes.byref(association)) == 0
accepted, _ = listener.accept()
assert sctp.sctp_sendmsg(client.fileno(), b"hello", 5, None, 0, socket.htonl(46), 0, 3, 0, 0) == 5
assert accepted.recv(100) == b"hello"
found = ctypes.c_void_p()
assert sctp.sctp_getpaddrs(client.fileno(), association, ctypes.byref(found)) == 2
assert ctypes.string_at(found, 32) in (both, both[16:] + both[:16])
sctp.sctp_freepaddrs(found)
with open("/proc/self/maps") as maps:
    print({line.split()[-1] for line in maps if "libsctp" in line})
"#;

#[test]
#[ignore = "needs python3 and libsctp1 (interop/install.sh)"]
fn python_opens_the_installed_libsctp() {
    if libraries().is_none() {
        return;
    }
    let port = free_udp_port();
    let mut command = carrick_run(&port);
    command.extend(["python3", "-c", PYTHON]);
    let opened = output(run_with(None, &command));
    assert!(opened.contains("/usr/lib/"), "{opened}");
}

#[test]
#[ignore = "needs root, python3 and libsctp1 (interop/install.sh)"]
fn python_opens_carricks_libsctp_if_none_exists() {
    let Some(ours) = libraries() else {
        return;
    };
    // A mount namespace without the library; the index of the libraries still lists it.
    let hide = r#"
        directory=$1
        shift
        mount -t tmpfs none /mnt
        mkdir /mnt/upper /mnt/work
        mount -t overlay none -o "lowerdir=$directory,upperdir=/mnt/upper,workdir=/mnt/work" "$directory"
        rm "$directory"/libsctp.so.1*
        exec "$@""#;
    let directory = Path::new(INSTALLED).parent().unwrap().to_str().unwrap();
    let port = free_udp_port();
    let mut command = vec!["unshare", "--mount", "sh", "-ec", hide, "sh", directory];
    command.extend(carrick_run(&port));
    command.extend(["python3", "-c", PYTHON]);
    let opened = output(run_with(None, &command));
    let ours = ours.join("libsctp.so.1").canonicalize().unwrap();
    assert!(opened.contains(ours.to_str().unwrap()), "{opened}");
    // Without the command, nothing is found.
    let command = [
        "unshare", "--mount", "sh", "-ec", hide, "sh", directory, "python3", "-c", PYTHON,
    ];
    let finished = run_with(None, &command);
    assert_ne!(finished.code, Some(0));
    assert!(
        finished.errors.contains("libsctp.so.1: cannot open"),
        "{}",
        finished.errors
    );
}
