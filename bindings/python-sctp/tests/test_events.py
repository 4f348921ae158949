"""Events, paths and statistics."""

import asyncio
import time

import pytest

from carrick import EndedEvent, Event, OperationError, PeerUnreachableError, SendFailedEvent

from support import LOOPBACK, linked, run


def test_paths_have_state_and_counters() -> None:
    async def main() -> None:
        async with linked() as pair:
            await pair.client.send(b"x")
            await pair.client.flushed()
            paths = await pair.client.paths()
            assert [path.remote for path in paths] == LOOPBACK
            assert [path.udp_port for path in paths] == [pair.server_endpoint.udp_port] * 2
            assert paths[0].status == "active" and paths[0].error_count == 0 and paths[0].error is None
            assert paths[0].srtt is not None and 0 < paths[0].srtt < 10
            assert paths[0].rto == 1
            assert paths[0].statistics["data_chunks_sent"] == 1

    run(main())


def test_statistics_have_the_names_of_the_library() -> None:
    async def main() -> None:
        async with linked() as pair:
            for _ in range(3):
                await pair.client.send(b"four")
            await pair.client.flushed()
            found = await pair.client.statistics()
            assert found["state"] == "Established" and found["outbound_streams"] == 10
            assert found["counters"]["messages_sent"] == 3
            assert found["counters"]["data_bytes_sent"] == 12
            assert found["extensions"]["interleaving"] in (True, False)
            protocol = (await pair.server_endpoint.statistics())["protocol"]
            assert any(isinstance(value, int) and value > 0 for value in protocol.values())
            assert await pair.server_endpoint.associations() == 1
            assert await pair.server_endpoint.local_addresses() == LOOPBACK

    run(main())


def test_the_primary_path_can_be_changed() -> None:
    async def main() -> None:
        async with linked() as pair:
            events = pair.client.events()
            second = (await pair.client.paths())[1]
            await pair.client.request_heartbeat(second)
            while (await pair.client.paths())[1].status != "active":
                await asyncio.sleep(0.01)
            await pair.client.set_primary(second)
            assert (await pair.client.statistics())["primary"] == second.id
            await pair.client.send(b"x")
            while (event := await events.__anext__()).kind != "current-changed":
                pass
            assert event.text == "path 127.0.0.1 -> 127.0.0.2, the primary path, carries new data"
            assert event.path.remote == "127.0.0.2"
            with pytest.raises(OperationError, match="no such path"):
                await pair.client.set_primary(7)

    run(main())


def test_an_abandoned_message_is_an_event() -> None:
    async def main() -> None:
        sizes = {"receive_buffer": 20_000, "max_receive_buffer": None, "receive_queue": 1000, "send_queue": 200_000}
        async with linked(**sizes) as pair:
            for number in range(10):
                await pair.client.send(bytes(8000), 1, 7, context=number)
            await pair.client.send(b"late", 2, 9, lifetime=0.05, context=99)
            async for event in pair.client.events():
                if isinstance(event, SendFailedEvent):
                    break
            assert (event.kind, event.payload) == ("send-failed", b"late")
            assert {name: event.values[name] for name in ["context", "stream", "ppid", "sent"]} == {
                "context": 99, "stream": 2, "ppid": 9, "sent": False,
            }
            assert abs(event.time - time.time()) < 60
            pair.client.abort()

    run(main())


def test_the_end_is_the_last_event() -> None:
    async def main() -> None:
        async with linked() as pair:
            pair.client.abort(b"enough")
            found = [event async for event in pair.server.events()]
            assert isinstance(found[-1], EndedEvent) and found[-1].kind == "ended"
            assert found[-1].reason.information == b"enough" and "enough" in str(found[-1])
            assert [event async for event in pair.server.events()] == []

    run(main())


def test_a_cancelled_wait_loses_no_event() -> None:
    async def main() -> None:
        async with linked() as pair:
            added = 60
            found = []

            async def watch() -> None:
                # A generator that was cancelled has ended.
                async for event in pair.client.events():
                    found.append(event)

            async def change() -> None:
                for _ in range(added):
                    await pair.client.add_streams(1)
                    while pair.client.outbound_streams != 11 + len(requested):
                        await asyncio.sleep(0)
                    requested.append(None)
                await pair.client.shutdown()

            requested = []
            changing = asyncio.create_task(change())
            steps = 0
            while not any(isinstance(event, EndedEvent) for event in found):
                watching = asyncio.create_task(watch())
                steps = (steps + 1) % 30
                for _ in range(steps):
                    await asyncio.sleep(0)
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
            await changing
            changed = [event.values["outbound_streams"] for event in found if event.kind == "streams-changed"]
            assert changed == list(range(11, 11 + added))

    run(main())


def test_a_silent_peer_fails_its_paths_in_order() -> None:
    """The peer's process is stopped, so that nothing answers."""

    async def main() -> None:
        import os
        import signal
        import subprocess
        import sys

        program = (
            "import asyncio\nfrom carrick import *\n"
            "async def main():\n"
            "    async with Endpoint.bind(Config(['127.0.0.1', '127.0.0.2'], udp_port=0)) as endpoint:\n"
            "        print(endpoint.port, endpoint.udp_port, flush=True)\n"
            "        association = await endpoint.accept()\n"
            "        await asyncio.sleep(60)\n"
            "asyncio.run(main())\n"
        )
        peer = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        try:
            assert peer.stdout is not None
            port, udp_port = map(int, peer.stdout.readline().split())
            from carrick import Config, Endpoint

            times = {"rto_initial": 0.1, "rto_min": 0.1, "rto_max": 0.2, "hb_interval": 0.1, "sack_delay": 0.02}
            config = Config(LOOPBACK, udp_port=0, path_max_retrans=2, association_max_retrans=6, **times)
            async with Endpoint.bind(config) as endpoint:
                association = await endpoint.connect(LOOPBACK, port, udp_port=udp_port)
                await association.send(b"acknowledged")
                await association.flushed()
                while {path.status for path in await association.paths()} != {"active"}:
                    await asyncio.sleep(0.01)
                os.kill(peer.pid, signal.SIGSTOP)
                await association.send(b"not acknowledged")
                kinds = [event async for event in association.events()]
                names = [event.kind for event in kinds]
                assert names.count("failed") == 2 and names.index("potentially-failed") < names.index("failed")
                assert "dormant" in names and names[-1] == "ended"
                failed = next(event for event in kinds if event.kind == "failed")
                assert failed.path.status == "inactive" and failed.path.error is not None
                with pytest.raises(PeerUnreachableError, match="no longer answers") as lost:
                    await association.recv()
                assert isinstance(lost.value, TimeoutError)
                assert association.undelivered == 1
                report = await endpoint.close()
                assert report.is_empty, "the program knows of the end"
        finally:
            peer.kill()
            peer.wait()

    run(main())


def test_events_compare_and_print() -> None:
    event = Event("dormant", 1.5, "all paths are inactive", {})
    assert str(event) == "all paths are inactive"
    assert event == Event("dormant", 1.5, "all paths are inactive", {"more": 1})
