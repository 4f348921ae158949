"""Two hosts with two disjoint paths, in separate network namespaces, with loss and breaks of the paths.

       side a            middle             side b
    eth0 10.77.0.1 --- a0 [br0] b0 --- 10.77.0.2 eth0     path 0, also fd77::/64
    eth1 10.78.0.1 --- a1 [br1] b1 --- 10.78.0.2 eth1     path 1, also fd78::/64

A side is a namespace (veth pairs) or a user-mode Linux guest (taps in the middle). The middle bridges the two,
drops packets by rules of nftables, because not every kernel has netem, and captures the packets.
"""

import itertools
import json
import os
import re
import signal
import subprocess

PATHS = 2
PREFIX = {"v4": ("10.77.0.", "10.78.0."), "v6": ("fd77::", "fd78::")}
HOST_PART = {"a": "1", "b": "2", "m": "3"}
_OURS = re.compile(r"^(?:ci|table)(\d+)\.\d+[mab]$")
_numbers = itertools.count()


class NetworkError(Exception):
    """Failure of a command that sets up the network."""


def run(*command):
    """Runs a command and returns its standard output."""
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise NetworkError(f"'{' '.join(command)}' failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def address(side, path, family="v4"):
    """Returns the address of a side on a path."""
    return PREFIX[family][path] + HOST_PART[side]


def with_length(side, path):
    """Returns both addresses of a side on a path, with their prefix lengths."""
    return [address(side, path, "v4") + "/24", address(side, path, "v6") + "/64"]


def _delete(namespace):
    """Ends the processes in a namespace of a scenario and removes it."""
    pids = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True).stdout.split()
    for pid in pids:
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            pass
    subprocess.run(["ip", "netns", "delete", namespace], capture_output=True)


def _alive(pid):
    """Returns whether the process is a Python program, such as one of those that have scenarios."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"python" in file.read()
    except OSError:
        return False


def remove_stale():
    """Removes the namespaces of runs whose process has ended, and returns their names."""
    names = [line.split()[0] for line in run("ip", "netns", "list").splitlines() if line.strip()]
    stale = [name for name in names if (found := _OURS.match(name)) and not _alive(found[1])]
    for name in stale:
        _delete(name)
    return stale


class Network:
    """Namespaces of one scenario. `guests` names the sides that are user-mode Linux."""

    prefix = "ci"

    def __init__(self, guests=()):
        self.guests = set(guests)
        stem = f"{self.prefix}{os.getpid()}.{next(_numbers)}"
        self.middle = stem + "m"
        self.namespace = {side: self.middle if side in self.guests else stem + side for side in "ab"} | {"m": self.middle}

    def __enter__(self):
        try:
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in {self.middle, *self.namespace.values()}:
            _delete(name)

    def _add_namespaces(self):
        for name in sorted({self.middle, *self.namespace.values()}):
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")

    def _add_sides(self, path):
        for side in "ab":
            if side in self.guests:
                self._tap(side, path)
            else:
                self._veth(side, path)

    def _build(self):
        self._add_namespaces()
        for path in range(PATHS):
            run("ip", "-n", self.middle, "link", "add", f"br{path}", "type", "bridge", "mcast_snooping", "0")
            run("ip", "-n", self.middle, "link", "set", f"br{path}", "up")
            self._add_sides(path)
        nft = ["ip", "netns", "exec", self.middle, "nft"]
        run(*nft, "add table bridge way")
        run(*nft, "add chain bridge way forward { type filter hook forward priority 0 ; policy accept ; }")
        # Loss does not apply to neighbour discovery and ARP.
        run(*nft, "add rule bridge way forward icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept")

    def _plain(self, namespace, interface):
        """Disables offloads, so that captured packets have their checksums and their size on the link."""
        # Offloads that a device does not support are off already.
        features = "tx rx tso gso gro tx-udp-segmentation tx-sctp-segmentation"
        switch = f"for feature in {features}; do ethtool -K {interface} $feature off; done"
        subprocess.run(["ip", "netns", "exec", namespace, "sh", "-c", switch], capture_output=True)

    def _join(self, side, path):
        port = f"{side}{path}"
        self._plain(self.middle, port)
        run("ip", "-n", self.middle, "link", "set", port, "master", f"br{path}")
        run("ip", "-n", self.middle, "link", "set", port, "up")

    def _tap(self, side, path):
        run("ip", "netns", "exec", self.middle, "ip", "tuntap", "add", f"{side}{path}", "mode", "tap")
        self._join(side, path)

    @staticmethod
    def _addresses(side, path):
        """Returns the addresses of a side on a path, with their prefix lengths."""
        return with_length(side, path)

    def _veth(self, side, path):
        inside, name = self.namespace[side], f"eth{path}"
        run("ip", "-n", self.middle, "link", "add", f"{side}{path}", "type", "veth", "peer", "name", name, "netns", inside)
        self._plain(inside, name)
        self._join(side, path)
        for one in self._addresses(side, path):
            run("ip", "-n", inside, "address", "add", one, "dev", name, *(["nodad"] if ":" in one else []))
        run("ip", "-n", inside, "link", "set", name, "up")

    def join_middle(self, path):
        """Adds the address of side "m" on a path to the middle, for programs outside the sides."""
        run("ip", "-n", self.middle, "address", "add", f"{address('m', path)}/24", "dev", f"br{path}")

    def nics(self, side):
        """Returns the arguments of `kernel_peer.py --nic` for a guest."""
        return [f"{side}{path}=" + ",".join(self._addresses(side, path)) for path in range(PATHS)]

    # Loss, path failures and marks

    def _rule(self, *words):
        run("ip", "netns", "exec", self.middle, "nft", "add", "rule", "bridge", "way", "forward", *words)

    def lose(self, percent):
        """Drops this share of the packets of both directions and paths, at random."""
        self._rule("meta protocol { ip, ip6 }", f"numgen random mod 1000 < {round(percent * 10)}", "counter", "drop", 'comment "loss"')
        self._rule("meta protocol { ip, ip6 }", "counter", 'comment "passed"')

    def mark(self, percent):
        """Marks this share of the ECN-capable packets of IPv4 "congestion experienced", at random."""
        self._rule("ip ecn { ect0, ect1 }", f"numgen random mod 1000 < {round(percent * 10)}", "counter", "ip ecn set ce", 'comment "marked"')

    def cut(self, path):
        """Drops all packets of this path, in both directions."""
        self._rule(f'iifname {{ "a{path}", "b{path}" }}', "counter", "drop", f'comment "cut{path}"')

    def restore(self, path):
        """Ends the cut of this path; its counter is kept."""
        handle = self._listed(f"cut{path}")["handle"]
        words = f'iifname "none" counter packets {self.counted(f"cut{path}")} bytes 0 drop comment "cut{path}"'
        run("ip", "netns", "exec", self.middle, "nft", "replace", "rule", "bridge", "way", "forward", "handle", str(handle), words)

    def redirect_init(self, to):
        """An INIT to this side's address on path 0 arrives at its address on path 1, from which it is then answered."""
        before, after = address(to, 0), address(to, 1)
        for type_of_chunk in ("meta l4proto sctp @th,96,8 1", "meta l4proto udp @th,160,8 1"):
            self._rule(f"ip daddr {before}", type_of_chunk, f"ip daddr set {after}")

    def _listed(self, comment):
        """Returns the rule with this comment as nft lists it."""
        listing = json.loads(run("ip", "netns", "exec", self.middle, "nft", "-j", "list", "chain", "bridge", "way", "forward"))
        for item in listing["nftables"]:
            rule = item.get("rule", {})
            if rule.get("comment") == comment:
                return rule
        raise NetworkError(f"no rule '{comment}'")

    def counted(self, comment):
        """Returns the number of packets that the rule with this comment has matched."""
        return next(part["counter"]["packets"] for part in self._listed(comment)["expr"] if "counter" in part)
