"""Two hosts with two planes between them, which relay.py carries, and the programs of their ends."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

from network import PATHS, Network, NetworkError, address, run  # noqa: E402

PORT = 5000
# Address that side b has on plane 1's interface, and side a routes to nowhere.
UNREACHABLE = "192.168.77.2"
# Locally administered hardware address that no interface has.
NO_NEIGHBOUR = "02:00:00:00:de:ad"
# Seconds for a program, or the relay, to start.
START_TIME = 60


class Failed(Exception):
    """Failure of the harness: the cell has no result."""


def exchange(process, line):
    """Sends a line to the relay, and waits for its answer."""
    process.stdin.write(line + "\n")
    process.stdin.flush()
    if process.stdout.readline().strip() != "ok":
        raise Failed(f"the relay did not carry out {line}")


class Planes(Network):
    """Namespaces with a plane for each path; the middle has relay.py in place of bridges."""

    prefix = "table"

    def __init__(self, guests, delay, policy):
        super().__init__(guests)
        self.delay, self.policy, self.relay = delay, policy, None

    def __exit__(self, *_):
        if self.relay:
            self.relay.kill()
            self.relay.wait()
        super().__exit__()

    def _join(self, side, path):
        run("ip", "-n", self.middle, "link", "set", f"{side}{path}", "up")

    def _build(self):
        self._add_namespaces()
        for namespace in {self.middle, *self.namespace.values()}:
            run("ip", "netns", "exec", namespace, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1", "net.ipv4.conf.default.rp_filter=0",
                "net.ipv4.conf.all.rp_filter=0")
        for path in range(PATHS):
            self._add_sides(path)
        for side in "ab":
            if side not in self.guests and self.policy:
                for words in self.policy_rules(side):
                    self.ip(side, words)
        self.relay = subprocess.Popen(
            ["ip", "netns", "exec", self.middle, sys.executable, "-B", os.path.join(HERE, "relay.py"), str(self.delay),
             *(f"a{path}:b{path}" for path in range(PATHS))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )
        if self.relay.stdout.readline().strip() != "ready":
            raise Failed("the relay did not start")

    @staticmethod
    def _addresses(side, path):
        # IPv4 only: a host with further addresses would have further paths.
        return [address(side, path) + "/24"]

    def policy_rules(self, side, paths=range(PATHS)):
        """Returns commands of `ip` by which packets leave by the interface that has their source address."""
        rules = []
        for path in paths:
            table, subnet = 101 + path, address(side, path).rpartition(".")[0] + ".0/24"
            rules += [f"rule add from {address(side, path)} table {table}", f"route add {subnet} dev eth{path} table {table}",
                      f"route add unreachable default table {table}"]
        return rules

    def change(self, plane, **change):
        """Changes the faults of a plane."""
        exchange(self.relay, json.dumps({"plane": plane, **change}))

    def ip(self, side, words):
        run("ip", "-n", self.namespace[side], *words.split())


class Program:
    """Program of one end, with the lines that it has printed: events, and arrivals (number, time)."""

    def __init__(self, command, log, environment=None):
        self.command, self.events, self.arrivals, self.paths = command, [], [], []
        self.log = open(log, "a", encoding="utf-8")
        self.log.write("$ " + " ".join(command) + "\n")
        self.log.flush()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
        self.happened = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            try:
                event = json.loads(line)
                name = event["event"]
            except (ValueError, KeyError, TypeError):
                self.log.write(line)
                continue
            with self.happened:
                if name == "arrived":
                    self.arrivals += [tuple(message) for message in event["messages"]]
                elif name == "paths":
                    # A stack may report those that have changed.
                    known = self.paths[-1][1] if self.paths else {}
                    self.paths.append((event["t"], {**known, **event["paths"]}))
                else:
                    self.log.write(line)
                    self.events.append(event)
                self.happened.notify_all()

    def event(self, name):
        """Returns the first event of this name, or None."""
        return next((event for event in list(self.events) if event["event"] == name), None)

    def wait_until(self, condition, what):
        """Waits until a condition holds, as long as the program runs."""
        with self.happened:
            self.happened.wait_for(lambda: condition() or self.process.poll() is not None, START_TIME)
            if not condition():
                raise Failed(f"no {what} from {' '.join(self.command[-12:])}; see {self.log.name}")

    def wait_for(self, name):
        """Returns the first event of this name, once there is one."""
        self.wait_until(lambda: self.event(name), f"'{name}'")
        return self.event(name)

    def send_signal(self, name):
        if self.process.poll() is None:
            self.process.send_signal(signal.Signals[f"SIG{name}"])

    def command_line(self, line):
        """Sends a line to the standard input of the program, which a guest has as its console."""
        with contextlib.suppress(OSError):
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.reader.join(2)
        self.log.close()


class Daemon:
    """`carrick daemon` of a side."""

    def __init__(self, command, socket, log):
        self.socket = socket
        with open(log, "ab") as file:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True)
        limit = time.monotonic() + START_TIME
        while not os.path.exists(socket):
            if self.process.poll() is not None or time.monotonic() > limit:
                raise Failed(f"carrick daemon did not start; see {log}")
            time.sleep(0.05)

    def end(self):
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(OSError):
            os.unlink(self.socket)
