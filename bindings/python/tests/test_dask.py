"""Sweeps on a cluster of Dask."""

import os
import signal
from pathlib import Path

import pytest

from carrick_lab import Scenario

distributed = pytest.importorskip("distributed")


def test_a_sweep_survives_the_end_of_a_worker(small: Scenario, tmp_path: Path) -> None:
    """1,000 cells on four processes, one of which is killed in the middle."""
    wide = small.sweep({"links.wire.delay": [f"{delay} ms" for delay in range(1, 335)]}).with_(duration="500 ms")
    sweep = wide.with_({"flows.data.size": "300 bytes"})
    assert len(sweep.cells) == 1002
    expected = sweep.run(repetitions=1, progress=False)
    with distributed.LocalCluster(
        n_workers=4, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster, distributed.Client(cluster) as client:
        workers = list(client.run(os.getpid).values())
        assert len(set(workers)) == 4

        def kill_one(done: int, total: int) -> None:
            if done == total // 2:
                os.kill(workers[0], signal.SIGKILL)

        with client.get_executor(pure=False) as executor:
            result = sweep.run(repetitions=1, executor=executor, directory=tmp_path, progress=kill_one)
        # The cluster starts another process in place of the killed one.
        client.wait_for_workers(4)
        assert workers[0] not in client.run(os.getpid).values()
    assert result.to_csv() == expected.to_csv()
    assert result.repetitions.to_csv() == expected.repetitions.to_csv()
