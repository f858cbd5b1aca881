"""Directed graphical models of finite or linear-Gaussian nodes: the joint is the product of p(node | parents)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import numpy as np

from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.pictures import Scatter
from chainrule.core.types import Array, Key
from chainrule.probability.distributions import MultivariateNormal
from chainrule.probability.graphical import drawing, separation
from chainrule.probability.graphical.elimination import TableFactor, eliminate
from chainrule.probability.graphical.nodes import FiniteNode, LinearGaussianNode, ModelNode, Values
from chainrule.probability.tables import JointTable


@final
@dataclass(frozen=True, init=False, eq=False)
class DirectedModel:
    """Named nodes, each distributed given its parents.

    >>> rain = {"rain": FiniteNode([0.8, 0.2]), "wet": FiniteNode([[0.9, 0.1], [0.2, 0.8]], parents=["rain"])}
    >>> model = DirectedModel(rain)
    >>> model.marginal("rain", wet=1).values.round(4).tolist()
    [0.3333, 0.6667]
    """

    nodes: Mapping[str, ModelNode]
    """In an order in which parents come before their children."""

    def __init__(self, nodes: Mapping[str, ModelNode]) -> None:
        parents = {name: node.parents for name, node in nodes.items()}
        for name, of in parents.items():
            for parent in of:
                if parent not in nodes:
                    raise ArgumentError(
                        f"DirectedModel: {name!r} has the parent {parent!r}, which is no node{suggest(parent, nodes)}"
                    )
        cycle = separation.find_cycle(parents)
        if cycle is not None:
            raise ArgumentError(
                f"DirectedModel: the arrows go in a circle: {' -> '.join(cycle)}",
                remedy="leave out one of its arrows",
            )
        ordered: dict[str, ModelNode] = {}
        while len(ordered) < len(nodes):
            ready = (name for name in nodes if name not in ordered and set(parents[name]) <= set(ordered))
            name = next(ready)
            ordered[name] = nodes[name]
        for name, node in ordered.items():
            node.check(name, {parent: nodes[parent] for parent in node.parents})
        object.__setattr__(self, "nodes", ordered)

    @property
    def parents(self) -> dict[str, tuple[str, ...]]:
        """The parents of every node."""
        return {name: node.parents for name, node in self.nodes.items()}

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> dict[str, Array]:
        """Draws of all variables, every one after its parents."""
        drawn: dict[str, Array] = {}
        for (name, node), draw in zip(
            self.nodes.items(), jax.random.split(key, len(self.nodes)), strict=True
        ):
            drawn[name] = node.sample(draw, [drawn[parent] for parent in node.parents], shape)
        return drawn

    def log_prob(self, values: Values) -> Array:
        """Logarithm of the joint probability or density of values of all variables."""
        self._known("log_prob", values)
        missing = [name for name in self.nodes if name not in values]
        if missing:
            raise ArgumentError(
                f"log_prob(values): no value of {missing[0]!r}", remedy="give one of every variable"
            )
        parts = [
            node.log_prob(values[name], [values[parent] for parent in node.parents])
            for name, node in self.nodes.items()
        ]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total

    def marginal(self, *names: str, **given: int) -> JointTable:
        """The exact joint table of finite variables, given values of others, by variable elimination."""
        self._known("marginal", (*names, *given))
        if not names or set(names) & set(given):
            raise ArgumentError("marginal: name the variables wanted, and give values of others only")
        factors = []
        # What is neither asked for nor leads to it sums to one and need not be looked at.
        for name in separation.ancestors(self.parents, [*names, *given]):
            node = self.nodes[name]
            if not isinstance(node, FiniteNode):
                raise ArgumentError(
                    f"marginal: {name!r} is {node.describe()}",
                    remedy="marginals of linear-Gaussian variables: model.gaussian(names)",
                )
            factors.append(_observed(TableFactor((*node.parents, name), node.table), given))
        table = eliminate(factors, names)
        if not table.sum() > 0:
            raise ArgumentError(
                f"marginal: {', '.join(f'{name}={value}' for name, value in given.items())} has probability 0",
                remedy="condition on values that can happen",
            )
        return JointTable(table, names, normalize=True)

    def gaussian(self, *names: str) -> MultivariateNormal:
        """The joint distribution of linear-Gaussian variables, in this order; all of them if none is named."""
        wanted = names or tuple(
            name for name, node in self.nodes.items() if isinstance(node, LinearGaussianNode)
        )
        self._known("gaussian", wanted)
        index: dict[str, int] = {}
        mean, mixing, noise = np.zeros(len(self.nodes)), np.eye(len(self.nodes)), np.zeros(len(self.nodes))
        for k, (name, node) in enumerate(self.nodes.items()):
            index[name] = k
            if isinstance(node, LinearGaussianNode):
                mean[k] = node.intercept
                noise[k] = node.variance
                for parent, weight in zip(node.parents, node.weights, strict=True):
                    mean[k] += weight * mean[index[parent]]
                    mixing[k] += weight * mixing[index[parent]]
            elif name in wanted:
                raise ArgumentError(
                    f"gaussian: {name!r} is {node.describe()}", remedy="its table is model.marginal(name)"
                )
        rows = [index[name] for name in wanted]
        covariance = (mixing * noise) @ mixing.T
        return MultivariateNormal(mean[rows], covariance[np.ix_(rows, rows)])

    def is_separated(
        self, a: str | Sequence[str], b: str | Sequence[str], given: str | Sequence[str] = ()
    ) -> separation.DSeparation:
        """Whether the graph makes a and b independent given others (d-separation); if not, with an active path."""
        sets = [(one,) if isinstance(one, str) else tuple(one) for one in (a, b, given)]
        self._known("is_separated", [name for one in sets for name in one])
        return separation.separation(self.parents, *sets)

    def markov_blanket(self, name: str) -> tuple[str, ...]:
        """Parents, children and their other parents: given these, nothing else says anything about the node."""
        self._known("markov_blanket", (name,))
        children = separation.children_of(self.parents)[name]
        near = {
            *self.nodes[name].parents,
            *children,
            *(one for child in children for one in self.parents[child]),
        }
        return tuple(one for one in self.nodes if one in near and one != name)

    def to_text(self) -> str:
        """One line for each node: its distribution given its parents."""
        width = max(len(_factor(name, node)) for name, node in self.nodes.items())
        return "\n".join(
            f"{_factor(name, node):<{width}}  {node.describe()}" for name, node in self.nodes.items()
        )

    def to_dot(self) -> str:
        """The graph in the language of Graphviz."""
        return drawing.dot_text(self.parents)

    def picture(self, title: str = "Directed model") -> Scatter:
        """The graph as a picture, parents above their children."""
        return drawing.graph_picture("directed-model", title, self.parents)

    def _known(self, where: str, names: Any) -> None:
        for name in names:
            if name not in self.nodes:
                raise ArgumentError(
                    f"{where}: no variable {name!r}{suggest(name, self.nodes)}",
                    remedy=f"it has {', '.join(self.nodes)}",
                )


def latent_variable(prior: Any, likelihood: Any) -> DirectedModel:
    """p(x, z) = p(x | z) p(z): what is seen depends on one variable that is not.

    >>> latent_variable([0.5, 0.5], [[0.9, 0.1], [0.3, 0.7]]).to_text()
    'p(z)      finite, 2 values\\np(x | z)  finite, 2 values'
    """
    return DirectedModel({"z": FiniteNode(prior), "x": FiniteNode(likelihood, ["z"])})


def two_latent_variables(z1: Any, z2: Any, x1: Any, x2: Any) -> DirectedModel:
    """p(x1 | z1, z2) p(x2 | z2) p(z1) p(z2 | z1): two variables that are seen, two that are not."""
    return DirectedModel(
        {
            "z1": FiniteNode(z1),
            "z2": FiniteNode(z2, ["z1"]),
            "x1": FiniteNode(x1, ["z1", "z2"]),
            "x2": FiniteNode(x2, ["z2"]),
        }
    )


def _factor(name: str, node: ModelNode) -> str:
    return f"p({name}{' | ' if node.parents else ''}{', '.join(node.parents)})"


def _observed(factor: TableFactor, given: Mapping[str, int]) -> TableFactor:
    """The factor with the values that were observed put in."""
    index: list[Any] = []
    for name, size in zip(factor.names, factor.values.shape, strict=True):
        if name in given and not 0 <= given[name] < size:
            raise ArgumentError(f"marginal({name}={given[name]}): {name} has values 0 to {size - 1}")
        index.append(given[name] if name in given else slice(None))
    return TableFactor(tuple(name for name in factor.names if name not in given), factor.values[tuple(index)])


__all__ = ["DirectedModel", "latent_variable", "two_latent_variables"]
