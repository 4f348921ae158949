"""Configuration of endpoints."""

import difflib
import json
import math
from datetime import timedelta
from typing import Any, Dict, Iterable, List, Mapping, Optional, Union

from . import _core
from ._errors import ConfigError

Value = Union[None, bool, int, float, str, timedelta, Mapping[str, Any]]
"""Value of a parameter. A time is a number of seconds, a ``timedelta``, or text with its unit such as ``"150ms"``."""


class Config:
    """Configuration of an :class:`Endpoint`.

    ``addresses`` are the local addresses; none means all of the host. ``port`` is the SCTP port; 0 chooses one.
    ``transport`` is ``"udp"`` (RFC 6951, no privileges needed), ``"raw"`` (IP protocol 132, needs ``CAP_NET_RAW``) or
    ``"both"``; ``udp_port`` is the local UDP port, where 0 lets the system choose. ``daemon`` is the control socket of a
    ``carrick daemon`` whose UDP port the endpoint shares.

    With ``certificate`` and ``trusted`` packets are records of DTLS (RFC 8261): the peers' certificates have one of the
    trusted fingerprints, or ``"anyone"`` is trusted. An association then has one path.

    ``preset`` is ``"recommended"``, ``"signaling"`` (short timers, for private networks) or ``"rfc9260"``. Every other
    parameter of the library may follow by its name, such as ``path_max_retrans=4`` or ``rto_min=0.15``;
    :attr:`parameters` has all of them.
    """

    def __init__(
        self,
        addresses: Union[str, Iterable[object]] = (),
        *,
        port: int = 0,
        udp_port: int = 9899,
        transport: str = "udp",
        daemon: Optional[str] = None,
        certificate: Optional[_core.Certificate] = None,
        trusted: Union[None, str, Iterable[str]] = None,
        preset: str = "recommended",
        **parameters: Value,
    ) -> None:
        self._given: Dict[str, Any] = {
            "addresses": hosts(addresses),
            "port": port,
            "udp_port": udp_port,
            "transport": transport,
            "daemon": daemon,
            "trusted": fingerprints(trusted),
            "preset": preset,
            "parameters": {name: _plain(name, value) for name, value in parameters.items()},
        }
        _check_names(preset, parameters)
        self._certificate = certificate
        self._core = _core.Config(json.dumps(self._given), certificate)

    @property
    def parameters(self) -> Dict[str, Any]:
        """All parameters with their values. A time of an association is text with its unit."""
        found: Dict[str, Any] = json.loads(self._core.parameters(), object_hook=_seconds)
        return found

    def changed(self, **parameters: Value) -> "Config":
        """Return a configuration with other values of some parameters."""
        arguments = {name: value for name, value in self._given.items() if name != "parameters"}
        return Config(certificate=self._certificate, **{**arguments, **self._given["parameters"], **parameters})

    def __repr__(self) -> str:
        given = {**self._given, **self._given["parameters"]}
        shown = (f"{name}={value!r}" for name, value in given.items() if name != "parameters" and value is not None)
        return f"Config({', '.join(shown)})"


def hosts(given: Union[str, Iterable[object]]) -> List[str]:
    """Return addresses or names: one text may have several, with commas between them."""
    several = given.split(",") if isinstance(given, str) else given
    return [str(host).strip() for host in several]


def fingerprints(trusted: Union[None, str, Iterable[str]]) -> Optional[List[str]]:
    """Return the fingerprints of trusted peers as a list."""
    if trusted is None:
        return None
    return [trusted] if isinstance(trusted, str) else list(trusted)


def _plain(name: str, value: Value) -> object:
    plain = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(plain, float) and not math.isfinite(plain):
        raise ConfigError(f"configuration: {name}: {plain} is not a finite number")
    return plain


def _seconds(found: Dict[str, Any]) -> object:
    """Convert a duration of JSON to seconds."""
    return found["secs"] + found["nanos"] / 1e9 if found.keys() == {"secs", "nanos"} else found


def loads(text: str) -> Any:
    """Read JSON of the library."""
    return json.loads(text, object_hook=_seconds)


def _check_names(preset: str, names: Iterable[str]) -> None:
    if not names:
        return
    known = json.loads(_core.Config(json.dumps({**_EMPTY, "preset": preset}), None).parameters())
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else "Config().parameters has all names"
            raise ConfigError(f"configuration: {name}: there is no such parameter: {hint}")


_EMPTY: Dict[str, Any] = {
    "addresses": [],
    "port": 0,
    "udp_port": 0,
    "transport": "udp",
    "daemon": None,
    "trusted": None,
    "preset": "recommended",
    "parameters": {},
}
