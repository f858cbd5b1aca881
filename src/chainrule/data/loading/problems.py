"""Problems of a source: one thing in one place, and the report of all of them that `check` gives.

A problem either costs one item (a file, a row) that may be left out, or stops the source as a whole, or is merely worth
knowing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

Effect: TypeAlias = Literal["skip", "stop", "note"]


@final
@dataclass(frozen=True)
class Problem:
    """One thing found in one place."""

    kind: str
    """A word or two, the same for every problem of the kind: "truncated", "ragged row"."""
    where: str
    """The file, or the file and line, as a person would look for it."""
    detail: str = ""
    effect: Effect = "skip"
    """"skip": this item cannot be used; "stop": the source cannot be used; "note": used all the same."""
    remedy: str = ""

    @property
    def reason(self) -> str:
        """Kind and detail in one phrase.

        >>> Problem("ragged row", "a.csv line 7", "3 cells instead of 4").reason
        'ragged row: 3 cells instead of 4'
        """
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


class Refused(Exception):
    """Raised by a reader when the source as a whole cannot be used."""

    def __init__(self, kind: str, where: str, detail: str, remedy: str = "") -> None:
        super().__init__(detail)
        self.problem = Problem(kind, where, detail, "stop", remedy)


@final
@dataclass(frozen=True)
class Group:
    """All problems of one kind, in the order in which they were found."""

    kind: str
    effect: Effect
    items: tuple[Problem, ...]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.items)

    @property
    def first(self) -> str:
        """Where the first one is."""
        return self.items[0].where


@final
@dataclass(frozen=True)
class ScanReport:
    """What `check` found."""

    name: str
    unit: str
    total: int
    usable: int
    """Items that are sound by themselves."""
    problems: tuple[Group, ...] = ()
    columns: tuple[tuple[str, str, str, str], ...] = ()
    """Tables that can be read, for every column: its name, how it was read, missing cells, its range or examples."""
    bad: str = "error"
    """What is to be done about items that cannot be used: "error" or "skip"."""

    @property
    def ok(self) -> bool:
        """Whether the data can be loaded as they are; notes, and items to be left out, do not stand in the way."""
        harmless = ("note", "skip") if self.bad == "skip" else ("note",)
        return all(group.effect in harmless for group in self.problems)

    def to_json(self) -> dict[str, Any]:
        """Plain values, every single problem included."""
        groups = [
            {
                "kind": group.kind,
                "effect": group.effect,
                "count": group.count,
                "first": group.first,
                "items": [
                    {"where": p.where, "detail": p.detail, "remedy": p.remedy}
                    if p.remedy
                    else {"where": p.where, "detail": p.detail}
                    for p in group.items
                ],
            }
            for group in self.problems
        ]
        return {
            "name": self.name,
            "unit": self.unit,
            "total": self.total,
            "usable": self.usable,
            "ok": self.ok,
            "problems": groups,
            **({"columns": [list(row) for row in self.columns]} if self.columns else {}),
        }

    def lines(self, limit: int | None = 10) -> list[str]:
        """The report for people: a line in all, a line for every kind, and up to `limit` locations of each.

        >>> bad = Problem("truncated", "cats/666.jpg")
        >>> for line in ScanReport("cats", "images", 412, 411, group([bad])).lines():
        ...     print(line)
        cats: 411 of 412 images can be used
        truncated: 1
          cats/666.jpg
        """
        usable = (
            f"{self.usable:,} of {self.total:,} {self.unit} can be used" if self.total else "cannot be read"
        )
        lines = [f"{self.name}: {usable}"]
        for found in self.problems:
            note = " (used all the same)" if found.effect == "note" else ""
            lines.append(f"{found.kind}: {found.count:,}{note}")
            shown = found.items if limit is None else found.items[:limit]
            lines += [f"  {p.where} ({p.detail})" if p.detail else f"  {p.where}" for p in shown]
            if found.count > len(shown):
                lines.append(f"  and {found.count - len(shown):,} more")
            lines += [f"  {line}" for line in found.items[0].remedy.splitlines()]
        return lines


def group(problems: Sequence[Problem]) -> tuple[Group, ...]:
    """Problems by kind: what stops the source first, then what costs an item, then notes."""
    found: dict[tuple[str, Effect], list[Problem]] = {}
    for problem in problems:
        found.setdefault((problem.kind, problem.effect), []).append(problem)
    groups = [Group(kind, effect, tuple(items)) for (kind, effect), items in found.items()]
    return tuple(sorted(groups, key=lambda g: ("stop", "skip", "note").index(g.effect)))


__all__ = ["Effect", "Group", "Problem", "Refused", "ScanReport", "group"]
