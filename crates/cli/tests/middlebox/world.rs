//! The firewall with `SIPp` at both ends.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::network::{Host, Network, Running, until};
use crate::scenarios::scenarios;

/// Number of RTP packets of a call, and of RTCP packets.
pub(crate) const PACKETS: usize = 10;
pub(crate) const REPORTS: usize = PACKETS / RTP_PER_RTCP;

/// Number of packets of a long call, one every 100 ms.
pub(crate) const LONG_PACKETS: usize = 120;
pub(crate) const LONG_REPORTS: usize = LONG_PACKETS / RTP_PER_RTCP;

const RTP_PER_RTCP: usize = 5;

/// Port at which the callee receives and sends RTP. RTCP uses the next port.
const MEDIA: u16 = 6000;

/// Port of the caller for the media of the first call.
const CALLERS_MEDIA: u16 = 10_000;

const SIP: &str = "5060";

/// Address of the back-to-back user agent.
pub(crate) const B2BUA: &str = "10.82.1.1:5060";

/// URL of SIMCO over SCTP, and over TCP.
pub(crate) const SCTP: &str = "sctp://127.0.0.1";
pub(crate) const TCP: &str = "tcp://127.0.0.1";

/// Appends a packet of a capture: Ethernet, IPv4, UDP, and a payload for the `n`th port.
fn captured(out: &mut Vec<u8>, microseconds: usize, n: u16, payload: &[u8]) {
    let long = |out: &mut Vec<u8>, number: usize| {
        out.extend_from_slice(&(number as u32).to_le_bytes());
    };
    let (udp, ip) = (8 + payload.len(), 28 + payload.len());
    let second = 1_000_000;
    for number in [
        microseconds / second,
        microseconds % second,
        14 + ip,
        14 + ip,
    ] {
        long(out, number);
    }
    out.extend_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
    let [high, low] = (ip as u16).to_be_bytes();
    out.extend_from_slice(&[0x45, 0, high, low, 0, 0, 0, 0, 64, 17, 0, 0]);
    out.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    for port in [MEDIA + n, MEDIA + n, udp as u16, 0] {
        out.extend_from_slice(&port.to_be_bytes());
    }
    out.extend_from_slice(payload);
}

/// Returns a capture for `SIPp` to play: RTP with PCMU, and receiver reports of RTCP at the next port.
fn speech(packets: usize, interval: Duration) -> Vec<u8> {
    let mut out = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
    out.extend_from_slice(&[2, 0, 4, 0]);
    for number in [0_u32, 0, 65_535, 1] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    for n in 0..packets {
        let at = n * interval.as_micros() as usize;
        let mut rtp = vec![0x80, 0];
        rtp.extend_from_slice(&(n as u16).to_be_bytes());
        rtp.extend_from_slice(&(n as u32 * 160).to_be_bytes());
        rtp.extend_from_slice(&7_u32.to_be_bytes());
        rtp.resize(172, 0xff);
        captured(&mut out, at, 0, &rtp);
        if n % RTP_PER_RTCP == 0 {
            captured(&mut out, at, 1, &[0x80, 201, 0, 1, 0, 0, 0, 7]);
        }
    }
    out
}

/// Reflects RTCP at the callee, as `SIPp` does with RTP.
struct Reports {
    socket: UdpSocket,
    over: Arc<AtomicBool>,
    echo: Option<JoinHandle<()>>,
}

impl Reports {
    fn new(network: &Network) -> Self {
        let socket = on(network, Host::Outside, || {
            UdpSocket::bind(("10.82.2.2", MEDIA + 1)).unwrap()
        });
        let wait = Some(Duration::from_millis(50));
        socket.set_read_timeout(wait).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let (echoing, stopped) = (socket.try_clone().unwrap(), Arc::clone(&over));
        let echo = thread::spawn(move || {
            let mut report = [0; 1500];
            while !stopped.load(Ordering::Relaxed) {
                if let Ok((length, from)) = echoing.recv_from(&mut report) {
                    echoing.send_to(&report[..length], from).unwrap();
                }
            }
        });
        Self {
            socket,
            over,
            echo: Some(echo),
        }
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.echo.take().map(JoinHandle::join);
    }
}

/// The firewall with a middlebox, a callee outside that reflects RTP, and counters at both ends.
pub(crate) struct World {
    pub(crate) middlebox: Running,
    pub(crate) callee: Running,
    /// Options of `SIPp` as callee.
    callee_arguments: Vec<String>,
    /// UDP or TCP, as `SIPp` names them.
    transport: &'static str,
    reports: Reports,
    // Dropped after the programs on its hosts.
    pub(crate) network: Network,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(&["-sn", "uas", "-rtp_echo"], "u1", "")
    }

    /// Uses patient peers, which do not hang up.
    pub(crate) fn patient() -> Self {
        Self::with(&["-sf", "patient-callee.xml", "-m", "1"], "u1", "")
    }

    /// Uses a callee with these additional arguments, and these lines for the agent of the middlebox.
    pub(crate) fn with(callee: &[&str], transport: &'static str, agent: &str) -> Self {
        let network = Network::new();
        let middlebox = network.middlebox_for("middlebox.log", agent);
        for (name, scenario) in scenarios() {
            std::fs::write(network.folder.join(name), scenario).unwrap();
        }
        for (name, packets, interval) in [
            ("speech.pcap", PACKETS, 20),
            ("long.pcap", LONG_PACKETS, 100),
        ] {
            let capture = speech(packets, Duration::from_millis(interval));
            std::fs::write(network.folder.join(name), capture).unwrap();
        }
        for host in [Host::Inside, Host::Outside] {
            network.nft(host, "add table inet count");
            for hook in ["output", "input"] {
                let chain = format!(
                    "add chain inet count {hook} {{ type filter hook {hook} priority 0; }}"
                );
                network.nft(host, &chain);
                for (end, port) in [
                    ("dport", MEDIA),
                    ("sport", MEDIA),
                    ("dport", MEDIA + 1),
                    ("sport", MEDIA + 1),
                ] {
                    let rule = format!("add rule inet count {hook} udp {end} {port} counter");
                    network.nft(host, &rule);
                }
            }
        }
        let port = MEDIA.to_string();
        let own = [
            "-i",
            "10.82.2.2",
            "-p",
            SIP,
            "-mi",
            "10.82.2.2",
            "-mp",
            &port,
            "-nostdin",
            "-t",
            transport,
        ];
        let arguments = [&own, callee].concat();
        Self {
            middlebox,
            callee: start_callee(&network, transport, &arguments),
            callee_arguments: arguments.into_iter().map(str::to_owned).collect(),
            transport,
            reports: Reports::new(&network),
            network,
        }
    }

    /// Starts the back-to-back user agent, with SIMCO over SCTP.
    pub(crate) fn b2bua(&self) -> Running {
        self.b2bua_with(SCTP, &[])
    }

    /// Starts it with SIMCO over this transport and these additional arguments.
    pub(crate) fn b2bua_with(&self, middlebox: &str, more: &[&str]) -> Running {
        let running = self.begin_b2bua(middlebox, more);
        self.network.wait_for("b2bua.log", "carrick: sip udp");
        running
    }

    /// Starts it without waiting until it is ready.
    pub(crate) fn begin_b2bua(&self, middlebox: &str, more: &[&str]) -> Running {
        let outer = match self.transport {
            "t1" => "tcp://10.82.2.2:5060",
            _ => "10.82.2.2:5060",
        };
        let arguments = [
            "simco",
            "b2bua",
            "--middlebox",
            middlebox,
            "--listen",
            B2BUA,
            "--internal",
            "10.82.1.0/24",
            "--outer",
            outer,
            "--json",
        ];
        let arguments = [&arguments, more].concat();
        self.network
            .carrick(Host::Firewall, "b2bua.log", &arguments)
    }

    /// Returns the metrics served on the firewall.
    pub(crate) fn metrics(&self, address: &'static str) -> String {
        on(&self.network, Host::Firewall, move || {
            let mut connection = TcpStream::connect(address).unwrap();
            let asked = "GET /metrics HTTP/1.1\r\nHost: firewall\r\n\r\n";
            connection.write_all(asked.as_bytes()).unwrap();
            let mut answer = String::new();
            connection.read_to_string(&mut answer).unwrap();
            answer
        })
    }

    /// Makes calls to an address; returns true if all succeeded.
    pub(crate) fn call(&self, to: &str, calls: u32, rate: u32) -> bool {
        let mut caller = self.caller("caller.xml", to, calls, rate);
        caller.0.wait().unwrap().success()
    }

    /// Makes calls through the back-to-back user agent, and asserts that all succeed.
    pub(crate) fn calls_succeed(&self, scenario: &str, calls: u32, rate: u32) {
        let mut caller = self.caller(scenario, B2BUA, calls, rate);
        let succeeded = caller.0.wait().unwrap().success();
        let [output, errors] = ["caller.log", "caller.errors"].map(|log| self.network.log(log));
        assert!(succeeded, "{output}\n{errors}");
    }

    /// Starts a caller with this scenario.
    pub(crate) fn caller(&self, scenario: &str, to: &str, calls: u32, rate: u32) -> Running {
        self.caller_at([SIP, "10000"], scenario, to, calls, rate)
    }

    /// Starts a caller at these ports for SIP and for media.
    pub(crate) fn caller_at(
        &self,
        [sip, media]: [&str; 2],
        scenario: &str,
        to: &str,
        calls: u32,
        rate: u32,
    ) -> Running {
        let (calls, rate) = (calls.to_string(), rate.to_string());
        let arguments = [
            "-sf",
            scenario,
            "-t",
            self.transport,
            "-i",
            "10.82.1.2",
            "-p",
            sip,
            "-mi",
            "10.82.1.2",
            "-mp",
            media,
            "-m",
            &calls,
            "-r",
            &rate,
            "-l",
            "1000",
            "-nostdin",
            "-timeout",
            "120",
            "-timeout_error",
            "-trace_err",
            "-error_file",
            "caller.errors",
            to,
        ];
        self.network
            .start(Host::Inside, "caller.log", "sipp", &arguments)
    }

    /// Sends this number of RTP packets and of RTCP packets in each direction, from and to the ports of the
    /// first call, while no call exists.
    pub(crate) fn send_both_ways(&mut self, packets: usize) {
        // The callee occupies the port.
        self.callee.0.kill().unwrap();
        self.callee.0.wait().unwrap();
        let at = |host, address: &'static str, port: u16| {
            on(&self.network, host, move || {
                UdpSocket::bind((address, port)).unwrap()
            })
        };
        for n in [0, 1] {
            let inside = at(Host::Inside, "10.82.1.2", CALLERS_MEDIA + n);
            let outside = match n {
                0 => at(Host::Outside, "10.82.2.2", MEDIA),
                _ => self.reports.socket.try_clone().unwrap(),
            };
            for _ in 0..packets {
                let there = ("10.82.2.2", MEDIA + n);
                inside.send_to(&[0x80; 172], there).unwrap();
                let back = ("10.82.1.2", CALLERS_MEDIA + n);
                outside.send_to(&[0x80; 172], back).unwrap();
            }
        }
        thread::sleep(Duration::from_millis(300));
        let arguments: Vec<&str> = self.callee_arguments.iter().map(String::as_str).collect();
        self.callee = start_callee(&self.network, self.transport, &arguments);
    }

    /// Asserts that this number of RTP packets has passed, the last of them possibly after a short time.
    pub(crate) fn assert_rtp(&self, expected: [usize; 4], when: &str) {
        self.assert_passed(MEDIA, expected, &format!("RTP {when}"));
    }

    /// Asserts that this number of RTCP packets has passed.
    pub(crate) fn assert_rtcp(&self, expected: [usize; 4], when: &str) {
        self.assert_passed(MEDIA + 1, expected, &format!("RTCP {when}"));
    }

    fn assert_passed(&self, port: u16, expected: [usize; 4], what: &str) {
        for _ in 0..100 {
            if self.passed(port) == expected {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(self.passed(port), expected, "{what}");
    }

    /// Packets to and from a port of the callee: sent by the caller, received by the callee, sent by it,
    /// received by the caller.
    fn passed(&self, at: u16) -> [usize; 4] {
        let count = |host, hook, end| {
            let chain = self
                .network
                .nft(host, &format!("list chain inet count {hook}"));
            let wanted = format!("udp {end} {at} counter packets ");
            let at = chain.find(&wanted).unwrap() + wanted.len();
            let digits = chain[at..].split_whitespace().next().unwrap();
            digits.parse::<usize>().unwrap()
        };
        [
            count(Host::Inside, "output", "dport"),
            count(Host::Outside, "input", "dport"),
            count(Host::Outside, "output", "sport"),
            count(Host::Inside, "input", "sport"),
        ]
    }
}

/// Starts `SIPp` as callee, and waits until it accepts calls.
fn start_callee(network: &Network, transport: &str, arguments: &[&str]) -> Running {
    let callee = network.start(Host::Outside, "callee.log", "sipp", arguments);
    let sockets = match transport {
        "t1" => "/proc/net/tcp",
        _ => "/proc/net/udp",
    };
    until("the callee listens", || {
        let listed = network.command(Host::Outside, "cat", &[sockets]).output();
        // Port 5060.
        String::from_utf8_lossy(&listed.unwrap().stdout).contains(":13C4 ")
    });
    callee
}

pub(crate) fn signal(running: &Running, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(running.0.id()).unwrap());
    nix::sys::signal::kill(pid, signal).unwrap();
}

/// Runs a function on a host.
fn on<T: Send + 'static>(
    network: &Network,
    host: Host,
    act: impl FnOnce() -> T + Send + 'static,
) -> T {
    let path = network.path(host);
    let there = move || {
        let file = std::fs::File::open(path).unwrap();
        nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        act()
    };
    thread::spawn(there).join().unwrap()
}
