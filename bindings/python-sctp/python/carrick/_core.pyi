"""Types of the extension module."""

from asyncio import Future
from typing import List, Optional, Tuple, Union, final

__version__: str
__all__ = [
    "Association",
    "AssociationEnd",
    "Certificate",
    "CloseReason",
    "CloseReport",
    "Config",
    "Endpoint",
    "Message",
    "__version__",
]

_SendOptions = Tuple[
    int, int, bool, bool, Optional[float], Optional[int], Optional[int], Optional[int], int
]
_EventEntry = Tuple[str, str, str, Optional[bytes], Optional[CloseReason]]

@final
class CloseReason:
    """Reason for which an association ended. ``str`` describes it."""

    @property
    def name(self) -> str:
        """Name, such as ``aborted-by-peer``."""
    @property
    def cause_code(self) -> Optional[int]:
        """Code of the error cause of an ABORT; 0 without a cause."""
    @property
    def information(self) -> bytes:
        """Cause-specific information of an ABORT: with code 12 the reason that the peer's program gave."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class AssociationEnd:
    """End of an association in a report."""

    @property
    def peer_addresses(self) -> List[str]:
        """Addresses of the peer at the set-up."""
    @property
    def peer_port(self) -> int:
        """SCTP port of the peer."""
    @property
    def reason(self) -> CloseReason:
        """Reason."""
    @property
    def timed_out(self) -> bool:
        """The association was aborted because the time of ``Endpoint.close`` or ``linger`` was over."""
    @property
    def undelivered(self) -> int:
        """Number of messages that ``send`` accepted and the peer did not acknowledge."""
    @property
    def unread(self) -> int:
        """Number of received messages that were discarded unread."""

@final
class CloseReport:
    """Report of ``Endpoint.close``: associations that did not end gracefully, and messages that were not delivered."""

    @property
    def associations(self) -> List[AssociationEnd]:
        """Associations that did not end gracefully, at most 64."""
    @property
    def omitted(self) -> int:
        """Number of further associations."""
    @property
    def undelivered(self) -> int:
        """Number of messages that ``send`` accepted and the peers did not acknowledge."""
    @property
    def unread(self) -> int:
        """Number of received messages that were discarded unread."""
    @property
    def is_empty(self) -> bool:
        """No message was lost, and each association was shut down or aborted by the program."""

@final
class Message:
    """Received message."""

    @property
    def payload(self) -> bytes:
        """Bytes of the message."""
    @property
    def stream(self) -> int:
        """Stream of the message."""
    @property
    def ppid(self) -> int:
        """Payload protocol identifier that the peer's program set."""
    @property
    def ordered(self) -> bool:
        """The message was delivered in the order of its stream."""
    @property
    def ssn(self) -> Optional[int]:
        """Stream sequence number; ``None`` for an unordered message."""
    @property
    def mid(self) -> Optional[int]:
        """With interleaving, the message identifier."""
    @property
    def tsn(self) -> int:
        """TSN of the first fragment."""
    @property
    def part(self) -> str:
        """``whole``; or ``first``, ``middle``, ``last`` or ``aborted`` for a part of a message that is larger than the
        receive buffer."""

@final
class Certificate:
    """Certificate with its private key, for DTLS."""

    @staticmethod
    def generate() -> Certificate:
        """Generate a self-signed certificate with a new key."""
    @staticmethod
    def from_der(certificate: bytes, private_key: bytes) -> Certificate:
        """Return the certificate with this private key, both in DER."""
    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, as pairs of hexadecimal digits with colons between them."""
    @property
    def der(self) -> bytes:
        """Certificate in DER."""
    @property
    def private_key(self) -> bytes:
        """Private key in DER."""

@final
class Config:
    def __new__(cls, json: str, certificate: Optional[Certificate]) -> Config: ...
    def parameters(self) -> str: ...

@final
class Association:
    def send(self, payload: Union[bytes, bytearray, memoryview], options: _SendOptions) -> Optional[Future[None]]: ...
    def try_recv(self) -> Optional[Message]: ...
    def readable(self) -> Future[bool]: ...
    def try_event(self) -> Optional[_EventEntry]: ...
    def event_ready(self) -> Future[bool]: ...
    def flushed(self) -> Future[None]: ...
    def shutdown(self) -> Future[None]: ...
    def abort(self, reason: bytes) -> None: ...
    def closed(self) -> Future[CloseReason]: ...
    @property
    def close_reason(self) -> Optional[CloseReason]: ...
    @property
    def undelivered(self) -> int: ...
    @property
    def peer_addresses(self) -> List[str]: ...
    @property
    def peer_port(self) -> int: ...
    @property
    def peer_fingerprint(self) -> Optional[str]: ...
    @property
    def outbound_streams(self) -> int: ...
    @property
    def inbound_streams(self) -> int: ...
    def statistics(self) -> Future[str]: ...
    def paths(self) -> Future[str]: ...
    def set_primary(self, path: int) -> Future[None]: ...
    def set_peer_primary(self, address: str) -> Future[None]: ...
    def request_heartbeat(self, path: int) -> Future[None]: ...
    def reset_streams(self, streams: List[int], incoming: bool) -> Future[None]: ...
    def add_streams(self, outgoing: int, incoming: int) -> Future[None]: ...

@final
class Endpoint:
    def __new__(cls, config: Config) -> Endpoint: ...
    @property
    def port(self) -> int: ...
    @property
    def udp_port(self) -> Optional[int]: ...
    def connect(
        self,
        hosts: List[str],
        port: int,
        udp_port: Optional[int],
        trusted: Optional[List[str]],
        config: Optional[Config],
    ) -> Future[Association]: ...
    def try_accept(self) -> Optional[Association]: ...
    def acceptable(self) -> Future[bool]: ...
    def close(self, timeout: Optional[float]) -> Future[CloseReport]: ...
    def statistics(self) -> Future[str]: ...
    def local_addresses(self) -> Future[str]: ...
    def associations(self) -> Future[int]: ...
