//! Calls of `SIPp` with real RTP through the firewall.

use std::net::UdpSocket;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::network::{Host, Network, Running, until};

/// RTP packets of a call.
const PACKETS: usize = 10;

/// Where the callee receives RTP, and sends it back from.
const MEDIA: u16 = 6000;

const SIP: &str = "5060";

/// A capture with RTP of 20 ms each, for `SIPp` to play: Ethernet, IPv4, UDP, RTP, PCMU.
fn speech() -> Vec<u8> {
    let mut out = Vec::new();
    let long = |out: &mut Vec<u8>, number: u32| out.extend_from_slice(&number.to_le_bytes());
    long(&mut out, 0xa1b2_c3d4);
    out.extend_from_slice(&[2, 0, 4, 0]);
    for number in [0, 0, 65_535, 1] {
        long(&mut out, number);
    }
    for n in 0..PACKETS as u32 {
        let payload = 160;
        let (rtp, udp, ip) = (12 + payload, 20 + payload, 40 + payload);
        for number in [0, n * 20_000, 14 + ip, 14 + ip] {
            long(&mut out, number);
        }
        out.extend_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
        let [high, low] = (ip as u16).to_be_bytes();
        out.extend_from_slice(&[0x45, 0, high, low, 0, 0, 0, 0, 64, 17, 0, 0]);
        out.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        let [high, low] = (udp as u16).to_be_bytes();
        out.extend_from_slice(&[0x17, 0x70, 0x17, 0x70, high, low, 0, 0]);
        out.extend_from_slice(&[0x80, 0]);
        out.extend_from_slice(&(n as u16).to_be_bytes());
        out.extend_from_slice(&(n * 160).to_be_bytes());
        out.extend_from_slice(&7_u32.to_be_bytes());
        out.resize(out.len() + rtp as usize - 12, 0xff);
    }
    out
}

/// RTP at one end: sent by the caller, received by the callee, sent back, received by the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rtp([usize; 4]);

/// The firewall with a middlebox, a callee outside that sends RTP back, and counters at both ends.
struct World {
    network: Network,
    middlebox: Running,
    _callee: Running,
}

impl World {
    fn new() -> Self {
        let network = Network::new();
        let middlebox = network.middlebox("middlebox.log");
        std::fs::write(network.folder.join("speech.pcap"), speech()).unwrap();
        let scenario = include_str!("caller.xml");
        std::fs::write(network.folder.join("caller.xml"), scenario).unwrap();
        for host in [Host::Inside, Host::Outside] {
            network.nft(host, "add table inet count");
            for (hook, there, back) in [("output", "dport", "sport"), ("input", "dport", "sport")] {
                network.nft(
                    host,
                    &format!(
                        "add chain inet count {hook} {{ type filter hook {hook} priority 0; }}"
                    ),
                );
                for port in [there, back] {
                    let rule = format!("add rule inet count {hook} udp {port} {MEDIA} counter");
                    network.nft(host, &rule);
                }
            }
        }
        let arguments = [
            "-sn",
            "uas",
            "-i",
            "10.82.2.2",
            "-p",
            SIP,
            "-mi",
            "10.82.2.2",
            "-mp",
            "6000",
            "-rtp_echo",
            "-nostdin",
        ];
        let callee = network.start(Host::Outside, "callee.log", "sipp", &arguments);
        Self {
            network,
            middlebox,
            _callee: callee,
        }
    }

    fn b2bua(&self) -> Running {
        let arguments = [
            "simco",
            "b2bua",
            "--middlebox",
            "tcp://127.0.0.1",
            "--listen",
            "10.82.1.1:5060",
            "--internal",
            "10.82.1.0/24",
            "--outer",
            "10.82.2.2:5060",
            "--json",
        ];
        let running = self
            .network
            .carrick(Host::Firewall, "b2bua.log", &arguments);
        self.network.wait_for("b2bua.log", "carrick: sip udp");
        running
    }

    /// Has the caller make calls to an address. Whether all succeeded.
    fn call(&self, to: &str, calls: u32, rate: u32) -> bool {
        let (calls, rate) = (calls.to_string(), rate.to_string());
        let arguments = [
            "-sf",
            "caller.xml",
            "-i",
            "10.82.1.2",
            "-p",
            SIP,
            "-mi",
            "10.82.1.2",
            "-mp",
            "10000",
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
        let mut command = self.network.command(Host::Inside, "sipp", &arguments);
        let log = std::fs::File::create(self.network.folder.join("caller.log")).unwrap();
        command.stdout(log).stderr(Stdio::null());
        command.status().unwrap().success()
    }

    fn rtp(&self) -> Rtp {
        let count = |host, hook, port| {
            let chain = self
                .network
                .nft(host, &format!("list chain inet count {hook}"));
            let wanted = format!("udp {port} {MEDIA} counter packets ");
            let at = chain.find(&wanted).unwrap() + wanted.len();
            let digits = chain[at..].split_whitespace().next().unwrap();
            digits.parse::<usize>().unwrap()
        };
        Rtp([
            count(Host::Inside, "output", "dport"),
            count(Host::Outside, "input", "dport"),
            count(Host::Outside, "output", "sport"),
            count(Host::Inside, "input", "sport"),
        ])
    }
}

#[test]
#[ignore = "needs root and sipp"]
fn no_rtp_passes_without_pinholes_all_with_the_b2bua_and_none_after_bye() {
    let world = World::new();
    // The administrator lets SIP pass, and nothing else.
    let site = "add rule inet carrick site udp dport 5060 udp sport 5060 accept";
    world.network.nft(Host::Firewall, site);
    assert!(
        world.call("10.82.2.2:5060", 1, 1),
        "{}",
        world.network.log("caller.errors")
    );
    assert_eq!(world.rtp(), Rtp([PACKETS, 0, 0, 0]), "directly");
    let _b2bua = world.b2bua();
    assert!(
        world.call("10.82.1.1:5060", 1, 1),
        "{}",
        world.network.log("caller.errors")
    );
    assert_eq!(
        world.rtp(),
        Rtp([2 * PACKETS, PACKETS, PACKETS, PACKETS]),
        "with pinholes"
    );
    until("the rule set is empty", || world.network.elements() == 0);
    // SIPp's first port for media.
    let sender = on(&world.network, || {
        UdpSocket::bind("10.82.1.2:10000").unwrap()
    });
    for _ in 0..PACKETS {
        sender.send_to(&[0x80; 172], ("10.82.2.2", MEDIA)).unwrap();
    }
    thread::sleep(Duration::from_millis(300));
    assert_eq!(world.rtp().0[..2], [3 * PACKETS, PACKETS], "after BYE");
}

#[test]
#[ignore = "needs root and sipp"]
fn five_hundred_calls_at_fifty_a_second_succeed_and_leave_nothing() {
    let world = World::new();
    let mut b2bua = world.b2bua();
    assert!(
        world.call("10.82.1.1:5060", 500, 50),
        "{}\n{}",
        world.network.log("caller.log"),
        world.network.log("caller.errors")
    );
    let all = 500 * PACKETS;
    assert_eq!(world.rtp(), Rtp([all; 4]));
    until("the rule set is empty", || world.network.elements() == 0);
    signal(&b2bua, Signal::SIGTERM);
    assert!(b2bua.0.wait().unwrap().success());
    let said = world.network.log("b2bua.log");
    let counted = "\"offered\":500";
    assert!(
        said.contains(counted) && said.contains("\"established\":500"),
        "{said}"
    );
    assert!(said.contains("\"pinholes_at_stop\":0"), "{said}");
}

#[test]
#[ignore = "needs root and sipp"]
fn a_call_is_refused_when_the_middlebox_is_gone() {
    let world = World::new();
    let _b2bua = world.b2bua();
    let network = &world.network;
    signal(&world.middlebox, Signal::SIGSTOP);
    assert!(!world.call("10.82.1.1:5060", 1, 1));
    let errors = network.log("caller.errors");
    assert!(errors.contains("504"), "{errors}");
    signal(&world.middlebox, Signal::SIGCONT);
    // What was granted late is closed by the agent.
    until("the rule set is empty", || network.elements() == 0);
    assert_eq!(world.rtp(), Rtp([0; 4]));
    assert!(world.call("10.82.1.1:5060", 1, 1), "it answers again");
}

fn signal(running: &Running, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(running.0.id()).unwrap());
    nix::sys::signal::kill(pid, signal).unwrap();
}

/// Does something on the inner host.
fn on<T: Send + 'static>(network: &Network, act: impl FnOnce() -> T + Send + 'static) -> T {
    let path = network.path(Host::Inside);
    let inside = move || {
        let file = std::fs::File::open(path).unwrap();
        nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        act()
    };
    thread::spawn(inside).join().unwrap()
}
