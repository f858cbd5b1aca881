"""Grid environments as experiments see them: colours of cells, and which cells are never decided in."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool
from scipy.sparse import csgraph

from chainrule.agents.envs.base import HasDrawing
from chainrule.agents.envs.drawing import Rectangle
from chainrule.agents.envs.finite import FiniteEnvironment, FiniteState
from chainrule.agents.mdp import EnumeratedEnvironment
from chainrule.core.errors import ArgumentError


def grid_of(env: FiniteEnvironment) -> tuple[list[str], tuple[int, int]]:
    """The colour of each cell of a grid, and its height and width, as the environment draws itself."""
    if not isinstance(env, HasDrawing):
        raise ArgumentError(f"{type(env).__name__} is not drawn as a grid")
    nowhere = jnp.zeros((), jnp.int32)
    drawing = env.render(FiniteState(nowhere, nowhere))
    cells = [shape for shape in drawing.shapes if isinstance(shape, Rectangle)][: env.states]
    width = sum(cell.y == cells[0].y for cell in cells)
    return [cell.color for cell in cells], (len(cells) // width, width)


def is_closed(table: EnumeratedEnvironment) -> Bool[np.ndarray, "cells"]:
    """Cells in which nobody decides: an episode is over there, or no way leads there from the start."""
    over = (table.transition[:-1, :, -1] == 1).all(1) & (table.rewards[:-1] == 0).all(1)
    moves = (table.transition.sum(1) > 0).astype(float)
    ways = csgraph.shortest_path(moves, unweighted=True, indices=np.flatnonzero(table.start))
    reached: np.ndarray = np.isfinite(ways).any(0)[:-1]
    return over | ~reached


__all__ = ["grid_of", "is_closed"]
