"""Results equal the files of the command, and frames equal their CSV."""

import csv
import io
import json
from pathlib import Path

import pandas
import polars
import pytest
from conftest import SMALL, command

from carrick_lab import Experiment, Result, Scenario, Table


@pytest.fixture
def result(small: Scenario) -> Result:
    return small.run(progress=False)


def test_rows_are_those_of_the_command(result: Result, tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    expected = command("lab", "run", file, "--csv", directory=tmp_path)
    assert result.to_csv(tmp_path / "rows.csv").encode() == expected
    assert (tmp_path / "rows.csv").read_bytes() == expected
    assert Scenario.load(file).run(progress=False).to_csv().encode() == expected
    assert (len(result.rows), len(result.repetitions)) == (9, 12)


def test_experiments_are_those_of_the_command(tmp_path: Path) -> None:
    command("reproduce", "failover-signaling", "--reps", 1, "--out", tmp_path / "command", directory=tmp_path)
    result = Experiment.load("failover-signaling").run(repetitions=1, progress=False)
    written = {path.name: path.read_bytes() for path in result.write(tmp_path / "python")}
    files = [path for path in (tmp_path / "command").rglob("*") if path.is_file()]
    expected = {path.name: path.read_bytes() for path in files}
    # The report names the date.
    del written["report.html"], expected["report.html"]
    assert written == expected
    name = "failover-signaling"
    assert result.to_csv().encode() == written[f"{name}.csv"]
    assert result.repetitions.to_csv().encode() == written[f"{name}-repetitions.csv"]
    assert result.json == json.loads(written[f"{name}.json"])
    for figure in result.figures.values():
        assert figure.points.to_csv().encode() == written[f"{name}-{figure.id}.csv"]


@pytest.mark.parametrize("table", ["rows", "repetitions"])
def test_frames_equal_their_csv(result: Result, table: str) -> None:
    own: Table = getattr(result, table)
    text = own.to_csv()
    read = pandas.read_csv(io.StringIO(text), dtype={"cell": object, "note": object})
    frame = own.to_pandas()
    assert list(frame.columns) == list(read.columns) == list(own.columns)
    for name in frame:
        left, right = frame[name], read[name]
        assert left.isna().equals(right.isna()), name
        assert left.dropna().tolist() == right.dropna().tolist(), name
    rows = [[None if value == "" else value for value in row] for row in list(csv.reader(io.StringIO(text)))[1:]]
    other = own.to_polars()
    assert other.columns == list(frame.columns)
    texts = [[None if value is None else str(value) for value in row] for row in other.rows()]
    for own_row, row in zip(texts, rows):
        for name, left, right in zip(other.columns, own_row, row):
            number = other.schema[name].is_numeric() and right is not None
            assert float(left) == float(right) if number else left == right, name
    assert other.height == len(rows) == len(own)


def test_columns_without_values_keep_their_types(result: Result) -> None:
    frame, other = result.to_pandas(), result.to_polars()
    assert frame["published"].dtype == float and frame["published"].isna().all()
    assert (other.schema["published"], other.schema["verdict"]) == (polars.Float64, polars.String)
    assert frame["n"].tolist() == [2, 2, 0] * 3
