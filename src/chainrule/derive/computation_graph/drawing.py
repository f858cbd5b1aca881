"""Drawing of a graph: one box per operation with its value, tangent and adjoint, arrows for the variables.

Every arrow says the local derivative of the operation it leads to, in the operand it brings. Where a scalar is used
several times, each arrow also says which tangent it carries and which adjoint it brings back, and the box shows the
sum. A picture of one step of the backward pass shows the adjoints that have arrived by then. Folded nodes (calls,
loops, branches) look like a stack of cards; hovering over a box shows the source line and cost.
"""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, final

import numpy as np

from chainrule.core.formatting import count, memory_size
from chainrule.derive.computation_graph.folding import Folded, Link, NodeGroup, fold
from chainrule.derive.computation_graph.layout import arrange, depth
from chainrule.derive.computation_graph.local_derivatives import LocalDerivatives
from chainrule.derive.computation_graph.node import Edge, Node
from chainrule.derive.computation_graph.record import Record
from chainrule.derive.computation_graph.summaries import SHOWN, brief, number
from chainrule.derive.svg import Canvas, shorten

_MARGIN, _TOP, _BOTTOM = 28, 70, 64
_SIZE, _LINE, _PAD = 12, 18, 12
_NARROW, _WIDE = 112, 246
_LAYERS = 7  # more than these run downwards
_MONO = 0.602 * _SIZE

Points: TypeAlias = list[tuple[float, float]]
Label: TypeAlias = list[tuple[str, str]]
"""Words on an arrow, each with its style."""


@final
@dataclass(frozen=True)
class _Box:
    """What stands in a box: a title, lines of (symbol, text, style), how it looks, and what hovering shows."""

    title: str
    lines: Sequence[tuple[str, str, str]]
    look: str = "box"
    stacked: bool = False
    tooltip: str = ""
    active: bool = False
    """Whether the backward pass is here."""

    @property
    def width(self) -> float:
        longest = max(
            [len(self.title) * 1.1, *(len(symbol) + len(words) + 1 for symbol, words, _ in self.lines)]
        )
        return min(max(longest * _MONO + 2 * _PAD + 2, _NARROW), _WIDE)

    @property
    def height(self) -> float:
        return 2 * _PAD + _LINE * (1 + len(self.lines)) - 6


@final
@dataclass(frozen=True)
class DrawnStep:
    """What a picture of one step of the backward pass shows."""

    adjoints: Mapping[int, Any]
    """By node, what has arrived; others have nothing yet."""
    active: int | None
    """The node whose turn it is."""
    sending: frozenset[tuple[int, int]]
    """Pairs of source and target along whose edges something is sent now."""
    sent: frozenset[tuple[int, int]]
    """Pairs along whose edges something has been sent, now or before."""
    title: str


def svg(
    graph: Record,
    locals_: LocalDerivatives,
    limit: int,
    focus: Node | None,
    radius: int,
    moment: DrawnStep | None = None,
) -> str:
    """The picture of a graph, folded if large, or of the neighbourhood of a node."""
    folded = fold(graph, limit) if focus is None else _around(graph, focus, radius)
    boxes = [_box(graph, group) for group in folded.groups]
    links = [(link.tail, link.head) for link in folded.links if link.head is not None]
    owner = {node.id: index for index, group in enumerate(folded.groups) for node in group.nodes}
    tags: list[str] = []
    for edge in graph.edges:
        if edge.target is None and edge.source in owner:
            links.append((owner[edge.source], len(boxes) + len(tags)))
            tags.append(graph.outputs[edge.operand])
    sheet = _Sheet(graph, locals_, folded, boxes, tags, links, moment)
    sheet.draw()
    return sheet.canvas.render()


@final
class _Sheet:
    """Boxes and arrows in place: left to right while there are few layers, else downwards."""

    def __init__(
        self,
        graph: Record,
        locals_: LocalDerivatives,
        folded: Folded,
        boxes: list[_Box],
        tags: list[str],
        links: list[tuple[int, int]],
        moment: DrawnStep | None,
    ) -> None:
        self.boxes, self.tags = boxes, tags
        self.links = links
        self.labels = [_label(graph, locals_, folded, link) for link in links]
        self.sending = [moment is not None and _is_among(folded, link, moment.sending) for link in links]
        widths = [box.width for box in boxes] + [len(tag) * 0.56 * _SIZE + 8 for tag in tags]
        heights = [box.height for box in boxes] + [20.0] * len(tags)
        self.down = depth(len(widths), links) > _LAYERS
        if self.down:
            layout = arrange(heights, widths, links, between=52, apart=26)
            x, y, width, height = layout.y, layout.x, layout.height, layout.width
            room = np.array(widths)
        else:
            longest = max((sum(len(words) + 1 for words, _ in label) for label in self.labels), default=0)
            gap = max(64, longest * 0.602 * (_SIZE - 1) + 24)
            layout = arrange(widths, heights, links, between=gap, apart=22)
            x, y, width, height = layout.x, layout.y, layout.width, layout.height
            room = layout.room
        self.canvas = _canvas(graph, folded, width, height, moment)
        self.x = x + _MARGIN + max(0.0, (self.canvas.width - 2 * _MARGIN - width) / 2 if self.down else 0.0)
        self.y = y + _TOP
        self.room, self.heights = room, heights
        shift = self.x[0] - x[0] if len(x) else 0.0
        self.routes = [
            [(b + shift, a + _TOP) if self.down else (a + shift, b + _TOP) for a, b in route]
            for route in layout.routes
        ]
        self._spread(links)
        if moment is not None:  # the layout is that of the whole picture, so that nothing moves between steps
            self.boxes = [_at(moment, group, box) for group, box in zip(folded.groups, boxes, strict=True)]
            self.labels = [
                label
                if _is_among(folded, link, moment.sent)
                else [part for part in label if part[1] != "f-adjoint"]
                for label, link in zip(self.labels, links, strict=True)
            ]

    def draw(self) -> None:
        """Arrows first, then boxes over them, then what is written on the arrows."""
        for route, sending in zip(self.routes, self.sending, strict=True):
            style = "none s-adjoint thicker" if sending else "none s-axis thick"
            self.canvas.path(self._curve(route), style, arrow=True)
        for box, x, y, width in zip(self.boxes, self.x, self.y, self.room, strict=False):
            _draw(self.canvas, box, x, y, width)
        for index, tag in enumerate(self.tags, start=len(self.boxes)):
            x, y = self.x[index], self.y[index] + (8 if self.down else 4)
            left = x if self.down else x - self.room[index] / 2 + 4
            anchor = "middle" if self.down else "start"
            self.canvas.text(left, y, tag, "f-ink", size=_SIZE, anchor=anchor)
        for label, route, rank in zip(self.labels, self.routes, self._ranks(), strict=True):
            self._write(label, route[-1], rank)

    def _spread(self, links: Sequence[tuple[int, int]]) -> None:
        """Give every arrow its own position on the sides of the boxes, ordered by where it comes from or goes to."""
        across = 0 if self.down else 1
        for end, neighbour, side in ((0, 1, 0.5), (-1, -2, -0.5)):
            at_box: dict[int, list[Points]] = {}
            for link, route in zip(links, self.routes, strict=True):
                at_box.setdefault(link[end], []).append(route)
            for box, some in at_box.items():
                some.sort(key=lambda route: route[neighbour][across])
                length, thick = self.room[box], self.heights[box]
                step = min((length if self.down else thick) / (len(some) + 1), 26.0)
                for index, route in enumerate(some):
                    shift = (index - (len(some) - 1) / 2) * step
                    x, y = route[end]
                    route[end] = (
                        (x + shift, y + side * thick) if self.down else (x + side * length, y + shift)
                    )

    def _curve(self, points: Points) -> str:
        parts = [f"M{points[0][0]:.1f},{points[0][1]:.1f}"]
        for (x0, y0), (x1, y1) in itertools.pairwise(points):
            a, b = (0.0, (y1 - y0) / 2) if self.down else ((x1 - x0) / 2, 0.0)
            parts.append(f"C{x0 + a:.1f},{y0 + b:.1f} {x1 - a:.1f},{y1 - b:.1f} {x1:.1f},{y1:.1f}")
        return " ".join(parts)

    def _ranks(self) -> list[int]:
        """Of every arrow, how many others end to the left of it at the same box; -1 for the first of several."""
        ends = [(head, route[-1][0]) for (_, head), route in zip(self.links, self.routes, strict=True)]
        ranks = []
        for head, x in ends:
            others = [there for box, there in ends if box == head]
            before = sum(bool(there < x) for there in others)
            ranks.append(-1 if len(others) > 1 and before == 0 else before)
        return ranks

    def _write(self, label: Label, end: tuple[float, float], rank: int) -> None:
        """What is written on an arrow, at its end; of several arrows downwards, the first has it on its left."""
        step = 0.602 * (_SIZE - 1)
        length = sum(len(words) + 1 for words, _ in label) * step
        x, y = end[0] - 4 - length, end[1] - 6
        if self.down:
            x, y = (
                (end[0] - length, end[1] - 14)
                if rank < 0
                else (end[0] + 6, end[1] - 14 - 12 * max(rank - 1, 0))
            )
        for words, style in label:
            self.canvas.text(x, y, words, f"{style} mono halo", size=_SIZE - 1)
            x += (len(words) + 1) * step


def _canvas(graph: Record, folded: Folded, width: float, height: float, moment: DrawnStep | None) -> Canvas:
    canvas = Canvas(max(width + 2 * _MARGIN, 600), height + _TOP + _BOTTOM, "computation graph")
    heading = graph.title or "computation graph" if moment is None else moment.title
    canvas.text(_MARGIN, 32, heading, "f-ink bold", size=16)
    across = f"adjoint · tangent sums to {number(graph.derivative)} across every cut (u·Jv)"
    canvas.text(_MARGIN, 51, across, "f-soft", size=_SIZE)
    x, y = float(_MARGIN), canvas.height - 20
    for symbol, words, style in (
        ("v", "value", "f-ink"),
        ("t", "tangent, forward sweep", "f-tangent"),
        ("r", "adjoint, reverse sweep", "f-adjoint"),
        ("d", "local derivative", "f-residual"),
    ):
        canvas.text(x, y, symbol, f"{style} mono bold", size=_SIZE)
        canvas.text(x + 14, y, words, "f-soft", size=_SIZE)
        x += 14 + 6.2 * len(words) + 22
    if folded.statement:
        canvas.text(_MARGIN, y - 20, folded.statement, "f-ink", size=_SIZE)
    return canvas


def _box(graph: Record, group: NodeGroup) -> _Box:
    node = group.single
    if node is None:
        return _group_box(group)
    lines = [("v", brief(node.value), "f-ink")]
    if any(tangent is not None for tangent in node.tangents):
        lines += [("t", brief(node.tangent), "f-tangent"), ("r", _adjoint(graph, node), "f-adjoint")]
    else:
        lines.append(("", "no derivative", "f-soft"))
    shapes = ", ".join(str(list(one.shape)) for one in node.types if one.shape)
    about = "  ".join(part for part in (node.formula, shapes) if part)
    if about:
        lines.insert(0, ("", about, "f-soft"))
    title = node.name
    if node.steps is not None:
        title = f"{node.name} ×{node.steps}"
    elif node.custom:
        title = f"{node.name} (custom rule)"
    look = "folded" if node.folded else "box" if node.kind == "operation" else "input"
    return _Box(title, lines, look, node.folded, _tooltip(node))


def _group_box(group: NodeGroup) -> _Box:
    source = next((one.source for one in group.nodes if one.source), None)
    code = source.text if source else ""
    lines = [
        ("", code, "f-soft"),
        (f"{len(group.nodes)}", "nodes", "f-ink"),
        ("", group.operations, "f-ink"),
        ("", f"{count(group.flops)} flops, {memory_size(group.bytes)}", "f-soft"),
    ]
    tooltip = "\n".join(part for part in (group.title, code, group.operations) if part)
    return _Box(group.title, [line for line in lines if line[1]], "folded", True, tooltip)


def _adjoint(graph: Record, node: Node) -> str:
    """The adjoint; for a scalar used several times, the sum that makes it."""
    shares = [edge.adjoint for edge in graph.edges_from(node) if edge.adjoint is not None]
    total = brief(node.adjoint)
    if len(shares) > 1 and node.shape == ():
        terms = " + ".join(brief(share) for share in shares).replace("+ -", "- ")
        spelled = f"{terms} = {total}"
        return spelled if len(spelled) <= 20 else f"{total} ({len(shares)} uses)"
    return total


def _tooltip(node: Node) -> str:
    facts = [
        f"{node.name} = {node.formula or node.kind}",
        ", ".join(f"{one.dtype}{list(one.shape)}" for one in node.types),
        f"{node.flops} flops, {memory_size(node.bytes)}",
    ]
    if node.source is not None:
        facts.append(f"{node.source}  {node.source.text}")
    if node.folded:
        facts.append(f"look inside with graph.open({node.name!r})")
    return "\n".join(facts)


def _draw(canvas: Canvas, box: _Box, x: float, y: float, width: float) -> None:
    left, top, room = x - width / 2, y - box.height / 2, width - 2 * _PAD
    canvas.open(box.tooltip)
    for shift in (6, 3, 0) if box.stacked else (0,):
        edge = "s-adjoint thicker" if box.active else "s-axis thin"
        canvas.rect(left + shift, top + shift, width, box.height, f"f-{box.look} {edge}", round=7)
    base = top + _PAD + 9
    canvas.text(left + _PAD, base, shorten(box.title, room, _SIZE * 1.05), "f-ink bold", size=_SIZE + 1)
    for symbol, words, style in box.lines:
        base += _LINE
        indent = (len(symbol) + 1) * _MONO if symbol else 0
        if symbol:
            canvas.text(left + _PAD, base, symbol, f"{style} mono bold", size=_SIZE)
        shown = shorten(words, room - indent, _SIZE)
        canvas.text(left + _PAD + indent, base, shown, f"{style} mono", size=_SIZE)
    canvas.close()


def _label(graph: Record, locals_: LocalDerivatives, folded: Folded, link: tuple[int, int]) -> Label:
    """What is written on an arrow between two operations.

    The local derivative; out of a scalar used several times also its tangent forward and its share of the adjoint.
    """
    tail, head = link
    if head >= len(folded.groups):
        return []
    source, target = folded.groups[tail].single, folded.groups[head].single
    if source is None or target is None:
        return []
    uses = [edge for edge in graph.edges_from(source) if edge.adjoint is not None]
    here = [edge for edge in uses if edge.target == target.id and locals_.exists(edge)]
    if not here:
        return []
    local = (f"d {' + '.join(_local(locals_, edge) for edge in here)}", "f-residual")
    if len(uses) < 2 or source.shape != ():
        return [local]
    shares = " + ".join(brief(edge.adjoint) for edge in here)
    return [(f"t {brief(source.tangent)}", "f-tangent"), local, (f"r {shares}", "f-adjoint")]


def _local(locals_: LocalDerivatives, edge: Edge) -> str:
    """A local derivative of a few entries written out, a larger Jacobian by its shape."""
    found = locals_.of(edge)
    return locals_.shape(edge) if found is None or found.size > SHOWN else brief(found)


def _is_among(folded: Folded, link: tuple[int, int], pairs: Collection[tuple[int, int]]) -> bool:
    """Whether one of the pairs of nodes is joined by this arrow; arrows to the result join none."""
    tail, head = link
    return head < len(folded.groups) and any(
        (source.id, target.id) in pairs
        for source in folded.groups[tail].nodes
        for target in folded.groups[head].nodes
    )


def _at(moment: DrawnStep, group: NodeGroup, box: _Box) -> _Box:
    """A box as it looks at a step: the adjoint that has arrived so far, and whether it is this operation's turn."""
    node = group.single
    if node is None:
        return box
    arrived = brief(moment.adjoints[node.id]) if node.id in moment.adjoints else "none yet"
    lines = [(symbol, arrived if symbol == "r" else words, style) for symbol, words, style in box.lines]
    return replace(box, lines=lines, active=node.id == moment.active)


def _around(graph: Record, focus: Node, radius: int) -> Folded:
    near = {focus.id}
    for _ in range(radius):
        near |= {edge.source for one in near for edge in graph.edges_to(graph.nodes[one])} | {
            edge.target
            for one in near
            for edge in graph.edges_from(graph.nodes[one])
            if edge.target is not None
        }
    chosen = sorted(near)
    index = {one: i for i, one in enumerate(chosen)}
    links = dict.fromkeys(
        (index[edge.source], index[edge.target])
        for edge in graph.edges
        if edge.source in index and edge.target is not None and edge.target in index
    )
    hidden = len(graph.nodes) - len(chosen)
    return Folded(
        tuple(NodeGroup(graph.nodes[one].name, (graph.nodes[one],)) for one in chosen),
        tuple(Link(tail, head, 1, 0.0) for tail, head in links),
        f"{radius} steps around {focus.name}; {hidden} other nodes are not shown." if hidden else "",
    )


__all__ = ["DrawnStep", "svg"]
