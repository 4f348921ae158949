//! Encryption by the DTLS chunk: of unmodified programs by their daemons, and of the commands.

use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;

use crate::paths::{Hosts, start_on};
use crate::support::{Running, free_udp_port, run, start, start_with};

/// Server of an unmodified program: it checks the numbers of the messages of one association.
const SERVER: &str = "
import socket
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
listener.bind(('0.0.0.0', 5000))
listener.listen()
print('listening', flush=True)
peer, _ = listener.accept()
expected = 0
while True:
    message = peer.recv(65536)
    if not message:
        break
    assert message == b'plaintext-marker %d' % expected, message
    expected += 1
    if expected % 50 == 0:
        print('received %d' % expected, flush=True)
print('received all %d' % expected, flush=True)
";

/// Client that sends a message each 20 ms until its input ends.
const CLIENT: &str = "
import select, socket, sys
peer = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
peer.connect(('10.78.0.2', 5000))
number = 0
while not select.select([sys.stdin], [], [], 0.02)[0]:
    peer.send(b'plaintext-marker %d' % number)
    number += 1
peer.close()
print('sent %d' % number, flush=True)
";

/// Program that counts the packets of all devices, and those that contain the messages, until its input ends.
const CAPTURE: &str = "
import select, socket, sys
packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
print('capturing', flush=True)
count = plain = 0
while True:
    ready = select.select([sys.stdin, packets], [], [])[0]
    if packets in ready:
        packet = packets.recv(65536)
        count += 1
        plain += b'plaintext-marker' in packet
    if sys.stdin in ready:
        break
print('%d packets, %d of them in the clear' % (count, plain), flush=True)
";

/// Certificates with their keys, and what a test writes.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let name = format!("carrick-encryption-{test}-{}", std::process::id());
        let folder = Self(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&folder.0).unwrap();
        for name in ["near", "far", "stranger"] {
            let made = Command::new("openssl")
                .args(["req", "-x509", "-newkey", "ec", "-pkeyopt"])
                .args(["ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
                .args(["-subj", &format!("/CN={name}"), "-keyout"])
                .args([&folder.path(&format!("{name}.key")), "-out"])
                .arg(folder.path(&format!("{name}.pem")))
                .output()
                .unwrap();
            assert!(made.status.success(), "{made:?}");
        }
        folder
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes the configuration of a daemon with the certificate of this name, which trusts that of the other one.
    fn configuration(&self, own: &str, peer: &str) -> String {
        let file = self.path(&format!("{own}.toml"));
        let [certificate, key, trust] = [
            format!("{own}.pem"),
            format!("{own}.key"),
            format!("{peer}.pem"),
        ]
        .map(|f| self.path(&f));
        let text = format!(
            "[protection]\ncertificate = \"{certificate}\"\nkey = \"{key}\"\ntrust = [\"{trust}\"]\n"
        );
        std::fs::write(&file, text).unwrap();
        file
    }

    /// Returns the options of a command with the certificate of this name, which trusts that of the other one.
    fn options(&self, own: &str, peer: &str) -> Vec<String> {
        let files = [
            format!("{own}.pem"),
            format!("{own}.key"),
            format!("{peer}.pem"),
        ];
        let [certificate, key, trust] = files.map(|file| self.path(&file));
        let options = [
            "--secure",
            "--certificate",
            &certificate,
            "--key",
            &key,
            "--trust",
            &trust,
        ];
        options.map(str::to_owned).to_vec()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing else uses the folder.
        let _ = std::fs::remove_dir_all(Path::new(&self.0));
    }
}

fn start_program(host: &str, socket: &str, program: &str) -> Running {
    let carrick = env!("CARGO_BIN_EXE_carrick");
    let line = ["netns", "exec", host, carrick, "run", "--daemon"];
    start_with(
        "ip",
        &[&line[..], &[socket, "--", "python3", "-c", program]].concat(),
    )
}

/// Both networks are cut in turn, and the daemon of the client hands over to a successor: no message is lost, and no
/// packet shows one.
#[test]
#[ignore = "needs root"]
fn unmodified_programs_are_encrypted_on_both_paths() {
    crate::socket_programs::build_library();
    let folder = Folder::new("daemons");
    let hosts = Hosts::new();
    let sockets = [folder.path("near.socket"), folder.path("far.socket")];
    let mut daemons = Vec::new();
    for (n, (own, peer)) in [("near", "far"), ("far", "near")].into_iter().enumerate() {
        let file = folder.configuration(own, peer);
        let name = if own == "near" {
            &hosts.near
        } else {
            &hosts.far
        };
        let mut daemon = start_on(
            name,
            &["daemon", "--config", &file, "--socket", &sockets[n]],
        );
        assert!(daemon.error_line().contains("serving"));
        daemons.push(daemon);
    }
    let mut capture = start_with(
        "ip",
        &["netns", "exec", &hosts.near, "python3", "-c", CAPTURE],
    );
    capture.wait_for_output("capturing");
    let mut server = start_program(&hosts.far, &sockets[1], SERVER);
    server.wait_for_output("listening");
    let mut client = start_program(&hosts.near, &sockets[0], CLIENT);
    server.wait_for_output("received 50");
    let near = &mut daemons[0];
    hosts.cut(0);
    near.error_line_with("path 10.78.1.1 -> 10.78.1.2 carries new data");
    server.wait_for_output("received 200");
    hosts.repair();
    near.error_line_with("path 10.78.0.1 -> 10.78.0.2 is active again");
    hosts.cut(1);
    server.wait_for_output("received 300");
    hosts.repair();
    near.signal(Signal::SIGUSR2);
    near.error_line_with("took over 1 associations");
    server.wait_for_output("received 400");
    client.close_input();
    let sent = client.finish();
    assert_eq!(sent.code, Some(0), "{}", sent.errors);
    let sent = String::from_utf8(sent.out).unwrap();
    let count = sent.trim_end().strip_prefix("sent ").expect("the number");
    server.wait_for_output(&format!("received all {count}"));
    capture.close_input();
    let captured = String::from_utf8(capture.finish().out).unwrap();
    let packets = captured.lines().last().unwrap();
    assert!(
        packets.ends_with("packets, 0 of them in the clear"),
        "{packets}"
    );
    let seen: u32 = packets.split_once(' ').unwrap().0.parse().unwrap();
    assert!(seen > 50, "{packets}");
}

/// Both sides name a certificate that is not trusted, and a peer in the clear.
#[test]
fn refused_peers_are_named() {
    let folder = Folder::new("refusals");
    let (listening, own) = (free_udp_port(), free_udp_port());
    let port = [
        "--udp-port",
        &listening,
        "--bind",
        "127.0.0.1",
        "--listen",
        "7001",
        "-v",
    ];
    let options = folder.options("far", "near");
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let mut server = start(&[&["cat"], &port[..], &options[..]].concat());
    assert!(server.error_line().contains("listening"));
    let to = [
        "cat",
        "--udp-port",
        &own,
        "--peer-udp-port",
        &listening,
        "127.0.0.1",
        "7001",
    ];
    let stranger = folder.options("stranger", "far");
    let stranger: Vec<&str> = stranger.iter().map(String::as_str).collect();
    let refused = run(&[&to[..1], &stranger[..], &to[1..]].concat());
    refused.assert_failed(
        1,
        "is not trusted: its fingerprint is not among the trusted ones",
    );
    server.error_line_with("is not trusted");
    run(&to).assert_failed(1, "missing DTLS chunk support");
    // A peer that is trusted is served afterwards.
    let near = folder.options("near", "far");
    let near: Vec<&str> = near.iter().map(String::as_str).collect();
    let mut friend = start(&[&to[..1], &near[..], &to[1..]].concat());
    friend.feed(b"secret\n".to_vec());
    server.wait_for_output("secret");
    assert_eq!(friend.finish().code, Some(0));
}

/// Wrong files and combinations are named before anything is opened.
#[test]
fn wrong_options_of_encryption_are_named() {
    let folder = Folder::new("options");
    let (file, key) = (folder.path("near.pem"), folder.path("near.key"));
    let cat = |options: &[&str]| run(&[&["cat"], options, &["127.0.0.1", "7001"]].concat());
    let both = ["--secure", "--certificate", &file, "--key", &key];
    cat(&["--secure"]).assert_failed(2, "--secure needs the peer");
    cat(&["--trust", &file]).assert_failed(2, "--trust has no effect without --secure");
    cat(&[&both[..], &["--trust", "any"]].concat()).assert_failed(2, "any peer can't be trusted");
    cat(&["--secure", "--certificate", &key, "--trust", &file])
        .assert_failed(2, &format!("--certificate {key}"));
    cat(&[&both[..], &["--authority", &key]].concat()).assert_failed(2, "--authority");
    let config = folder.path("wrong.toml");
    std::fs::write(
        &config,
        "[protection]\ncertificate = \"/nonexistent\"\ntrust = [\"x\"]\n",
    )
    .unwrap();
    let daemon = run(&["daemon", "--config", &config, "--check"]);
    daemon.assert_failed(1, "protection.trust: x");
}
