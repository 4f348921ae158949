"""One cell of the table: a failure, a stack, and the routes of the hosts."""

import os
import threading
import time

import analysis
from hosts import Failed, Planes, address
from network import NetworkError

# Seconds of messages before the first step, and between two observations of the paths.
SETTLED, LOOK = 2.0, 1.0
# Longest time after the end in which queued messages may still arrive.
DRAIN = 15.0


class Interrupted(BaseException):
    """Ctrl-C or SIGTERM."""


# Set for the cells that other threads run.
interrupted = threading.Event()


class Cell:
    """Run of a cell, from the namespaces to its result."""

    def __init__(self, row, column, policy, options):
        self.row, self.column, self.policy, self.options = row, column, policy, options
        self.name = f"{row.name}/{column.name}" + ("/policy" if policy else "")
        self.directory = os.path.abspath(os.path.join(options.out, self.name.replace("/", "_")))
        self.plan = row.build(options.times)
        self.interval_ms = round(row.interval * 1e3)
        self.programs, self.daemons, self.observed = {}, {}, []
        self.earlier = []
        self.network, self.mark = None, None

    # Steps

    def ip(self, side, words):
        """Runs a command of `ip` at a host."""
        if side in self.column.guests:
            self.programs[side].command_line(f"ip {words}")
        else:
            self.network.ip(side, words)

    def preparation(self, side):
        return self.row.before.get(side, ())

    def _restore_routes(self, side, path):
        """Adds the routes that the host lost with the link or the address."""
        if self.policy:
            subnet = address(side, path).rpartition(".")[0] + ".0/24"
            self.ip(side, f"route replace {subnet} dev eth{path} table {101 + path}")

    def link(self, side, path, state):
        self.ip(side, f"link set eth{path} {state}")
        if state == "up":
            self._restore_routes(side, path)

    def add_address(self, side, path):
        self.ip(side, f"address add {address(side, path)}/24 dev eth{path}")
        self._restore_routes(side, path)

    def signal(self, side, name):
        if side in self.column.guests:
            self.programs[side].command_line(f"signal {name}")
        else:
            self.programs[side].send_signal(name)

    def kill(self, side, with_daemon=False):
        """Kills the program of a side; with its daemon, or with its guest, nothing of its stack is left."""
        if side in self.column.guests and not with_daemon:
            self.programs[side].command_line("signal KILL")
            return
        if with_daemon and side in self.daemons:
            self.daemons.pop(side).end()
        program = self.programs.pop(side)
        program.end()
        self.earlier.append(program)

    def start(self, side):
        self.column.start(side, self)

    # Run

    def pause(self, until):
        """Waits until a moment, and observes the paths meanwhile."""
        while (left := until - time.time()) > 0:
            if interrupted.is_set():
                raise Interrupted
            begin = time.time()
            if (paths := self.column.observe(self)) is not None:
                self.observed.append((begin, paths))
            time.sleep(max(0, min(left, LOOK, until - time.time())))

    def go(self):
        """Returns the result as an object for JSON."""
        os.makedirs(self.directory, exist_ok=True)
        result = {"cell": self.name, "row": self.row.name, "column": self.column.name, "policy": self.policy}
        began = time.monotonic()
        try:
            with Planes(self.column.guests, self.options.delay_ms, self.policy) as self.network:
                try:
                    result |= self.carry_out()
                finally:
                    for each in [*self.programs.values(), *self.daemons.values()]:
                        each.end()
        except (Failed, NetworkError, OSError) as problem:
            if interrupted.is_set():
                raise Interrupted from None
            result["failed"] = str(problem)
        return result | {"seconds": round(time.monotonic() - began, 1)}

    def carry_out(self):
        if self.row.begin:
            self.row.begin(self)
        for side in "ab":
            if side not in self.column.guests:
                for words in self.row.before.get(side, ()):
                    self.network.ip(side, words)
        self.column.prepare(self)
        for side in "ba":
            self.start(side)
        first = {side: self.programs[side] for side in ("a" if self.column.echoes else "ab")}
        for program in first.values():
            program.wait_for("up")
        # Both directions work before the first step.
        for side, program in first.items():
            if self.receives(side):
                program.wait_until(lambda program=program: program.arrivals, "message")
        begin = self.mark = time.time() + SETTLED
        self.pause(begin)
        for at, step in sorted(self.plan.steps, key=lambda step: step[0]):
            self.pause(begin + at)
            step(self)
        end = begin + self.plan.end
        if self.plan.notice is not None:
            return self.noticed(first["a"], begin)
        self.pause(end)
        for side, program in first.items():
            if side != self.row.mute:
                self.signal(side, "USR1")
        limit = time.time() + DRAIN
        while time.time() < limit and not all(self.is_complete(side) for side in first):
            self.pause(min(limit, time.time() + 0.2))
        return self.result(first, begin, time.time())

    def source(self, side):
        """Returns the side whose messages a side receives."""
        return side if self.column.echoes else "ab".replace(side, "")

    def receives(self, side):
        return self.source(side) != self.row.mute

    def sent(self, side):
        """Returns the number of messages that a side has sent or queued; None before it has stopped."""
        program = self.programs[side]
        if stopped := program.event("stopped"):
            return stopped["count"]
        ended = program.event("end")
        return ended.get("sent", 0) if ended else None

    def is_complete(self, side):
        """Returns whether a side has all messages of the other one, or never gets them."""
        program = self.programs[side]
        if program.event("end") or not self.receives(side):
            return True
        sent = self.sent(self.source(side))
        return sent is not None and len({number for number, _ in list(program.arrivals)}) >= sent

    def noticed(self, program, begin):
        """Waits until the program of side a is notified that its association has ended."""
        end = self.mark + self.plan.notice
        while time.time() < end and not program.event("end"):
            self.pause(min(end, time.time() + 0.1))
        ended = program.event("end")
        late = (ended["t"] if ended else end) - self.mark
        return {
            "silence": round(max(0.0, late), 3), "open_end": ended is None, "lost": 0, "repeated": 0, "disordered": 0, "waiting": 0,
            "alive": ended is None, "ended": ended and ended["reason"], "states": self.states(program, begin, end),
        }

    def result(self, programs, begin, end):
        """Judges the streams of both directions."""
        excused = [(begin + since, begin + to) for since, to in self.plan.excused]
        repairs = [begin + at for at in self.plan.repairs]
        ends = [program.event("end") for program in programs.values()]
        flows = []
        for side, program in programs.items():
            if self.receives(side):
                sent = self.sent(self.source(side))
                if sent is None:
                    raise Failed(f"the program of side {self.source(side)} did not stop")
                flows.append(analysis.flow(list(program.arrivals), sent, any(ends), (begin, end), excused, repairs))
        worst = max(flows, key=lambda flow: flow.silence)
        return {
            "silence": worst.silence, "open_end": worst.open_end,
            **{name: sum(getattr(flow, name) for flow in flows) for name in ("lost", "repeated", "disordered", "waiting")},
            "alive": not any(ends), "ended": next((end["reason"] for end in ends if end), None), "states": self.states(programs["a"], begin, end),
        }

    def states(self, program, begin, end):
        """Returns the states of each path of side a that were observed, with the times of their first observations."""
        history = self.observed or program.paths
        remotes = sorted({remote for _, paths in history for remote in paths})
        return {remote: analysis.states([(at, paths.get(remote, "gone")) for at, paths in history], begin, end) for remote in remotes}
