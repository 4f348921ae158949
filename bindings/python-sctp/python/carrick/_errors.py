"""Exceptions. Their text is the library's: what failed, and what to do."""

import errno
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from ._core import CloseReason


class CarrickError(Exception):
    """Base of all exceptions of this package."""


class ConfigError(CarrickError, ValueError):
    """A parameter is unknown, out of its range, or contradicts another one."""


class BindError(CarrickError, OSError):
    """The endpoint could not be opened."""


class AddressInUseError(BindError):
    """Another program has the port."""

    errno = errno.EADDRINUSE


class BindPermissionError(BindError, PermissionError):
    """The system reserves the port, or plain IP, for privileged programs."""

    errno = errno.EACCES


class ConnectError(CarrickError, ConnectionError):
    """The association could not be set up."""

    reason: "Optional[CloseReason]" = None


class ConnectRefusedError(ConnectError, ConnectionRefusedError):
    """The peer, or its host, refused the association: nothing listens there, or the program does not accept it."""

    errno = errno.ECONNREFUSED


class ConnectTimeoutError(ConnectError, TimeoutError):
    """The peer did not answer."""

    errno = errno.ETIMEDOUT


class EndpointClosedError(CarrickError, ConnectionError):
    """The endpoint is closed."""


class SendError(CarrickError, ValueError):
    """The message cannot be sent: it is empty or too large, or there is no such stream or path."""


class OperationError(CarrickError):
    """The association is not in a state for the operation, or the peer does not support it."""


class AssociationEndedError(CarrickError, ConnectionError):
    """The association has ended, not gracefully; ``reason`` is why."""

    reason: "Optional[CloseReason]" = None


class AssociationAbortedError(AssociationEndedError, ConnectionResetError):
    """The peer aborted the association."""

    errno = errno.ECONNRESET


class AssociationShutDownError(AssociationEndedError, BrokenPipeError):
    """The association was shut down, or is being shut down, and takes no messages."""

    errno = errno.EPIPE


class PeerUnreachableError(AssociationEndedError, TimeoutError):
    """The peer no longer answers on any of its addresses."""

    errno = errno.ETIMEDOUT
