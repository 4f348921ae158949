#!/usr/bin/env python3
"""What the end of a daemon does to servers in Go (static), C and Python: each has an association, and the daemon is killed,
restarted or handed over. Over loopback, without privileges.

    ends.py [--carrick PATH] [SERVER...]

Exit status 0: all ended, or continued, as docs/sockets.md has it; 1: not; 3: something is missing.
"""

import argparse
import os
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


class Place:
    """A directory with a daemon's control socket and the programs of a case."""

    def __init__(self, carrick, directory):
        self.carrick = carrick
        self.socket = os.path.join(directory, "socket")
        self.programs = []
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind(("127.0.0.1", 0))
            self.udp_port = str(free.getsockname()[1])

    def start(self, *command):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        program = subprocess.Popen([self.carrick, *command], text=True, **pipes)
        self.programs.append(program)
        return program

    def daemon(self):
        daemon = self.start("daemon", "--socket", self.socket, "--udp-port", self.udp_port, "--bind", "127.0.0.1")
        line_with(daemon, "serving")
        return daemon

    def run(self, options, command):
        return self.start("run", "--daemon", self.socket, *options, "--", *command)

    def server(self, options, command):
        server = self.run(options, [*command, str(PORT)])
        line_with(server, "listening")
        return server

    def client(self):
        client = self.run([], [sys.executable, "-c", CLIENT, str(PORT)])
        echo(client, "first")
        return client

    def end(self):
        for program in self.programs:
            if program.poll() is None:
                program.kill()
            program.communicate()


def line_with(program, words):
    """Returns the next line of a program with these words."""
    while line := program.stdout.readline():
        if words in line:
            return line
    raise Failed(f"{' '.join(program.args)} ended with status {program.wait()}, without a line with {words!r}")


def echo(client, text):
    client.stdin.write(f"{text}\n")
    client.stdin.flush()
    line_with(client, text)


def end_of(program):
    """Returns the exit status of a program, and its output up to the end."""
    try:
        output, _ = program.communicate(timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(program.args)} has not ended within {TIME_LIMIT} s") from None
    return program.returncode, output


def ends_by_itself(place, server):
    """The server gets ECONNRESET once from each call, and ends with its own status."""
    status, output = end_of(server)
    if status != 1 or "accept: connection reset by peer" not in output.lower():
        raise Failed(f"the server ended with status {status}: {output}")


def is_ended(place, server):
    """`carrick run` ends the server, unless it has ended by itself before."""
    status, output = end_of(server)
    if status not in [1, 128 + signal.SIGTERM]:
        raise Failed(f"the server ended with status {status}: {output}")


def killed(place, daemon, client, server, ends):
    daemon.kill()
    daemon.wait()
    ends(place, server)


def restarted(place, daemon, client, server, ends):
    daemon.terminate()
    daemon.wait()
    place.daemon()
    ends(place, server)


def handed_over(place, daemon, client, server, ends):
    daemon.send_signal(signal.SIGUSR2)
    if end_of(daemon)[0] != 0:
        raise Failed("the daemon did not hand over")
    # The association of before, and another one.
    echo(client, "second")
    place.client()
    if server.poll() is not None:
        raise Failed("the server ended")


def case(carrick, command, event, options, ends):
    with tempfile.TemporaryDirectory() as directory:
        place = Place(carrick, directory)
        try:
            daemon = place.daemon()
            server = place.server(options, command)
            client = place.client()
            event(place, daemon, client, server, ends)
            if event is not handed_over:
                # The restarted server serves again.
                if event is killed:
                    place.daemon()
                place.server(options, command)
                place.client()
        finally:
            place.end()


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
