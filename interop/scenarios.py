"""Test scenarios: the arguments of both sides, and the checks of the result."""

from dataclasses import dataclass, field
from typing import Callable, Optional

import extensions
from network import address

PORT = 5001
MEGA = 1_000_000
# Around the powers of two, the PMTU and the largest message asked for.
EVERY_SIZE = (
    "1,2,3,4,5,7,8,9,16,100,511,512,1023,1024,1200,1395,1400,1404,1408,1412,1416,1420,1424,1428,1432,1436,1440,1444,"
    "1448,1452,1456,1460,1464,1468,1500,2000,2848,4096,9000,16384,65535,65536,65537,131072,262144,524288,1048575,1048576"
)
EVERY_SIZE_SUM = sum(map(int, EVERY_SIZE.split(",")))
# Short timers, so that a dead path is noticed in seconds; and for a loss to be repaired in milliseconds.
QUICK_TIMERS = ["--rto-initial", "300", "--rto-min", "100", "--rto-max", "1000", "--heartbeat", "500", "--path-max-retrans", "2"]
LAN_TIMERS = ["--rto-initial", "500", "--rto-min", "100", "--rto-max", "2000"]


@dataclass
class Scenario:
    """Near (side a) is the stack under test, far (side b) the other one."""

    name: str
    near: str
    far: str
    near_arguments: list
    far_arguments: list
    near_listens: bool = False
    limit: int = 30
    quick: bool = True
    loss: float = 0.0
    cut_path: Optional[int] = None  # at the first `progress` line of either side
    restored_after: Optional[float] = None  # seconds from the cut of the path to its end
    redirected_init: bool = False  # to the second address of the side that listens
    marks: float = 0.0  # percent of the ECN-capable packets
    restarted: Optional[str] = None  # side whose process is killed at its first `progress` line, and started again
    arguments_after_restart: list = field(default_factory=list)
    over_dtls: bool = False
    checks: list = field(default_factory=list)
    wire_checks: list = field(default_factory=list)  # of the capture

    @property
    def stacks(self):
        return {"a": self.near, "b": self.far}


# Checks: each gives None or what is wrong

def ended(which, how, by):
    def check(run):
        end = run[which].end
        if (end["ended"], end["by"]) != (how, by):
            return f"{which} ended with {end['ended']} by {end['by']}, not {how} by {by}"
        return None

    return check


def fine(run):
    """Both found nothing wrong."""
    bad = [f"{which} is not ok: {[e['message'] for e in peer.seen('error')] or peer.end}" for which, peer in run.items() if not peer.end["ok"]]
    return "; ".join(bad) or None


def arrived(sender, receiver):
    """Everything that was sent, and nothing else."""
    def check(run):
        sent, got = run[sender].end["sent"], run[receiver].end["received"]
        if (sent["messages"], sent["bytes"]) != (got["messages"], got["bytes"]):
            return f"{sender} sent {sent}, {receiver} received {got}"
        return None

    return check


def aborted_with_cause(which):
    """Checks that a stack that reports the cause reports User-Initiated Abort."""
    def check(run):
        cause = run[which].end["cause"]
        return None if cause in (0, 12) else f"{which} saw cause {cause} in the ABORT, not 12"

    return check


def path_lost(which, addr):
    """The failure of the path was reported, to the side that had data on it."""
    def check(run):
        if not run[which].seen("path", addr=addr, state="unreachable"):
            return f"{which} did not report that {addr} is unreachable"
        return None

    return check


def peers_known(which, *addresses):
    """The association knows exactly these addresses of its peer."""
    def check(run):
        known = set(run[which].seen("up")[0]["peer"])
        return None if known == set(addresses) else f"{which} knows {sorted(known)}, not {sorted(addresses)}"

    return check


def init_acks_from(which, addr):
    """Every INIT ACK of this side has this source."""
    def check(capture):
        packets = [p for p in capture.packets("sctp.chunk_type") if "2" in p["sctp.chunk_type"]]
        sources = {(p["side"], p["from"]) for p in packets}
        return None if sources == {(which, addr)} else f"INIT ACKs come from {sorted(sources)}, not from {addr} alone"

    return check


# Building them

class Maker:
    """Scenarios of one pair of stacks."""

    def __init__(self, near, far, port=PORT, common=()):
        """`port` is the SCTP port of both sides if it is not the default, where the connecting side chooses its port;
        both sides have the options `common`."""
        self.near, self.far, self.port = near, far, port
        self.common = [*common] if port == PORT else ["--local-port", port, *common]
        self.made = []

    def add(self, name, transport, near_listens, near, far, checks, paths=(0,), family="v4", paths_of=None, given=None, **more):
        """`near` and `far` are the options of each side beyond addresses and transport; `given` are the paths whose addresses the
        connecting side is given, if not all."""
        paths_of = paths_of or {"near": paths, "far": paths}
        paths_of = {"a": paths_of["near"], "b": paths_of["far"]}

        def arguments(side, other, listens, options):
            own = ",".join(address(side, path, family) for path in paths_of[side])
            to = ",".join(address(other, path, family) for path in given or paths_of[other])
            role = ["listen", self.port] if listens else ["connect", to, self.port]
            return [*role, "--local", own, "--transport", transport, *self.common, *options]

        role = "listens" if near_listens else "connects"
        self.made.append(Scenario(
            name=f"{self.near}-{self.far}/{transport}/{role}/{name}", near=self.near, far=self.far,
            near_arguments=arguments("a", "b", near_listens, near), far_arguments=arguments("b", "a", not near_listens, far),
            near_listens=near_listens, checks=checks, over_dtls=transport == "dtls", **more,
        ))
        return self.made[-1]

    def echo(self, transport, near_listens, near_sends, name, ender=None, **more):
        """All sizes there and back, ordered and unordered; the sender shuts down, or `ender`. Establishes, and tests both ways."""
        # A stack that does not report the U bit knows by the number of a message.
        common = ["--streams", 10, "--unordered", 4, "--expect", EVERY_SIZE_SUM]
        sender, other = ("near", "far") if near_sends else ("far", "near")
        ender = ender or sender
        end = ["--end", "shutdown"]
        source = ["--mode", "source", "--bytes", EVERY_SIZE_SUM, "--sizes", EVERY_SIZE, *common, *(end if ender == sender else [])]
        echo = ["--mode", "echo", *common, *(end if ender == other else [])]
        checks = [fine, ended(ender, "shutdown", "self"), ended("far" if ender == "near" else "near", "shutdown", "peer"),
                  arrived(sender, other), arrived(other, sender)]
        checks += more.pop("checks", [])
        return self.add(name, transport, near_listens, source if near_sends else echo, echo if near_sends else source, checks, **more)

    def init_ack_from_other_address(self, transport, near_listens, **more):
        """The INIT ACK comes from an address that it lists, and not from the one that the INIT went to (RFC 9260 section 5.1.2).

        Linux answers an INIT from the address that its route to the peer has: a client at path 0 alone that sends
        to path 1 gets its answer from path 0. Other stacks answer from the address that was addressed, so the INIT gets another one
        on its way.
        """
        listens, connects = ("near", "far") if near_listens else ("far", "near")
        side = {"near": "a", "far": "b"}
        linux = (self.near if near_listens else self.far) == "kernel"
        source, given, own = (0, 1, (0,)) if linux else (1, 0, (0, 1))
        checks = [peers_known(connects, *(address(side[listens], path) for path in (0, 1))),
                  peers_known(listens, *(address(side[connects], path) for path in own))]
        self.echo(transport, near_listens, not near_listens, "init-ack-from-other-address", paths_of={listens: (0, 1), connects: own},
                  given=(given,), redirected_init=not linux, checks=checks,
                  wire_checks=[init_acks_from(listens, address(side[listens], source))], **more)

    def abort(self, transport, near_listens, near_aborts, **more):
        """The receiver aborts in the middle of a transfer."""
        sink = ["--mode", "sink", "--expect", MEGA, "--end", "abort", "--streams", 4]
        source = ["--mode", "source", "--bytes", 2000 * MEGA, "--sizes", "1-20000", "--streams", 4]
        aborter, other = ("near", "far") if near_aborts else ("far", "near")
        checks = [fine, ended(aborter, "abort", "self"), ended(other, "abort", "peer"), aborted_with_cause(other)]
        return self.add(f"abort-by-{aborter}", transport, near_listens, sink if near_aborts else source,
                 source if near_aborts else sink, checks, **more)

    def bulk(self, transport, near_listens, near_sends, size=100 * MEGA, **more):
        """Bulk data with 1 % loss on the way; the receiver shuts down."""
        source = ["--mode", "source", "--bytes", size, "--sizes", "1-60000", "--streams", 16, "--unordered", 5, "--seed", 7, *LAN_TIMERS]
        sink = ["--mode", "sink", "--expect", size, "--end", "shutdown", "--progress", size // 20, *LAN_TIMERS]
        sender, other = ("near", "far") if near_sends else ("far", "near")
        checks = [fine, ended(other, "shutdown", "self"), ended(sender, "shutdown", "peer"), arrived(sender, other)]
        self.add(f"{size // MEGA}MB-from-{sender}", transport, near_listens, source if near_sends else sink,
                 sink if near_sends else source, checks, loss=1.0, limit=180, **more)

    def both_ways(self, transport, near_listens, size=20 * MEGA, **more):
        """Both send at once, with 1 % loss."""
        options = ["--mode", "source", "--bytes", size, "--sizes", "1-30000", "--streams", 8, "--expect", size, "--progress", size // 10, *LAN_TIMERS]
        checks = [fine, arrived("near", "far"), arrived("far", "near"), ended("near", "shutdown", "self")]
        self.add("both-ways", transport, near_listens, [*options, "--end", "shutdown"], options, checks, loss=1.0, limit=120, **more)

    def path_fails(self, transport, near_listens, near_sends, size=40 * MEGA, **more):
        """Two paths; the primary breaks in mid-transfer, everything arrives over the other."""
        # The source keeps a quarter back until it has noticed, however long that takes on this machine.
        source = ["--mode", "source", "--bytes", size, "--sizes", "1-60000", "--streams", 8, "--rate", size // 4,
                  "--hold", 3 * size // 4, *QUICK_TIMERS]
        sink = ["--mode", "sink", "--expect", size, "--end", "shutdown", "--progress", size // 4, *QUICK_TIMERS]
        sender, other = ("near", "far") if near_sends else ("far", "near")
        broken = address("b" if near_sends else "a", 0)
        checks = [fine, arrived(sender, other), ended(other, "shutdown", "self"), path_lost(sender, broken)]
        self.add(f"path-fails-{sender}-sends", transport, near_listens, source if near_sends else sink,
                 sink if near_sends else source, checks, paths=(0, 1), cut_path=0, limit=90, **more)


def scenarios_of(near, far):
    """All scenarios of a pair, the quick ones marked."""
    make = Maker(near, far)
    for transport in ("udp", "ip"):
        for listens in (False, True):
            # What differs on plain IP is the socket, not the role.
            quick = transport == "udp" or not listens
            make.echo(transport, listens, True, "echo-near-sends", quick=quick)
            make.echo(transport, listens, False, "echo-far-sends", quick=quick)
            make.abort(transport, listens, True, quick=quick)
            make.abort(transport, listens, False, quick=quick)
        make.echo(transport, False, True, "echo-v6", family="v6")
        make.echo(transport, True, False, "echo-v6", family="v6", quick=False)
    for listens in (False, True):
        known = [peers_known("near", address("b", 0), address("b", 1)), peers_known("far", address("a", 0), address("a", 1))]
        make.echo("udp", listens, True, "echo-two-paths", paths=(0, 1), checks=known)
    for transport in ("udp", "ip"):
        for listens in (False, True):
            quick = transport == "udp" and not listens
            for near_sends in (True, False):
                make.bulk(transport, listens, near_sends, quick=False)
                if quick:
                    make.bulk(transport, listens, near_sends, size=20 * MEGA)
            make.both_ways(transport, listens, quick=quick)
            if "kernel" in (near, far):
                make.init_ack_from_other_address(transport, listens, quick=transport == "udp")
                make.path_fails(transport, listens, True, quick=quick)
                make.path_fails(transport, listens, False, quick=quick)
    extensions.add_all(make)
    return make.made
