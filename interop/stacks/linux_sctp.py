#!/usr/bin/python3
"""Program of live experiments on the Linux kernel's SCTP (README.md, "The stacks of live experiments").

Boots user-mode Linux in this network namespace, and passes the packets of the --local addresses to it:

    device of the address --- routes of this namespace --- tap --- eth0, eth1 of the guest

The guest has the addresses themselves. No packet is translated, and no connection is tracked. For the time of the run
they are not addresses of this namespace: a route to the tap replaces the one that delivers to this host. With --follow
the guest gets the addresses that this namespace gets, and loses those that it loses.
"""

import contextlib
import errno
import json
import os
import pathlib
import signal
import socket
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
# Addresses that a host which changes them may have at a time, and the switches of dynamic address reconfiguration (RFC 5061).
FOLLOWED = 2
FOLLOWING = ("addip_enable", "addip_noauth_enable", "default_auto_asconf")
# Changes of addresses reach sockets half a second later (SCTP_ADDRESS_TICK_DELAY), also those that were opened after the
# change: their associations stopped.
SETTLED = [["sleep", "1"]]
# Group of netlink messages about addresses of IPv4 (<linux/rtnetlink.h>).
RTMGRP_IPV4_IFADDR = 0x10


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

    def __init__(self, number, stack):
        """Configures this namespace; `stack` reverts it."""
        self.number, self.stack = number, stack
        self.address = self.device = None
        self.tap = f"guest{number}"
        self.nic = {"tap": self.tap, "addresses": [], "mac": f"02:00:00:00:00:{number:02x}"}
        # A run that was killed may have left the device.
        with contextlib.suppress(NetworkError):
            ip("link", "delete", self.tap)
        ip("tuntap", "add", self.tap, "mode", "tap")
        stack.callback(ip, "link", "delete", self.tap)
        ip("link", "set", self.tap, "address", ROUTER_MAC, "addrgenmode", "none", "up")
        # The guest sends from an address of this namespace.
        switch_on(f"conf/{self.tap}/accept_local", stack)
        stack.callback(self.give_back)

    def carry(self, address):
        """Passes the packets of this address to the guest. Returns the commands of `ip` that give it the address, the routes of
        the address's device, and a rule by which packets from the address leave by its tap.
        """
        self.device, self.address = device_of(address), address
        ip("neighbour", "replace", address, "lladdr", hardware_address(self.nic), "dev", self.tap, "nud", "permanent")
        # ARP requests for the address are still answered on its device.
        switch_on(f"conf/{self.device}/proxy_arp", self.stack)
        ip("route", "replace", f"{address}/32", "dev", self.tap, "table", "local")
        device, table = f"eth{self.number}", 100 + self.number
        via = f"via {ROUTER} dev {device} onlink"
        known = json.loads(ip("-json", "-4", "route", "show", "table", "main", "dev", self.device))
        return [
            f"neighbour replace {ROUTER} lladdr {ROUTER_MAC} dev {device} nud permanent",
            f"route replace default {via} table {table}",
            f"rule add from {address} table {table}",
            *(f"route replace {route['dst']} {via}" for route in known),
            # Routes that come after the address, which may be its only ones.
            f"route replace default {via} metric {table}",
            f"address add {address}/32 dev {device}",
        ]

    def leave(self):
        """Ends the carriage of an address that this namespace has no longer. Returns the commands of `ip` for the guest."""
        address, self.address = self.address, None
        with contextlib.suppress(NetworkError):
            ip("route", "delete", f"{address}/32", "dev", self.tap, "table", "local")
        return [
            f"address delete {address}/32 dev eth{self.number}",
            f"rule delete from {address} table {100 + self.number}",
            f"route flush dev eth{self.number} table main",
        ]

    def give_back(self):
        """Makes the address one of this namespace again."""
        if self.address:
            ip(
                "route", "replace", "local", self.address, "dev", self.device, "table", "local", "proto", "kernel", "scope", "host",
                "src", self.address,
            )


def follow(paths, guest, stack):
    """Gives the guest the changes of the addresses of this namespace, on a thread."""
    changes = stack.enter_context(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE))
    changes.bind((0, RTMGRP_IPV4_IFADDR))

    def update():
        links = json.loads(ip("-json", "-4", "address", "show", "scope", "global"))
        present = [own["local"] for link in links for own in link["addr_info"]]
        for path in paths:
            if path.address and path.address not in present:
                guest.configure(path.leave())
        carried = [path.address for path in paths]
        free = [path for path in paths if not path.address]
        for path, address in zip(free, [own for own in present if own not in carried]):
            guest.configure(path.carry(address))

    def watch():
        while True:
            try:
                update()
            except NetworkError as problem:
                # The address has changed again, which the next message reports.
                note(problem)
            try:
                changes.recv(1 << 16)
            except OSError as problem:
                # Lost messages do not matter: all addresses are compared.
                if problem.errno != errno.ENOBUFS:
                    return

    threading.Thread(target=watch, daemon=True).start()


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
            # The devices of a guest are those of its boot.
            count = max(len(options.local), FOLLOWED) if options.follow else len(options.local)
            paths = [GuestPath(number, stack) for number in range(count)]
            commands = [command for path, address in zip(paths, options.local) for command in path.carry(address)]
            switch_on("ip_forward", stack)
            # The guest reads the files of this host.
            batch = stack.enter_context(tempfile.NamedTemporaryFile("w", prefix="linux-sctp-"))
            batch.writelines(f"{command}\n" for command in commands)
            batch.flush()
            program = [sys.executable, "-B", os.path.join(HERE, "linux_guest.py"), *arguments]
            self.guest = Guest(
                program, [path.nic for path in paths], commands=[["ip", "-batch", batch.name], *(SETTLED if options.follow else [])],
                extensions=FOLLOWING if options.follow else (),
            )
            if options.follow:
                follow(paths, self.guest, stack)
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
