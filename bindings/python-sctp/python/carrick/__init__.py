"""SCTP endpoints and associations for asyncio.

An :class:`Endpoint` is an SCTP port on one or more addresses of this host, in UDP or on plain IP; it connects and accepts
:class:`Association` objects, which carry messages on streams over all addresses of both hosts::

    import asyncio
    from carrick import Config, Endpoint

    async def main():
        async with Endpoint.bind(Config(udp_port=0)) as endpoint:
            async with await endpoint.connect("192.0.2.1,198.51.100.1", 5000) as association:
                await association.send(b"hello", stream=1)
                print(await association.recv())

    asyncio.run(main())

**Close the endpoint before the event loop ends**, as the block does: :meth:`Association.send` only queues a message, and
messages that are queued when the interpreter ends are sent once at most.
"""

from ._association import Association, EndedEvent, Event, Path, PathEvent, SendFailedEvent
from ._config import Config
from ._core import AssociationEnd, Certificate, CloseReason, CloseReport, Message, __version__
from ._endpoint import Endpoint
from ._errors import (
    AddressInUseError,
    AssociationAbortedError,
    AssociationEndedError,
    AssociationShutDownError,
    BindError,
    BindPermissionError,
    CarrickError,
    ConfigError,
    ConnectError,
    ConnectRefusedError,
    ConnectTimeoutError,
    EndpointClosedError,
    OperationError,
    PeerUnreachableError,
    SendError,
)

__all__ = [
    "AddressInUseError",
    "Association",
    "AssociationAbortedError",
    "AssociationEnd",
    "AssociationEndedError",
    "AssociationShutDownError",
    "BindError",
    "BindPermissionError",
    "CarrickError",
    "Certificate",
    "CloseReason",
    "CloseReport",
    "Config",
    "ConfigError",
    "ConnectError",
    "ConnectRefusedError",
    "ConnectTimeoutError",
    "EndedEvent",
    "Endpoint",
    "EndpointClosedError",
    "Event",
    "Message",
    "OperationError",
    "Path",
    "PathEvent",
    "PeerUnreachableError",
    "SendError",
    "SendFailedEvent",
    "__version__",
]
