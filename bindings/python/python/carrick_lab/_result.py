"""Results as tables, frames and figures."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Union

from . import _core

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas
    import polars

#: Types of the columns with numbers.
_NUMBERS = {
    **dict.fromkeys(["bound", "published", "published_to", "measured", "median", "ci95", "value"], float),
    **dict.fromkeys(["n", "seed", "repetition"], int),
}


class Table:
    """A table as the command writes it. An empty field has no value in frames."""

    def __init__(self, text: str, types: Mapping[str, type]) -> None:
        self._text = text
        header, *records = csv.reader(io.StringIO(text, newline=""))
        #: Values of each column.
        self.columns: Dict[str, List[Any]] = {}
        self._types = {name: types.get(name, str) for name in header}
        for number, name in enumerate(header):
            parse = self._types[name]
            self.columns[name] = [parse(record[number]) if record[number] else None for record in records]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), []))

    def to_csv(self, path: Union[None, str, "os.PathLike[str]"] = None) -> str:
        """Return the CSV (RFC 4180) that the command writes; also write it to ``path``."""
        if path is not None:
            Path(path).write_bytes(self._text.encode())
        return self._text

    def to_pandas(self) -> "pandas.DataFrame":
        """Return a frame of pandas."""
        import pandas

        kinds = {float: "float64", int: "int64", str: object}
        columns = {
            name: pandas.Series(values, dtype=kinds[self._types[name]]) for name, values in self.columns.items()
        }
        return pandas.DataFrame(columns)

    def to_polars(self) -> "polars.DataFrame":
        """Return a frame of polars."""
        import polars

        kinds = {float: polars.Float64, int: polars.Int64, str: polars.String}
        return polars.DataFrame(self.columns, schema={name: kinds[own] for name, own in self._types.items()})


class Figure:
    """A figure of an experiment: its series over one pair of axes."""

    def __init__(self, text: str, points: str) -> None:
        #: Axes, series with their points, and reference lines.
        self.json: Dict[str, Any] = json.loads(text)
        self.id: str = self.json["id"]
        self.title: str = self.json["title"]
        self.caption: str = self.json["caption"]
        header = next(csv.reader(io.StringIO(points, newline="")))
        # Values of an axis with names are texts.
        named = [bool(self.json[axis]["names"]) for axis in ("x", "y", "y")]
        types = {name: str if text else float for name, text in zip(header[1:], named)}
        #: Points of all series.
        self.points = Table(points, types)

    def __repr__(self) -> str:
        return f"<Figure {self.id}: {self.title}>"

    def plot(self, ax: Optional["matplotlib.axes.Axes"] = None) -> "matplotlib.axes.Axes":
        """Draw the figure with matplotlib."""
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots()[1]
        for series in self.json["series"]:
            self._draw(ax, series)
        for number, reference in enumerate(self.json["references"]):
            ax.axhline(reference["y"], color="grey", linestyle=[":", "-.", "--"][number % 3], label=reference["label"])
        for name in ("x", "y"):
            axis = self.json[name]
            ax.set(**{f"{name}label": axis["label"] + (f" [{axis['unit']}]" if axis["unit"] else "")})
            if axis["scale"] == "log":
                ax.set(**{f"{name}scale": "log"})
            ax.set(**{f"{name}lim": (axis["min"], axis["max"])})
            if axis["names"]:
                places, names = zip(*axis["names"])
                ax.set(**{f"{name}ticks": places, f"{name}ticklabels": names})
        ax.set_title(self.title)
        if ax.get_legend_handles_labels()[0]:
            ax.legend(fontsize="small")
        return ax

    @staticmethod
    def _draw(ax: "matplotlib.axes.Axes", series: Dict[str, Any]) -> None:
        x, y, error = ([point[key] for point in series["points"]] for key in ("x", "y", "error"))
        style: Dict[str, Any] = {
            "color": f"C{series['style']}",
            "label": series["label"] if series["listed"] and series["label"] else None,
        }
        kind = series["kind"]
        if kind == "points":
            ax.plot(x, y, "D", fillstyle="none", **style)
        elif kind == "error-bars":
            ax.errorbar(x, y, error, marker="o", markersize=4, capsize=2, **style)
        elif kind == "step":
            ax.step(x, y, where="post", **style)
        else:
            ax.plot(x, y, linewidth=0.8 if kind == "trace" else 1.5, **style)


class Result:
    """Result of a scenario or experiment."""

    def __init__(self, own: _core.RunResult) -> None:
        self._own = own
        #: The result as the command's JSON (docs/results.md).
        self.json: Dict[str, Any] = json.loads(own.json())
        self.name: str = self.json["scenario"]
        self.seed: int = self.json["seed"]
        #: Means, with published values and verdicts.
        self.rows = Table(own.rows_csv(), _NUMBERS)
        #: Values of all repetitions.
        self.repetitions = Table(own.repetitions_csv(), _NUMBERS)

    def __repr__(self) -> str:
        return f"<Result of {self.name}, seed {self.seed}, {len(self.rows)} rows>"

    @property
    def figures(self) -> Dict[str, Figure]:
        """Figures by their identifiers."""
        figures = (Figure(text, points) for text, points in self._own.figures())
        return {figure.id: figure for figure in figures}

    def to_csv(self, path: Union[None, str, "os.PathLike[str]"] = None) -> str:
        """Return the rows as the command's CSV; also write it to ``path``."""
        return self.rows.to_csv(path)

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the rows as a frame of pandas."""
        return self.rows.to_pandas()

    def to_polars(self) -> "polars.DataFrame":
        """Return the rows as a frame of polars."""
        return self.rows.to_polars()

    def plot_published(self, ax: Optional["matplotlib.axes.Axes"] = None) -> "matplotlib.axes.Axes":
        """Draw each measured mean with its 95 % confidence interval beside its published value.

        All are in percent of the published value, or of the upper end of a published range.
        """
        rows = [row for row in self.json["rows"] if row["published"] and row["measured"] is not None]
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots(figsize=(7, 1.5 + 0.22 * len(rows)))[1]
        places = range(len(rows))
        ends = [(row["published"], row["published_to"] or row["published"]) for row in rows]
        units = [100 / most for _, most in ends]
        ax.hlines(places, [unit * least for unit, (least, _) in zip(units, ends)], 100, color="C1")
        ax.plot([100] * len(rows), places, "D", color="C1", fillstyle="none", label="published")
        measured = [unit * row["measured"] for unit, row in zip(units, rows)]
        errors = [unit * (row["ci95"] or 0) for unit, row in zip(units, rows)]
        ax.errorbar(measured, places, xerr=errors, fmt="o", color="C0", capsize=2, label="measured")
        ax.set_yticks(list(places), [f"{row['id']} ({row['published']:g} {row['unit']})" for row in rows])
        ax.tick_params(axis="y", labelsize="x-small")
        ax.invert_yaxis()
        ax.set_xlabel("published value [%]")
        ax.legend(fontsize="small")
        return ax

    def write(self, directory: Union[str, "os.PathLike[str]"]) -> List[Path]:
        """Write the command's report with its data and figures; return the paths, the report first."""
        return [Path(path) for path in self._own.write(directory)]
