"""The waits under each policy as a picture; only this module uses matplotlib, which need not be installed."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from common.errors import GantryError
from daemons.luxid.simulate.replay import Run


class NoPlotting(GantryError):
    """a plot needs matplotlib, which is not installed; 'pip install matplotlib', or leave out --plot"""


class Axes(Protocol):
    def step(self, x: Sequence[float], y: Sequence[float], *, where: str, label: str) -> object: ...

    def set(self, *, title: str, xlabel: str, ylabel: str, ylim: tuple[float, float]) -> object: ...

    def legend(self, *, loc: str) -> object: ...


class PlotFigure(Protocol):
    def savefig(self, path: Path, *, format: str, dpi: int) -> None: ...


class Plotting(Protocol):
    """The part of `matplotlib.pyplot` that draws our picture."""

    def subplots(self, *, figsize: tuple[float, float]) -> tuple[PlotFigure, Axes]: ...

    def close(self, figure: PlotFigure) -> None: ...


def load_plotting() -> Plotting:
    """Return the drawing module, set up without a screen.

    Raises: NoPlotting: matplotlib is not installed.
    """
    try:
        import_module("matplotlib").use("Agg")
        return cast(Plotting, import_module("matplotlib.pyplot"))
    except ImportError:
        raise NoPlotting() from None


def draw(plotting: Plotting, title: str, runs: Mapping[str, Sequence[Run]], path: Path) -> None:
    """Write a PNG: for each policy, the share of jobs that waited at most a given time.

    Args:
        plotting: result of `load_plotting`.
        runs: by policy.
    Raises: OSError: the file cannot be written.
    """
    figure, axes = plotting.subplots(figsize=(8, 5))
    for policy, each in runs.items():
        waits = sorted(run.wait_s for run in each)
        axes.step(waits, [place / len(waits) for place in range(1, len(waits) + 1)], where="post", label=policy)
    axes.set(title=title, xlabel="wait until execution (s)", ylabel="share of jobs", ylim=(0, 1))
    axes.legend(loc="lower right")
    figure.savefig(path, format="png", dpi=120)
    plotting.close(figure)
