"""What the tests share."""

import asyncio
import contextlib
import subprocess
import sys
from pathlib import Path
from typing import Any, AsyncIterator, Awaitable, NamedTuple, TypeVar

from carrick import Association, Config, Endpoint

PACKAGE = Path(__file__).resolve().parents[1]
LOOPBACK = ["127.0.0.1", "127.0.0.2"]
LIMIT = 60
"""Seconds after which a test has failed."""

T = TypeVar("T")


def run(main: Awaitable[T]) -> T:
    """Run a test on a new event loop."""

    async def limited() -> T:
        return await asyncio.wait_for(main, LIMIT)

    return asyncio.run(limited())


class Linked(NamedTuple):
    """Two endpoints of this process with an association."""

    client: Association
    server: Association
    client_endpoint: Endpoint
    server_endpoint: Endpoint


@contextlib.asynccontextmanager
async def linked(**parameters: Any) -> AsyncIterator[Linked]:
    """Connect two endpoints on two addresses of loopback."""
    async with Endpoint.bind(Config(LOOPBACK, udp_port=0, **parameters)) as server_endpoint:
        async with Endpoint.bind(Config(LOOPBACK, udp_port=0, **parameters)) as client_endpoint:
            port, udp_port = server_endpoint.port, server_endpoint.udp_port
            client = await client_endpoint.connect(LOOPBACK, port, udp_port=udp_port)
            server = await server_endpoint.accept()
            assert server is not None
            yield Linked(client, server, client_endpoint, server_endpoint)


def python(program: str, *arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a program of Python in another process."""
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT, **options)
