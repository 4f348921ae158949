"""Distribution of runs to the workers of an executor."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from functools import lru_cache
from typing import Dict, Optional, Tuple

from . import _core
from ._progress import Callback

Job = Tuple[int, int]

#: Attempts of a run whose workers end before it.
ATTEMPTS = 5

#: Interval in s at which the workers are counted, which come and go.
COUNT_INTERVAL = 1.0

#: Exceptions of a worker that ended, by name where the type is that of an optional package.
_LOST = (BrokenExecutor, CancelledError, ConnectionError, EOFError)
_LOST_NAMES = {"KilledWorker", "FutureCancelledError", "FutureLostError", "CommClosedError"}


def run_cell(path: str, text: str, changes: str, options: _core.Options, cell: int, repetition: int) -> str:
    """Run one repetition of a cell, in any process; return its line of the file of runs."""
    return _parsed(path, text, changes).run_line(options, cell, repetition)


@lru_cache(maxsize=8)
def _parsed(path: str, text: str, changes: str) -> _core.Scenario:
    return _core.Scenario.parse(path, text, changes)


def distribute(
    executor: Executor,
    scenario: Tuple[str, str, str],
    options: _core.Options,
    records: _core.Records,
    in_flight: Optional[int],
    progress: Optional[Callback],
) -> None:
    """Submit the missing runs one by one, and append each line when it arrives.

    A run whose worker ended before it is submitted again.
    """
    waiting = deque(records.missing)
    total = len(waiting)
    attempts: Counter[Job] = Counter()
    running: Dict[Future[str], Job] = {}
    done = 0
    limit, counted = in_flight, -COUNT_INTERVAL
    try:
        while waiting or running:
            if in_flight is None and time.monotonic() - counted > COUNT_INTERVAL:
                limit, counted = 2 * _workers(executor), time.monotonic()
            while waiting and len(running) < max(limit or 0, 1):
                job = waiting.popleft()
                attempts[job] += 1
                running[executor.submit(run_cell, *scenario, options, *job)] = job
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job = running.pop(future)
                try:
                    line = future.result()
                except BaseException as error:
                    if not _is_lost(error) or attempts[job] >= ATTEMPTS:
                        raise
                    waiting.append(job)
                    continue
                records.append(*job, line)
                done += 1
                if progress is not None:
                    progress(done, total)
    except BrokenExecutor as error:
        what = f"the executor's workers ended with {total - done} of {total} runs missing"
        raise type(error)(f"{what}: run again with a new executor and the same directory") from error
    finally:
        for future in running:
            future.cancel()


def _is_lost(error: BaseException) -> bool:
    return isinstance(error, _LOST) or type(error).__name__ in _LOST_NAMES


def _workers(executor: Executor) -> int:
    """Return the number of runs that the executor runs at once, as far as it is known."""
    client = getattr(executor, "_client", None)
    if client is not None:  # Dask
        threads: int = sum(client.nthreads().values())
        return max(threads, 1)
    workers: Optional[int] = getattr(executor, "_max_workers", None)
    return workers or os.cpu_count() or 1
