"""Changed scenarios, and errors that name key and value."""

import pickle
from pathlib import Path
from typing import Any, Callable

import numpy
import pytest
from conftest import REPOSITORY, SMALL

import carrick_lab
from carrick_lab import Experiment, Scenario, ScenarioError


def test_changed_keys_are_those_of_another_file(small: Scenario) -> None:
    text = SMALL.replace('"30 ms"', '"20 ms"').replace('"2 s"', '"3 s"')
    written = Scenario("small.toml", text).run(progress=False)
    changed = small.with_({"links.*.delay": "20 ms"}, duration="3 s")
    assert changed.run(progress=False).to_csv() == written.to_csv()
    assert small.with_(repetitions=numpy.int64(3)).fingerprint == small.with_(repetitions=3).fingerprint
    assert small.fingerprint != changed.fingerprint != changed.with_(duration="2 s").fingerprint
    assert len(small.with_({"flows.data": {"from": "b", "to": "a", "kind": "bulk", "size": 500}}).cells) == 3


def test_added_dimensions_multiply_the_cells(small: Scenario) -> None:
    swept = small.sweep({"links.wire.delay": ["5 ms", "9 ms"]})
    assert len(swept.cells) == 6
    assert swept.cells[1].values == {"links.wire.loss": "0 %", "links.wire.delay": "9 ms"}


@pytest.mark.parametrize(
    "change, expected",
    [
        (lambda own: own.with_({"links.far.delay": "1 ms"}), 'links.far.delay: cannot be set to "1 ms"'),
        (lambda own: own.with_({"links.wire.delay": 7}), "links.wire.delay: 7 is invalid; expected a time"),
        (lambda own: own.with_({"links.wire.loss": "1 %"}), "sets links.wire.loss, which is changed, too"),
        (lambda own: own.with_({"links.wire.dely": "1 ms"}), "links.wire.dely"),
        (lambda own: own.with_(duration=None), "duration: None is invalid"),
        (lambda own: own.sweep({"links.wire.rate": []}), "sweep[1].links.wire.rate: a list is invalid; expected at least one value"),
        (lambda own: own.run(repetitions=0), "repetitions: 0 is invalid"),
        (lambda own: own.run_shard("none", "3/2"), "shard: expected a shard such as 2/5"),
        (lambda own: Experiment.load("satelite"), "there is no experiment 'satelite'; known: satellite"),
    ],
)
def test_errors_name_key_and_value(small: Scenario, change: Callable[[Scenario], Any], expected: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        change(small)
    assert expected in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="none.toml"):
        Scenario.load(tmp_path / "none.toml")
    with pytest.raises(FileNotFoundError, match="scenario.toml"):
        Experiment.load(tmp_path)


def test_scenarios_and_errors_are_picklable(small: Scenario) -> None:
    changed = small.with_(duration="1 s").sweep({"links.wire.delay": ["5 ms", "9 ms"]})
    experiment = Experiment.load("failover").with_(repetitions=1)
    for own in changed, experiment, experiment.scenario:
        copy = pickle.loads(pickle.dumps(own))
        assert (type(copy), copy.fingerprint, copy.name, copy.cells) == (type(own), own.fingerprint, own.name, own.cells)
    assert isinstance(pickle.loads(pickle.dumps(ScenarioError("a"))), ScenarioError)
    assert isinstance(pickle.loads(pickle.dumps(carrick_lab.LabError("a"))), carrick_lab.LabError)


def test_experiments_are_changed_with_their_rows() -> None:
    folder = Experiment.load(REPOSITORY / "experiments/lossy-link")
    assert folder.name == "lossy-link" and "lossy-link" not in Experiment.names()
    changed = folder.with_({"duration": "3 s", "warmup": "1 s", "links.wire.rate": "2 Mbit/s"})
    result = changed.run(repetitions=1, progress=False)
    assert max(value for value in result.rows.columns["measured"] if value is not None) < 3000
    assert any(own["name"] == "changes" for own in result.json["settings"])
    with pytest.raises(ScenarioError, match="published.toml"):
        folder.with_(only=["cubic.*"])
    assert len(folder.scenario.with_(only=["cubic.*"]).cells) == 3
    sweep = {"links.wire.delay": ["5 ms", "9 ms"]}
    swept = folder.scenario.sweep(sweep, names=["near", "far"], only=["cubic.*.far"])
    assert [cell.name for cell in swept.cells] == ["cubic.none.far", "cubic.per-mille.far", "cubic.per-cent.far"]
