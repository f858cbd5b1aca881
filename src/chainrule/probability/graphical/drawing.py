"""Directed graphs in the language of Graphviz and as pictures: nodes in layers, arrows from parents to children."""

from collections.abc import Mapping

import numpy as np

from chainrule.core.pictures import Scatter


def dot_text(parents: Mapping[str, tuple[str, ...]]) -> str:
    """The graph in the language of Graphviz.

    >>> print(dot_text({"z": (), "x": ("z",)}))
    digraph {
      "z";
      "x";
      "z" -> "x";
    }
    """
    quoted = {name: '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"' for name in parents}
    nodes = [f"  {quoted[name]};" for name in parents]
    arrows = [f"  {quoted[parent]} -> {quoted[name]};" for name, of in parents.items() for parent in of]
    return "\n".join(["digraph {", *nodes, *arrows, "}"])


def graph_picture(
    name: str, title: str, parents: Mapping[str, tuple[str, ...]], caption: str = ""
) -> Scatter:
    """Nodes by their depth below the roots, with arrows between them; parents come before children in `parents`."""
    depth: dict[str, int] = {}
    for node, of in parents.items():
        depth[node] = 1 + max((depth[parent] for parent in of), default=-1)
    layers = [[node for node in parents if depth[node] == level] for level in range(1 + max(depth.values()))]
    at = {
        node: np.array([k - (len(layer) - 1) / 2, -float(level)])
        for level, layer in enumerate(layers)
        for k, node in enumerate(layer)
    }
    edges = [(at[parent], at[node]) for node, of in parents.items() for parent in of]
    return Scatter(
        name,
        title,
        "",
        "",
        {"node": np.stack([at[node] for node in parents])},
        arrows=_arrows(edges),
        words={"node": list(parents)},
        caption=caption,
    )


def _arrows(edges: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray] | None:
    """Starts and steps, cut short on both sides so that they leave the names free."""
    if not edges:
        return None
    starts, ends = (np.stack([edge[k] for edge in edges]) for k in range(2))
    step = ends - starts
    return starts + 0.15 * step, 0.7 * step


__all__ = ["dot_text", "graph_picture"]
