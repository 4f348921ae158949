"""Types: the stub of the extension module is its interface."""

import os
import subprocess
import sys
from pathlib import Path

CHECK = """
import asyncio
from typing import List, Optional
from carrick import Association, Config, Endpoint, Event, Message, PathEvent

async def main() -> None:
    async with Endpoint.bind(Config("127.0.0.1", path_max_retrans=3, rto_min=0.5)) as endpoint:
        association: Association = await endpoint.connect(["127.0.0.1"], 5000)
        message: Optional[Message] = await association.recv()
        names: List[str] = [message.part async for message in association]
        async for event in association.events():
            kept: Event = event
            if isinstance(event, PathEvent):
                remote: str = event.path.remote
        if message is not None:
            await association.send(message.payload, message.stream, lifetime=1.5)

asyncio.run(main())
"""


def _mypy(*arguments: str, cache: Path) -> str:
    # An installed package needs no path.
    environment = {**os.environ, "MYPYPATH": os.environ.get("PYTHONPATH", ""), "MYPY_CACHE_DIR": str(cache)}
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=cache)
    return done.stdout + done.stderr if done.returncode else ""


def test_the_stub_is_the_interface_of_the_module(tmp_path: Path) -> None:
    assert _mypy("mypy.stubtest", "carrick", cache=tmp_path) == ""


def test_a_program_of_a_user_passes_strict_checks(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(CHECK)
    assert _mypy("mypy", "--strict", str(program), cache=tmp_path) == ""
