//! The example files of docs/containers.md, and programs without privileges.

use std::path::PathBuf;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::iperf3::Hosts;
use crate::socket_programs::{Served, build_library, directory, free_port, program};
use crate::support::{Running, start_with};

/// docs/containers.md: the example files have options that exist, and the toolchain of Cargo.toml.
#[test]
fn commands_of_container_examples_are_valid() {
    let dockerfile = include_str!("../../../../docs/examples/container/Dockerfile");
    let files = [
        dockerfile,
        include_str!("../../../../docs/examples/container/compose.yaml"),
        include_str!("../../../../docs/examples/container/pod.yaml"),
    ];
    let mut commands = 0;
    for line in files.iter().flat_map(|file| file.lines()) {
        let list = line
            .split_once('[')
            .and_then(|(_, list)| list.split_once(']'));
        let words = list.map_or("", |(list, _)| list).split(',');
        let words: Vec<&str> = words.map(|word| word.trim_matches([' ', '"'])).collect();
        if !words[0].ends_with("/carrick") {
            continue;
        }
        let options = words[1..].iter().take_while(|word| **word != "--").copied();
        let arguments: Vec<&str> = options.chain(["--help"]).collect();
        let finished = crate::support::run(&arguments);
        assert_eq!(finished.code, Some(0), "{line}: {}", finished.errors);
        commands += 1;
    }
    assert_eq!(commands, 3);
    let toolchain = concat!("FROM rust:", env!("CARGO_PKG_RUST_VERSION"), "-");
    assert!(dockerfile.contains(toolchain), "{toolchain}");
}

/// Files that every user can read, as in an image. Removed when dropped.
struct Image(PathBuf);

impl Image {
    fn new() -> Self {
        build_library();
        let image =
            Self(std::env::temp_dir().join(format!("carrick-image-{}", std::process::id())));
        std::fs::create_dir(&image.0).unwrap();
        for file in ["carrick", "libcarrick_preload.so"] {
            std::fs::copy(directory().join(file), image.0.join(file)).unwrap();
        }
        image
    }

    /// Starts a program as the first process of a container without capabilities, of an unprivileged user.
    fn start(&self, network: &str, program: &[&str]) -> Running {
        let carrick = self.0.join("carrick");
        let namespaces = ["--pid", "--fork", "--mount-proc"];
        let rights = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
        let capabilities = ["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"];
        let mut arguments = vec!["netns", "exec", network, "unshare"];
        arguments.extend(namespaces);
        arguments.push("setpriv");
        arguments.extend(rights);
        arguments.extend(capabilities);
        arguments.extend([carrick.to_str().unwrap(), "run", "--"]);
        arguments.extend(program);
        start_with("ip", &arguments)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// docs/containers.md: the daemon is in another container of the pod, with its own process namespace, and perhaps
/// with its own user namespace.
#[test]
#[ignore = "needs root"]
fn a_daemon_in_another_process_namespace_serves() {
    let Some(program) = program() else {
        return;
    };
    let image = Image::new();
    let (carrick, socket) = (image.0.join("carrick"), image.0.join("socket"));
    let (carrick, socket) = (carrick.to_str().unwrap(), socket.to_str().unwrap());
    for user in [&[][..], &["--user", "--map-root-user"]] {
        let port = free_port().to_string();
        let namespaces = ["--pid", "--fork", "--mount-proc", "--kill-child"];
        let options = ["--udp-port", &port, "--bind", "127.0.0.1"];
        let command = [carrick, "daemon", "--socket", socket];
        let arguments = [user, &namespaces, &command, &options].concat();
        let mut daemon = start_with("unshare", &arguments);
        daemon.error_line_with("serving");
        let run = [
            "run",
            "--daemon",
            socket,
            "--",
            program.to_str().unwrap(),
            "echo",
        ];
        let finished = crate::support::run(&run);
        assert_eq!(finished.code, Some(0), "{}", finished.errors);
        let listed = crate::support::run(&["ss", "-a", "-p", "--daemon", socket]);
        assert_eq!(listed.code, Some(0), "{}", listed.errors);
        daemon.kill();
        daemon.finish_unread();
    }
}

/// The control socket is outside the root directory of the program.
#[test]
#[ignore = "needs root and python3 (interop/install.sh)"]
fn a_program_with_another_root_directory_has_sockets() {
    const PROGRAM: &str = "
import os, socket, sys
os.chroot(sys.argv[1])
server, client = (socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132) for _ in range(2))
server.bind(('127.0.0.1', 0))
server.listen()
client.connect(server.getsockname())
accepted, _ = server.accept()
client.send(b'outside')
assert accepted.recv(9) == b'outside'
";
    let image = Image::new();
    let root = image.0.to_str().unwrap();
    let served = Served::start("chroot");
    for way in [&[][..], &["--seccomp"]] {
        let run = ["run", "--daemon", &served.socket];
        let program = ["--", "python3", "-c", PROGRAM, root];
        let finished = crate::support::run(&[&run, way, &program].concat());
        assert_eq!(finished.code, Some(0), "{way:?}: {}", finished.errors);
    }
    served.end();
}

#[test]
#[ignore = "needs root"]
fn ports_of_root_are_refused_to_other_users() {
    let Some(program) = program() else {
        return;
    };
    let image = Image::new();
    let check = image.0.join("checks");
    std::fs::copy(program, &check).unwrap();
    let user = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let port = free_port().to_string();
    let carrick = image.0.join("carrick");
    let run = ["run", "--udp-port", &port, "--bind", "127.0.0.1", "--"];
    let command = [carrick.to_str().unwrap()];
    let program = [check.to_str().unwrap(), "privileged"];
    let arguments = [&user[..], &command, &run, &program].concat();
    let finished = start_with("setpriv", &arguments).finish();
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
}

/// docs/containers.md: no capability is needed, and a container that was killed starts again.
#[test]
#[ignore = "needs root and iperf3 (interop/install.sh)"]
fn iperf3_runs_in_containers() {
    let (image, hosts) = (Image::new(), Hosts::new());
    let [a, b] = &hosts.names;
    let mut killed = image.start(a, &["sh", "-c", "echo '{}'; sleep 60"]);
    killed.json_line();
    let unshare = killed.id();
    let first = std::fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children"));
    let first = Pid::from_raw(first.unwrap().trim().parse().unwrap());
    kill(first, Signal::SIGKILL).unwrap();
    killed.finish_unread();
    let server = image.start(a, &["iperf3", "-s", "-1"]);
    std::thread::sleep(std::time::Duration::from_millis(500));
    let client = ["iperf3", "--sctp", "-c", "192.0.2.1", "-t", "2", "-J"];
    let finished = image.start(b, &client).finish();
    let out = String::from_utf8(finished.out).unwrap();
    assert_eq!(finished.code, Some(0), "{out} {}", finished.errors);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let received = report["end"]["sum_received"]["bytes"].as_u64().unwrap();
    assert!(received > 1_000_000, "{received} bytes");
    assert_eq!(server.finish().code, Some(0));
}
