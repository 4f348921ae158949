"""Associations and their events."""

import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, AsyncIterator, Dict, Iterable, List, Mapping, Optional, Tuple, Type, Union

from . import _core
from ._config import loads
from ._core import CloseReason, Message
from ._errors import AssociationEndedError


@dataclass(frozen=True)
class Path:
    """A path: an address of the peer, with the local address from which it is reached."""

    id: int
    remote: str
    local: Optional[str]
    udp_port: Optional[int]
    """UDP port of the peer; ``None`` on plain IP."""
    status: str
    """``active``, ``potentially-failed``, ``inactive`` or ``unconfirmed``."""
    rto: float
    """Retransmission timeout in seconds."""
    srtt: Optional[float]
    """Smoothed round-trip time in seconds; ``None`` before the first measurement."""
    error_count: int
    error: Optional[str]
    """Reason of the last error, such as ``t3-expired``; ``None`` while the counter is 0."""
    statistics: Dict[str, Any] = field(repr=False, compare=False)
    """All values of the path with the names of the library."""

    @classmethod
    def _of(cls, found: Dict[str, Any]) -> "Path":
        status = found["status"]
        if not status["confirmed"]:
            name = "unconfirmed"
        elif not status["active"]:
            name = "inactive"
        else:
            name = "potentially-failed" if status["potentially_failed"] else "active"
        return cls(
            id=found["id"],
            remote=found["remote"],
            local=found["local"],
            udp_port=found["encapsulation"],
            status=name,
            rto=found["rto"],
            srtt=found["srtt"],
            error_count=found["error_count"],
            error=found["last_error"] if found["error_count"] else None,
            statistics=found,
        )


@dataclass(frozen=True)
class Event:
    """An event of an association. ``str`` is its text."""

    kind: str
    """Kind of the event, such as ``failed``; see the guide for all of them."""
    time: float
    """Time at which the event was read, as ``time.time()`` has it."""
    text: str
    values: Mapping[str, Any] = field(repr=False, compare=False)
    """Further values, by kind."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class PathEvent(Event):
    """A path changed: kinds ``confirmed``, ``unconfirmed``, ``potentially-failed``, ``failed``, ``recovered``,
    ``source-changed``, ``current-changed`` (it carries new data now) and ``primary-changed``."""

    path: Path
    """The path after the change, with the reason of its last error."""


@dataclass(frozen=True)
class SendFailedEvent(Event):
    """A message was not delivered, or its delivery is unknown. ``values`` has ``context``, ``stream``, ``ppid``, and
    whether it was ``sent``, ``expired`` or ``abandoned``."""

    payload: bytes
    """The bytes that are not known to be delivered: the whole message if nothing was sent."""


@dataclass(frozen=True)
class EndedEvent(Event):
    """The association has ended. No event follows."""

    reason: CloseReason


# Numbers of a message, with the largest value of each; in the order of the options of a message.
_NUMBERS = {
    "stream": (0, 2**16 - 1),
    "ppid": (1, 2**32 - 1),
    "retransmissions": (5, 2**32 - 1),
    "priority": (6, 2**32 - 1),
    "path": (7, 2**8 - 1),
    "context": (8, 2**64 - 1),
}


def _out_of_range(options: Tuple[object, ...]) -> OverflowError:
    for name, (place, most) in _NUMBERS.items():
        value = options[place]
        if isinstance(value, int) and not 0 <= value <= most:
            return OverflowError(f"{name}: {value} is not a number from 0 to {most}")
    return OverflowError("a number of the message is out of range")


def _event(found: "_core._EventEntry") -> Event:
    kind, text, values_text, payload, reason = found
    now = time.time()
    values = loads(values_text)
    path = values.get("path")
    if path is not None:
        return PathEvent(kind, now, text, values, Path._of(path))
    if payload is not None:
        return SendFailedEvent(kind, now, text, values, payload)
    if reason is not None:
        return EndedEvent(kind, now, text, values, reason)
    return Event(kind, now, text, values)


class Association:
    """An association: sends and receives messages on streams, over all addresses of both hosts.

    As an asynchronous context manager it is shut down at the end of the block, and aborted by an exception.
    """

    __slots__ = ("_core",)

    def __init__(self, core: _core.Association) -> None:
        self._core = core

    async def send(
        self,
        payload: Union[bytes, bytearray, memoryview],
        stream: int = 0,
        ppid: int = 0,
        *,
        ordered: bool = True,
        immediate: bool = False,
        lifetime: Optional[float] = None,
        retransmissions: Optional[int] = None,
        priority: Optional[int] = None,
        path: Optional[int] = None,
        context: int = 0,
    ) -> None:
        """Queue a message; wait only while the send queue is full.

        ``lifetime`` (seconds), ``retransmissions`` and ``priority`` abandon the message on a condition (RFC 3758, RFC
        7496); give one of them. ``path`` prefers a path while it is usable; ``context`` is repeated in
        :class:`SendFailedEvent`. A cancelled call has queued the whole message or nothing.
        """
        options = (stream, ppid, ordered, immediate, lifetime, retransmissions, priority, path, context)
        try:
            waiting = self._core.send(payload, options)
        except OverflowError:
            raise _out_of_range(options) from None
        if waiting is not None:
            await waiting

    async def recv(self) -> Optional[Message]:
        """Return the next message; ``None`` after the association was shut down and all messages were received.

        Raise :class:`AssociationEndedError` if it ended in another way. A cancelled call loses no message. One task at a
        time can wait.
        """
        message = self._core.try_recv()
        while message is None:
            if not await self._core.readable():
                return None
            message = self._core.try_recv()
        return message

    def recv_ready(self) -> Optional[Message]:
        """Return the next message if one is queued, without waiting."""
        return self._core.try_recv()

    def __aiter__(self) -> "Association":
        return self

    async def __anext__(self) -> Message:
        message = await self.recv()
        if message is None:
            raise StopAsyncIteration
        return message

    async def events(self) -> AsyncIterator[Event]:
        """Iterate over the events of the association, to its end. One task at a time can wait."""
        while True:
            found = self._core.try_event()
            while found is None:
                if not await self._core.event_ready():
                    return
                found = self._core.try_event()
            yield _event(found)

    async def flushed(self) -> None:
        """Wait until all messages that were sent before are acknowledged."""
        await self._core.flushed()

    async def shutdown(self) -> None:
        """Shut the association down, and wait until the messages of both sides are delivered.

        A cancelled call does not stop the shutdown.
        """
        await self._core.shutdown()

    def abort(self, reason: Union[bytes, str] = b"") -> None:
        """Abort the association: the peer gets an ABORT with the first 1024 bytes of the reason."""
        self._core.abort(reason.encode() if isinstance(reason, str) else bytes(reason))

    async def closed(self) -> CloseReason:
        """Wait until the association has ended; return the reason."""
        return await self._core.closed()

    @property
    def close_reason(self) -> Optional[CloseReason]:
        """Reason for which the association has ended; ``None`` until then."""
        return self._core.close_reason

    @property
    def undelivered(self) -> int:
        """Number of messages that were accepted and not acknowledged."""
        return self._core.undelivered

    @property
    def peer_addresses(self) -> List[str]:
        """Addresses of the peer at the set-up."""
        return self._core.peer_addresses

    @property
    def peer_port(self) -> int:
        """SCTP port of the peer."""
        return self._core.peer_port

    @property
    def peer_fingerprint(self) -> Optional[str]:
        """Fingerprint of the peer's certificate; ``None`` without DTLS, and where no certificate was requested."""
        return self._core.peer_fingerprint

    @property
    def outbound_streams(self) -> int:
        """Number of streams to send on; their identifiers start at 0."""
        return self._core.outbound_streams

    @property
    def inbound_streams(self) -> int:
        """Number of streams that the peer may send on."""
        return self._core.inbound_streams

    async def statistics(self) -> Dict[str, Any]:
        """Return state and counters with the names of the library; times are seconds."""
        found: Dict[str, Any] = loads(await self._core.statistics())
        return found

    async def paths(self) -> List[Path]:
        """Return the paths with their state."""
        return [Path._of(found) for found in loads(await self._core.paths())]

    async def set_primary(self, path: Union[Path, int]) -> None:
        """Set the primary path, which carries new data while it is active."""
        await self._core.set_primary(path.id if isinstance(path, Path) else path)

    async def set_peer_primary(self, address: object) -> None:
        """Request that the peer use this local address as its primary one (RFC 5061, section 5.4)."""
        await self._core.set_peer_primary(str(address))

    async def request_heartbeat(self, path: Union[Path, int]) -> None:
        """Send a heartbeat on a path now."""
        await self._core.request_heartbeat(path.id if isinstance(path, Path) else path)

    async def reset_streams(self, streams: Iterable[int] = (), *, incoming: bool = False) -> None:
        """Request a reset of streams, all if none is given (RFC 6525); an event ``streams-reset`` reports the result."""
        await self._core.reset_streams(list(streams), incoming)

    async def add_streams(self, outgoing: int, incoming: int = 0) -> None:
        """Request more streams (RFC 6525); an event ``streams-changed`` reports the result."""
        await self._core.add_streams(outgoing, incoming)

    async def __aenter__(self) -> "Association":
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if error is None:
            await self.shutdown()
        elif not isinstance(error, AssociationEndedError):
            self.abort(f"{type(error).__name__} in the program")

    def __repr__(self) -> str:
        reason = self.close_reason
        state = "" if reason is None else f", ended: {reason}"
        return f"<Association with {','.join(self.peer_addresses)} port {self.peer_port}{state}>"
