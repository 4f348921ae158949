"""Sends 100 messages per second to a peer with several addresses for ten seconds, and prints what happens to the paths.

    survive.py ADDRESS,ADDRESS...
"""

import asyncio
import sys

from carrick import Association, Config, Endpoint


async def watch(association: Association) -> None:
    async for event in association.events():
        print(f"{event.time:.3f}  {event}", flush=True)


async def main() -> None:
    async with Endpoint.bind(Config(preset="signaling", udp_port=0)) as endpoint:
        association = await endpoint.connect(sys.argv[1], 5000)
        watching = asyncio.create_task(watch(association))
        for number in range(1000):
            await association.send(b"%d" % number)
            await asyncio.sleep(0.01)
        await association.shutdown()
        await watching


asyncio.run(main())
