"""The computation graph of any JAX function: operations with value, tangent and adjoint, paths, cuts and pictures."""

from chainrule.derive.graphs.cuts import Cut, Invariant
from chainrule.derive.graphs.folding import Folded, Group, Link
from chainrule.derive.graphs.graph import Graph, graph
from chainrule.derive.graphs.node import Edge, Node
from chainrule.derive.graphs.paths import Path, Paths

__all__ = ["Cut", "Edge", "Folded", "Graph", "Group", "Invariant", "Link", "Node", "Path", "Paths", "graph"]
