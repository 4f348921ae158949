//! Two network namespaces, near and far, with a pair of virtual interfaces for each path.

use std::fs::File;
use std::io::Read as _;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::process::{Command, id};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};

use nix::sched::{CloneFlags, setns};
use socket2::{Domain, Protocol, Socket, Type};

/// Number of networks of this process, for distinct names of their namespaces.
static NETWORKS: AtomicU32 = AtomicU32::new(0);

/// Both hosts, removed when dropped.
pub(crate) struct Network {
    near: String,
    far: String,
    router: Option<String>,
}

/// One of the hosts.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    Near,
    Far,
}

impl Network {
    pub(crate) fn new() -> Self {
        let number = NETWORKS.fetch_add(1, Ordering::Relaxed);
        let network = Self {
            near: format!("carrick{}-{number}near", id()),
            far: format!("carrick{}-{number}far", id()),
            router: None,
        };
        for name in [&network.near, &network.far] {
            ip(&["netns", "add", name]);
            ip(&["-n", name, "link", "set", "lo", "up"]);
        }
        for path in 0..2 {
            let interface = interface(path);
            ip(&[
                "-n",
                &network.near,
                "link",
                "add",
                &interface,
                "type",
                "veth",
                "peer",
                "name",
                &interface,
                "netns",
                &network.far,
            ]);
            for side in [Side::Near, Side::Far] {
                let address = format!("{}/24", address(side, path));
                let name = network.name(side);
                ip(&["-n", name, "address", "add", &address, "dev", &interface]);
                ip(&["-n", name, "link", "set", &interface, "up"]);
            }
        }
        network
    }

    /// Creates one path with a router, which joins a link of the near host to one of the far host with
    /// these MTUs.
    pub(crate) fn routed(mtus: [u32; 2]) -> Self {
        let number = NETWORKS.fetch_add(1, Ordering::Relaxed);
        let name = |what| format!("carrick{}-{number}{what}", id());
        let router = name("router");
        let network = Self {
            near: name("near"),
            far: name("far"),
            router: Some(router.clone()),
        };
        for name in [&network.near, &network.far, &router] {
            ip(&["netns", "add", name]);
            ip(&["-n", name, "link", "set", "lo", "up"]);
        }
        let forward = "net.ipv4.ip_forward=1";
        ip(&["netns", "exec", &router, "sysctl", "-q", "-w", forward]);
        for (path, side) in [Side::Near, Side::Far].into_iter().enumerate() {
            let (host, device) = (network.name(side), interface(path));
            let mtu = mtus[path].to_string();
            ip(&[
                "-n", host, "link", "add", &device, "mtu", &mtu, "type", "veth", "peer", "name",
                &device, "mtu", &mtu, "netns", &router,
            ]);
            let gateway = format!("10.77.{path}.254");
            for (name, address) in [
                (host, address(side, path).to_string()),
                (&*router, gateway.clone()),
            ] {
                let address = format!("{address}/24");
                ip(&["-n", name, "address", "add", &address, "dev", &device]);
                ip(&["-n", name, "link", "set", &device, "up"]);
            }
            ip(&["-n", host, "route", "add", "default", "via", &gateway]);
        }
        network
    }

    /// Creates one path with an address translator: UDP packets of the near host have the router's address,
    /// and a new port after each loss of the translator's state. The near host has a second address, in the
    /// role of a second host.
    pub(crate) fn translated() -> Self {
        let network = Self::routed([1500, 1500]);
        let second = format!("{}/24", second_inside());
        let device = interface(0);
        let near = network.name(Side::Near);
        ip(&["-n", near, "address", "add", &second, "dev", &device]);
        let outside = interface(1);
        network.filter(&[
            "add table ip nat",
            "add chain ip nat out { type nat hook postrouting priority 100; }",
            &format!(
                "add rule ip nat out oifname {outside} ip protocol udp \
                 masquerade to :40000-60000 fully-random"
            ),
        ]);
        network
    }

    /// Creates one path in both families, with a router that marks one of 100 packets with ECT(0)
    /// "congestion experienced". Without `offload`, each packet is a separate one on the links.
    pub(crate) fn marking(offload: bool) -> Self {
        let network = Self::in_both_families();
        let router = network.router.as_deref().unwrap();
        for (path, side) in [Side::Near, Side::Far].into_iter().enumerate() {
            let device = interface(path);
            for name in [network.name(side), router] {
                if !offload {
                    let one = ["gso_max_segs", "1"];
                    ip(&["-n", name, "link", "set", &device, one[0], one[1]]);
                }
            }
        }
        network.filter(&[
            "add table inet marks",
            "add chain inet marks way { type filter hook forward priority 0; }",
            &mark_rule("ip"),
            &mark_rule("ip6"),
        ]);
        network
    }

    /// Creates one path in both families, with a router that only forwards.
    pub(crate) fn in_both_families() -> Self {
        let network = Self::routed([1500, 1500]);
        let router = network.router.as_deref().unwrap();
        let forward = "net.ipv6.conf.all.forwarding=1";
        ip(&["netns", "exec", router, "sysctl", "-q", "-w", forward]);
        for (path, side) in [Side::Near, Side::Far].into_iter().enumerate() {
            let (host, device) = (network.name(side), interface(path));
            let own = format!("{}/64", Self::routed_address(side, true));
            let gateway = format!("fd77:{path}::fe");
            let gateway_64 = format!("{gateway}/64");
            for (name, address) in [(host, &own), (router, &gateway_64)] {
                ip(&[
                    "-n", name, "address", "add", address, "dev", &device, "nodad",
                ]);
            }
            let via = ["route", "add", "default", "via", &gateway];
            ip(&[&["-n", host, "-6"][..], &via].concat());
        }
        network
    }

    /// Stops the router's ICMP messages about dropped packets.
    pub(crate) fn silence(&self) {
        self.filter(&[
            "add table inet silence",
            "add chain inet silence out { type filter hook output priority 0; }",
            "add rule inet silence out icmp type destination-unreachable drop",
            "add rule inet silence out icmpv6 type packet-too-big drop",
        ]);
    }

    /// Sets the MTU of the router's link to the far host.
    pub(crate) fn narrow(&self, mtu: u32) {
        let router = self.router.as_deref().unwrap();
        let (device, mtu) = (interface(1), mtu.to_string());
        ip(&["-n", router, "link", "set", &device, "mtu", &mtu]);
    }

    /// Adds these rules of nftables on the router.
    fn filter(&self, rules: &[&str]) {
        let router = self.router.as_deref().unwrap();
        for rule in rules {
            ip(&["netns", "exec", router, "nft", rule]);
        }
    }

    /// Returns the address of a side of a network with a router.
    pub(crate) fn routed_address(side: Side, v6: bool) -> IpAddr {
        let path = match side {
            Side::Near => 0,
            Side::Far => 1,
        };
        if v6 {
            IpAddr::from([0xfd77, path, 0, 0, 0, 0, 0, 1])
        } else {
            address(side, usize::from(path))
        }
    }

    /// Deletes the translator's state.
    pub(crate) fn forget_ports(&self) {
        let namespace = File::open(format!("/run/netns/{}", self.router.as_deref().unwrap()));
        let namespace = namespace.unwrap();
        let forget = thread::spawn(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
            flush_conntrack();
        });
        forget.join().unwrap();
    }

    fn name(&self, side: Side) -> &str {
        match side {
            Side::Near => &self.near,
            Side::Far => &self.far,
        }
    }

    /// Sets the link of a path down or up on one side.
    pub(crate) fn set_link(&self, side: Side, path: usize, up: bool) {
        let state = if up { "up" } else { "down" };
        ip(&[
            "-n",
            self.name(side),
            "link",
            "set",
            &interface(path),
            state,
        ]);
    }

    /// Removes the address of a path from one side.
    pub(crate) fn leave(&self, side: Side, path: usize) {
        let address = format!("{}/24", address(side, path));
        let name = self.name(side);
        ip(&[
            "-n",
            name,
            "address",
            "del",
            &address,
            "dev",
            &interface(path),
        ]);
    }

    /// Adds the address of a path to one side, with a default route through it.
    pub(crate) fn arrive(&self, side: Side, path: usize) {
        let own = format!("{}/24", address(side, path));
        let name = self.name(side);
        let interface = interface(path);
        ip(&["-n", name, "address", "replace", &own, "dev", &interface]);
        let other = match side {
            Side::Near => Side::Far,
            Side::Far => Side::Near,
        };
        let gateway = address(other, path).to_string();
        ip(&["-n", name, "route", "replace", "default", "via", &gateway]);
    }

    /// Routes packets of the near host to the far host's second address through path 0, or removes that
    /// route.
    pub(crate) fn detour(&self, begins: bool) {
        let change = if begins { "add" } else { "del" };
        let to = address(Side::Far, 1).to_string();
        let via = address(Side::Far, 0).to_string();
        ip(&[
            "-n",
            self.name(Side::Near),
            "route",
            change,
            &to,
            "via",
            &via,
        ]);
    }

    /// Runs `work` on a thread of one side.
    pub(crate) fn on<R: Send + 'static>(
        &self,
        side: Side,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> JoinHandle<R> {
        let namespace = File::open(format!("/run/netns/{}", self.name(side))).unwrap();
        thread::spawn(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
            work()
        })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in [&self.near, &self.far].into_iter().chain(&self.router) {
            // What can't be removed here can be found by the process ID in its name.
            let _ = Command::new("ip").args(["netns", "delete", name]).status();
        }
    }
}

/// Deletes all entries of the connection tracking of this thread's host.
fn flush_conntrack() {
    /// `NETLINK_NETFILTER`.
    const NETFILTER: i32 = 12;
    /// `NFNL_SUBSYS_CTNETLINK` and `IPCTNL_MSG_CT_DELETE`.
    const DELETE: u16 = 1 << 8 | 2;
    /// `NLM_F_REQUEST` and `NLM_F_ACK`.
    const FLAGS: u16 = 1 | 4;
    let netlink = Domain::from(nix::libc::AF_NETLINK);
    let socket = Socket::new(netlink, Type::RAW, Some(Protocol::from(NETFILTER))).unwrap();
    // struct nlmsghdr, and a struct nfgenmsg without a family, for all entries.
    let mut request = Vec::new();
    request.extend(20_u32.to_ne_bytes());
    request.extend(DELETE.to_ne_bytes());
    request.extend(FLAGS.to_ne_bytes());
    request.extend([0; 12]);
    socket.send(&request).unwrap();
    let mut answer = [0; 64];
    let length = File::from(OwnedFd::from(socket)).read(&mut answer).unwrap();
    assert!(length >= 20, "NLMSG_ERROR with the error in front");
    let error = i32::from_ne_bytes(answer[16..20].try_into().unwrap());
    assert_eq!(error, 0, "conntrack is not flushed");
}

/// Returns the second address of the near host behind a translator.
pub(crate) fn second_inside() -> IpAddr {
    IpAddr::from([10, 77, 0, 3])
}

fn interface(path: usize) -> String {
    format!("path{path}")
}

/// Returns the address of a side on a path; each path is a separate network.
pub(crate) fn address(side: Side, path: usize) -> IpAddr {
    let host = match side {
        Side::Near => 1,
        Side::Far => 2,
    };
    IpAddr::from([10, 77, path as u8, host])
}

pub(crate) fn addresses(side: Side) -> [IpAddr; 2] {
    [address(side, 0), address(side, 1)]
}

fn mark_rule(family: &str) -> String {
    format!("add rule inet marks way {family} ecn ect0 numgen inc mod 100 == 0 {family} ecn set ce")
}

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "ip {}: {} (as root?)",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
}
