"""Runs on executors: the same results, resumed after an interruption, refused for another scenario or version."""

import signal
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, List

import pytest
from conftest import command, python

import carrick_lab
from carrick_lab import Experiment, Scenario, ScenarioError


class Immediate(Executor):
    """Runs each call at once, and counts the calls."""

    def __init__(self) -> None:
        self.calls = 0

    def submit(self, call: Callable[..., Any], *arguments: Any, **keywords: Any) -> "Future[Any]":
        self.calls += 1
        future: "Future[Any]" = Future()
        try:
            future.set_result(self.result(call, *arguments))
        except Exception as error:
            future.set_exception(error)
        return future

    def result(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return call(*arguments)


class Losing(Immediate):
    """Loses each third call with its worker."""

    def result(self, call: Callable[..., Any], *arguments: Any) -> Any:
        if self.calls % 3 == 0:
            raise ConnectionResetError("the worker ended")
        return call(*arguments)


class Older(Immediate):
    """Workers with another version of the package."""

    def result(self, call: Callable[..., Any], *arguments: Any) -> Any:
        line: str = call(*arguments)
        return line.replace(carrick_lab.__version__, "0.0.9", 1)


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_executors_give_what_one_process_gives(small: Scenario, kind: Callable[[int], Executor]) -> None:
    expected = small.run(progress=False)
    seen: List[int] = []
    with kind(2) as executor:
        result = small.run(executor=executor, progress=lambda done, total: seen.append(done))
    assert result.to_csv() == expected.to_csv()
    assert result.repetitions.to_csv() == expected.repetitions.to_csv()
    assert seen == [1, 2, 3, 4, 5, 6]


def test_figures_of_messages_are_drawn_again(tmp_path: Path) -> None:
    experiment = Experiment.load("satellite")
    expected = experiment.run(repetitions=1, progress=False)
    result = experiment.run(repetitions=1, executor=Immediate(), directory=tmp_path, progress=False)
    assert result.json == expected.json
    points = {name: figure.points.to_csv() for name, figure in expected.figures.items()}
    assert {name: figure.points.to_csv() for name, figure in result.figures.items()} == points
    without = experiment.merge(tmp_path, repetitions=1, messages=False)
    assert without.to_csv() == expected.to_csv()
    assert len(without.figures["delay-distribution"].points) < len(expected.figures["delay-distribution"].points)


def test_lost_runs_are_run_again(small: Scenario) -> None:
    executor = Losing()
    assert small.run(executor=executor, progress=False).to_csv() == small.run(progress=False).to_csv()
    assert executor.calls == 8


def test_a_broken_executor_is_reported(small: Scenario, tmp_path: Path) -> None:
    class Broken(Immediate):
        def submit(self, call: Callable[..., Any], *arguments: Any, **keywords: Any) -> "Future[Any]":
            if self.calls == 4:
                raise BrokenExecutor("a process ended")
            return super().submit(call, *arguments)

    with pytest.raises(BrokenExecutor, match="with 2 of 6 runs missing: run again"):
        small.run(executor=Broken(), in_flight=1, directory=tmp_path, progress=False)
    executor = Immediate()
    small.run(executor=executor, directory=tmp_path, progress=False)
    assert executor.calls == 2


def test_calls_in_flight_are_bounded(small: Scenario) -> None:
    class Late(Executor):
        """Completes a call when the next two are waiting or none follows."""

        def __init__(self) -> None:
            self.waiting: List[Any] = []
            self.most = self.calls = 0

        def submit(self, call: Callable[..., Any], *arguments: Any, **keywords: Any) -> "Future[Any]":
            future: "Future[Any]" = Future()
            self.waiting.append((future, call, arguments))
            self.calls += 1
            self.most = max(self.most, len(self.waiting))
            while len(self.waiting) == 3 or self.calls == 6 and self.waiting:
                own, call, arguments = self.waiting.pop(0)
                own.set_result(call(*arguments))
            return future

    executor = Late()
    small.run(executor=executor, in_flight=3, progress=False)
    assert executor.most == 3


def test_an_interrupted_sweep_continues(small: Scenario, tmp_path: Path) -> None:
    expected = small.run(progress=False)
    small.run(directory=tmp_path, progress=False)
    (file,) = tmp_path.iterdir()
    lines = file.read_text().splitlines(keepends=True)
    assert (file.name, len(lines)) == ("small-1-of-1.csv", 7)
    file.write_text("".join(lines[:4]) + lines[4][:20])
    executor = Immediate()
    result = small.run(executor=executor, directory=tmp_path, progress=False)
    assert (executor.calls, result.to_csv()) == (3, expected.to_csv())
    assert sorted(file.read_text().splitlines(keepends=True)) == sorted(lines)
    assert small.merge(tmp_path, progress=False).to_csv() == expected.to_csv()


def test_other_scenarios_and_seeds_are_refused(small: Scenario, tmp_path: Path) -> None:
    small.run(directory=tmp_path, progress=False)
    for other, options in [(small.with_(duration="3 s"), {}), (small, {"seed": 2}), (small, {"full": True})]:
        for executor in None, Immediate():
            with pytest.raises(ScenarioError, match="small-1-of-1.csv, line 2: belongs to a different scenario file"):
                other.run(executor=executor, directory=tmp_path, progress=False, **options)
        with pytest.raises(ScenarioError, match="different scenario file"):
            other.merge(tmp_path, progress=False, **options)


def test_other_versions_are_refused(small: Scenario, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"repetition \d was written by version 0.0.9"):
        small.run(executor=Older(), directory=tmp_path, progress=False)
    small.run(directory=tmp_path, progress=False)
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text().replace(f"\n{carrick_lab.__version__},", "\n0.0.9,"))
    for run in small.run, small.merge:
        with pytest.raises(ScenarioError, match="was written by version 0.0.9 .* not merged"):
            run(directory=tmp_path, progress=False)


@pytest.mark.parametrize(
    "index, others, text",
    [
        ("SLURM_ARRAY_TASK_ID", {"SLURM_ARRAY_TASK_MIN": "0", "SLURM_ARRAY_TASK_COUNT": "3"}, "auto"),
        ("SLURM_PROCID", {"SLURM_NTASKS": "3"}, "auto"),
        ("PBS_ARRAY_INDEX", {}, "auto/3"),
        ("JOB_COMPLETION_INDEX", {"JOB_COMPLETIONS": "3"}, "auto"),
    ],
)
def test_schedulers_give_the_shards(
    small: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: str, others: dict, text: str
) -> None:
    first = int(index == "PBS_ARRAY_INDEX")
    file = tmp_path / "small.toml"
    file.write_text(small._text)
    out = tmp_path / "sweep"
    for name, value in others.items():
        monkeypatch.setenv(name, value)
    for number in range(3):
        monkeypatch.setenv(index, str(first + number))
        if number == 1:  # The command and the module continue each other's files.
            command("lab", "sweep", file, "--out", out, "--shard", text, directory=tmp_path)
        else:
            path, before, added = small.run_shard(out, text, progress=False)
            assert (path.name, before, added) == (f"small-{number + 1}-of-3.csv", 0, 2)
    merged = command("lab", "sweep", file, "--out", out, "--merge", "--csv", directory=tmp_path)
    assert small.merge(out).to_csv().encode() == small.run(progress=False).to_csv().encode() == merged
    monkeypatch.setenv(index, "9")
    with pytest.raises(ScenarioError, match=f"{index} is 9; expected {first} to {first + 2}, for 3 shards"):
        small.run_shard(out, text)


def test_ctrl_c_ends_a_run() -> None:
    """The cells are too long to end."""
    done = python(
        """
import signal
import tempfile
from carrick_lab import Scenario
from conftest import SMALL

def interrupt(done, total):
    signal.raise_signal(signal.SIGINT)

long = Scenario("long.toml", SMALL).with_(duration="10000000 s")
with tempfile.TemporaryDirectory() as directory:
    for arguments in {}, {"directory": directory}:
        try:
            long.run(progress=interrupt, **arguments)
        except KeyboardInterrupt:
            print("interrupted")
"""
    )
    assert done.stdout.split() == ["interrupted", "interrupted"], done.stderr


def test_an_exception_of_progress_ends_a_run(small: Scenario) -> None:
    def fail(done: int, total: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        small.with_(duration="10000000 s").run(progress=fail)


def test_a_bar_shows_the_progress(small: Scenario, capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    small.run(progress=True)
    small.run(progress=None)
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1 and "small [##############################] 6/6" in shown
    assert signal.getsignal(signal.SIGINT) is before
