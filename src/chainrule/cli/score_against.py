"""`chainrule score RUN against=OTHER`: scores of several runs beside each other, where they may be compared."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainrule.cli.folders import find

if TYPE_CHECKING:
    from chainrule.train import Metric, Run


def others(run: "Run", words: str, folder: Path) -> "dict[str, Run]":
    """The runs to stand beside this one, by name: each one once, of models, and not the run itself."""
    from chainrule.cli import agents
    from chainrule.core.errors import ArgumentError
    from chainrule.train import Run

    found: dict[str, Run] = {}
    for word in filter(None, words.split(",")):
        path = find(word, folder)
        if agents.holds(path):
            raise ArgumentError(
                f"against={word}: this run holds an agent, which earns returns and has none of the scores of {run.id}",
                remedy="name runs of models; agents meet in: chainrule probe RUN learning against=OTHER",
            )
        if path.resolve() == run.path.resolve():
            raise ArgumentError(f"against={word}: this is the run itself", remedy="name another one")
        found[path.name] = Run.open(path)
    if not found:
        raise ArgumentError(
            "against=: no run is named", remedy="for example against=digits-vae-001,digits-gan-001"
        )
    return found


def check_same_examples(run: "Run", beside: "Mapping[str, Run]") -> None:
    """Raise where a run holds out other examples than `run`: its numbers would say nothing about those."""
    from chainrule.core.errors import ArgumentError
    from chainrule.core.quoting import plain

    for name, other in beside.items():
        if other.data.hash != run.data.hash or _split(other) != _split(run):
            raise ArgumentError(
                f"against={plain(name)}: it was trained on other data ({plain(other.data.name)}) than {plain(run.id)} "
                f"({plain(run.data.name)}), or on another split of them",
                remedy="judge all of them by the same examples: data=OTHER",
            )


def _split(run: "Run") -> tuple[Any, Any]:
    """By which numbers the examples of a run were shared out."""
    data = run.config["data"]
    return data.get("seed"), data.get("split")


def check_comparable(found: "Mapping[str, Mapping[str, Metric]]") -> None:
    """Raise where numbers of one name rest on different grounds."""
    from chainrule.train.scoring import check_comparable

    for name in shared(found):
        check_comparable(name, {run: metrics[name] for run, metrics in found.items() if name in metrics})


def shared(found: "Mapping[str, Mapping[str, Metric]]") -> list[str]:
    """Names of the numbers that two runs or more have, in the order of the first that has them."""
    names = dict.fromkeys(name for metrics in found.values() for name in metrics)
    return [name for name in names if sum(name in metrics for metrics in found.values()) > 1]


def show(found: "Mapping[str, Mapping[str, Metric]]") -> None:
    """A row for each number that two runs or more have, a column for each run."""
    from chainrule.cli import output
    from chainrule.core.formatting import short_number

    rows = []
    for name in shared(found):
        cells = []
        for metrics in found.values():
            metric = metrics.get(name)
            error = "" if metric is None or metric.stderr is None else f" ± {short_number(metric.stderr)}"
            cells.append("" if metric is None else f"{short_number(metric.value)}{error}")
        units = {metrics[name].unit for metrics in found.values() if name in metrics}
        rows.append([name, *cells, units.pop() if len(units) == 1 else ""])
    output.table(["metric", *found, "unit"], rows)


__all__ = ["check_comparable", "check_same_examples", "others", "shared", "show"]
