//! Calls of `SIPp` with real RTP through the firewall.

use std::net::UdpSocket;
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

/// The same calls with the offer left to the callee: the description is in the ACK.
fn late(caller: &str) -> String {
    let begin = caller.find("      Content-Type:").unwrap();
    let end = caller.find("    ]]>").unwrap();
    let description = &caller[begin..end];
    let none = "      Content-Length: 0\n\n";
    let (invite, rest) = (&caller[..begin], &caller[end..]);
    // Who answers in ACK does not know when it has passed.
    let (nop, pause) = ("  <nop>", "  <pause milliseconds=\"500\"/>\n  <nop>");
    let rest = rest.replacen(none, description, 1).replacen(nop, pause, 1);
    format!("{invite}{none}{rest}")
}

/// RTP at one end: sent by the caller, received by the callee, sent back, received by the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rtp(pub(crate) [usize; 4]);

/// The firewall with a middlebox, a callee outside that sends RTP back, and counters at both ends.
pub(crate) struct World {
    pub(crate) network: Network,
    pub(crate) middlebox: Running,
    pub(crate) callee: Running,
    /// UDP or TCP, as `SIPp` calls them.
    transport: &'static str,
}

/// What `SIPp` takes as callee, but for its scenario.
const CALLEE: [&str; 9] = [
    "-i",
    "10.82.2.2",
    "-p",
    SIP,
    "-mi",
    "10.82.2.2",
    "-mp",
    "6000",
    "-nostdin",
];

impl World {
    pub(crate) fn new() -> Self {
        Self::with(&["-sn", "uas", "-rtp_echo"], "u1")
    }

    /// With a callee that has these arguments more.
    pub(crate) fn with(callee: &[&str], transport: &'static str) -> Self {
        let network = Network::new();
        let middlebox = network.middlebox("middlebox.log");
        std::fs::write(network.folder.join("speech.pcap"), speech()).unwrap();
        let caller = include_str!("caller.xml");
        for (name, scenario) in [
            ("caller.xml", caller),
            ("late.xml", &late(caller)),
            ("patient.xml", include_str!("patient.xml")),
            ("patient-callee.xml", include_str!("patient-callee.xml")),
        ] {
            std::fs::write(network.folder.join(name), scenario).unwrap();
        }
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
        let arguments = [&CALLEE, callee, &["-t", transport]].concat();
        let callee = network.start(Host::Outside, "callee.log", "sipp", &arguments);
        Self {
            network,
            middlebox,
            callee,
            transport,
        }
    }

    pub(crate) fn b2bua(&self) -> Running {
        self.b2bua_with(&[])
    }

    /// With these arguments more.
    pub(crate) fn b2bua_with(&self, more: &[&str]) -> Running {
        let outer = match self.transport {
            "t1" => "tcp://10.82.2.2:5060",
            _ => "10.82.2.2:5060",
        };
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
            outer,
            "--json",
        ];
        let arguments = [&arguments, more].concat();
        let running = self
            .network
            .carrick(Host::Firewall, "b2bua.log", &arguments);
        self.network.wait_for("b2bua.log", "carrick: sip udp");
        running
    }

    /// Has the caller make calls to an address. Whether all succeeded.
    pub(crate) fn call(&self, to: &str, calls: u32, rate: u32) -> bool {
        let mut caller = self.caller("caller.xml", to, calls, rate);
        caller.0.wait().unwrap().success()
    }

    /// A caller with a scenario that runs.
    pub(crate) fn caller(&self, scenario: &str, to: &str, calls: u32, rate: u32) -> Running {
        let (calls, rate) = (calls.to_string(), rate.to_string());
        let arguments = [
            "-sf",
            scenario,
            "-t",
            self.transport,
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
        self.network
            .start(Host::Inside, "caller.log", "sipp", &arguments)
    }

    pub(crate) fn rtp(&self) -> Rtp {
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
    assert_eq!(said.matches("\"end\":\"hung-up\"").count(), 500, "{said}");
}

#[test]
#[ignore = "needs root and sipp"]
fn calls_go_over_tcp_rfc_3261_18() {
    let world = World::with(&["-sn", "uas", "-rtp_echo"], "t1");
    // Nothing but TCP is there.
    let drop = "add table inet only; add chain inet only in { type filter hook input priority 0; }; add rule inet only in iifname != lo udp dport 5060 drop";
    world.network.nft(Host::Firewall, drop);
    let _b2bua = world.b2bua();
    assert!(
        world.call("10.82.1.1:5060", 20, 20),
        "{}",
        world.network.log("caller.errors")
    );
    assert_eq!(world.rtp(), Rtp([20 * PACKETS; 4]));
    until("the rule set is empty", || world.network.elements() == 0);
}

#[test]
#[ignore = "needs root and sipp"]
fn rtp_passes_also_when_the_offer_is_in_the_answer_and_the_answer_in_the_ack() {
    let world = World::new();
    let _b2bua = world.b2bua();
    let mut caller = world.caller("late.xml", "10.82.1.1:5060", 5, 50);
    assert!(
        caller.0.wait().unwrap().success(),
        "{}",
        world.network.log("caller.errors")
    );
    assert_eq!(world.rtp(), Rtp([5 * PACKETS; 4]));
    until("the rule set is empty", || world.network.elements() == 0);
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

pub(crate) fn signal(running: &Running, signal: Signal) {
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
