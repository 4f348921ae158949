#!/usr/bin/env python3
"""What the end of a daemon does to servers in Go (static), C and Python: each has an association, and the daemon is killed,
restarted or handed over. Over loopback, without privileges.

    ends.py [--carrick PATH] [SERVER...]

Exit status 0: all ended, or continued, as docs/sockets.md has it; 1: not; 3: something is missing.
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
PORT = 5000
TIME_LIMIT = 30  # seconds for anything that is expected to happen

CLIENT = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
s.connect(("127.0.0.1", int(sys.argv[1])))
for line in sys.stdin:
    s.send(line.encode())
    print(s.recv(4096).decode().strip(), flush=True)
"""


class Failed(Exception):
    """A program did something else than expected; the text describes it."""


class Program:
    """A program, with its output in a file: a successor of the daemon writes there as well."""

    def __init__(self, path, command):
        self.path = path
        with open(path, "wb") as log:
            self.process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT)

    def output(self):
        with open(self.path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def wait_for_output(self, pattern):
        """Waits until the output has a match, and returns it."""
        limit = time.monotonic() + TIME_LIMIT
        while not (found := re.search(pattern, self.output())):
            if self.process.poll() is not None and not re.search(pattern, self.output()):
                raise Failed(f"{self.process.args} ended without {pattern!r}: {self.output()}")
            if time.monotonic() > limit:
                raise Failed(f"{self.process.args} did not print {pattern!r} within {TIME_LIMIT} s: {self.output()}")
            time.sleep(0.02)
        return found

    def status(self):
        """Waits until the program ends, and returns its exit status."""
        try:
            return self.process.wait(TIME_LIMIT)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.process.args} has not ended within {TIME_LIMIT} s: {self.output()}") from None


class DaemonHost:
    """A directory with a daemon's control socket and the programs of a case."""

    def __init__(self, carrick, directory):
        self.carrick = carrick
        self.directory = directory
        self.socket = os.path.join(directory, "socket")
        self.programs = []
        self.successor = None
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind(("127.0.0.1", 0))
            self.udp_port = str(free.getsockname()[1])

    def start(self, *command):
        path = os.path.join(self.directory, f"{len(self.programs)}.log")
        self.programs.append(Program(path, [self.carrick, *command]))
        return self.programs[-1]

    def daemon(self):
        daemon = self.start("daemon", "--socket", self.socket, "--udp-port", self.udp_port, "--bind", "127.0.0.1")
        daemon.wait_for_output("serving")
        return daemon

    def run(self, options, command):
        return self.start("run", "--daemon", self.socket, *options, "--", *command)

    def server(self, options, command):
        server = self.run(options, [*command, str(PORT)])
        server.wait_for_output("listening")
        return server

    def client(self):
        client = self.run([], [sys.executable, "-c", CLIENT, str(PORT)])
        echo(client, "first")
        return client

    def end(self):
        if self.successor:
            os.kill(self.successor, signal.SIGTERM)
        for program in self.programs:
            if program.process.poll() is None:
                program.process.terminate()
                program.status()
            program.process.stdin.close()


def echo(client, text):
    client.process.stdin.write(f"{text}\n")
    client.process.stdin.flush()
    client.wait_for_output(text)


def ends_by_itself(server):
    """The server gets ECONNRESET from accept, and ends with its own status."""
    status = server.status()
    if status != 1 or "accept: connection reset by peer" not in server.output().lower():
        raise Failed(f"the server ended with status {status}: {server.output()}")


def is_ended(server):
    """`carrick run` ends the server, unless it has ended by itself before."""
    status = server.status()
    if status not in [1, 128 + signal.SIGTERM]:
        raise Failed(f"the server ended with status {status}: {server.output()}")


def killed(host, daemon, client, server, ends):
    daemon.process.kill()
    daemon.status()
    ends(server)
    host.daemon()


def restarted(host, daemon, client, server, ends):
    daemon.process.terminate()
    daemon.status()
    host.daemon()
    ends(server)


def handed_over(host, daemon, client, server, ends):
    daemon.process.send_signal(signal.SIGUSR2)
    host.successor = int(daemon.wait_for_output(r"handed over to process (\d+)")[1])
    daemon.status()
    # The association of before, and another one.
    echo(client, "second")
    host.client()
    if server.process.poll() is not None:
        raise Failed("the server ended")


def case(carrick, command, event, options, ends):
    with tempfile.TemporaryDirectory() as directory:
        host = DaemonHost(carrick, directory)
        try:
            daemon = host.daemon()
            server = host.server(options, command)
            client = host.client()
            event(host, daemon, client, server, ends)
            if event is not handed_over:
                # A server that is started again serves.
                host.server(options, command)
                host.client()
        finally:
            host.end()


def build(directory):
    """Builds the servers; returns their commands."""
    go, c = os.path.join(directory, "go-echo"), os.path.join(directory, "c-echo")
    environment = {**os.environ, "CGO_ENABLED": "0", "GO111MODULE": "off", "GOFLAGS": ""}
    source = os.path.join(HERE, "echo")
    subprocess.run(["go", "build", "-o", go, os.path.join(source, "main.go")], check=True, env=environment)
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-o", c, os.path.join(source, "echo.c")], check=True)
    return {"go": [go], "c": [c], "python": [sys.executable, os.path.join(source, "echo.py")]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--carrick", default="target/debug/carrick", help="the command (target/debug/carrick)")
    parser.add_argument("servers", nargs="*", metavar="SERVER", help="go, c, python")
    options = parser.parse_args()
    carrick = os.path.abspath(options.carrick)
    for program in ["go", "cc", carrick, os.path.join(os.path.dirname(carrick), "libcarrick_preload.so")]:
        if shutil.which(program) is None and not os.path.exists(program):
            print(f"ends: {program} is missing", file=sys.stderr)
            return 3
    failed = 0
    with tempfile.TemporaryDirectory() as directory:
        servers = build(directory)
        unknown = [name for name in options.servers if name not in servers]
        if unknown:
            parser.error(f"not known: {', '.join(unknown)}")
        for name in options.servers or servers:
            for event in [killed, restarted, handed_over]:
                for choice, ends in [([], ends_by_itself), (["--end-with-daemon"], is_ended)]:
                    begin = time.monotonic()
                    try:
                        case(carrick, servers[name], event, choice, ends)
                        result = "ok"
                    except Failed as problem:
                        failed += 1
                        result = f"FAILED: {problem}"
                    print(f"{name}/{event.__name__} {' '.join(choice)} {result}  {time.monotonic() - begin:.1f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
