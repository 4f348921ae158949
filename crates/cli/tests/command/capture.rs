//! `carrick capture`: files, and Wireshark's interface for capture programs.

use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::{free_udp_port, run, start, start_with};

#[test]
fn a_capture_without_daemon_keeps_the_file() {
    let name = |what: &str| {
        let name = format!("carrick-no-capture-{what}-{}", std::process::id());
        std::env::temp_dir().join(name).to_str().unwrap().to_owned()
    };
    let (socket, file) = (name("socket"), name("file"));
    std::fs::write(&file, "the capture of before").unwrap();
    let finished = run(&["capture", "--daemon", &socket, "--write", &file]);
    assert_eq!(finished.code, Some(1), "{}", finished.errors);
    assert!(finished.errors.contains(&socket), "{}", finished.errors);
    let kept = std::fs::read_to_string(&file).unwrap();
    assert_eq!(kept, "the capture of before");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_capture_is_a_file_of_packets() {
    let name = |what: &str| {
        let name = format!("carrick-capture-{what}-{}", std::process::id());
        std::env::temp_dir().join(name).to_str().unwrap().to_owned()
    };
    let (socket, file) = (name("socket"), name("file"));
    let udp_port = free_udp_port();
    let port: u16 = udp_port.parse().unwrap();
    let mut daemon = start(&[
        "daemon",
        "--socket",
        &socket,
        "--bind",
        "127.0.0.1",
        "--udp-port",
        &udp_port,
    ]);
    daemon.error_line();
    // Packets contain the messages of all programs, so that the file is private whatever the umask.
    let capture = start_with(
        "sh",
        &[
            "-c",
            "umask 0; exec \"$@\"",
            "sh",
            env!("CARGO_BIN_EXE_carrick"),
            "capture",
            "--daemon",
            &socket,
            "--write",
            &file,
            "--count",
            "2",
            "--json",
        ],
    );
    // An INIT with a wrong checksum, which has no other effect, until the capture has begun and ended.
    let init = [
        &[0x13, 0x88, 0x17, 0x70],
        &[0; 8][..],
        &[1, 0, 0, 20],
        &[1; 16],
    ]
    .concat();
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let is_over = AtomicBool::new(false);
    let finished = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                peer.send_to(&init, ("127.0.0.1", port)).unwrap();
                thread::sleep(Duration::from_millis(10));
            }
        });
        let finished = capture.finish();
        is_over.store(true, Ordering::Relaxed);
        finished
    });
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
    let counts = String::from_utf8(finished.out).unwrap();
    assert_eq!(counts.trim(), r#"{"missed":0,"packets":2}"#);
    let bytes = std::fs::read(&file).unwrap();
    let section_header = [0x0a, 0x0d, 0x0d, 0x0a];
    assert_eq!(bytes[..4], section_header);
    let copies = |part: &[u8]| bytes.windows(part.len()).filter(|w| *w == part).count();
    assert_eq!(copies(&init), 2);
    let source = peer.local_addr().unwrap().port();
    let ports = [source.to_be_bytes(), port.to_be_bytes()].concat();
    assert_eq!(copies(&ports), 2, "UDP header");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    std::fs::remove_file(&file).unwrap();
    daemon.terminate();
    assert_eq!(daemon.finish().code, Some(0));
}

#[test]
fn a_capture_needs_a_daemon_and_a_file() {
    let without = run(&["capture", "--daemon", "/nonexistent", "--write", "-"]);
    assert_eq!(without.code, Some(1));
    assert!(
        without.errors.contains("/nonexistent"),
        "{}",
        without.errors
    );
    assert_eq!(run(&["capture"]).code, Some(2));
    assert_eq!(run(&["capture", "--write", "-", "--json"]).code, Some(2));
}

#[test]
fn wireshark_finds_the_interface() {
    let lines = |arguments: &[&str]| {
        let answer = run(&[&["capture"], arguments].concat());
        assert_eq!(answer.code, Some(0), "{}", answer.errors);
        String::from_utf8(answer.out).unwrap()
    };
    let interfaces = lines(&["--extcap-interfaces", "--extcap-version=4.0"]);
    assert!(
        interfaces.contains("\ninterface {value=carrick}"),
        "{interfaces}"
    );
    let link = lines(&["--extcap-interface", "carrick", "--extcap-dlts"]);
    assert!(link.starts_with("dlt {number=101}"), "{link}");
    let options = lines(&["--extcap-interface", "carrick", "--extcap-config"]);
    for option in ["--port", "--association", "--daemon"] {
        assert!(options.contains(&format!("{{call={option}}}")), "{options}");
    }
}

/// The script of `docs/sockets.md` in a folder of extcap programs.
#[test]
#[ignore = "needs tshark (interop/install.sh)"]
fn tshark_captures_by_the_script() {
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Command, Stdio};

    let name = format!("carrick-extcap-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    // The folder for programs of the user, below that for configuration.
    let programs = folder.join("wireshark/extcap");
    std::fs::create_dir_all(&programs).unwrap();
    let script = programs.join("carrick");
    let text = format!(
        "#!/bin/sh\nexec {} capture \"$@\"\n",
        env!("CARGO_BIN_EXE_carrick")
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let socket = folder.join("socket").to_str().unwrap().to_owned();
    let udp_port = free_udp_port();
    let options = ["--bind", "127.0.0.1", "--udp-port", &udp_port];
    let mut daemon = start(&[&["daemon", "--socket", &socket], &options[..]].concat());
    daemon.error_line();
    let tshark = |arguments: &[&str]| {
        let mut command = Command::new("tshark");
        command.env("XDG_CONFIG_HOME", &folder);
        command.env("CARRICK_DAEMON", &socket).args(arguments);
        command
    };
    let list = tshark(&["-D"]).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    assert!(
        list.contains("carrick (SCTP of the Carrick daemon)"),
        "{list}"
    );
    let decode = format!("udp.port=={udp_port},sctp");
    let fields = ["-T", "fields", "-e", "sctp.chunk_type", "-d", &decode];
    let mut capture = tshark(&[&["-i", "carrick", "-c", "2"], &fields[..]].concat())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let init = [
        &[0x13, 0x88, 0x17, 0x70],
        &[0; 8][..],
        &[1, 0, 0, 20],
        &[1; 16],
    ]
    .concat();
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port: u16 = udp_port.parse().unwrap();
    while capture.try_wait().unwrap().is_none() {
        peer.send_to(&init, ("127.0.0.1", port)).unwrap();
        thread::sleep(Duration::from_millis(50));
    }
    let output = capture.wait_with_output().unwrap();
    let chunks = String::from_utf8(output.stdout).unwrap();
    assert_eq!(chunks.lines().collect::<Vec<_>>(), ["1", "1"], "INIT");
    daemon.interrupt();
    daemon.finish();
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Returns the packets of a pcapng file with their IP headers, in order: the enhanced packet blocks.
fn packets(file: &str) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(file).unwrap();
    let mut rest = &bytes[..];
    let mut packets = Vec::new();
    while !rest.is_empty() {
        let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
        if word(0) == 6 {
            packets.push(rest[28..28 + word(20) as usize].to_vec());
        }
        rest = &rest[word(4) as usize..];
    }
    packets.sort();
    packets
}

/// Option `--capture` of commands with endpoints.
#[test]
fn both_ends_capture_the_same_packets() {
    let name = |what: &str| {
        let name = format!("carrick-end-{what}-{}", std::process::id());
        std::env::temp_dir().join(name).to_str().unwrap().to_owned()
    };
    let files = ["listener", "client"].map(name);
    let listen = [
        "cat",
        "--listen",
        "7",
        "--udp-port",
        "0",
        "--recv-only",
        "--verbose",
    ];
    let bind = ["--bind", "127.0.0.1", "--capture", &files[0]];
    let mut listener = start(&[&listen[..], &bind].concat());
    let line = listener.error_line();
    let udp_port = line.trim_end().rsplit(' ').next().unwrap();
    let connect = ["cat", "127.0.0.1", "7", "--peer-udp-port", udp_port];
    let mut client = start(&[&connect[..], &["--capture", &files[1]]].concat());
    client.feed(b"a message in a packet\n".to_vec());
    assert_eq!(client.finish().code, Some(0));
    assert_eq!(listener.finish().code, Some(0));
    let [of_listener, of_client] = files.each_ref().map(|file| packets(file));
    let text = b"a message in a packet";
    let has_text = |packet: &&Vec<u8>| packet.windows(text.len()).any(|part| part == text);
    assert_eq!(of_client.iter().filter(has_text).count(), 1);
    assert_eq!(of_client, of_listener);
    for file in files {
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{mode:o}");
        std::fs::remove_file(file).unwrap();
    }
}
