"""The interpreter: signals, its end, forks, threads, event loops."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import List

import pytest

from carrick import Association, AssociationAbortedError, Config, Endpoint

from support import LIMIT, linked, python, run

CLIENT = """
import asyncio, sys
from carrick import Config, Endpoint
async def main():
    global endpoint, association
    endpoint = Endpoint.bind(Config("127.0.0.1", udp_port=0))
    association = await endpoint.connect("127.0.0.1", int(sys.argv[1]), udp_port=int(sys.argv[2]))
    await association.send(b"queued")
    BODY
asyncio.run(main())
"""


async def _accept(body: str, then: "signal.Signals | None" = None) -> "tuple[Association, int, str]":
    """Accept an association of another process; send it a signal when its first message has arrived."""
    async with Endpoint.bind(Config("127.0.0.1", udp_port=0)) as endpoint:
        arguments = [sys.executable, "-c", CLIENT.replace("BODY", body), str(endpoint.port), str(endpoint.udp_port)]
        client = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
        association = await endpoint.accept()
        assert association is not None
        message = await association.recv()
        assert message is not None and message.payload == b"queued"
        if then is not None:
            client.send_signal(then)
        with pytest.raises(AssociationAbortedError):
            await association.recv()
        loop = asyncio.get_running_loop()
        _, errors = await loop.run_in_executor(None, lambda: client.communicate(timeout=LIMIT))
        return association, client.returncode, errors


def test_an_end_without_close_sends_what_is_queued() -> None:
    """The message is sent once and the peer gets an ABORT, as crate carrick documents."""
    association, status, errors = run(_accept("pass"))
    assert (status, errors) == (0, "")
    assert association.close_reason is not None and association.close_reason.name == "aborted-by-peer"


def test_an_interrupt_ends_a_waiting_program() -> None:
    _, status, errors = run(_accept("await association.recv()", signal.SIGINT))
    assert errors.rstrip().endswith("KeyboardInterrupt") and "Traceback" in errors
    assert status in (1, 130, -signal.SIGINT)


def test_an_interrupt_in_a_block_closes_the_endpoint() -> None:
    body = """
    async with endpoint, association:
        await association.recv()"""
    association, status, _ = run(_accept(body.strip(), signal.SIGINT))
    assert status in (1, 130, -signal.SIGINT)
    assert "CancelledError in the program" in str(association.close_reason)


def test_the_protocol_runs_while_python_is_busy(tmp_path: Path) -> None:
    """The other process computes until a message to it was acknowledged."""
    flag = tmp_path / "acknowledged"
    body = f"""
    import os
    print("busy", flush=True)
    while not os.path.exists({str(flag)!r}):
        pass
    message = await association.recv()
    await association.send(message.payload)
    await association.shutdown()"""

    async def main() -> None:
        async with Endpoint.bind(Config("127.0.0.1", udp_port=0)) as endpoint:
            program = CLIENT.replace("BODY", body.strip())
            arguments = [sys.executable, "-c", program, str(endpoint.port), str(endpoint.udp_port)]
            busy = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
            association = await endpoint.accept()
            assert association is not None and busy.stdout is not None
            assert busy.stdout.readline() == "busy\n"
            await association.send(b"while busy")
            await association.flushed()
            flag.touch()
            assert [m.payload async for m in association] == [b"queued", b"while busy"]
            assert busy.wait(LIMIT) == 0

    run(main())


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_is_refused() -> None:
    async def main() -> None:
        async with linked() as pair:
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                lines = []
                for use in [
                    lambda: pair.client.peer_port,
                    lambda: Endpoint.bind(Config("127.0.0.1", udp_port=0)),
                    lambda: pair.client._core.try_recv(),
                ]:
                    try:
                        use()
                        lines.append("used")
                    except RuntimeError as refused:
                        lines.append(str(refused))
                os.write(writing, "\n".join(lines).encode())
                os._exit(0)
            os.close(writing)
            with os.fdopen(reading) as pipe:
                lines = pipe.read().splitlines()
            os.waitpid(child, 0)
            assert len(lines) == 3 and all("was forked after" in line for line in lines), lines
            await pair.client.send(b"parent")
            message = await pair.server.recv()
            assert message is not None and message.payload == b"parent"

    run(main())


def test_a_forked_process_exits() -> None:
    program = """
import asyncio, os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from carrick import Config, Endpoint
async def main():
    return Endpoint.bind(Config("127.0.0.1", udp_port=0))
endpoint = asyncio.run(main())
child = os.fork()
if child:
    _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status))
del endpoint
"""
    done = python(program)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_fork_before_the_first_endpoint_works() -> None:
    program = """
import asyncio, os, sys
from carrick import Config, Endpoint
child = os.fork()
async def main():
    async with Endpoint.bind(Config("127.0.0.1", udp_port=0)) as endpoint:
        assert endpoint.port
asyncio.run(main())
if child:
    _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status))
"""
    done = python(program)
    assert (done.returncode, done.stderr) == (0, "")


def test_event_loops_of_threads_share_an_endpoint() -> None:
    """One thread sends, another one receives, each with its event loop."""

    async def main() -> None:
        async with linked() as pair:
            count = 2000
            failed: List[BaseException] = []

            async def send() -> None:
                for number in range(count):
                    await pair.client.send(number.to_bytes(4, "big"))
                await pair.client.shutdown()

            def thread() -> None:
                try:
                    asyncio.run(send())
                except BaseException as error:  # noqa: BLE001
                    failed.append(error)

            sender = threading.Thread(target=thread)
            sender.start()
            found = [int.from_bytes(message.payload, "big") async for message in pair.server]
            sender.join()
            assert (found, failed) == (list(range(count)), [])

    run(main())


def test_an_association_moves_to_another_loop() -> None:
    """As cells of a notebook that call `asyncio.run` each."""

    async def bind() -> Endpoint:
        return Endpoint.bind(Config("127.0.0.1", udp_port=0))

    server, client = run(bind()), run(bind())
    connected = run(client.connect("127.0.0.1", server.port, udp_port=server.udp_port))
    accepted = run(server.accept())
    assert accepted is not None
    for number in range(5):
        with pytest.raises(asyncio.TimeoutError):
            run(asyncio.wait_for(accepted.recv(), 0.001))
        run(connected.send(bytes([number])))
        message = run(accepted.recv())
        assert message is not None and message.payload == bytes([number])
    closed = [run(client.close()), run(server.close())]
    assert all(report.is_empty for report in closed)


def test_a_wait_of_a_closed_loop_does_not_last() -> None:
    """A loop that was stopped and closed, with a task that waits."""

    async def bind() -> Endpoint:
        return Endpoint.bind(Config("127.0.0.1", udp_port=0))

    server, client = run(bind()), run(bind())
    connected = run(client.connect("127.0.0.1", server.port, udp_port=server.udp_port))
    accepted = run(server.accept())
    assert accepted is not None
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(accepted.recv())
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()
    run(connected.send(b"later"))
    message = run(accepted.recv())
    assert message is not None and message.payload == b"later" and not waiting.done()
    # Its coroutine is not resumed; nothing is to be reported.
    waiting._log_destroy_pending = False  # type: ignore[attr-defined]
    run(client.close(0))
    run(server.close(0))


def test_the_loop_is_never_blocked() -> None:
    async def main() -> None:
        async with linked() as pair:
            turns = 0

            async def turn() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            turning = asyncio.create_task(turn())
            waiting = asyncio.create_task(pair.server.recv())
            while turns < 1000:
                await asyncio.sleep(0)
            assert not waiting.done()
            await pair.client.send(b"x")
            await waiting
            turning.cancel()

    run(main())
