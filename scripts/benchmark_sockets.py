#!/usr/bin/env python3
"""Compares crate carrick, Carrick's daemon and the kernel's TCP over loopback, in one run.

    cargo build --profile dist -p carrick-cli -p carrick-preload && cargo build --profile dist -p carrick --example roundtrip
    scripts/benchmark_sockets.py > result.json

Needs iperf3 and a C compiler. All variants are measured in each round, one after the other, so that the load of the
machine is about the same for them; the result has their medians as a table on standard error, and with all values as
JSON on standard output. CPU time is that of all processes that take part, the daemon included.
"""

import argparse
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOOPBACK = "127.0.0.1"
TICKS = os.sysconf("SC_CLK_TCK")


class Daemon:
    """A daemon on a free UDP port."""

    def __init__(self, carrick, folder, name):
        self.socket = str(folder / name)
        # Peers on this host have the same UDP port, which the daemon has to know.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind((LOOPBACK, 0))
            port = str(free.getsockname()[1])
        command = [carrick, "daemon", "--socket", self.socket, "--udp-port", port, "--bind", LOOPBACK]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 10
        while not pathlib.Path(self.socket).exists():
            if time.monotonic() > end:
                sys.exit("benchmark: the daemon does not start")
            time.sleep(0.05)

    def cpu(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def start(command, environment=None, **more):
    env = dict(os.environ, CARRICK_DAEMON="/nonexistent") | (environment or {})
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **more)


def finish(process):
    """Returns the output and the CPU seconds of a process and its children."""
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"benchmark: {' '.join(process.args)} failed: {out[-500:]}")
    return out, usage.ru_utime + usage.ru_stime


def perf(options, size, daemon):
    """`carrick perf`, alone or with a share of the daemon's port."""
    environment = {"CARRICK_DAEMON": daemon.socket} if daemon else None
    base = daemon.cpu() if daemon else 0
    own = [] if daemon else ["--udp-port", "0"]
    server = start([options.carrick, "perf", "server", "--once", "--json", "--bind", LOOPBACK, *own], environment)
    port = json.loads(server.stdout.readline())["udp_port"]
    client = start(
        [options.carrick, "perf", "client", LOOPBACK, "--peer-udp-port", str(port), "-t", options.seconds,
         "-s", str(size), "--json", *own],
        environment,
    )  # fmt: skip
    (out, client_cpu), (_, server_cpu) = finish(client), finish(server)
    result = next(line for line in map(json.loads, out.splitlines()) if line["event"] == "summary")["to_server"]
    daemon_cpu = daemon.cpu() - base if daemon else 0
    return cost(result["bytes"], result["seconds"], client_cpu + server_cpu, daemon_cpu)


def iperf3(options, size, daemon):
    """iperf3 with SCTP through the daemon, or with the kernel's TCP."""
    run = [options.carrick, "run", "--daemon", daemon.socket, "--"] if daemon else []
    base = daemon.cpu() if daemon else 0
    server = start([*run, "iperf3", "-s", "-1", "-p", "5288", "-B", LOOPBACK])
    time.sleep(0.5)
    kind = ["--sctp"] if daemon else []
    command = ["iperf3", *kind, "-c", LOOPBACK, "-p", "5288", "-t", options.seconds, "-l", str(size), "-J"]
    (out, client_cpu), (_, server_cpu) = finish(start([*run, *command])), finish(server)
    received = json.loads(out)["end"]["sum_received"]
    daemon_cpu = daemon.cpu() - base if daemon else 0
    return cost(received["bytes"], received["seconds"], client_cpu + server_cpu, daemon_cpu)


def cost(size, seconds, programs, daemon):
    return {
        "gbit_per_second": size * 8 / seconds / 1e9,
        "cpu_seconds_per_gb": (programs + daemon) / size * 1e9,
        "daemon_cpu_seconds_per_gb": daemon / size * 1e9,
    }


def roundtrip_crate(options, daemon):
    """Round trips of crate carrick, alone or with a share of the daemon's port."""
    example = str(pathlib.Path(options.carrick).parent / "examples" / "roundtrip")
    through = [daemon.socket] if daemon else []
    server = start([example, "server", "5289", *through])
    port = server.stdout.readline()
    client = start([example, "client", "5289", "100", options.count, *through], stdin=subprocess.PIPE)
    client.stdin.write(port)
    client.stdin.close()
    (out, _), _ = finish(client), finish(server)
    return json.loads(out)


def roundtrip_socket(options, program, daemon):
    """Round trips of a C program, with SCTP through the daemon, or with the kernel's TCP."""
    run = [options.carrick, "run", "--daemon", daemon.socket, "--"] if daemon else []
    kind = "sctp" if daemon else "tcp"
    server = start([*run, program, "server", kind, "5290"])
    server.stdout.readline()
    (out, _), _ = finish(start([*run, program, "client", kind, "5290", "100", options.count])), finish(server)
    return json.loads(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--carrick", default=str(ROOT / "target/dist/carrick"), help="the built command")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", default="5", help="duration of a transfer")
    parser.add_argument("--count", default="20000", help="number of round trips")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        program = str(folder / "roundtrip")
        subprocess.run(["cc", "-O2", "-o", program, str(ROOT / "scripts/roundtrip.c")], check=True)
        daemon = Daemon(options.carrick, folder, "socket")
        transfers = {
            "carrick perf, without a daemon": lambda size: perf(options, size, None),
            "carrick perf, through the daemon": lambda size: perf(options, size, daemon),
            "iperf3 --sctp, through the daemon": lambda size: iperf3(options, size, daemon),
            "iperf3, TCP of the kernel": lambda size: iperf3(options, size, None),
        }
        trips = {
            "crate carrick, without a daemon": lambda: roundtrip_crate(options, None),
            "crate carrick, through the daemon": lambda: roundtrip_crate(options, daemon),
            "C program, SCTP through the daemon": lambda: roundtrip_socket(options, program, daemon),
            "C program, TCP of the kernel": lambda: roundtrip_socket(options, program, None),
        }
        values = {}
        try:
            for number in range(options.rounds):
                for size in (65536, 1024):
                    for name, measure in transfers.items():
                        print(f"round {number + 1}: {name}, {size} bytes", file=sys.stderr)
                        values.setdefault(f"{name}, {size} bytes", []).append(measure(size))
                for name, measure in trips.items():
                    print(f"round {number + 1}: {name}, 100 bytes", file=sys.stderr)
                    values.setdefault(f"{name}, 100 bytes", []).append(measure())
        finally:
            daemon.end()
    medians = {
        name: {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}
        for name, rounds in values.items()
    }
    for name, row in medians.items():
        columns = ", ".join(f"{key} {value:.2f}" for key, value in row.items())
        print(f"{name}: {columns}", file=sys.stderr)
    load = os.getloadavg()
    conditions = {"cores": os.cpu_count(), "kernel": os.uname().release, "load_average_at_the_end": load[0]}
    json.dump({"conditions": conditions, "medians": medians, "rounds": values}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
