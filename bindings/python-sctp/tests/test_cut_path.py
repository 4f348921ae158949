"""The programs of the guide while a network between them fails."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

NAMESPACE = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]


def test_all_messages_arrive_while_a_path_is_cut() -> None:
    possible = subprocess.run([*NAMESPACE, "ip", "link", "set", "lo", "up"], capture_output=True, check=False)
    if possible.returncode != 0:
        pytest.skip(f"no network namespaces: {possible.stderr.decode().strip()}")
    program = Path(__file__).with_name("cut_path.py")
    command = [*NAMESPACE, sys.executable, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1000 messages, in order: True" in done.stdout
    events = [line.split("  ", 1)[1] for line in done.stdout.splitlines() if re.match(r"\d+\.\d+  ", line)]
    order = [
        r"path 10.0.1.1 -> 10.0.1.2 is potentially failed: error count 1",
        r"path 10.0.2.1 -> 10.0.2.2 carries new data, the primary path is 10.0.1.1 -> 10.0.1.2",
        r"path to 10.0.1.2 is inactive: error count 5",
        r"path 10.0.1.1 -> 10.0.1.2 is active again",
        r"path 10.0.1.1 -> 10.0.1.2, the primary path, carries new data",
        r"ended: SHUTDOWN COMPLETE",
    ]
    places = [next((n for n, event in enumerate(events) if event.startswith(text)), -1) for text in order]
    assert -1 not in places and places == sorted(places), events
