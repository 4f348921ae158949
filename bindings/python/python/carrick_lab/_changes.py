"""Changes of a scenario as a TOML document."""

from __future__ import annotations

import json
import numbers
from typing import Any, Mapping, Sequence

from ._core import ScenarioError


def document(values: Mapping[str, Any], sweeps: Sequence[Mapping[str, Any]]) -> str:
    """Return the document of changed keys and added dimensions."""
    lines = [_entry(key, value) for key, value in values.items()]
    for sweep in sweeps:
        lines.append("[[sweep]]")
        lines.extend(_entry(key, value) for key, value in sweep.items())
    return "".join(line + "\n" for line in lines)


def _entry(key: str, value: Any) -> str:
    if not isinstance(key, str):
        raise ScenarioError(f"{key!r}: expected the key as a text such as 'links.far.loss'")
    return f"{_text(key)} = {_value(key, value)}"


def _value(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_text(own)} = {_value(key, item)}" for own, item in value.items()) + " }"
    if isinstance(value, Sequence):
        return "[" + ", ".join(_value(key, item) for item in value) + "]"
    raise ScenarioError(f"{key}: {value!r} is invalid; expected a text, number, truth value, list or mapping")


def _text(text: str) -> str:
    # The escapes of JSON are those of TOML, but for DEL, which JSON leaves as it is.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
