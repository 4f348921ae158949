"""Stacks of the table, with the commands of their ends and what an operator sees of their paths."""

import contextlib
import json
import os
import subprocess
import sys

from hosts import HERE, PORT, Daemon, Program, address

BUILT = os.path.join(HERE, "../../target/interop")
STREAM = [sys.executable, "-B", os.path.join(HERE, "stream.py")]


class Column:
    """Stack with its defaults. `carrier` is what carries its packets: "udp", "ip" or "tcp"."""

    guests = ()
    # Process that is the stack, where the program is another one.
    has_daemon = False
    # Side b sends back what it receives, without a program beside the stack.
    echoes = False
    ours = False
    bound = "default"
    # Whether a test fails without the column.
    required = False

    def __init__(self, name, title, carrier):
        self.name, self.title, self.carrier = name, title, carrier

    def missing(self, options):
        """Returns why this column can not be run here, or None."""
        return None

    def arguments(self, side, cell):
        where = ["listen"] if side == "b" else ["connect", address("b", 0)]
        mute = ["--mute"] if side == cell.row.mute else []
        return [*where, str(PORT), "--size", str(cell.row.size), "--interval-ms", str(cell.interval_ms), *mute]

    def command(self, side, cell):
        raise NotImplementedError

    def prepare(self, cell):
        """Configures the hosts."""

    def start(self, side, cell):
        """Starts the program of a side, and what it needs."""
        where = ["ip", "netns", "exec", cell.network.namespace[side]]
        program = Program([*where, *self.command(side, cell)], f"{cell.directory}/{side}.log")
        cell.programs[side] = program
        program.wait_for("ready")

    def observe(self, cell):
        """Returns the states of the paths of side a by the address of the peer, or None where the program prints them."""
        return None


class Crate(Column):
    """Crate `carrick`, by its example `stream`."""

    ours = required = True

    def missing(self, options):
        return None if os.access(options.stream, os.X_OK) else f"{options.stream} is missing; build it with cargo build -p carrick --example stream"

    def command(self, side, cell):
        return [cell.options.stream, "--transport", self.carrier, *self.arguments(side, cell)]


class Preloaded(Column):
    """`carrick run`: stream.py on the sockets of a daemon."""

    ours = has_daemon = required = True
    preset = ()

    def missing(self, options):
        for path in (options.carrick, os.path.join(os.path.dirname(options.carrick), "libcarrick_preload.so")):
            if not os.access(path, os.X_OK):
                return f"{path} is missing; build it with cargo build -p carrick-cli -p carrick-preload"
        return None

    def socket(self, side, cell):
        return f"{cell.directory}/{side}.socket"

    def start_daemon(self, side, cell):
        where = ["ip", "netns", "exec", cell.network.namespace[side]]
        command = [*where, cell.options.carrick, "daemon", "--socket", self.socket(side, cell), *(["--raw"] if self.carrier == "ip" else []), *self.preset]
        cell.daemons[side] = Daemon(command, self.socket(side, cell), f"{cell.directory}/{side}-daemon.log")

    def start(self, side, cell):
        self.start_daemon(side, cell)
        super().start(side, cell)

    def command(self, side, cell):
        return [cell.options.carrick, "run", "--daemon", self.socket(side, cell), "--", *STREAM, "sctp", *self.arguments(side, cell)]

    def observe(self, cell):
        where = ["ip", "netns", "exec", cell.network.namespace["a"]]
        done = subprocess.run([*where, cell.options.carrick, "ss", "--daemon", self.socket("a", cell), "--json"], capture_output=True, text=True)
        for line in done.stdout.splitlines():
            return {path["remote"]: status(path) for path in json.loads(line).get("paths") or []}
        return {}


class Signaling(Preloaded):
    """`carrick run` with the preset for signaling."""

    preset, bound, required = ("--preset", "signaling"), "signaling", False

    def missing(self, options):
        if missing := super().missing(options):
            return missing
        with contextlib.suppress(OSError):
            if "--preset" in subprocess.run([options.carrick, "daemon", "--help"], capture_output=True, text=True).stdout:
                return None
        return "carrick daemon has no option --preset"


def status(path):
    """Returns the state of a path as `carrick ss --json` has it."""
    state = path["status"]
    if not state["confirmed"]:
        return "unconfirmed"
    if not state["active"]:
        return "inactive"
    return "potentially-failed" if state["potentially_failed"] else "active"


STP_CONFIG = """[listen]
addresses = {addresses}
port = {port}
{transport}

[[asp]]
name = "asp"
addresses = {peers}

[[application-server]]
name = "echo"
routing-context = 100
asps = ["asp"]
keys = [{{ dpc = 1 }}]
"""


class Stp(Preloaded):
    """`carrick stp` as side b, which sends the messages of an ASP back; the ASP is stream.py on `carrick run`."""

    echoes, has_daemon = True, False

    def start(self, side, cell):
        if side == "a":
            super().start(side, cell)
            return
        path = f"{cell.directory}/stp.toml"
        transport = "raw = true" if self.carrier == "ip" else "udp-port = 9899"
        addresses = {each: json.dumps([address(each, path) for path in (0, 1)]) for each in "ab"}
        with open(path, "w", encoding="ascii") as file:
            file.write(STP_CONFIG.format(addresses=addresses["b"], peers=addresses["a"], port=PORT, transport=transport))
        where = ["ip", "netns", "exec", cell.network.namespace[side]]
        cell.programs[side] = Program([*where, cell.options.carrick, "stp", "--config", path], f"{cell.directory}/{side}.log")

    def command(self, side, cell):
        return [cell.options.carrick, "run", "--daemon", self.socket(side, cell), "--", *STREAM, "m3ua", *self.arguments(side, cell)]


class Linux(Column):
    """The SCTP of the Linux kernel in guests."""

    guests = ("a", "b")

    def missing(self, options):
        return None if os.access("/usr/bin/linux.uml", os.X_OK) else "user-mode-linux is missing; run interop/install.sh"

    def command(self, side, cell):
        batch = f"{cell.directory}/{side}.batch"
        with open(batch, "w", encoding="ascii") as file:
            rules = cell.network.policy_rules(side) if cell.policy else []
            file.writelines(f"{words}\n" for words in [*rules, *cell.preparation(side)])
        guest = [sys.executable, "-B", os.path.join(HERE, "guest_stream.py"), batch, *cell.network.nics(side)]
        return [*guest, "--", "sctp", *self.arguments(side, cell)]


class Mptcp(Column):
    """MPTCP of this host's kernel. Side b announces its second address."""

    def missing(self, options):
        with contextlib.suppress(OSError), open("/proc/sys/net/mptcp/enabled", encoding="ascii") as file:
            if file.read().strip() == "1":
                return None
        return "the kernel has no MPTCP (net.mptcp.enabled)"

    def prepare(self, cell):
        for side in "ab":
            cell.network.ip(side, "mptcp limits set subflow 2 add_addr_accepted 2")
        cell.network.ip("b", f"mptcp endpoint add {address('b', 1)} dev eth1 signal")

    def command(self, side, cell):
        return [*STREAM, "mptcp", *self.arguments(side, cell)]

    def observe(self, cell):
        where = ["ip", "netns", "exec", cell.network.namespace["a"]]
        listed = subprocess.run([*where, "ss", "-Htin"], capture_output=True, text=True).stdout.splitlines()
        states = {}
        for first, details in zip(listed[::2], listed[1::2]):
            words = first.split()
            if len(words) > 4:
                state = "backed off" if " backoff:" in details else words[0].lower()
                states[words[4].rpartition(":")[0]] = state
        return states


class Usrsctp(Column):
    """usrsctp."""

    PROGRAM = os.path.join(BUILT, "usrsctp-stream")

    def missing(self, options):
        return None if os.access(self.PROGRAM, os.X_OK) else "target/interop/usrsctp-stream is missing; run make -C interop"

    def command(self, side, cell):
        local = ",".join(address(side, path) for path in (0, 1))
        return [self.PROGRAM, *self.arguments(side, cell), "--local", local]


COLUMNS = [
    Crate("crate-udp", "crate `carrick`, UDP", "udp"),
    Crate("crate-ip", "crate `carrick`, IP", "ip"),
    Preloaded("run-udp", "`carrick run`, UDP", "udp"),
    Preloaded("run-ip", "`carrick run`, IP", "ip"),
    Stp("stp-udp", "`carrick stp`, UDP", "udp"),
    Signaling("signaling-udp", "`carrick run`, signaling preset, UDP", "udp"),
    Signaling("signaling-ip", "`carrick run`, signaling preset, IP", "ip"),
    Linux("linux", "Linux SCTP", "ip"),
    Mptcp("mptcp", "MPTCP", "tcp"),
    Usrsctp("usrsctp", "usrsctp", "ip"),
]
