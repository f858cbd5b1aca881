"""The computation graph of any JAX function: operations with value, tangent and adjoint, paths, cuts and pictures."""

from chainrule.derive.computation_graph.backward import BackwardPass, BackwardStep, Message
from chainrule.derive.computation_graph.cuts import Cut, Invariant
from chainrule.derive.computation_graph.folding import Folded, Link, NodeGroup
from chainrule.derive.computation_graph.graph import Graph, graph
from chainrule.derive.computation_graph.node import Edge, Node
from chainrule.derive.computation_graph.paths import GraphPath, GraphPaths

__all__ = [
    "BackwardPass",
    "BackwardStep",
    "Cut",
    "Edge",
    "Folded",
    "Graph",
    "GraphPath",
    "GraphPaths",
    "Invariant",
    "Link",
    "Message",
    "Node",
    "NodeGroup",
    "graph",
]
