#!/usr/bin/env python3
"""Runs M3UA and SUA of other projects against Carrick's: osmo-stp (Debian) and go-m3ua (Go), on Carrick's sockets and in a
guest on Linux's, in UDP and on plain IP.

    sigtran.py [--carrick PATH] [--sua-asp PATH] [--write] [SCENARIO...]

`--write` puts the results into docs/sigtran.md. Exit status 0: all did what the RFCs have them do; 1: not; 3: something is missing.

    side m (10.77.0.3)  --- path 0 ---  side a, "near": Carrick
                              |
                        paths 0 and 1
                              |
                        side b, "far": the program of the other project
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, ".."), os.path.join(HERE, "../kernel")]

import kernel  # noqa: E402
import run  # noqa: E402
from guest import Missing  # noqa: E402
from network import Network, NetworkError, address  # noqa: E402
from run import Failed, Program  # noqa: E402

ROOT = os.path.join(HERE, "../..")
GO_M3UA = os.path.abspath(os.path.join(ROOT, "target/interop/go-m3ua"))
OSMO_SUA = os.path.abspath(os.path.join(ROOT, "target/interop/osmo-sua"))
PAGE = os.path.join(ROOT, "docs/sigtran.md")
BEGIN, END = "<!-- results of interop/programs/sigtran.py -->\n", "<!-- end of the results -->\n"
PORT = "9899"  # of UDP; a guest sends to no other one
MESSAGES = 200  # of an exchange
RATE = 200  # messages a second
ATTEMPTS = 3
# The same while a path is interrupted: the failover of Linux takes up to RTO.Initial, 3 s, and `carrick mtp load` waits 2 s.
SLOW_RATE = 40
# Routing contexts and point codes of the ASPs by their side, as Carrick and osmo-stp write them, and as numbers.
CONTEXT = {"near": 100, "middle": 200, "far": 300, "echo": 400}
POINT_CODE = {"near": "2-117-3", "middle": "2-1-1", "far": "2-117-4"}
ACTIVE = r"(the ASP is active|is [Aa]ctive in routing context)"
FAR_ACTIVE = rf"far: ASP {ACTIVE}"  # in the log of `carrick stp`


def dotted(point_code):
    return point_code.replace("-", ".")


def number(point_code):
    zone, region, point = map(int, point_code.split("-"))
    return str(zone << 11 | region << 3 | point)


class Site:
    """The three sides with what runs on them, and the number of messages that went there and back."""

    def __init__(self, network, stack, transport, options, directory):
        self.network, self.options, self.directory = network, options, directory
        self.is_raw = transport == "ip"
        self.near = run.Host(network, "a", options.carrick, directory)
        self.middle = run.Host(network, "m", options.carrick, directory)
        self.middle.addresses = [address("m", 0)]
        network.join_middle(0)
        if stack == "kernel":
            self.far = kernel.GuestHost(network, "b", transport, directory)
        else:
            self.far = run.Host(network, "b", options.carrick, directory)
            self.far.start_daemon(run.TRANSPORTS[transport])
        self.exchanged = 0
        self.repeated = 0
        self.started = 0

    def name(self, name):
        """Returns a name for the log of another run of a program."""
        self.started += 1
        return f"{name}-{self.started}"

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def mtp(self, host, gateway, what, *arguments, port=PORT):
        """Starts `carrick mtp` as an ASP of the gateway on a side."""
        transport = ["--raw"] if self.is_raw else ["--udp-port", port]
        command = [self.options.carrick, "mtp", what, "--gateway", ",".join(gateway.addresses), *transport, *arguments]
        return Program(host, self.name(f"mtp-{what}"), command)

    def echo(self, host, side):
        """Starts an ASP at the far gateway that sends back what it receives, and waits until it is active."""
        echo = self.mtp(host, self.far, "receive", "--echo", "--quiet", "--routing-context", str(CONTEXT[side]))
        echo.wait_for_output(ACTIVE)
        return echo

    def exchange(self, host, gateway, side, to, port=PORT, rate=RATE):
        """Sends messages through a gateway, all of which have to come back.

        An ASP that echoes sends nothing until it has the DAVA for the sender (MTP-PAUSE), which may arrive after the first
        messages, on other streams. Then the exchange is repeated.
        """
        label = ["--opc", POINT_CODE[side], "--dpc", POINT_CODE[to], "--routing-context", str(CONTEXT[side])]
        amount = ["--rate", str(rate), "--count", str(MESSAGES), "--json"]
        for _ in range(ATTEMPTS):
            load = self.mtp(host, gateway, "load", *label, *amount, port=port)
            load.wait()
            reports = [json.loads(line) for line in load.output().splitlines() if line.startswith("{")]
            received = next(report["received"] for report in reports if report["event"] == "result")
            if received == MESSAGES:
                self.exchanged += MESSAGES
                return
            self.repeated += 1
        raise Failed(f"{received} of {MESSAGES} messages came back:\n{load.end_of_output()}")

    def cut_and_exchange(self, *arguments, **options):
        """The same while the path of the first addresses is interrupted. The path is restored."""
        self.network.cut(0)
        self.exchange(*arguments, rate=SLOW_RATE, **options)
        self.network.restore(0)

    def exchange_by_stp(self):
        """Sends messages from the middle through `carrick stp` to the far side, also while a path is interrupted."""
        for send in [self.exchange, self.cut_and_exchange]:
            send(self.middle, self.near, "middle", "far", port="0")

    def start_stp_again(self, stp, link_set=False):
        stp.end()
        self.stp(link_set).wait_for_output(FAR_ACTIVE)
        self.exchange_by_stp()

    def osmo_stp(self, protocol, port, asps):
        """Starts osmo-stp with these ASPs: name, host, `asp` if osmo-stp is the ASP or `sg`, routing context, side that is routed to it."""
        local = [f"  local-ip {address}" for address in self.far.addresses]
        lines = ["log stderr", " logging filter all 1", " logging color 0", " logging level set-all notice", " logging level lss7 info"]
        lines += ["line vty", " no login", "cs7 instance 0", " point-code 0.0.1", " xua rkm routing-key-allocation static-only"]
        for name, host, role, _, _ in asps:
            ports = [port, 0] if role == "asp" else [0, port]
            lines += [f" asp {name} {ports[0]} {ports[1]} {protocol}", *local]
            lines += [f"  remote-ip {address}" for address in host.addresses]
            lines += [f"  role {role}", f"  sctp-role {'client' if role == 'asp' else 'server'}"]
        for name, _, _, context, side in asps:
            key = f"  routing-key {CONTEXT[context]} {dotted(POINT_CODE[side])}"
            lines += [f" as {name} {protocol}", f"  asp {name}", key, "  traffic-mode loadshare"]
        lines.append(" route-table system")
        lines += [f"  update route {dotted(POINT_CODE[side])} 7.255.7 linkset {name}" for name, _, _, _, side in asps]
        lines += [f" listen {protocol} {port}", *local]
        path = self.write("osmo-stp.cfg", "\n".join(lines) + "\n")
        stp = self.far.start(self.name("osmo-stp"), "osmo-stp", "-c", path)
        stp.wait_for_output("Available via telnet")
        return stp

    def go_m3ua(self, role, addresses, side):
        addresses = "/".join(addresses)
        arguments = [role, f"{addresses}:2905", str(CONTEXT[side]), number(POINT_CODE["far"]), number(POINT_CODE["middle"])]
        return self.far.start(self.name("go-m3ua"), GO_M3UA, *arguments)

    def stp(self, link_set=False):
        """Starts `carrick stp` on the near side, with an ASP on the far one or a link set to it, and one on the middle."""
        addresses = json.dumps(self.near.addresses)
        text = f"[listen]\naddresses = {addresses}\n" + ("raw = true\n" if self.is_raw else f"udp-port = {PORT}\n")
        for name, host in [("middle", self.middle), *([] if link_set else [("far", self.far)])]:
            text += f'[[asp]]\nname = "{name}"\naddresses = {json.dumps(host.addresses)}\n'
            text += f'[[application-server]]\nname = "{name}"\nrouting-context = {CONTEXT[name]}\nasps = ["{name}"]\n'
            text += f'keys = [{{ dpc = "{POINT_CODE[name]}" }}]\n'
        if link_set:
            port = "" if self.is_raw else f", udp-port = {PORT}"
            text += f'[[link-set]]\nname = "far"\nrouting-context = {CONTEXT["near"]}\n'
            text += f"gateways = [{{ addresses = {json.dumps(self.far.addresses)}{port} }}]\n"
            text += f'[[route]]\ndpc = "{POINT_CODE["far"]}"\nlink-set = "far"\n'
        command = [self.options.carrick, "stp", "--config", self.write("stp.toml", text)]
        stp = Program(self.near, self.name("stp"), command)
        stp.wait_for_output("started")
        return stp


def osmo_gateway(site):
    """osmo-stp | gateway of two Carrick ASPs | ASP Inactive and Active; osmo-stp started again"""
    def start():
        return site.osmo_stp("m3ua", 2905, [("near", site.near, "sg", "near", "near"), ("middle", site.middle, "sg", "middle", "middle")])

    gateway = start()
    echo = site.echo(site.near, "near")
    ends = [site.middle, site.far, "middle", "near"]
    site.exchange(*ends)
    site.cut_and_exchange(*ends)
    echo.end()
    echo.wait_for_output("ASP is down")
    echo = site.echo(site.near, "near")
    site.exchange(*ends)
    before = len(echo.output())
    gateway.end()
    start()
    echo.wait_for_output(ACTIVE, before)
    site.exchange(*ends)


def stp_and_osmo(site, role, context, link_set):
    """Relays from `carrick stp` by way of osmo-stp, in this role towards it, to an ASP that echoes; starts both again."""
    def start():
        return site.osmo_stp("m3ua", 2905, [("near", site.near, role, context, "middle"), ("middle", site.middle, "sg", "echo", "far")])

    stp = site.stp(link_set)
    osmo = start()
    echo = site.echo(site.middle, "echo")
    end = stp.wait_for_output(FAR_ACTIVE)
    site.exchange_by_stp()
    before = len(echo.output())
    osmo.end()
    start()
    echo.wait_for_output(ACTIVE, before)
    stp.wait_for_output(FAR_ACTIVE, end)
    site.exchange_by_stp()
    site.start_stp_again(stp, link_set)


def osmo_asp(site):
    """osmo-stp | ASP at `carrick stp` | osmo-stp, then `carrick stp` started again"""
    stp_and_osmo(site, "asp", "far", link_set=False)


def osmo_link_set(site):
    """osmo-stp | gateway of a link set of `carrick stp` | osmo-stp, then `carrick stp` started again"""
    stp_and_osmo(site, "sg", "near", link_set=True)


def osmo_sua(site):
    """libosmo-sigtran | SUA gateway with an SCCP user of a Carrick ASP | set-up of a connection; ASP Inactive and Active; libosmo-sigtran started again"""
    count = 20

    point_code = POINT_CODE["near"]

    def start():
        addresses = [site.far.addresses[0], site.near.addresses[0]]
        gateway = site.far.start(site.name("osmo-sua"), OSMO_SUA, *addresses, number(point_code))
        gateway.wait_for_output("listening")
        return gateway

    def exchange():
        transport = "raw" if site.is_raw else PORT
        # The application servers of the library's simple server have no routing context of their own: 0.
        arguments = [site.far.addresses[0], transport, "0", point_code, "0-0-1", str(count)]
        Program(site.near, site.name("sua-asp"), [site.options.sua_asp, *arguments]).wait()
        site.exchanged += 2 * count

    gateway = start()
    exchange()
    gateway.end()
    start()
    exchange()


def go_asp(site):
    """go-m3ua | ASP at `carrick stp` | go-m3ua, then `carrick stp` started again"""
    stp = site.stp()
    go = site.go_m3ua("asp", site.near.addresses, "far")
    end = stp.wait_for_output(FAR_ACTIVE)
    site.exchange_by_stp()
    go.end()
    site.go_m3ua("asp", site.near.addresses, "far")
    stp.wait_for_output(FAR_ACTIVE, end)
    site.exchange_by_stp()
    site.start_stp_again(stp)


def go_gateway(site):
    """go-m3ua | gateway of a Carrick ASP | ASP Inactive and Active; go-m3ua started again"""
    ends = [site.near, site.far, "middle", "far"]
    go = site.go_m3ua("gateway", site.far.addresses, "middle")
    go.wait_for_output("listening")
    site.exchange(*ends)
    site.cut_and_exchange(*ends)
    go.end()
    go = site.go_m3ua("gateway", site.far.addresses, "middle")
    go.wait_for_output("listening")
    site.exchange(*ends)


SCENARIOS = [osmo_gateway, osmo_asp, osmo_link_set, osmo_sua, go_gateway, go_asp]
# Stack below the other program, transport, and heading of the results. With a guest, a failure is the end of the host, which
# the other side detects by heartbeats, so that these runs take longer.
STACKS = {
    "carrick-udp": ("carrick", "udp", "Carrick’s sockets, UDP"),
    "carrick-ip": ("carrick", "ip", "Carrick’s sockets, IP"),
    "linux-ip": ("kernel", "ip", "Linux, IP"),
}


def run_on(scenario, stack, options):
    """Runs a scenario on a new network, which is removed afterwards. Returns the number of messages that came back, as text."""
    kind, transport, _ = STACKS[stack]
    guests = ["b"] if kind == "kernel" else []
    # Guests have a /tmp of their own.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory, Network(guests=guests) as network:
        try:
            site = Site(network, kind, transport, options, directory)
            scenario(site)
            return f"{site.exchanged}, {site.repeated} exchange repeated" if site.repeated else str(site.exchanged)
        finally:
            for running in reversed(Program.running):
                running.end()
            Program.running.clear()


def table(results):
    """Returns the results as a table: messages that came back, by scenario and stack."""
    lines = ["| program | its part | beside messages in both directions | " + " | ".join(heading for _, _, heading in STACKS.values()) + " |"]
    lines.append("|---" * (3 + len(STACKS)) + "|")
    for scenario in SCENARIOS:
        cells = [cell.strip() for cell in scenario.__doc__.split("|")]
        cells += [results.get((scenario.__name__, stack), "not run") for stack in STACKS]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def write(results):
    with open(PAGE, encoding="utf-8") as file:
        before, _, rest = file.read().partition(BEGIN)
    _, _, after = rest.partition(END)
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(before + BEGIN + table(results) + END + after)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--carrick", default="target/debug/carrick", type=os.path.abspath, help="the command (target/debug/carrick)")
    parser.add_argument("--sua-asp", default="target/debug/examples/sua_asp", type=os.path.abspath, help="the ASP (target/debug/examples/sua_asp)")
    parser.add_argument("--stack", choices=STACKS, action="append", help="stack below the other program (all)")
    parser.add_argument("--write", action="store_true", help="put the results into docs/sigtran.md")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(s.__name__ for s in SCENARIOS))
    options = parser.parse_args()
    scenarios = run.select(parser, options.scenarios, SCENARIOS)
    signal.signal(signal.SIGTERM, run.interrupt)
    for path in [options.carrick, options.sua_asp, GO_M3UA, OSMO_SUA]:
        if not os.path.exists(path):
            print(f"sigtran: {path} is missing; see the check sigtran-peers of test.sh", file=sys.stderr)
            return 3
    results, failed = {}, 0
    for scenario in scenarios:
        for stack in options.stack or STACKS:
            begin = time.monotonic()
            try:
                count = run_on(scenario, stack, options)
                results[scenario.__name__, stack] = count
                result = f"ok  {count} messages there and back"
            except (Failed, NetworkError, Missing) as problem:
                failed += 1
                results[scenario.__name__, stack] = "failed"
                result = f"FAILED: {problem}"
            print(f"{scenario.__name__}/{stack}  {result}  {time.monotonic() - begin:.1f} s", flush=True)
    if options.write:
        write(results)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
