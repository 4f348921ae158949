"""Failures of the table, each as a list of steps in time.

Side a connects to side b by plane 0, the primary one; planes are 1 and 2 in texts. The steps begin once messages flow in both directions.
"""

import time
from dataclasses import dataclass, field

from hosts import NO_NEIGHBOUR, UNREACHABLE, address

# Sizes of messages in bytes: those of signaling, and ones whose packets have more than 1,400 bytes.
SMALL, LARGE = 100, 1420
# Seconds between two messages of a side: in most rows, and where messages are rare.
INTERVAL, RARE = 0.02, 0.3


@dataclass(frozen=True)
class Times:
    """Durations in s: of a fault, of the second failure's first fault, of the time until it, of stopped processes, and the rest after a repair."""

    fault: float
    first: float
    pause: float
    stop: float
    rest: float


@dataclass
class Steps:
    """What is done to a cell. `excused` are the times in which no pair of addresses works, and `repairs` the moments at which faults end.

    With `notice`, the measure is the time from `Cell.mark`, which is the first step unless another one sets it, until the program of side a
    is notified of the end of its association, and at most so long.
    """

    steps: list
    end: float
    excused: list = field(default_factory=list)
    repairs: list = field(default_factory=list)
    notice: float | None = None


@dataclass(frozen=True)
class Row:
    """Kind of failure. `policy`: the routes of the hosts make a difference. `carriers`: those for which it exists. `before` are commands of
    `ip` for a side, before its program starts; `begin` is done to the network before.
    """

    name: str
    title: str
    build: object
    policy: bool = True
    carriers: tuple = ("udp", "ip", "tcp")
    size: int = SMALL
    before: dict = field(default_factory=dict)
    begin: object = None
    needs_daemon: bool = False
    is_notice: bool = False
    # Side that sends no messages.
    mute: str = ""
    interval: float = INTERVAL


def fault(begin, end):
    """Returns the steps of one fault, which is repaired after a while."""
    return lambda t: Steps([(0, begin), (t.fault, end)], t.fault + t.rest, repairs=[t.fault])


def drop(plane, direction="both"):
    return lambda cell: cell.network.change(plane, drop=direction)


def link(sides, plane, state):
    return lambda cell: [cell.link(side, plane, state) for side in sides]


def change(plane, **words):
    return lambda cell: cell.network.change(plane, **words)


def command(*commands):
    return lambda cell: [cell.ip(side, words) for side, words in commands]


def alternate(first, begin, end):
    """Returns the steps of failures of one plane after the other, twice, each after the plane before has come back."""

    def build(t):
        steps, repairs, at = [], [], 0
        for number in range(4):
            plane = (first + number) % 2
            lasts = t.first if number == 0 else t.fault
            steps += [(at, begin(plane)), (at + lasts, end(plane))]
            repairs.append(at + lasts)
            at += lasts + t.pause
        return Steps(steps, at - t.pause + t.rest, repairs=repairs)

    return build


def short_faults(t):
    """Returns the steps of seven failures of plane 1, of 0.2 to 0.5 s: shorter than most timers, longer than a round trip."""
    steps, repairs, at = [], [], 0.0
    for lasts in (0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5):
        steps += [(at, drop(0)), (at + lasts, drop(0, "none"))]
        repairs.append(at + lasts)
        at += lasts + 2
    return Steps(steps, at + t.rest, repairs=repairs)


def both_dead(seconds):
    """Returns the steps of a failure of both planes, of which plane 2 returns after some time."""
    return lambda t: Steps(
        [(0, drop(0)), (0, drop(1)), (seconds, drop(1, "none")), (seconds + t.fault, drop(0, "none"))],
        seconds + t.fault + t.rest, excused=[(0, seconds)], repairs=[seconds + t.fault],
    )


def reject(cell):
    cell.network.change(0, reject=2 if cell.column.carrier == "ip" else 3)


def moved_route(t):
    """Returns the steps of a route that moves to the other interface, whose plane still works when the first one fails."""
    moved = command(("a", f"route replace {address('b', 0)}/32 dev eth1"))
    back = command(("a", f"route delete {address('b', 0)}/32 dev eth1"))
    return Steps([(0, moved), (2, drop(0)), (t.fault, drop(0, "none")), (t.fault + 1, back)], t.fault + 1 + t.rest, repairs=[t.fault])


def lost_address(t):
    own = address("a", 0)
    return Steps(
        [(0, command(("a", f"address delete {own}/24 dev eth0"))), (t.fault, lambda cell: cell.add_address("a", 0))], t.fault + t.rest, repairs=[t.fault]
    )


def killed(t):
    return Steps([(0, lambda cell: cell.kill("b"))], 0, notice=t.first)


def stack_killed(t):
    return Steps([(0, lambda cell: cell.kill("b", with_daemon=True))], 0, notice=t.first)


def restarted(t):
    """Returns the steps of a host that falls silent with all its state, and is back after 5 s."""

    def silence(cell):
        for plane in (0, 1):
            cell.network.change(plane, drop="both")
        cell.kill("b", with_daemon=True)

    def back(cell):
        cell.start("b")
        for plane in (0, 1):
            cell.network.change(plane, drop="none")
        cell.mark = time.time()

    return Steps([(0, silence), (5, back)], 5, notice=t.first)


def stack_restarted(t):
    """Returns the steps of a daemon that is killed and started again, with another program, while its host runs on."""

    def restart(cell):
        cell.kill("b", with_daemon=True)
        cell.start("b")

    return Steps([(0, restart)], 0, notice=t.first)


def stopped(t):
    return Steps(
        [(0, lambda cell: cell.signal("b", "STOP")), (t.stop, lambda cell: cell.signal("b", "CONT"))], t.stop + t.rest, excused=[(0, t.stop)]
    )


WRONG = ("a", f"neigh replace {address('b', 0)} lladdr {NO_NEIGHBOUR} dev eth0 nud permanent")
RIGHT = ("a", f"neigh delete {address('b', 0)} dev eth0")
MTU = [(side, f"link set eth{path} mtu 1300") for side in "ab" for path in (0, 1)]
LEADS_NOWHERE = (
    f"neigh replace 10.77.0.254 lladdr {NO_NEIGHBOUR} dev eth0 nud permanent",
    "route add default via 10.77.0.254 dev eth0",
)

ROWS = [
    Row("link-down-one", "the link of plane 1 goes down at one end", fault(link("a", 0, "down"), link("a", 0, "up"))),
    Row("link-down-both", "the link of plane 1 goes down at both ends", fault(link("ab", 0, "down"), link("ab", 0, "up"))),
    Row("drop-both", "plane 1 drops all frames", fault(drop(0), drop(0, "none"))),
    Row("drop-outward", "plane 1 drops the frames from the connecting host", fault(drop(0, "ab"), drop(0, "none"))),
    Row("drop-inward", "plane 1 drops the frames to the connecting host", fault(drop(0, "ba"), drop(0, "none"))),
    Row("drop-rare", "plane 1 drops all frames while only the connecting host sends, one message each 300 ms", fault(drop(0), drop(0, "none")), mute="b",
        interval=RARE),
    Row("short", "plane 1 drops all frames seven times, for 0.2 to 0.5 s", short_faults),
    Row("wrong-neighbour", "the neighbour entry of the peer's first address is wrong", fault(command(WRONG), command(RIGHT))),
    Row("icmp-host", "plane 1 answers by ICMP Host Unreachable", fault(change(0, reject=1), change(0, reject=None))),
    Row("icmp-port", "plane 1 answers by ICMP Port or Protocol Unreachable", fault(reject, change(0, reject=None))),
    Row("second-1", "planes 1, 2, 1, 2 drop all frames, each after the one before has come back", alternate(0, drop, lambda plane: drop(plane, "none"))),
    Row("second-2", "planes 2, 1, 2, 1 drop all frames, each after the one before has come back", alternate(1, drop, lambda plane: drop(plane, "none"))),
    Row("second-link", "the links of planes 1, 2, 1, 2 go down, each after the one before has come back",
        alternate(0, lambda plane: link("ab", plane, "down"), lambda plane: link("ab", plane, "up"))),
    Row("both-dead-5", "both planes drop all frames for 5 s, plane 2 returns", both_dead(5)),
    Row("both-dead-30", "both planes drop all frames for 30 s, plane 2 returns", both_dead(30)),
    Row("both-dead-90", "both planes drop all frames for 90 s, plane 2 returns", both_dead(90)),
    Row("address", "the first address of the connecting host is removed, and added again", lost_address),
    Row("route", "the route to the peer's first address moves to plane 2, then plane 1 drops all frames", moved_route),
    Row("loss", "plane 1 loses 30 % of the packets", fault(change(0, loss=0.3), change(0, loss=0))),
    Row("large", "plane 1 drops packets above 1,400 bytes", fault(change(0, largest=1400), change(0, largest=None)), policy=False, size=LARGE),
    Row("mtu", "the MTU of all interfaces is lowered to 1,300 bytes", lambda t: Steps([(0, command(*MTU))], t.fault), policy=False, size=LARGE),
    Row("unreachable-address", "the peer advertises an address that is never reachable, then plane 1 drops all frames", fault(drop(0), drop(0, "none")),
        before={"b": [f"address add {UNREACHABLE}/32 dev eth1"], "a": LEADS_NOWHERE}),
    Row("nat", "a translator of ports on plane 1 forgets its mapping", lambda t: Steps([(0, change(0, forget=True))], t.fault), policy=False,
        carriers=("udp", "tcp"), begin=change(0, translate=True)),
    Row("nat-inward", "the same while only the peer sends", lambda t: Steps([(0, change(0, forget=True))], t.fault), policy=False,
        carriers=("udp", "tcp"), begin=change(0, translate=True), mute="a"),
    Row("killed", "the peer's process is killed (time until its end is reported)", killed, policy=False, is_notice=True),
    Row("stack-killed", "the peer's daemon is killed (time until the end is reported)", stack_killed, policy=False, needs_daemon=True, is_notice=True),
    Row("stack-restarted", "the peer's daemon is killed, and started again at once (time until the end is reported)", stack_restarted, policy=False,
        needs_daemon=True, is_notice=True),
    Row("restarted", "the peer's host is killed, and restarted after 5 s (time from then until the end is reported)", restarted, policy=False, is_notice=True),
    Row("stopped", "the peer's process is stopped", stopped, policy=False),
]
