"""Measures messages per second in both directions at once between two processes of this host, and the cost of a send.

    throughput.py [BYTES [MESSAGES]]
"""

import asyncio
import subprocess
import sys
import time

from carrick import Association, Config, Endpoint


async def send(association: Association, size: int, count: int) -> None:
    payload = bytes(size)
    for number in range(count):
        await association.send(payload, number % 8)


async def serve(size: int, count: int) -> None:
    async with Endpoint.bind(Config("127.0.0.1", udp_port=0, sack_delay="10ms")) as endpoint:
        print(endpoint.port, endpoint.udp_port, flush=True)
        association = await endpoint.accept()
        assert association is not None
        sending = asyncio.create_task(send(association, size, count))
        async for _ in association:
            pass
        await sending


async def measure(size: int, count: int) -> None:
    command = [sys.executable, __file__, "--serve", str(size), str(count)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    port, udp_port = map(int, server.stdout.readline().split())
    async with Endpoint.bind(Config("127.0.0.1", udp_port=0)) as endpoint:
        async with await endpoint.connect("127.0.0.1", port, udp_port=udp_port) as association:
            begin = time.perf_counter()
            sending = asyncio.create_task(send(association, size, count))
            for _ in range(count):
                await association.recv()
            await sending
            await association.flushed()
            rate = count / (time.perf_counter() - begin)
            print(f"{rate:,.0f} messages of {size} bytes per second in each direction")
            times = []
            for _ in range(50):
                begin = time.perf_counter()
                await send(association, size, 20)
                times.append((time.perf_counter() - begin) / 20)
                await association.flushed()
            print(f"{1e6 * sorted(times)[len(times) // 2]:.1f} us for a send that does not wait (median)")
    server.wait()


arguments = [int(text) for text in sys.argv[1:] if text != "--serve"]
numbers = (*arguments, *[100, 200_000][len(arguments) :])
asyncio.run((serve if "--serve" in sys.argv else measure)(*numbers))
