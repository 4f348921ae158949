"""Ends of associations and endpoints, and what fails."""

import asyncio
import errno
import socket

import pytest

from carrick import (
    AddressInUseError,
    Association,
    AssociationAbortedError,
    AssociationEndedError,
    BindError,
    CarrickError,
    Config,
    ConfigError,
    ConnectError,
    ConnectRefusedError,
    ConnectTimeoutError,
    EndpointClosedError,
    Endpoint,
)
from support import LOOPBACK, linked, run


def test_a_port_without_endpoint_refuses_with_words() -> None:
    async def main() -> None:
        async with Endpoint.bind(Config(LOOPBACK, udp_port=0)) as server:
            async with Endpoint.bind(Config(LOOPBACK, udp_port=0)) as client:
                other = 1 + server.port % 65535
                with pytest.raises(ConnectRefusedError, match="nothing listens on that SCTP port") as refused:
                    await client.connect("127.0.0.1", other, udp_port=server.udp_port)
                assert isinstance(refused.value, (CarrickError, ConnectionRefusedError))
                assert refused.value.errno == errno.ECONNREFUSED
                assert refused.value.reason is not None and refused.value.reason.name == "aborted-by-peer"

    run(main())


def test_a_silent_peer_is_a_timeout() -> None:
    async def main() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
            silent.bind(("127.0.0.1", 0))
            config = Config("127.0.0.1", udp_port=0, rto_initial="50ms", rto_min=0.05, max_init_retransmits=1)
            async with Endpoint.bind(config) as client:
                with pytest.raises(ConnectTimeoutError, match="does not answer") as failed:
                    await client.connect("127.0.0.1", 5000, udp_port=silent.getsockname()[1])
                assert isinstance(failed.value, TimeoutError)
                assert isinstance(failed.value, OSError)

    run(main())


def test_a_cancelled_connect_aborts_the_set_up() -> None:
    async def main() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
            silent.bind(("127.0.0.1", 0))
            async with Endpoint.bind(Config("127.0.0.1", udp_port=0)) as client:
                connecting = client.connect("127.0.0.1", 5000, udp_port=silent.getsockname()[1])
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(connecting, 0.1)
                while await client.associations():
                    await asyncio.sleep(0.01)
                assert await client.associations() == 0

    run(main())


def test_an_unknown_name_is_named() -> None:
    async def main() -> None:
        async with Endpoint.bind(Config("127.0.0.1", udp_port=0)) as client:
            with pytest.raises(ConnectError, match='cannot resolve "no-such-host.invalid"'):
                await client.connect("no-such-host.invalid", 5000)
            with pytest.raises(ConnectError, match="pass a port from 1 to 65535"):
                await client.connect("127.0.0.1", 0)

    run(main())


def test_the_reason_of_an_abort_reaches_the_peer() -> None:
    async def main() -> None:
        async with linked() as pair:
            pair.client.abort("out of patience")
            with pytest.raises(AssociationAbortedError, match="out of patience") as aborted:
                await pair.server.recv()
            assert isinstance(aborted.value, ConnectionResetError)
            reason = aborted.value.reason
            assert reason is not None and reason.name == "aborted-by-peer"
            assert (reason.cause_code, reason.information) == (12, b"out of patience")
            assert pair.server.close_reason == reason == await pair.server.closed()
            assert (await pair.client.closed()).name == "aborted-by-user"
            with pytest.raises(AssociationEndedError):
                await pair.client.send(b"x")

    run(main())


def test_an_exception_in_a_block_aborts() -> None:
    async def main() -> None:
        async with linked() as pair:
            with pytest.raises(KeyError):
                async with pair.client:
                    raise KeyError("own")
            assert "KeyError in the program" in str(await pair.server.closed())

    run(main())


def test_a_block_ends_with_a_shutdown() -> None:
    async def main() -> None:
        async with linked() as pair:
            async with pair.client as association:
                await association.send(b"x")
            assert (await pair.server.closed()).name == "shutdown"
            assert [m.payload async for m in pair.server] == [b"x"]

    run(main())


def test_the_report_has_what_was_not_delivered() -> None:
    async def main() -> None:
        async with linked() as pair:
            await pair.client.send(b"read")
            await pair.client.flushed()
            report = await pair.client_endpoint.close()
            assert report.is_empty and str(report) == "all messages delivered"
        async with linked(receive_buffer=20_000, max_receive_buffer=None, receive_queue=1000) as pair:
            for _ in range(20):
                await pair.client.send(bytes(5000))
            report = await pair.client_endpoint.close(timeout=0.2)
            assert not report.is_empty and report.undelivered > 0
            (end,) = report.associations
            assert (end.timed_out, end.peer_addresses, end.peer_port) == (True, LOOPBACK, pair.server_endpoint.port)
            assert end.reason.name == "aborted-by-user" and end.undelivered == report.undelivered
            assert "messages not delivered" in str(report)

    run(main())


def test_a_closed_endpoint_ends_its_iteration() -> None:
    async def main() -> None:
        endpoint = Endpoint.bind(Config("127.0.0.1", udp_port=0))
        accepted = []

        async def accept() -> None:
            async for association in endpoint:
                accepted.append(association)

        accepting = asyncio.create_task(accept())
        await asyncio.sleep(0.01)
        await endpoint.close()
        await accepting
        assert accepted == []
        with pytest.raises(EndpointClosedError, match="bind another one"):
            await endpoint.connect("127.0.0.1", 5000)

    run(main())


def test_a_cancelled_accept_loses_no_association() -> None:
    async def main() -> None:
        count = 30
        async with Endpoint.bind(Config("127.0.0.1", udp_port=0, max_associations_per_source=100)) as server:
            accepted = []

            async def connect() -> Association:
                async with Endpoint.bind(Config("127.0.0.1", udp_port=0)) as client:
                    association = await client.connect("127.0.0.1", server.port, udp_port=server.udp_port)
                    assert await association.recv() is None
                    return association

            clients = [asyncio.create_task(connect()) for _ in range(count)]
            steps = 0
            while len(accepted) < count:
                waiting = asyncio.create_task(server.accept())
                steps = (steps + 1) % 40
                for _ in range(steps):
                    await asyncio.sleep(0)
                waiting.cancel()
                try:
                    association = await waiting
                except asyncio.CancelledError:
                    continue
                assert association is not None
                accepted.append(association)
            for association in accepted:
                await association.shutdown()
            assert len(await asyncio.gather(*clients)) == count

    run(main())


def test_errors_of_binding_name_the_port() -> None:
    async def main() -> None:
        async with Endpoint.bind(Config("127.0.0.1", udp_port=0)) as endpoint:
            with pytest.raises(AddressInUseError, match=f"UDP port {endpoint.udp_port}") as taken:
                Endpoint.bind(Config("127.0.0.1", udp_port=endpoint.udp_port or 0))
            assert taken.value.errno == errno.EADDRINUSE
        with pytest.raises(BindError, match="192.0.2.77 is not an address of this host") as refused:
            Endpoint.bind(Config("192.0.2.77"))
        assert isinstance(refused.value, OSError)
        with pytest.raises(ConfigError, match="backlog: must be at least 1"):
            Endpoint.bind(Config("127.0.0.1", udp_port=0, backlog=0))

    run(main())


def test_without_a_running_loop_there_is_an_error() -> None:
    endpoint = Endpoint.bind(Config("127.0.0.1", udp_port=0))
    with pytest.raises(RuntimeError, match="no running event loop"):
        endpoint._core.close(None)
    report = run(endpoint.close())
    assert report.is_empty
