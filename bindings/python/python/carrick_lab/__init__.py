"""Experiments and scenarios of the Carrick laboratory.

A scenario is a network with its flows, simulated in virtual time; an experiment is a scenario with the values of the
paper that it repeats. Runs use all cores of this machine, or any ``concurrent.futures.Executor``::

    import carrick_lab

    result = carrick_lab.Experiment.load("failover").run(repetitions=2)
    result.to_pandas()

The same scenario, seed and version give the same values wherever the cells run.
"""

from ._core import LabError, ScenarioError, __version__
from ._result import Figure, Result, Table
from ._scenario import Cell, Experiment, Scenario

__all__ = ["Cell", "Experiment", "Figure", "LabError", "Result", "Scenario", "ScenarioError", "Table", "__version__"]
