"""Messages: streams, order, cancellation, backpressure."""

import asyncio
from collections import defaultdict
from typing import Dict, List

import pytest

from carrick import Association, AssociationShutDownError, Message, SendError
from support import LOOPBACK, linked, run


def test_echo_keeps_stream_ppid_and_order_flag() -> None:
    async def main() -> None:
        async with linked() as pair:
            assert pair.client.peer_addresses == LOOPBACK
            await pair.client.send(b"one", 3, 46)
            await pair.client.send(bytearray(b"two"), stream=4, ppid=0xFFFFFFFF, ordered=False)
            await pair.client.send(memoryview(b"-three-")[1:6])
            received = [await pair.server.recv() for _ in range(3)]
            found = {(m.payload, m.stream, m.ppid, m.ordered) for m in received if m}
            assert found == {(b"one", 3, 46, True), (b"two", 4, 0xFFFFFFFF, False), (b"three", 0, 0, True)}
            assert {m.part for m in received if m} == {"whole"}
            await pair.server.send(b"back", 9)
            answer = await pair.client.recv()
            assert answer is not None and (answer.payload, answer.stream, answer.ssn) == (b"back", 9, 0)

    run(main())


def test_messages_keep_the_order_of_their_stream() -> None:
    async def main() -> None:
        count, streams = 4000, 7

        async def send(association: Association) -> None:
            for number in range(count):
                await association.send(number.to_bytes(4, "big") * (1 + number % 400), number % streams)
            await association.shutdown()

        async with linked() as pair:
            sender = asyncio.create_task(send(pair.client))
            found: Dict[int, List[int]] = defaultdict(list)
            async for message in pair.server:
                number = int.from_bytes(message.payload[:4], "big")
                assert message.payload == number.to_bytes(4, "big") * (1 + number % 400)
                found[message.stream].append(number)
            await sender
            assert dict(found) == {stream: list(range(stream, count, streams)) for stream in range(streams)}

    run(main())


def test_a_large_message_arrives_whole() -> None:
    async def main() -> None:
        async with linked() as pair:
            large = bytes(range(256)) * 20_000
            sender = asyncio.create_task(pair.client.send(large))
            message = await pair.server.recv()
            await sender
            assert message is not None and message.payload == large

    run(main())


def test_a_cancelled_recv_loses_no_message() -> None:
    async def main() -> None:
        count = 3000

        async def send(association: Association) -> None:
            for number in range(count):
                await association.send(number.to_bytes(4, "big"))
                if number % 3 == 0:
                    await asyncio.sleep(0)
            await association.shutdown()

        async with linked() as pair:
            sender = None
            found: List[int] = []
            cancelled = 0
            while True:
                if cancelled == 100:
                    sender = sender or asyncio.create_task(send(pair.client))
                waiting = asyncio.create_task(pair.server.recv())
                # Cancelled before it has begun, while it waits, and in the step in which it is woken.
                for _ in range(len(found) % 4 + cancelled % 3):
                    await asyncio.sleep(0)
                if len(found) % 2 or cancelled < 100:
                    waiting.cancel()
                try:
                    message = await waiting
                except asyncio.CancelledError:
                    cancelled += 1
                    continue
                if message is None:
                    break
                found.append(int.from_bytes(message.payload, "big"))
            assert sender is not None
            await sender
            assert found == list(range(count))
            assert cancelled >= 100

    run(main())


def test_a_timeout_of_recv_loses_no_message() -> None:
    async def main() -> None:
        async with linked() as pair:
            for _ in range(20):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(pair.server.recv(), 0.001)
            await pair.client.send(b"later")
            message = await pair.server.recv()
            assert message is not None and message.payload == b"later"

    run(main())


def test_a_second_waiting_task_is_refused() -> None:
    async def main() -> None:
        async with linked() as pair:
            first = asyncio.create_task(pair.server.recv())
            await asyncio.sleep(0.01)
            with pytest.raises(RuntimeError, match="another task waits for messages"):
                await pair.server.recv()
            await pair.client.send(b"x")
            message = await first
            assert message is not None and message.payload == b"x"

    run(main())


def test_send_waits_while_the_queues_are_full() -> None:
    async def main() -> None:
        size, queue = 10_000, 50_000
        bounds = {"send_queue": queue, "receive_queue": queue, "send_buffer": queue, "max_send_buffer": None}
        bounds.update(receive_buffer=queue, max_receive_buffer=None)
        async with linked(**bounds) as pair:
            accepted = 0

            async def send() -> None:
                nonlocal accepted
                while accepted < 100:
                    await pair.client.send(bytes(size))
                    accepted += 1

            sender = asyncio.create_task(send())
            # Until no message was accepted for a while.
            before = -1
            while before != accepted:
                before = accepted
                await asyncio.sleep(0.3)
            assert 4 <= accepted <= 25, "at most four queues of five messages, with their costs"
            assert not sender.done()
            received = 0
            while received < 100:
                message = await pair.server.recv()
                assert message is not None and len(message.payload) == size
                received += 1
            await sender

    run(main())


def test_a_cancelled_send_sends_all_or_nothing() -> None:
    async def main() -> None:
        bounds = {"send_queue": 20_000, "receive_queue": 20_000, "receive_buffer": 50_000, "max_receive_buffer": None}
        async with linked(**bounds, send_buffer=20_000, max_send_buffer=None) as pair:
            accepted = 0
            while True:
                try:
                    await asyncio.wait_for(pair.client.send(bytes(9000)), 0.3)
                except asyncio.TimeoutError:
                    break
                accepted += 1
            found: List[Message] = []

            async def receive() -> None:
                async for message in pair.server:
                    found.append(message)

            receiver = asyncio.create_task(receive())
            await pair.client.send(b"last")
            await pair.client.shutdown()
            await receiver
            *whole, last = [len(m.payload) for m in found]
            # The cancelled one may have been queued in that moment.
            assert (set(whole), last) == ({9000}, 4) and accepted <= len(whole) <= accepted + 1

    run(main())


def test_an_invalid_message_is_refused_with_words() -> None:
    async def main() -> None:
        async with linked() as pair:
            with pytest.raises(SendError, match="streams 0 to 9") as refused:
                await pair.client.send(b"x", 10)
            assert isinstance(refused.value, ValueError)
            with pytest.raises(SendError, match="empty"):
                await pair.client.send(b"")
            with pytest.raises(TypeError, match="encode"):
                await pair.client.send("text")  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="exclude each other"):
                await pair.client.send(b"x", lifetime=1, retransmissions=2)
            with pytest.raises(ValueError, match="lifetime: -1"):
                await pair.client.send(b"x", lifetime=-1)
            with pytest.raises(OverflowError, match="stream: 70000 is not a number from 0 to 65535"):
                await pair.client.send(b"x", 70_000)
            with pytest.raises(OverflowError, match="ppid: 8589934592 is not"):
                await pair.client.send(b"x", ppid=1 << 33)
            await pair.client.shutdown()
            with pytest.raises(AssociationShutDownError) as ended:
                await pair.client.send(b"x")
            assert isinstance(ended.value, BrokenPipeError)

    run(main())


def test_messages_are_read_after_the_shutdown() -> None:
    async def main() -> None:
        async with linked() as pair:
            for number in range(50):
                await pair.client.send(bytes([number]))
            await pair.client.shutdown()
            assert (await pair.server.closed()).name == "shutdown"
            assert [m.payload[0] async for m in pair.server] == list(range(50))
            assert await pair.server.recv() is None
            assert pair.client.undelivered == 0

    run(main())


def test_streams_are_added_and_reset() -> None:
    async def main() -> None:
        async with linked() as pair:
            assert pair.client.outbound_streams == 10
            events = pair.client.events()
            await pair.client.add_streams(5)
            while (event := await events.__anext__()).kind != "streams-changed":
                pass
            assert event.values["performed"] and event.values["outbound_streams"] == 15
            await pair.client.send(b"new", 14)
            message = await pair.server.recv()
            assert message is not None and message.stream == 14
            await pair.client.flushed()
            await pair.client.reset_streams([14])
            while (event := await events.__anext__()).kind != "streams-reset":
                pass
            assert event.values == {"direction": "outgoing", "streams": [14], "performed": True}

    run(main())
