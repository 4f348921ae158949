"""The programs that the guide names, and uvloop."""

import re
import subprocess
import sys

import pytest

from support import LIMIT, PACKAGE, python


def test_the_measurement_prints_rate_and_cost() -> None:
    command = [sys.executable, str(PACKAGE / "examples/throughput.py"), "100", "5000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    rate, cost = done.stdout.splitlines()
    assert re.fullmatch(r"[\d,]+ messages of 100 bytes per second in each direction", rate)
    assert re.fullmatch(r"\d+\.\d us for a send that does not wait \(median\)", cost)


def test_programs_of_the_guide_run() -> None:
    """The first two blocks of Python: a server that sends each message back, and its client."""
    guide = (PACKAGE.parents[1] / "docs/guide/python.md").read_text(encoding="utf-8")
    server, client = re.findall(r"^```python\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)[:2]
    # Ports that another test may have.
    server = server.replace("port=5000", "port=5017, udp_port=9917")
    client = client.replace("5000)", "5017, udp_port=9917)")
    accepting = "        async for association in endpoint:"
    server = server.replace(accepting, f"        print('bound', flush=True)\n{accepting}")
    serving = subprocess.Popen([sys.executable, "-c", server], stdout=subprocess.PIPE, text=True)
    try:
        assert serving.stdout is not None and serving.stdout.readline() == "bound\n"
        done = python(client)
        assert (done.stdout, done.stderr) == ("<Message: 5 bytes on stream 1, PPID 0>\n", "")
    finally:
        serving.kill()
        serving.wait()


def test_uvloop_runs_the_tests_of_messages() -> None:
    pytest.importorskip("uvloop", reason="uvloop is installed in long runs")
    program = (
        "import sys, asyncio, uvloop\n"
        "asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())\n"
        "import pytest\n"
        "sys.exit(pytest.main(['--quiet', '-p', 'no:cacheprovider', 'tests/test_messages.py', 'tests/test_ends.py']))\n"
    )
    done = python(program, cwd=PACKAGE)
    assert done.returncode == 0, done.stdout
