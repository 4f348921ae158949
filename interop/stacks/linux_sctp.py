#!/usr/bin/python3
"""Program of live experiments on the Linux kernel's SCTP (README.md, "The stacks of live experiments").

Boots user-mode Linux in this network namespace, and passes the packets of the --local addresses to it:

    device of the address --- routes of this namespace --- tap --- eth0, eth1 of the guest

The guest has the addresses themselves. No packet is translated, and no connection is tracked. For the time of the run
they are not addresses of this namespace: a route to the tap replaces the one that delivers to this host.
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "../kernel"))

from command_line import parse  # noqa: E402
from guest import KERNEL, Guest, Missing, hardware_address  # noqa: E402

# Router of the guest's packets: a link-local address with a fixed MAC, so that no ARP is needed.
ROUTER, ROUTER_MAC = "169.254.0.1", "02:00:a9:fe:00:01"
# Seconds that the guest has to end by itself after SIGTERM; it may still be booting, which takes two.
STOP_TIME = 3


class NetworkError(Exception):
    """Failure of a command that configures the network; the text is its error."""


def note(text):
    print(f"linux-sctp: {text}", file=sys.stderr, flush=True)


def ip(*words):
    """Runs `ip` and returns its output."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise NetworkError(f"'ip {' '.join(words)}' failed: {done.stderr.strip()}")
    return done.stdout


def switch_on(name, stack):
    """Sets a switch of this network namespace to 1; `stack` reverts it."""
    path = pathlib.Path("/proc/sys/net/ipv4", name)
    stack.callback(path.write_text, path.read_text(encoding="ascii"), encoding="ascii")
    path.write_text("1", encoding="ascii")


def device_of(address):
    """Returns the device with this address."""
    for link in json.loads(ip("-json", "address", "show")):
        if any(known.get("local") == address for known in link["addr_info"]):
            return link["ifname"]
    raise NetworkError(f"{address} of --local is not an address of this host; its addresses are in 'ip address'")


class GuestPath:
    """Tap device that carries the packets of one address between this namespace and the guest."""

    def __init__(self, number, address, stack):
        """Configures this namespace; `stack` reverts it."""
        self.address, self.number = address, number
        self.device = device_of(address)
        self.tap = f"guest{number}"
        self.nic = {"tap": self.tap, "addresses": [f"{address}/32"]}
        # A run that was killed may have left the device.
        with contextlib.suppress(NetworkError):
            ip("link", "delete", self.tap)
        ip("tuntap", "add", self.tap, "mode", "tap")
        stack.callback(ip, "link", "delete", self.tap)
        ip("link", "set", self.tap, "address", ROUTER_MAC, "addrgenmode", "none", "up")
        ip("neighbour", "add", address, "lladdr", hardware_address(self.nic), "dev", self.tap, "nud", "permanent")
        # The guest sends from an address of this namespace.
        switch_on(f"conf/{self.tap}/accept_local", stack)
        # ARP requests for the address are still answered on its device.
        switch_on(f"conf/{self.device}/proxy_arp", stack)
        ip("route", "replace", f"{address}/32", "dev", self.tap, "table", "local")
        stack.callback(
            ip, "route", "replace", "local", address, "dev", self.device, "table", "local", "proto", "kernel", "scope", "host",
            "src", address,
        )

    def guest_commands(self):
        """Returns commands of `ip` for the guest: the routes of the device, and packets from the address leave by its tap."""
        device, table = f"eth{self.number}", 100 + self.number
        via = f"via {ROUTER} dev {device} onlink"
        known = json.loads(ip("-json", "-4", "route", "show", "table", "main", "dev", self.device))
        return [
            f"neighbour add {ROUTER} lladdr {ROUTER_MAC} dev {device} nud permanent",
            f"route add default {via} table {table}",
            f"rule add from {self.address} table {table}",
            *(f"route add {route['dst']} {via}" for route in known),
        ]


class GuestRun:
    """Run of the program in the guest, from the configuration of the network to its removal."""

    def __init__(self):
        self.guest, self.stopped = None, False

    def stop(self, *_):
        """Ends the program of the guest, or the guest after STOP_TIME."""
        self.stopped = True
        if self.guest:
            self.guest.stop()
            timer = threading.Timer(STOP_TIME, self.guest.kill)
            timer.daemon = True
            timer.start()

    def run(self, options, arguments):
        """Returns the exit status."""
        with contextlib.ExitStack() as stack:
            paths = [GuestPath(number, address, stack) for number, address in enumerate(options.local)]
            switch_on("ip_forward", stack)
            # The guest reads the files of this host.
            batch = stack.enter_context(tempfile.NamedTemporaryFile("w", prefix="linux-sctp-"))
            batch.writelines(f"{command}\n" for path in paths for command in path.guest_commands())
            batch.flush()
            program = [sys.executable, "-B", os.path.join(HERE, "linux_guest.py"), *arguments]
            self.guest = Guest(program, [path.nic for path in paths], commands=[["ip", "-batch", batch.name]], extensions=())
            if self.stopped:
                self.stop()
            with contextlib.closing(self.guest.lines()) as lines:
                for text in lines:
                    print(text, file=sys.stdout if text.startswith("{") else sys.stderr, flush=True)
        if self.stopped:
            return 0
        if self.guest.status is None:
            note("the guest ended without output")
            return 3
        return self.guest.status


def version():
    """Returns the version of the guest's kernel."""
    try:
        kernel = subprocess.run([KERNEL, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    except OSError:
        return "user-mode-linux is not installed; run interop/install.sh"
    return f"Linux {kernel}"


def main():
    options = parse("linux-sctp", version())
    if options.path_max_retrans == 0:
        note("--path-max-retrans 0 is not supported: Linux accepts 1 and more")
        return 4
    run = GuestRun()
    signal.signal(signal.SIGTERM, run.stop)
    signal.signal(signal.SIGINT, run.stop)
    try:
        return run.run(options, sys.argv[1:])
    except (Missing, NetworkError) as problem:
        note(problem)
        return 3


if __name__ == "__main__":
    sys.exit(main())
