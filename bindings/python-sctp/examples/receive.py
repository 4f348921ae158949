"""Receives messages on SCTP port 5000 of all addresses of this host, and prints how many arrived in order."""

import asyncio

from carrick import Config, Endpoint


async def main() -> None:
    async with Endpoint.bind(Config(port=5000, preset="signaling")) as endpoint:
        print(f"listening: {endpoint}", flush=True)
        association = await endpoint.accept()
        assert association is not None
        numbers = [int(message.payload) async for message in association]
        print(f"{len(numbers)} messages, in order: {numbers == list(range(len(numbers)))}")


asyncio.run(main())
