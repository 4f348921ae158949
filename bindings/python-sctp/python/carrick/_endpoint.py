"""Endpoints."""

from types import TracebackType
from typing import Any, Dict, Iterable, List, Optional, Type, Union

from . import _core
from ._association import Association
from ._config import Config, Value, fingerprints, hosts, loads
from ._core import CloseReport

_ABORT_AFTER = 0.5
"""Time in seconds for a graceful end after an exception."""


class Endpoint:
    """An SCTP port on one or more addresses of this host.

    As an asynchronous context manager it is closed at the end of the block: accepted messages are delivered first. After
    an exception it has half a second for this, then its associations are aborted.
    """

    __slots__ = ("_config", "_core")

    def __init__(self, core: _core.Endpoint, config: Config) -> None:
        self._core = core
        self._config = config

    @classmethod
    def bind(cls, config: Optional[Config] = None) -> "Endpoint":
        """Open an endpoint."""
        config = Config() if config is None else config
        return cls(_core.Endpoint(config._core), config)

    async def connect(
        self,
        peer: Union[str, Iterable[object]],
        port: int,
        *,
        udp_port: Optional[int] = None,
        trusted: Union[None, str, Iterable[str]] = None,
        **parameters: Value,
    ) -> Association:
        """Set up an association with the peer that has these addresses or names, in one text or several.

        The first address is tried first; the peer lists all of its addresses. ``udp_port`` is the peer's, 9899 if none is
        given. ``trusted`` is for this association, as in :class:`Config`. Parameters of this association may follow. A
        cancelled call aborts the set-up.
        """
        config = self._config.changed(**parameters)._core if parameters else None
        core = await self._core.connect(hosts(peer), port, udp_port, fingerprints(trusted), config)
        return Association(core)

    async def accept(self) -> Optional[Association]:
        """Return the next association that a peer has set up; ``None`` after the endpoint was closed.

        A cancelled call loses no association.
        """
        core = self._core.try_accept()
        while core is None:
            if not await self._core.acceptable():
                return None
            core = self._core.try_accept()
        return Association(core)

    def __aiter__(self) -> "Endpoint":
        return self

    async def __anext__(self) -> Association:
        association = await self.accept()
        if association is None:
            raise StopAsyncIteration
        return association

    async def close(self, timeout: Optional[float] = None) -> CloseReport:
        """Refuse new associations, shut the existing ones down, and return what was not delivered.

        After ``timeout`` seconds the associations that have not ended are aborted; without one this waits as long as the
        protocol retransmits. A cancelled call does not stop the closing.
        """
        return await self._core.close(timeout)

    @property
    def port(self) -> int:
        """SCTP port."""
        return self._core.port

    @property
    def udp_port(self) -> Optional[int]:
        """Local UDP port; ``None`` on plain IP."""
        return self._core.udp_port

    async def local_addresses(self) -> List[str]:
        """Return the addresses that the endpoint is bound to."""
        found: List[str] = loads(await self._core.local_addresses())
        return found

    async def associations(self) -> int:
        """Return the number of associations, those being set up and shut down included."""
        return await self._core.associations()

    async def statistics(self) -> Dict[str, Any]:
        """Return the counters of the endpoint with the names of the library."""
        found: Dict[str, Any] = loads(await self._core.statistics())
        return found

    async def __aenter__(self) -> "Endpoint":
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close(None if error is None else _ABORT_AFTER)

    def __repr__(self) -> str:
        udp = "" if self.udp_port is None else f", UDP port {self.udp_port}"
        return f"<Endpoint on SCTP port {self.port}{udp}>"
