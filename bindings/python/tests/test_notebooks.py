"""The notebooks of the published experiments."""

import re
from pathlib import Path

import pytest
from conftest import REPOSITORY

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

FOLDER = REPOSITORY / "bindings/python/notebooks"


def test_each_simulated_experiment_has_a_notebook() -> None:
    files = (REPOSITORY / "experiments").glob("*/scenario.toml")
    # Experiments of live networks alone have no simulation.
    simulated = {path.parent.name for path in files if "\nalone = true\n" not in path.read_text(encoding="utf-8")}
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == simulated


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_draw_figures(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code), "has outputs"
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(FOLDER)}}).execute()
    outputs = [output for cell in code for output in cell.outputs]
    images = [output for output in outputs if "image/png" in output.get("data", {})]
    assert images, "draws no figure"
    texts = "".join(output.get("text", "") for output in outputs)
    drawn = re.search(r"(\d+) published values", texts)
    assert drawn and (int(drawn[1]) > 0 or path.stem in ("failover-signaling", "lossy-link")), texts
