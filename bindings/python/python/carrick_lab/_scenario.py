"""Scenarios and experiments."""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union

from . import _core
from ._changes import document
from ._distribute import distribute
from ._progress import Progress, observer
from ._result import Result

PathLike = Union[str, "os.PathLike[str]"]
Own = TypeVar("Own", bound="Scenario")


@dataclass(frozen=True)
class Cell:
    """A combination of the values that a scenario sweeps or lists."""

    name: str
    label: str
    values: Dict[str, str]


class ShardRuns(NamedTuple):
    """What a process has done for its shard."""

    path: Path
    before: int
    added: int


class Scenario:
    """A network with its flows, measures and cells. Changes return another scenario.

    Scenarios can be pickled.
    """

    def __init__(
        self,
        path: str,
        text: str,
        changes: Mapping[str, Any] = {},
        sweeps: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Parse the text of a scenario file; ``path`` is its path in errors."""
        self._path = path
        self._text = text
        self._changes = dict(changes)
        self._sweeps = list(sweeps)
        self._core = self._parsed(document(self._changes, self._sweeps))

    @classmethod
    def load(cls, path: PathLike) -> "Scenario":
        """Read a scenario file, or that of an experiment's folder."""
        file = Path(path)
        if file.is_dir():
            file /= "scenario.toml"
        return Scenario(str(file), file.read_text(encoding="utf-8"))

    def _parsed(self, changes: str) -> _core.Scenario:
        return _core.Scenario.parse(self._path, self._text, changes)

    def _changed(self: Own, changes: Mapping[str, Any], sweeps: Sequence[Mapping[str, Any]]) -> Own:
        return type(self)(self._path, self._text, changes, sweeps)

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self._path, self._text, self._changes, self._sweeps)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}, {len(self._core.cells)} cells>"

    @property
    def name(self) -> str:
        """Name of the file without its extension, or of the experiment."""
        return self._core.name

    @property
    def title(self) -> str:
        """Title of the file."""
        return self._core.title

    @property
    def fingerprint(self) -> str:
        """Hash of the file and its changes."""
        return self._core.fingerprint

    @property
    def cells(self) -> List[Cell]:
        """Cells, in their order."""
        return [Cell(name, label, dict(values)) for name, label, values in self._core.cells]

    def with_(self: Own, changes: Mapping[str, Any] = {}, **keys: Any) -> Own:
        """Return the scenario with other values of keys: ``with_({"links.*.loss": "1 %"}, duration="20 s")``.

        ``*`` is any name. ``only=["cubic.*"]`` selects cells by their names. Raises :class:`ScenarioError` for a key
        that does not exist or is swept, and for an invalid value.
        """
        return self._changed({**self._changes, **changes, **keys}, self._sweeps)

    def sweep(
        self: Own,
        values: Mapping[str, Sequence[Any]],
        names: Optional[Sequence[str]] = None,
        labels: Optional[Sequence[str]] = None,
        only: Optional[Sequence[str]] = None,
    ) -> Own:
        """Return the scenario with a further dimension of cells, whose keys change together.

        ``names`` are the last parts of the cells' names; they are needed if the cells of the file have names. ``only``
        selects cells by these names, instead of the file's selection.
        """
        dimension = {key: list(own) for key, own in values.items()}
        if names is not None:
            dimension["names"] = list(names)
        if labels is not None:
            dimension["labels"] = list(labels)
        changes = self._changes if only is None else {**self._changes, "only": list(only)}
        return self._changed(changes, [*self._sweeps, dimension])

    def run(
        self,
        *,
        seed: Optional[int] = None,
        repetitions: Optional[int] = None,
        full: bool = False,
        executor: Optional[Executor] = None,
        in_flight: Optional[int] = None,
        directory: Optional[PathLike] = None,
        messages: bool = True,
        progress: Progress = None,
    ) -> Result:
        """Run all repetitions of all cells: on all cores of this machine, or by the workers of ``executor``.

        :param seed: random seed; that of the file, or 1.
        :param repetitions: repetitions of each cell; the number in the file.
        :param full: as ``carrick reproduce --full``.
        :param executor: runs each repetition of a cell as a separate call.
        :param in_flight: maximum number of calls submitted at a time; twice the number of workers.
        :param directory: keeps each run as a line of a file there, and runs only what is missing in it.
        :param messages: figures of single messages have points, for which some repetitions run again on this machine if
            ``executor`` or ``directory`` is given.
        :param progress: ``True`` for a bar, ``False`` for none, or a function that is called with the numbers of
            completed and of all runs; a bar if standard error is a terminal.
        """
        options = self._options(seed, repetitions, full)
        shown = observer(progress, self.name)
        if executor is None and directory is None:
            return Result(self._core.run(options, shown))
        if directory is not None:
            return self._run_in(directory, options, executor, in_flight, messages, shown)
        with tempfile.TemporaryDirectory(prefix="carrick-lab-") as temporary:
            return self._run_in(temporary, options, executor, in_flight, messages, shown)

    def _run_in(
        self,
        directory: PathLike,
        options: _core.Options,
        executor: Optional[Executor],
        in_flight: Optional[int],
        messages: bool,
        shown: Any,
    ) -> Result:
        if executor is None:
            self._core.sweep(options, "1/1", directory, shown)
        else:
            records = self._core.open(options, directory)
            scenario = (self._path, self._text, document(self._changes, self._sweeps))
            distribute(executor, scenario, options, records, in_flight, shown)
        return Result(self._core.merge(options, directory, messages, shown))

    def run_shard(
        self,
        directory: PathLike,
        shard: str = "auto",
        *,
        seed: Optional[int] = None,
        repetitions: Optional[int] = None,
        full: bool = False,
        progress: Progress = None,
    ) -> ShardRuns:
        """Run what is missing of one part of all runs, on all cores, as ``carrick lab sweep --shard``.

        :param shard: ``2/5`` is the second of five parts; ``auto`` that of this task of Slurm, PBS or Kubernetes,
            ``auto/5`` if the scheduler does not export the number of tasks.
        """
        options = self._options(seed, repetitions, full)
        path, before, added = self._core.sweep(options, shard, directory, observer(progress, self.name))
        return ShardRuns(Path(path), before, added)

    def merge(
        self,
        directory: PathLike,
        *,
        seed: Optional[int] = None,
        repetitions: Optional[int] = None,
        full: bool = False,
        messages: bool = True,
        progress: Progress = None,
    ) -> Result:
        """Return the result of all parts in ``directory``.

        Raises :class:`ScenarioError` if runs are missing, or are of another version, scenario, seed or number of
        repetitions.
        """
        options = self._options(seed, repetitions, full)
        return Result(self._core.merge(options, directory, messages, observer(progress, self.name)))

    def _options(self, seed: Optional[int], repetitions: Optional[int], full: bool) -> _core.Options:
        for name, value, least in ("seed", seed, 0), ("repetitions", repetitions, 1):
            if value is not None and value < least:
                raise _core.ScenarioError(f"{name}: {value} is invalid; expected a whole number from {least}")
        return (self._core.seed if seed is None else seed, repetitions, full)


class Experiment(Scenario):
    """A scenario with the values of the paper that it repeats."""

    def __init__(
        self,
        name: str,
        folder: Optional[str],
        files: List[Tuple[str, str]],
        changes: Mapping[str, Any] = {},
        sweeps: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Parse the files of an experiment, given by their names and texts; a published experiment has no folder."""
        self._own = name, folder, files
        super().__init__(str(Path(folder or name, "scenario.toml")), dict(files)["scenario.toml"], changes, sweeps)

    @staticmethod
    def names() -> List[str]:
        """Return the names of the published experiments that the package contains."""
        return _core.published()

    @classmethod
    def load(cls, path: PathLike) -> "Experiment":
        """Load the published experiment of this name, or that in this folder."""
        text = os.fspath(path)
        core = _core.Scenario.load_experiment(text)
        return Experiment(core.name, None if text in cls.names() else text, core.files)

    def _parsed(self, changes: str) -> _core.Scenario:
        return _core.Scenario.parse_experiment(*self._own, changes)

    def _changed(self, changes: Mapping[str, Any], sweeps: Sequence[Mapping[str, Any]]) -> "Experiment":
        return Experiment(*self._own, changes, sweeps)

    def __reduce__(self) -> Tuple[Any, ...]:
        return Experiment, (*self._own, self._changes, self._sweeps)

    @property
    def scenario(self) -> Scenario:
        """The network and its cells without the published values, for changes that remove or rename cells."""
        return Scenario(f"{self.name}.toml", self._text, self._changes, self._sweeps)
