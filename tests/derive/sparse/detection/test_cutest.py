"""Problems of the CUTEst collection as written for JAX by `sif2jax`, where it is installed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.derive.sparse.detection import detect

_SMALL = ("ROSENBR", "HIMMELBG", "BEALE", "WOODS", "OSBORNEA", "HS71", "HS100", "BT1", "DIXMAANA1")
_PUBLISHED = {
    "ARGLINA": ("objective", 40_000),
    "HADAMARD": ("constraint", 84_000),
    "TRO11X3": ("constraint", 9_000),
    "HAIFAM": ("constraint", 12_750),
    "VANDANMSLS": ("objective", 484),
    "COOLHANSLS": ("objective", 81),
}
"""Entries another detector finds; no more are wanted. (Those of ARGLINA are zero only because terms cancel.)"""


@pytest.fixture(scope="module")
def problems() -> dict[str, object]:
    collection = pytest.importorskip("sif2jax", reason="CUTEst problems: pip install sif2jax to run this")
    return {type(problem).__name__: problem for problem in collection.problems}


@pytest.mark.parametrize("name", _SMALL)
def test_small_problems_have_no_entry_outside(problems: dict[str, object], name: str) -> None:
    if name not in problems:
        pytest.skip(f"this version of sif2jax has no {name}")
    problem = problems[name]
    x = jnp.asarray(problem.y0)  # type: ignore[attr-defined]

    def objective(y: jax.Array) -> jax.Array:
        return problem.objective(y, problem.args)  # type: ignore[attr-defined]

    pattern = detect(objective, x, of="hessian").to_scipy().toarray() != 0
    dense = np.asarray(jax.hessian(objective)(x + 0.1)) != 0
    assert not (dense & ~pattern).any()


@pytest.mark.parametrize("name", _PUBLISHED)
def test_fewer_entries_than_published_are_found(problems: dict[str, object], name: str) -> None:
    if name not in problems:
        pytest.skip(f"this version of sif2jax has no {name}")
    problem = problems[name]
    kind, most = _PUBLISHED[name]
    x = jnp.asarray(problem.y0)  # type: ignore[attr-defined]
    if kind == "constraint":
        found = detect(problem.constraint, x)  # type: ignore[attr-defined]
    else:
        found = detect(lambda y: problem.objective(y, problem.args), x, of="hessian")  # type: ignore[attr-defined]
    assert found.nnz <= most
