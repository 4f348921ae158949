"""SCTP over DTLS (RFC 8261)."""

import pytest

from carrick import Certificate, Config, ConfigError, ConnectError, Endpoint
from support import run


def test_messages_are_exchanged_with_a_trusted_peer() -> None:
    async def main() -> None:
        ours, theirs = Certificate.generate(), Certificate.generate()
        common = {"addresses": "127.0.0.1", "udp_port": 0}
        async with Endpoint.bind(Config(**common, certificate=theirs, trusted=[ours.fingerprint])) as server:
            client_config = Config(**common, certificate=ours, trusted=[])
            async with Endpoint.bind(client_config) as client:
                association = await client.connect(
                    "127.0.0.1", server.port, udp_port=server.udp_port, trusted=theirs.fingerprint, rto_min=0.5
                )
                accepted = await server.accept()
                assert accepted is not None
                assert association.peer_fingerprint == theirs.fingerprint
                assert accepted.peer_fingerprint == ours.fingerprint
                await association.send(b"secret", 2, 3)
                message = await accepted.recv()
                assert message is not None and (message.payload, message.stream, message.ppid) == (b"secret", 2, 3)

    run(main())


def test_a_peer_with_another_certificate_is_refused() -> None:
    async def main() -> None:
        ours, theirs = Certificate.generate(), Certificate.generate()
        common = {"addresses": "127.0.0.1", "udp_port": 0}
        async with Endpoint.bind(Config(**common, certificate=theirs, trusted="anyone")) as server:
            async with Endpoint.bind(Config(**common, certificate=ours, trusted=ours.fingerprint)) as client:
                with pytest.raises(ConnectError, match="no protected session"):
                    await client.connect("127.0.0.1", server.port, udp_port=server.udp_port)

    run(main())


def test_a_certificate_is_stored_in_der() -> None:
    own = Certificate.generate()
    again = Certificate.from_der(own.der, own.private_key)
    assert again.fingerprint == own.fingerprint != Certificate.generate().fingerprint
    assert repr(own) == f"<Certificate {own.fingerprint}>"


def test_half_a_configuration_is_an_error() -> None:
    for half in [{"certificate": Certificate.generate()}, {"trusted": "anyone"}]:
        with pytest.raises(ConfigError, match="needs both certificate and trusted"):
            Config(**half)
    with pytest.raises(ConfigError, match='trusted: "12:34"'):
        Config(certificate=Certificate.generate(), trusted="12:34")
