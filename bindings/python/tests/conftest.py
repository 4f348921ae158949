"""What the tests share."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from carrick_lab import Scenario

REPOSITORY = Path(__file__).resolve().parents[3]
COMMAND = Path(os.environ.get("CARRICK", REPOSITORY / "target/debug/carrick"))

#: Three cells of two repetitions, a few milliseconds each.
SMALL = """
duration = "2 s"
repetitions = 2
measure = ["goodput", "delay.p99", "failover"]
[hosts.a]
addresses = { l = "10.0.0.1" }
[hosts.b]
addresses = { l = "10.0.0.2" }
[links.l]
between = ["a", "b"]
rate = "500 kbit/s"
delay = "10 ms"
queue = "10 packets"
[flows.f]
from = "a"
to = "b"
kind = "bulk"
size = "500 bytes"
[[sweep]]
"links.l.loss" = ["0 %", "1 %", "2 %"]
"""


@pytest.fixture
def small() -> Scenario:
    return Scenario("small.toml", SMALL)


def command(*arguments: object, directory: Path) -> bytes:
    """Run the command; return its output."""
    done = subprocess.run([COMMAND, *map(str, arguments)], cwd=directory, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def python(program: str) -> "subprocess.CompletedProcess[str]":
    """Run a program of Python in another process."""
    folder = Path(__file__).parent
    return subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
