"""The four ways to second order as a textbook writes them, for a chain of maps with known Jacobians and curvatures.

`s_k = f_k(s_{k-1})`, `J_k` is the Jacobian of `f_k` at `s_{k-1}` and `H_k[u]` its change along `u`. Plain NumPy, no
automatic differentiation: an oracle for the nestings of forward and reverse mode.
"""

import itertools
from typing import Any, NamedTuple

import numpy as np

Vector = np.ndarray


class Quadratic(NamedTuple):
    """`a + B s + ½ C[s, s]`."""

    a: np.ndarray
    B: np.ndarray
    C: np.ndarray

    def __call__(self, s: Any) -> Any:
        return self.a + self.B @ s + 0.5 * (self.C @ s) @ s

    def jacobian(self, s: Vector) -> np.ndarray:
        return self.B + self.C @ s

    def curvature(self, u: Vector) -> np.ndarray:
        """`H[u]`, a matrix like the Jacobian."""
        return self.C @ u


class Chain(NamedTuple):
    """A number of a vector: several maps, the last of which has one output."""

    stages: tuple[Quadratic, ...]

    def __call__(self, x: Any) -> Any:
        for stage in self.stages:
            x = stage(x)
        return x[0]

    def states(self, x: Vector) -> list[Vector]:
        """`s_0 ... s_{K-1}`: where every stage is evaluated."""
        found = [x]
        for stage in self.stages[:-1]:
            found.append(stage(found[-1]))
        return found


def random_chain(seed: int, sizes: tuple[int, ...] = (4, 5, 3, 1)) -> Chain:
    rng = np.random.default_rng(seed)
    stages = []
    for inputs, outputs in itertools.pairwise(sizes):
        C = rng.standard_normal((outputs, inputs, inputs)) / inputs
        a, B = rng.standard_normal(outputs), rng.standard_normal((outputs, inputs))
        stages.append(Quadratic(a, B, C + C.transpose(0, 2, 1)))
    return Chain(tuple(stages))


def forward_on_forward(chain: Chain, x: Vector, v: Vector, w: Vector) -> float:
    """Duals of duals: `t_k = (J_k | H_k[s'_{k-1}]) t_{k-1}`; the last one is wᵀ H v."""
    along_v, along_w, both = v, w, np.zeros_like(x)
    for stage, s in zip(chain.stages, chain.states(x), strict=True):
        J = stage.jacobian(s)
        # The curvature is contracted with the accumulated tangent, not with the Jacobian of the stage before.
        both = J @ both + stage.curvature(along_w) @ along_v
        along_v, along_w = J @ along_v, J @ along_w
    return float(both[0])


def forward_on_reverse(chain: Chain, x: Vector, v: Vector) -> Vector:
    """Both passes in duals: `(r|r')(J|H) = (rJ | rH + r'J)` from the seed `(1|0)`; the last r' is H v."""
    states, tangents = chain.states(x), [v]
    for stage, s in zip(chain.stages[:-1], states, strict=False):
        tangents.append(stage.jacobian(s) @ tangents[-1])
    r, rp = np.ones(1), np.zeros(1)
    for stage, s, t in zip(chain.stages[::-1], states[::-1], tangents[::-1], strict=True):
        J, H = stage.jacobian(s), stage.curvature(t)
        r, rp = r @ J, r @ H + rp @ J
    return rp


def reverse_on_forward(chain: Chain, x: Vector, v: Vector) -> tuple[Vector, Vector]:
    """Back through `(s, t)`, blocks `[[J, 0], [H, J]]`, seed `(0, 1)`; `(p, q)` ends as (H v, gradient)."""
    states, tangents = chain.states(x), [v]
    for stage, s in zip(chain.stages[:-1], states, strict=False):
        tangents.append(stage.jacobian(s) @ tangents[-1])
    p, q = np.zeros(1), np.ones(1)
    for stage, s, t in zip(chain.stages[::-1], states[::-1], tangents[::-1], strict=True):
        J, H = stage.jacobian(s), stage.curvature(t)
        p, q = p @ J + q @ H, q @ J
    return p, q


def reverse_on_reverse(chain: Chain, x: Vector, w: Vector) -> Vector:
    """Two sweeps each way: adjoints back and kept, `w` forward, then back again collecting `r_k H_k`."""
    states = chain.states(x)
    adjoints = [np.ones(1)]
    for stage, s in zip(chain.stages[::-1], states[::-1], strict=True):
        adjoints.append(adjoints[-1] @ stage.jacobian(s))
    adjoints = adjoints[::-1]
    moved = [w]
    for stage, s in zip(chain.stages[:-1], states, strict=False):
        moved.append(stage.jacobian(s) @ moved[-1])
    back = np.zeros(1)
    for k in reversed(range(len(chain.stages))):
        stage = chain.stages[k]
        back = back @ stage.jacobian(states[k]) + adjoints[k + 1] @ stage.curvature(moved[k])
    return back
