"""The summary of a network as a table: for a terminal, for a notebook, for machines."""

import html
from dataclasses import asdict, dataclass
from typing import Any, final

_COLUMNS = ("layer", "kind", "kernel", "output", "parameters", "multiply-adds", "receptive field")
_NUMBERS = ("parameters", "multiply-adds")


@final
@dataclass(frozen=True)
class LayerSummary:
    """One layer, or one function without arrays that looks at several entries."""

    layer: str
    """Where it is in the network, as in the names of its arrays; empty for a function."""
    kind: str
    shape: tuple[int, ...]
    """Of what comes out; empty for a layer that the traced call does not reach."""
    parameters: int
    multiply_adds: int
    receptive_field: tuple[int | None, ...]
    """How many entries of the input an output sees at most along each axis that is looked at in parts; `None`: all."""
    kernel: tuple[int, ...] = ()
    """Convolutions: (outputs, inputs of a group, height, width), as other libraries write it."""


@final
@dataclass(frozen=True)
class Summary:
    """Layers of a network with shapes, parameters, multiply-adds and receptive fields, in the order of the call.

    Multiply-adds are those of matrix products and convolutions for the traced input. Receptive fields are upper bounds
    and leave the statistics of normalisers out, as is the custom.
    """

    name: str
    inputs: tuple[tuple[int, ...], ...]
    layers: tuple[LayerSummary, ...]
    parameters: int
    uncounted: tuple[str, ...] = ()
    """What the multiply-adds leave out."""
    mode: str = ""
    """Training or inference mode, where a layer is not the same in both."""

    @property
    def multiply_adds(self) -> int:
        """Of all layers."""
        return sum(layer.multiply_adds for layer in self.layers)

    @property
    def receptive_field(self) -> tuple[int | None, ...]:
        """Of the last layer."""
        return self.layers[-1].receptive_field if self.layers else ()

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "multiply_adds": self.multiply_adds}

    def __str__(self) -> str:
        heads, rows = self._shown()
        widths = [max(len(row[i]) for row in rows) for i in range(len(heads))]
        lines = [f"{self.name}   input {', '.join(_shape(shape) for shape in self.inputs)}"]
        for row in rows:
            cells = (
                cell.rjust(width) if head in _NUMBERS else cell.ljust(width)
                for head, cell, width in zip(heads, row, widths, strict=True)
            )
            lines.append("  ".join(cells).rstrip())
        return "\n".join([*lines, *self._notes()])

    def _repr_html_(self) -> str:
        heads, (first, *body, total) = self._shown()

        def cells(row: tuple[str, ...], tag: str) -> str:
            return "".join(
                f'<{tag} style="text-align:{"right" if head in _NUMBERS else "left"}">{html.escape(cell)}</{tag}>'
                for head, cell in zip(heads, row, strict=True)
            )

        shown = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in body)
        title = html.escape(f"{self.name}, input {', '.join(_shape(shape) for shape in self.inputs)}")
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self._notes())
        return (
            f"<table><caption>{title}</caption><thead><tr>{cells(first, 'th')}</tr></thead><tbody>{shown}</tbody>"
            f"<tfoot><tr>{cells(total, 'th')}</tr></tfoot></table>{notes}"
        )

    def _shown(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """The names of the columns, and all rows from the head to the sums; without convolutions without kernels."""
        rows = [_COLUMNS, *self._cells(), self._total()]
        kept = [i for i, head in enumerate(_COLUMNS) if head != "kernel" or any(r[i] for r in rows[1:])]
        shown = [tuple(row[i] for i in kept) for row in rows]
        return shown[0], shown

    def _cells(self) -> list[tuple[str, ...]]:
        return [
            (
                one.layer,
                one.kind,
                f"({', '.join(map(str, one.kernel))})" if one.kernel else "",
                _shape(one.shape) if one.shape else "not reached",
                f"{one.parameters:,}" if one.parameters else "",
                f"{one.multiply_adds:,}" if one.multiply_adds else "",
                field(one.receptive_field),
            )
            for one in self.layers
        ]

    def _total(self) -> tuple[str, ...]:
        return ("total", "", "", "", f"{self.parameters:,}", f"{self.multiply_adds:,}", "")

    def _notes(self) -> list[str]:
        notes = [f"not counted: {', '.join(self.uncounted)}"] if self.uncounted else []
        kernels = any(one.kernel for one in self.layers)
        return [
            *(["kernel: (outputs, inputs of a group, height, width)"] if kernels else []),
            *notes,
            *filter(None, [self.mode]),
        ]


def _shape(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))


def field(widths: tuple[int | None, ...]) -> str:
    """A receptive field in words.

    >>> field((5, 5)), field((5, None)), field((None, None)), field(())
    ('5 × 5', '5 × all', 'all', '')
    """
    if widths and all(width is None for width in widths):
        return "all"
    return " × ".join("all" if width is None else str(width) for width in widths)


__all__ = ["LayerSummary", "Summary", "field"]
