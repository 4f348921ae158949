"""Progress of runs."""

from __future__ import annotations

import sys
import time
from typing import Callable, Optional, Union

Callback = Callable[[int, int], object]
Progress = Union[None, bool, Callback]


def observer(progress: Progress, name: str) -> Optional[Callback]:
    """Return the function that is called with the numbers of completed and of all runs.

    ``None`` shows a bar if standard error is a terminal, ``True`` always.
    """
    if callable(progress):
        return progress
    if progress is None:
        progress = sys.stderr.isatty()
    return _Bar(name) if progress else None


class _Bar:
    """A bar in one line of standard error."""

    WIDTH = 30
    INTERVAL = 0.1

    def __init__(self, name: str) -> None:
        self._name = name
        self._start = self._shown = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._shown < self.INTERVAL and done < total:
            return
        self._shown = now
        filled = self.WIDTH * done // max(total, 1)
        bar = "#" * filled + "-" * (self.WIDTH - filled)
        seconds = now - self._start
        end = "\n" if done >= total else ""
        sys.stderr.write(f"\r{self._name} [{bar}] {done}/{total} {seconds:.0f} s{end}")
        sys.stderr.flush()
