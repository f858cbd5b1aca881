"""The plan by which a table was read: what became of every column, and the same for rows that come later.

The reader of tables makes the plan and encodes its own rows with it, and a run keeps it beside the schema, so that new
rows become features exactly as the training rows did. It is no part of the hash of the data.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float

from chainrule.core.errors import DataError, suggest
from chainrule.data import columns
from chainrule.data.column import CellFault, ColumnReading

_NEAR = 1e-4
"""Features that went through other units come back as exactly as this."""
Faults = dict[int, CellFault]
"""The first fault of every row that has one, by the number of the row."""


class Encoded(NamedTuple):
    """Rows of a table as features."""

    x: Float[np.ndarray, "rows features"]
    """In the units of the table; NaN throughout in rows that have a fault."""
    faults: Faults
    notes: tuple[str, ...] = ()
    """What was left aside."""


class Decoded(NamedTuple):
    """The targets of rows of a table: class numbers, zeros and ones, or values, in the units of the table."""

    y: np.ndarray
    """As splits hold them before scaling; -1 (classes and labels) or NaN (values) in rows that have a fault."""
    faults: Faults


@final
@dataclass(frozen=True)
class ColumnPlan:
    """What becomes of one column."""

    name: str
    reading: ColumnReading | None
    """How its cells are read; nothing if the column is left out."""
    target: bool = False
    fill: tuple[float, ...] | None = None
    """What its features are where the cell is missing; nothing if that is a fault of the row."""
    marked: bool = False
    """Whether a further feature says where the cell was missing."""
    missing: int = 0
    """How many training rows lack it."""
    shown: str = ""
    """Its range or some of its words."""

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features it becomes."""
        if self.reading is None or self.target:
            return ()
        return (*self.reading.features(self.name), *([f"{self.name} missing"] if self.marked else []))

    @property
    def scaled(self) -> tuple[bool, ...]:
        """For each feature whether it is a quantity, to be standardised."""
        if self.reading is None or self.target:
            return ()
        return (*self.reading.scaled, *([False] if self.marked else []))

    def faults(self, cells: Sequence[str], codes: Float[np.ndarray, " rows"]) -> Faults:
        """What is wrong with cells of these codes."""
        assert self.reading is not None, "a column that is left out has no faults"
        found: Faults = {}
        for row in np.flatnonzero(~np.isfinite(codes)).tolist():
            if not self.reading.absent(cells[row]) or np.isinf(codes[row]):
                found[row] = self.reading.fault(cells[row], self.name)
            elif self.fill is None:
                missing = CellFault("missing value", f"column {self.name!r}")
                nan = cells[row].lower() == "nan"
                found[row] = self.reading.fault(cells[row], self.name) if nan else missing
        return found

    def encode(self, codes: Float[np.ndarray, " rows"]) -> Float[np.ndarray, "rows features"]:
        """The features of codes; what is missing is filled in where that is the plan."""
        assert self.reading is not None, "a column that is left out has no features"
        x, gone = self.reading.expand(codes), ~np.isfinite(codes)
        if self.fill is not None:
            x[gone] = self.fill
        return np.column_stack([x, gone]) if self.marked else x

    def impossible(self, x: Float[np.ndarray, "rows features"]) -> Bool[np.ndarray, " rows"]:
        """The rows of its features that no cell becomes, nor one that was filled in."""
        assert self.reading is not None, "a column that is left out has no features"
        own = x[:, : x.shape[1] - self.marked]
        odd = self.reading.impossible(own)
        return (
            odd if self.fill is None else odd & (np.abs(own - np.array(self.fill)[None]) > _NEAR).any(axis=1)
        )

    def describe(self) -> str:
        """How it was read, in a few words."""
        if self.reading is None:
            return "left out"
        return f"{self.reading.describe()}{', missing ones filled in' if self.missing and self.fill else ''}"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        read = None if self.reading is None else self.reading.read_as
        given = {"name": self.name, "read_as": read, **(self.reading.to_json() if self.reading else {})}
        return {
            **given,
            "target": self.target,
            "fill": None if self.fill is None else list(self.fill),
            "marked": self.marked,
            "missing": self.missing,
            "shown": self.shown,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "ColumnPlan":
        """The plan written by `to_json`."""
        kind, fill = values["read_as"], values["fill"]
        return cls(
            str(values["name"]),
            None if kind is None else columns.get(kind).from_json(values),
            bool(values["target"]),
            None if fill is None else tuple(float(value) for value in fill),
            bool(values["marked"]),
            int(values["missing"]),
            str(values["shown"]),
        )


@final
@dataclass(frozen=True)
class TableReading:
    """How every column of a table was read, in the order of the table."""

    columns: tuple[ColumnPlan, ...]
    header: bool = True
    """Whether the table has a row of names; without one columns are called "column 0", "column 1", ..."""
    classes: tuple[str, ...] = ()
    """Names of the classes of a target column, or of the labels of several."""

    @property
    def features(self) -> tuple[str, ...]:
        """Names of all features, those of the schema of the data."""
        return tuple(name for plan in self.columns for name in plan.features)

    @property
    def scaled(self) -> np.ndarray:
        """For each feature whether it is a quantity, to be standardised."""
        return np.array([one for plan in self.columns for one in plan.scaled], bool)

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the target columns."""
        return tuple(plan.name for plan in self.columns if plan.target)

    def names(self, first: Sequence[str]) -> tuple[list[str], int]:
        """Names for the columns of another table by its first row, and how many rows they take up (0 or 1).

        A row that holds the names of the features is a header; without one columns go by their positions, the
        targets left out where the table is so much narrower.
        """
        cells = [cell.strip() for cell in first]
        needed = [plan.name for plan in self.columns if plan.features]
        if set(needed) <= set(cells) or (self.header and len(set(needed) & set(cells)) > len(needed) / 2):
            return cells, 1
        own = [plan.name for plan in self.columns]
        without = [name for name in own if name not in self.targets]
        kept = [plan.name for plan in self.columns if plan.reading is not None and not plan.target]
        fitting = [found for found in (own, without, kept) if len(found) == len(cells)]
        if self.header or not fitting:
            widths = f"{len(cells)} columns without the names of the training table"
            raise DataError(f"the table has {widths}", remedy=f"its first row must hold: {_listed(needed)}")
        return fitting[0], 0

    def encode(self, names: Sequence[str], rows: Sequence[Sequence[str]]) -> Encoded:
        """Rows of a table with columns of these names, in any order, as features; targets need not be there.

        A word that no training row held is a fault of its row; columns that training did not know are left aside.
        """
        plans = [plan for plan in self.columns if plan.features]
        at = self._positions(names, plans)
        faults: Faults = {}
        pieces = [np.zeros((len(rows), 0))]
        for plan in plans:
            codes, found = _read(plan, [row[at[plan.name]] for row in rows])
            faults = {**found, **faults}
            pieces.append(plan.encode(codes))
        x = np.concatenate(pieces, axis=1)
        x[list(faults)] = np.nan
        known = {plan.name for plan in self.columns}
        extra = [name for name in names if name not in known]
        return Encoded(x, faults, (f"columns not known from training: {_listed(extra)}",) if extra else ())

    def restored(
        self, x: Float[np.ndarray, "rows features"]
    ) -> tuple[list[str], list[Sequence[str | float]]]:
        """Features back as columns of cells: their names, and the cells of each; what cannot go back stays features."""
        heads: list[str] = []
        found: list[Sequence[str | float]] = []
        first = 0
        for plan in self.columns:
            names, mine = plan.features, x[:, first : first + len(plan.features)]
            first += len(names)
            if plan.reading is None or not names:
                continue
            width = len(plan.reading.features(plan.name))
            cells = plan.reading.restored(mine[:, :width])
            if cells is None:
                heads += names
                found += [[float(f"{value:.6g}") for value in column] for column in mine.T]
                continue
            gone = mine[:, -1] > 0.5 if plan.marked else np.zeros(len(x), bool)
            heads.append(plan.name)
            found.append(["" if missing else cell for missing, cell in zip(gone, cells, strict=True)])
        return heads, found

    def encode_known(self, given: Mapping[str, str]) -> tuple[np.ndarray, np.ndarray]:
        """Features of a row of which only some cells are given, by their columns, and which features these are."""
        plans = {plan.name: plan for plan in self.columns if plan.features}
        values, known = [], []
        for name, plan in plans.items():
            width = len(plan.features)
            if name not in given:
                values.append(np.zeros(width))
                known.append(np.zeros(width, bool))
                continue
            codes, faults = _read(plan, [given[name]])
            if faults:
                raise DataError(f"column {name!r}: {faults[0].reason}")
            values.append(plan.encode(codes)[0])
            known.append(np.ones(width, bool))
        return np.concatenate(values), np.concatenate(known)

    def decode_target(self, names: Sequence[str], rows: Sequence[Sequence[str]]) -> Decoded | None:
        """The targets of rows, where the table has the columns for them."""
        plans = [plan for plan in self.columns if plan.target]
        if not plans or not set(self.targets) <= set(names):
            return None
        at = self._positions(names, plans)
        values, faults = [], Faults()
        for plan in plans:
            cells = [row[at[plan.name]] for row in rows]
            codes, found = _read(plan, cells)
            if self.classes and len(plans) == 1:
                codes, found = self._classes(plan, cells, codes, found)
            values.append(codes)
            faults = {**found, **faults}
        y = np.stack(values, axis=1) if len(plans) > 1 else values[0]
        y[list(faults)] = np.nan
        return Decoded(np.where(np.isnan(y), -1, y).astype(np.int32) if self.classes else y, faults)

    def _classes(
        self, plan: ColumnPlan, cells: Sequence[str], codes: np.ndarray, faults: Faults
    ) -> tuple[np.ndarray, Faults]:
        """Class numbers instead of the numbers or words that name them."""
        assert plan.reading is not None, "a target is read"
        number = {name: float(position) for position, name in enumerate(self.classes)}
        y, found = np.full(len(cells), np.nan), dict(faults)
        for row, cell in enumerate(cells):
            if row not in faults:
                name = f"{codes[row]:.0f}" if plan.reading.scaled == (True,) else cell
                y[row] = number.get(name, np.nan)
                if name not in number:
                    found[row] = CellFault("unknown class", f"{cell[:40]!r} in column {plan.name!r}")
        return y, found

    def describe(self) -> str:
        """The ways in which columns were read and the target, for the line that describes the data."""
        ways = Counter(
            plan.reading.way if plan.reading else "left out" for plan in self.columns if not plan.target
        )
        read = ", ".join(f"{way} ({many})" for way, many in ways.items())
        values = "" if self.classes else " (values)"
        target = f"target {', '.join(self.targets)}{values}" if self.targets else ""
        return "; ".join(filter(None, [target, f"columns: {read}" if ways.keys() != {"number"} else ""]))

    def table(self) -> tuple[tuple[str, str, str, str], ...]:
        """For every column its name, how it was read, how many cells are missing, and its range or examples."""
        rows = []
        for plan in self.columns:
            read = plan.describe()
            if plan.target:
                many = f"{len(self.classes)} classes" if len(self.targets) == 1 else "label"
                read = f"target: {many if self.classes else read}"
            rows.append((plan.name, read, f"{plan.missing:,}" if plan.reading else "", plan.shown))
        return tuple(rows)

    def filled(self, values: Float[np.ndarray, " features"]) -> "TableReading":
        """The same plan with what is missing filled in by these values of the features; marks and angles become 0."""
        plans, start = [], 0
        for plan in self.columns:
            if plan.fill is not None:
                own = values[start : start + len(plan.fill)].tolist()
                fill = (value if one else 0.0 for value, one in zip(own, plan.scaled, strict=False))
                plan = replace(plan, fill=tuple(fill))
            plans.append(plan)
            start += len(plan.features)
        return replace(self, columns=tuple(plans))

    def _positions(self, names: Sequence[str], plans: Sequence[ColumnPlan]) -> dict[str, int]:
        for plan in plans:
            if list(names).count(plan.name) != 1:
                times = "two columns" if plan.name in names else "no column"
                raise DataError(
                    f"the table has {times} {plan.name!r}{suggest(plan.name, names)}",
                    remedy=f"its columns: {_listed(names)}",
                )
        return {name: position for position, name in enumerate(names)}

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a run folder."""
        plans = [plan.to_json() for plan in self.columns]
        return {"header": self.header, "classes": list(self.classes), "columns": plans}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "TableReading":
        """The reading written by `to_json`."""
        plans = tuple(ColumnPlan.from_json(plan) for plan in values["columns"])
        return cls(plans, bool(values["header"]), tuple(str(name) for name in values["classes"]))


def _read(plan: ColumnPlan, cells: Sequence[str]) -> tuple[np.ndarray, Faults]:
    """Codes and faults of the cells of a column."""
    assert plan.reading is not None, "a column that is left out is not read"
    stripped = [cell.strip() for cell in cells]
    codes = plan.reading.codes(stripped)
    return codes, plan.faults(stripped, codes)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")


__all__ = ["ColumnPlan", "Decoded", "Encoded", "Faults", "TableReading"]
