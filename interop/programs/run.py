#!/usr/bin/env python3
"""Runs programs of Debian and PyPI, unmodified, on Carrick's sockets: two hosts (network namespaces) with two paths
between them, a daemon on each, once in UDP and once on plain IP.

    run.py [--carrick PATH] [PROGRAM...]

Exit status 0: all did what they do on the kernel's sockets; 1: not; 3: something is missing.
"""

import argparse
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

from network import PATHS, Network, NetworkError, address  # noqa: E402

# Debian's openssl is built without SCTP; openssl.sh builds this one.
OPENSSL = os.path.abspath(os.path.join(HERE, "../../target/interop/dtls/openssl"))
REQUESTS = 20  # of the SIP client
TIME_LIMIT = 60  # seconds for anything that a program is expected to do


class Failed(Exception):
    """A program did something else than it does on the kernel's sockets; the text describes it."""


class Host:
    """A side of the network with a daemon."""

    def __init__(self, network, side, carrick, directory):
        self.addresses = [address(side, path) for path in range(PATHS)]
        self.namespace = network.namespace[side]
        self.side = side
        self.carrick = carrick
        self.directory = directory
        self.runtime = os.path.join(directory, side)  # where programs may write
        os.makedirs(self.runtime, exist_ok=True)
        self.socket = os.path.join(directory, f"{side}.socket")

    def start_daemon(self, options):
        path = os.path.join(self.directory, f"{self.side}-daemon.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write("[defaults]\nauth-enable = true\n")  # for DTLS
        daemon = Program(self, "daemon", [self.carrick, "daemon", "--socket", self.socket, "--config", path, *options])
        daemon.wait_for_output("serving")

    def start(self, name, *arguments):
        """Starts a program on Carrick's sockets."""
        return Program(self, name, [self.carrick, "run", "--daemon", self.socket, "--", *arguments])

    def run(self, name, *arguments):
        """Runs a program to its end and returns its output."""
        program = self.start(name, *arguments)
        program.wait()
        return program.output()


class Program:
    """A program of a host, with its output in a file."""

    running = []

    def __init__(self, host, name, command):
        self.host = host
        self.name = f"{name} on side {host.side}"
        self.path = os.path.join(host.directory, f"{host.side}-{name}.log")
        with open(self.path, "wb") as log:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", host.namespace, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=host.directory,
            )
        Program.running.append(self)

    def output(self):
        with open(self.path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def wait_for_output(self, pattern, after=0):
        """Waits until the output has a match behind a position, and returns the position behind the match."""
        return self.wait_for(lambda: re.compile(pattern).search(self.output(), after), f"prints {pattern}").end()

    def wait_until_it_listens(self, *ports):
        """Waits until SCTP ports are listening sockets of the host."""
        list_sockets = [self.host.carrick, "ss", "--daemon", self.host.socket, "--listening"]

        def listens():
            rows = subprocess.run(list_sockets, capture_output=True, text=True, check=True).stdout
            return all(re.search(rf":{port}\b", rows) for port in ports)

        self.wait_for(listens, f"listens on ports {ports}")

    def wait_for(self, condition, what):
        """Waits until a condition holds, as long as the program runs."""
        limit = time.monotonic() + TIME_LIMIT
        while True:
            has_ended = self.process.poll() is not None
            if result := condition():
                return result
            if has_ended:
                raise Failed(f"{self.name} ended with status {self.process.returncode}, before it {what}:\n{self.end_of_output()}")
            if time.monotonic() > limit:
                raise Failed(f"not within {TIME_LIMIT} s: {self.name} {what}\n{self.end_of_output()}")
            time.sleep(0.05)

    def end_of_output(self):
        return "\n".join(self.output().splitlines()[-15:])

    def wait(self):
        """Waits until the program ends, which must be with status 0."""
        try:
            status = self.process.wait(TIME_LIMIT)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name} did not end within {TIME_LIMIT} s:\n{self.end_of_output()}") from None
        if status != 0:
            raise Failed(f"{self.name} ended with status {status}:\n{self.end_of_output()}")

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def template(host, name, **words):
    """Writes a configuration from its template and returns its path."""
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        text = file.read()
    for word in sorted(words, key=len, reverse=True):
        text = text.replace(word, words[word])
    path = os.path.join(host.directory, f"{host.side}-{name}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def certificates(directory, names):
    """Creates a certificate authority and a certificate for each name."""

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    new = ["req", "-newkey", "rsa:2048", "-nodes"]
    openssl(*new, "-x509", "-days", "2", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca")
    signed = ["x509", "-req", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2"]
    for name in names:
        openssl(*new, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl(*signed, "-in", f"{name}.csr", "-out", f"{name}.pem")


def freediameterd(near, far, network):
    """Two nodes exchange capabilities and watchdogs; when the first path is cut, the watchdogs go on."""
    names = ["near.example", "far.example"]
    certificates(near.directory, names)
    nodes = []
    for host, own, peer, addresses in [(near, *names, far.addresses), (far, *reversed(names), near.addresses)]:
        words = {"OWN_NAME": own, "PEER_NAME": peer, "DIRECTORY": host.directory}
        words |= {f"OWN_{i}": address for i, address in enumerate(host.addresses)}
        words |= {f"PEER_{i}": address for i, address in enumerate(addresses)}
        nodes.append(host.start("freediameter", "freeDiameterd", "-dd", "-c", template(host, "freediameter.conf", **words)))
    ends = [node.wait_for_output(r"-> 'STATE_OPEN") for node in nodes]
    exchanged = r"RCV from '\S+': \(no model\)0/280 f:----"  # an answer to a watchdog request
    ends = [node.wait_for_output(exchanged, end) for node, end in zip(nodes, ends)]
    network.cut(0)
    for _ in range(3):
        ends = [node.wait_for_output(exchanged, end) for node, end in zip(nodes, ends)]
    for node in nodes:
        if "SUSPECT" in node.output():
            raise Failed(f"{node.name} suspected its peer:\n{node.end_of_output()}")


def kamailio(near, far, network):
    """Requests of a client over UDP are relayed over SCTP from one proxy to the other by several processes, and answered."""
    hosts = [(near, far.addresses[0]), (far, near.addresses[0])]
    servers = []
    for host, following in hosts:
        path = template(host, "kamailio.cfg", OWN=host.addresses[0], NEXT=following)
        servers.append(host.start("kamailio", "kamailio", "-DD", "-E", "-m", "32", "-f", path, "-Y", host.runtime))
    for server in servers:
        server.wait_until_it_listens(5060)
    network.join_middle(0)
    client = [sys.executable, os.path.abspath(__file__), "--sip-client", near.addresses[0]]
    requests = Program(Host(network, "m", None, near.directory), "requests", client)
    requests.wait()
    statuses = [line for line in requests.output().splitlines() if line.startswith("SIP/2.0 ")]
    if statuses != ["SIP/2.0 200 OK"] * REQUESTS:
        raise Failed(f"kamailio answered otherwise:\n{requests.end_of_output()}")


def sip_client(server):
    """Sends OPTIONS requests to a server and prints the final responses."""
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.settimeout(TIME_LIMIT / 2)
    client.connect((server, 5060))
    own, port = client.getsockname()
    for number in range(REQUESTS):
        lines = [
            f"OPTIONS sip:test@{server} SIP/2.0",
            f"Via: SIP/2.0/UDP {own}:{port};branch=z9hG4bK{number}",
            "Max-Forwards: 70",
            "From: <sip:a@example.org>;tag=1",
            f"To: <sip:test@{server}>",
            f"Call-ID: {number}@example.org",
            "CSeq: 1 OPTIONS",
            "Content-Length: 0",
        ]
        client.send("\r\n".join([*lines, "", ""]).encode())
        while (response := client.recv(4096).decode()).startswith("SIP/2.0 1"):
            pass
        print(response, flush=True)


def netperfmeter(near, far, _):
    """Flows in both directions, controlled over SCTP, too."""
    server = far.start("netperfmeter", "netperfmeter", "9000")
    server.wait_until_it_listens(9000, 9001)
    flow = "const0:const1400:const0:const700"
    report = near.run("netperfmeter-client", "netperfmeter", f"{far.addresses[0]}:9000", "-runtime=3", "-sctp", flow)
    _, transmission, reception = re.split(r"- (?:Transmission|Reception):", report.partition("- Loss:")[0])[:3]
    for section in [transmission, reception]:
        packets = re.search(r"Packets:\s+(\d+)", section)
        if not packets or int(packets[1]) < 100:
            raise Failed(f"netperfmeter counted too few packets:\n{report[-2000:]}")


def sctp_test(near, far, _):
    """One-to-many sockets with notifications: the cases of sctp_test's own run, received in full."""
    server = far.start("sctp_test", "sctp_test", "-H", far.addresses[0], "-P", "7000", "-l")
    server.wait_until_it_listens(7000)
    # The client closes its socket right after its last message. On Linux, too, that ends an association that is not established
    # yet: the messages exceed the send buffer, so that the client waits for the set-up, however long it takes.
    repeats = ["-c", "-1400", "-x", "1000"]
    addresses = ["-H", near.addresses[0], "-P", "7001", "-h", far.addresses[0], "-p", "7000"]
    near.run("sctp_test-client", "sctp_test", *addresses, "-s", *repeats)
    server.wait_for_output("COMMUNICATION_UP")
    server.wait_for_output("SHUTDOWN_COMPLETE|SHUTDOWN_EVENT")


ECHO_CLIENT = """out=$(mktemp)
{ echo hello; until grep -q hello "$out"; do sleep 0.1; done; echo bye; until grep -q bye "$out"; do sleep 0.1; done; } | "$@" >"$out"
status=$?
cat "$out"
exit $status"""


def echo(near, far, *command, program="/bin/cat"):
    """Two lines go to a program behind an ncat, come back, and both ncat end."""
    server = far.start("ncat", *command, "-v", "-l", far.addresses[0], "7000", "-e", program)
    server.wait_until_it_listens(7000)
    output = near.run("ncat-client", "sh", "-c", ECHO_CLIENT, "sh", *command, far.addresses[0], "7000")
    if not output.endswith("hello\nbye\n"):
        raise Failed(f"the lines came back otherwise:\n{output}")
    server.wait()


def ncat(near, far, _):
    """ncat on one-to-one sockets, until the end of the client's input."""
    echo(near, far, "ncat", "--sctp")


def withsctp(near, far, _):
    """The same on TCP sockets, of which the script of lksctp-tools makes SCTP sockets."""
    echo(near, far, "withsctp", "ncat")


def darn(near, far, *style):
    """Two messages arrive with their attributes. Returns the output of the server."""
    server = far.start("sctp_darn", "stdbuf", "-oL", "sctp_darn", "-H", far.addresses[0], "-P", "7000", "-l", *style)
    server.wait_until_it_listens(7000)
    addresses = ["-H", near.addresses[0], "-P", "7001", "-h", far.addresses[0], "-p", "7000"]
    script = '{ printf "hello\\nworld\\n"; exec sleep 1000; } | stdbuf -oL sctp_darn "$@" -s'
    client = near.start("sctp_darn-client", "sh", "-c", script, "sh", *addresses, *style)
    end = server.wait_for_output(r"DATA\(7\): +hello")
    server.wait_for_output(r"DATA\(7\): +world", end)
    client.wait_for_output("New connection, peer addresses")
    return server.output()


def sctp_darn(near, far, _):
    """One-to-many sockets with notifications."""
    output = darn(near, far)
    if "NOTIFICATION: ASSOC_CHANGE - COMM_UP" not in output:
        raise Failed(f"sctp_darn printed no notification:\n{output}")


def sctp_darn_stream(near, far, _):
    """One-to-one sockets."""
    darn(near, far, "-t")


# The server answers a line; then the client ends by Q.
DTLS_SERVER = """out=$(mktemp)
{ until grep -q hello "$out"; do sleep 0.1; done; echo answer; exec sleep 1000; } | "$@" >"$out" 2>&1"""
DTLS_CLIENT = """out=$(mktemp)
{ echo hello; until grep -q answer "$out"; do sleep 0.1; done; echo Q; } | "$@" >"$out" 2>&1
status=$?
cat "$out"
exit $status"""


def dtls(near, far, _):
    """DTLS over SCTP (RFC 6083) of OpenSSL, which authenticates chunks with keys of the session: a line in each direction."""
    if not os.access(OPENSSL, os.X_OK):
        raise Failed("openssl with SCTP is missing; run interop/programs/openssl.sh target/interop/dtls")
    certificates(far.directory, ["far"])
    accepts = ["-accept", f"{far.addresses[0]}:7000", "-cert", "far.pem", "-key", "far.key"]
    server = far.start("openssl", "sh", "-c", DTLS_SERVER, "sh", OPENSSL, "s_server", "-dtls", "-sctp", *accepts)
    server.wait_until_it_listens(7000)
    connects = ["-connect", f"{far.addresses[0]}:7000", "-CAfile", os.path.join(far.directory, "ca.pem")]
    output = near.run("openssl-client", "sh", "-c", DTLS_CLIENT, "sh", OPENSSL, "s_client", "-dtls", "-sctp", *connects)
    for expected in ["DTLSv1.2", "Verify return code: 0 (ok)", "answer"]:
        if expected not in output:
            raise Failed(f"openssl printed no '{expected}':\n{output}")


def pysctp(near, far, _):
    """The Python module of PyPI: its own test over loopback, and a transfer between the hosts."""
    target = os.path.join(near.directory, "pysctp")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", target, "pysctp==0.7.3"]
    subprocess.run(pip, check=True)
    shutil.unpack_archive(os.path.join(target, "pysctp-0.7.3.tar.gz"), target)
    source = os.path.join(target, "pysctp-0.7.3")
    build = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    subprocess.run(build, check=True, cwd=source, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    output = near.run("pysctp", sys.executable, os.path.join(source, "test_loopback.py"))
    if "server sctp_recv, buf: b'ABCDEF: TEST SUCCEEDED" not in output:
        raise Failed(f"pysctp's test_loopback.py printed otherwise:\n{output}")


PROGRAMS = [dtls, freediameterd, kamailio, ncat, netperfmeter, sctp_darn, sctp_darn_stream, sctp_test, withsctp, pysctp]
TRANSPORTS = {"udp": [], "ip": ["--raw"]}


def run_on(program, transport, carrick):
    """Runs a program on a new network, which is removed afterwards."""
    with tempfile.TemporaryDirectory() as directory, Network() as network:
        try:
            hosts = [Host(network, side, carrick, directory) for side in "ab"]
            for host in hosts:
                host.start_daemon(TRANSPORTS[transport])
            program(*hosts, network)
        finally:
            for running in reversed(Program.running):
                running.end()
            Program.running.clear()


def select(parser, names, functions):
    """Returns the functions with these names, all if there are none. An unknown name ends the program."""
    known = {function.__name__: function for function in functions}
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"not known: {', '.join(unknown)}")
    return [known[name] for name in names] or functions


def interrupt(*_):
    raise KeyboardInterrupt


def main():
    if sys.argv[1:2] == ["--sip-client"]:
        sip_client(sys.argv[2])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--carrick", default="target/debug/carrick", help="the command (target/debug/carrick)")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(p.__name__ for p in PROGRAMS))
    options = parser.parse_args()
    programs = select(parser, options.programs, PROGRAMS)
    signal.signal(signal.SIGTERM, interrupt)
    carrick = os.path.abspath(options.carrick)
    library = os.path.join(os.path.dirname(carrick), "libcarrick_preload.so")
    for path in [carrick, library]:
        if not os.path.exists(path):
            print(f"programs: {path} is missing; build it with cargo build -p carrick-cli -p carrick-preload", file=sys.stderr)
            return 3
    for command in ["ip", "nft"]:
        if shutil.which(command) is None:
            print(f"programs: {command} is missing; interop/install.sh installs what the programs need", file=sys.stderr)
            return 3
    failed = 0
    for program in programs:
        for transport in TRANSPORTS:
            begin = time.monotonic()
            try:
                run_on(program, transport, carrick)
                result = "ok"
            except (Failed, NetworkError) as problem:
                failed += 1
                result = f"FAILED: {problem}"
            print(f"{program.__name__}/{transport}  {result}  {time.monotonic() - begin:.1f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
