"""A report as one table for people and as JSON for the record."""

from typing import Any

from rich.table import Table

from benchmarks.harness import Case, Growth, Report, Summary, Times, ratio, verdict
from benchmarks.machine import machine, today, versions


def table(name: str, report: Report) -> Table:
    """One section per case, one row per contestant; ratios below one mean that ours takes less time."""
    ours = report.cases[0].ours.name
    out = Table(title=name, caption="\n".join(_captions(report)), caption_justify="left", caption_style="")
    for header, justify in (
        ("case", "left"),
        ("contestant", "left"),
        ("compile", "right"),
        ("median", "right"),
        ("middle half", "right"),
        (f"{ours} / it", "right"),
        ("middle half", "right"),
        (f"{ours} is", "left"),
    ):
        out.add_column(header, justify=justify)  # type: ignore[arg-type]
    for case in report.cases:
        for number, times in enumerate(case.times):
            label = case.label if number == 0 else ""
            out.add_row(label, times.name, *_row(case, times), end_section=number == len(case.times) - 1)
    return out


def _row(case: Case, times: Times) -> list[str]:
    own = times.summary
    cells = [f"{times.compile_seconds:.2f} s", human(own.median), f"{human(own.low)} - {human(own.high)}"]
    if times is case.ours:
        return [*cells, "", "", ""]
    found = ratio(case.ours, times)
    best = " (the best peer)" if times is case.best_peer and len(case.times) > 2 else ""
    return [*cells, f"{found.median:.3f}", f"{found.low:.3f} - {found.high:.3f}", verdict(found) + best]


def _captions(report: Report) -> list[str]:
    lines = [
        f"{g.quantity} grow with {g.size} to the power {g.measured_exponent:.2f} (expected {g.expected_exponent:.2f}) "
        f"over {g.sizes[0]:g} to {g.sizes[-1]:g}"
        for g in report.growth
    ]
    disturbed = sum(case.disturbed for case in report.cases)
    if disturbed:
        turns = sum(len(t.seconds) for case in report.cases for t in case.times)
        lines.append(f"other processes disturbed {disturbed} of {turns} turns")
    return [*lines, *report.notes]


def record(name: str, report: Report, rounds: int, threads: int) -> dict[str, Any]:
    """Everything worth keeping."""
    return {
        "benchmark": name,
        "date": today(),
        "machine": machine(),
        "threads": threads,
        "versions": {**versions(), **report.versions},
        "rounds": rounds,
        "cases": [_case(case) for case in report.cases],
        "growth": [_growth(g) for g in report.growth],
        "notes": list(report.notes),
    }


def _case(case: Case) -> dict[str, Any]:
    rows = []
    for times in case.times:
        row: dict[str, Any] = {
            "name": times.name,
            "compile_seconds": _short(times.compile_seconds),
            "seconds": _summary(times.summary),
            "rounds": [_short(s) for s in times.seconds],
        }
        if times is not case.ours:
            found = ratio(case.ours, times)
            row |= {"ours_over_this": _summary(found), "ours_is": verdict(found)}
        rows.append(row)
    best = case.best_peer.name if case.best_peer else None
    return {"case": case.label, "best_peer": best, "disturbed_turns": case.disturbed, "contestants": rows}


def _growth(growth: Growth) -> dict[str, Any]:
    return {
        "quantity": growth.quantity,
        "size": growth.size,
        "sizes": list(growth.sizes),
        "values": [_short(v) for v in growth.values],
        "exponent": _short(growth.measured_exponent),
        "expected_exponent": _short(growth.expected_exponent),
    }


def _summary(summary: Summary) -> dict[str, float]:
    return {"median": _short(summary.median), "low": _short(summary.low), "high": _short(summary.high)}


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def human(seconds: float) -> str:
    """A duration with a fitting unit.

    >>> human(0.00135), human(0.25), human(3.1e-5)
    ('1.35 ms', '250 ms', '31 µs')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


__all__ = ["human", "record", "table"]
