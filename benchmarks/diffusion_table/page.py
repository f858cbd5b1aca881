"""The table for people: a page of Markdown made from the recorded results."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.diffusion_table.combinations import LEVELS_OF_LANGEVIN, STEPS

_INTRODUCTION = f"""# Every target, weight, schedule and sampler

Which of the choices of a diffusion model are safe to make? All of them are tried here: every `target` with every
`weight` and every schedule (`noise`), and the models that choose some of these themselves, trained with the settings
`chainrule train` uses, and drawn from with every sampler in {STEPS} steps (`langevin`: {LEVELS_OF_LANGEVIN} levels) and
`guidance=1`. This page and the numbers behind it are made by

```
python -m benchmarks.diffusion_table --data moons --jobs 16    # goes on where it was stopped
python -m benchmarks.diffusion_table --data digits --jobs 16
python -m benchmarks.diffusion_table --page docs/diffusion-table.md
```

A row names what was trained. Its numbers are distances of samples from data: first the median over all samplers, then
the worst, and whose that is. A number **in bold** is beyond the stated limit.
"""


def page(records: Sequence[Mapping[str, Any]]) -> str:
    """The page of one or several data sets."""
    return "\n".join([_INTRODUCTION, *(section(record) for record in records)])


def section(record: Mapping[str, Any]) -> str:
    """The tables of one data set: by what was trained, and by sampler."""
    limit = record["limit"]
    rows = [row for row in record["rows"] if "distances" in row]
    good = sum(_within(value, limit) for row in rows for value in row["distances"].values())
    walks = sum(len(row["distances"]) for row in rows)
    lines = [
        f"## {record['data']}",
        "",
        f"{record['distance'].capitalize()} of {record['n']:,} samples after {record['steps']:,} steps of training; "
        f"limit {limit:g}, {record['limit_is']}; real examples: {record['of_real']:.2g}. "
        f"{good:,} of {walks:,} walks are within the limit.",
        "",
        "| target | weight | " + " | ".join(_schedules(rows)) + " |",
        "|---|---|" + "---|" * len(_schedules(rows)),
    ]
    grid = {(row["target"], row["weight"], row["noise"]): row for row in rows if row["model"] == "diffusion"}
    for target, weight in dict.fromkeys((target, weight) for target, weight, _ in grid):
        cells = [_cell(grid.get((target, weight, noise)), limit) for noise in _schedules(rows)]
        lines.append(f"| `{target}` | `{weight}` | " + " | ".join(cells) + " |")
    lines += ["", "| model | distance |", "|---|---|"]
    for row in rows:
        if row["model"] != "diffusion":
            name = " ".join([row["model"], *([f"target={row['target']}"] if "target" in row else [])])
            lines.append(f"| `{name}` | {_cell(row, limit)} |")
    lines += ["", "| sampler | median | worst | of |", "|---|---|---|---|"]
    for sampler in rows[0]["distances"] if rows else ():
        lines.append(_sampler(sampler, rows, limit))
    lines += [f"\nRefused: {_label(row)}: {row['refused']}" for row in record["rows"] if "refused" in row]
    return "\n".join([*lines, ""])


def _schedules(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["noise"] for row in rows if "noise" in row))


def _cell(row: Mapping[str, Any] | None, limit: float) -> str:
    """Median over samplers, and the worst of them."""
    if row is None:
        return ""
    middle, (worst, sampler) = _summary(row["distances"])
    return f"{_shown(middle, limit)}; {_shown(worst, limit)} {sampler}"


def _sampler(sampler: str, rows: Sequence[Mapping[str, Any]], limit: float) -> str:
    """Median and worst over everything that was trained."""
    middle, (worst, label) = _summary({_label(row): row["distances"][sampler] for row in rows})
    return f"| `{sampler}` | {_shown(middle, limit)} | {_shown(worst, limit)} | `{label}` |"


def _summary(values: Mapping[str, float | None]) -> tuple[float, tuple[float, str]]:
    numbers = {name: float("inf") if value is None else value for name, value in values.items()}
    return statistics.median(numbers.values()), max((value, name) for name, value in numbers.items())


def _label(row: Mapping[str, Any]) -> str:
    settings = [f"{name}={row[name]}" for name in ("target", "weight", "noise") if name in row]
    return " ".join([row["model"], *settings])


def _within(value: float | None, limit: float) -> bool:
    return value is not None and value <= limit


def _shown(value: float, limit: float) -> str:
    text = "not finite" if value == float("inf") else f"{value:.2g}"
    return text if _within(value, limit) else f"**{text}**"


__all__ = ["page", "section"]
