"""What the tests share."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from carrick_lab import Scenario

REPOSITORY = Path(__file__).resolve().parents[3]
COMMAND = Path(os.environ.get("CARRICK", REPOSITORY / "target/debug/carrick"))


def _small() -> str:
    """Return the example of the manual, shortened: three cells of two repetitions, a few milliseconds each."""
    text = (REPOSITORY / "docs/scenario-files.md").read_text(encoding="utf-8")
    text = text.split("```toml\n")[1].split("```")[0]
    for old, new in [
        ('duration = "60 s"\nwarmup = "10 s"', 'duration = "2 s"'),
        ("repetitions = 3", "repetitions = 2"),
        ("retransmissions", "failover"),
        ("2 Mbit/s", "500 kbit/s"),
    ]:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


SMALL = _small()


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
