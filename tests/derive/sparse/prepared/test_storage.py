"""Saved and loaded derivatives, also in another process, and what is refused."""

import json
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, DiskError
from chainrule.derive import sparse
from chainrule.derive.sparse import StorageError
from tests.derive.sparse.prepared import functions
from tests.derive.sparse.prepared.functions import HESSIANS, JACOBIANS
from tests.tiers import tiers

ANOTHER_PROCESS = """
import sys
import jax
import numpy as np
jax.config.update("jax_enable_x64", True)
from chainrule.derive import sparse
from tests.derive.sparse.prepared import functions
J = sparse.load(sys.argv[1], functions.arrow)
np.save(sys.argv[2], np.asarray(J(np.linspace(1.0, 2.0, 12))))
"""


@pytest.mark.parametrize("name", JACOBIANS)
def test_a_loaded_jacobian_gives_identical_numbers(name: str, tmp_path: Path) -> None:
    f, x = JACOBIANS[name]
    J = sparse.jacobian(f, x, format="values")
    J.save(tmp_path / "j.npz")
    again = sparse.load(tmp_path / "j.npz", f)
    assert np.array_equal(again(x), J(x))
    assert again.pattern == J.pattern
    assert again.report.products == J.report.products


@pytest.mark.parametrize("method", ["star", "acyclic", "column"])
def test_a_loaded_hessian_gives_identical_numbers(method: str, tmp_path: Path) -> None:
    f, x = HESSIANS["hub"]
    H = sparse.hessian(f, x, method, "csr")
    H.save(tmp_path / "h.npz")
    assert np.array_equal(sparse.load(tmp_path / "h.npz", f)(x).data, H(x).data)


def test_another_process_gets_identical_numbers(tmp_path: Path) -> None:
    f, x = JACOBIANS["arrow"]
    J = sparse.jacobian(f, x, format="values")
    J.save(tmp_path / "j.npz")
    found = tmp_path / "found.npy"
    root = Path(__file__).parents[4]
    subprocess.run(
        [sys.executable, "-c", ANOTHER_PROCESS, str(tmp_path / "j.npz"), str(found)], check=True, cwd=root
    )
    assert np.array_equal(np.load(found), J(x))


def test_another_function_shape_or_type_is_refused_by_name(tmp_path: Path) -> None:
    x = np.ones(6)
    path = tmp_path / "j.npz"
    sparse.jacobian(functions.tall, x).save(path)
    with pytest.raises(StorageError, match="another function"):
        sparse.load(path, lambda z: functions.tall(z) * 2.0)
    with pytest.raises(StorageError, match=r"\[6\].*\[7\]"):
        sparse.load(path, functions.tall, np.ones(7))
    with pytest.raises(StorageError, match=r"float64.*float32"):
        sparse.load(path, functions.tall, np.ones(6, dtype=np.float32))
    with pytest.raises(ArgumentError, match=r"shape \(7,\)"):
        sparse.load(path, functions.tall)(np.ones(7))


def test_numbers_that_a_function_closes_over_are_part_of_it(tmp_path: Path) -> None:
    path = tmp_path / "j.npz"
    first, second = np.arange(3.0), np.arange(3.0) + 1
    sparse.jacobian(lambda z: z * jnp.asarray(first), np.ones(3)).save(path)
    with pytest.raises(StorageError, match="another function"):
        sparse.load(path, lambda z: z * jnp.asarray(second))


def with_rule(kind: str, shift: int) -> Any:
    """The sine with a straight-through rule of its own, which looks `shift` places away."""
    if kind == "custom_jvp":
        sine = jax.custom_jvp(jnp.sin)
        sine.defjvp(lambda x, v: (jnp.sin(x[0]), jnp.roll(v[0], shift)))
        return sine
    other = jax.custom_vjp(jnp.sin)
    other.defvjp(lambda x: (jnp.sin(x), None), lambda _, u: (jnp.roll(u, -shift),))
    return other


WRAPPED: dict[str, Any] = {
    "plain": lambda rule: rule,
    "jit": lambda rule: jax.jit(lambda z: rule(z)),
    "scan": lambda rule: lambda z: jax.lax.scan(lambda s, _: (rule(s), None), z, None, length=2)[0],
    "cond": lambda rule: lambda z: jax.lax.cond(z[0] > 0, lambda s: rule(s), lambda s: s, z),
    "remat": lambda rule: jax.checkpoint(lambda z: rule(z)),
}


@pytest.mark.parametrize("wrap", tiers(WRAPPED, slow=["cond", "remat"]))
@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_a_function_with_another_derivative_rule_is_another_function(
    kind: str, wrap: str, tmp_path: Path
) -> None:
    path = tmp_path / "j.npz"
    J = sparse.jacobian(WRAPPED[wrap](with_rule(kind, 0)), np.ones(4), format="dense", certify=False)
    J.save(path)
    with pytest.raises(StorageError, match="another function"):
        sparse.load(path, WRAPPED[wrap](with_rule(kind, 1)))
    again = sparse.load(path, WRAPPED[wrap](with_rule(kind, 0)))
    assert np.array_equal(again(np.ones(4)), J(np.ones(4)))


def test_a_rule_of_a_gradient_is_part_of_a_hessian(tmp_path: Path) -> None:
    path = tmp_path / "h.npz"
    sparse.hessian(lambda z: jnp.sum(with_rule("custom_vjp", 0)(z) ** 2), np.ones(4), certify=False).save(
        path
    )
    with pytest.raises(StorageError, match="another function"):
        sparse.load(path, lambda z: jnp.sum(with_rule("custom_vjp", 1)(z) ** 2))


def test_numbers_inside_compiled_functions_are_part_of_it(tmp_path: Path) -> None:
    path = tmp_path / "j.npz"
    diagonal, full = np.eye(3), np.ones((3, 3))

    def times(matrix: np.ndarray, key: Any) -> Any:
        return jax.jit(lambda z: jnp.asarray(matrix) @ z + jax.random.normal(key, (3,)))

    sparse.jacobian(times(diagonal, jax.random.key(0)), np.ones(3)).save(path)
    for matrix, seed in ((full, 0), (diagonal, 1)):
        with pytest.raises(StorageError, match="numbers it closes over differ"):
            sparse.load(path, times(matrix, jax.random.key(seed)))
    assert sparse.load(path, times(diagonal, jax.random.key(0))).pattern.nnz == 3


@pytest.mark.parametrize(
    "changed", [{"format": "chainrule sparse derivative 1", "jax": None}, {"jax": "0.9.0"}]
)
def test_files_whose_program_cannot_be_compared_are_loaded_if_their_pattern_holds(
    changed: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "j.npz"
    J = sparse.jacobian(with_rule("custom_jvp", 0), np.ones(4), format="dense", certify=False)
    J.save(path)
    with np.load(path) as file:
        arrays = dict(file)
    about = json.loads(str(arrays["about"])) | changed | {"program": "0" * 64}
    np.savez(path, **(arrays | {"about": np.array(json.dumps(about))}))
    again = sparse.load(path, with_rule("custom_jvp", 0))
    assert np.array_equal(again(np.ones(4)), J(np.ones(4)))
    assert "detected again" in str(again.report)
    with pytest.raises(StorageError, match="lacks entries"):
        sparse.load(path, with_rule("custom_jvp", 1))


def test_a_local_derivative_keeps_its_guard(tmp_path: Path) -> None:
    def chosen(z: Any) -> Any:
        return jnp.where(z > 0, z**2, 0.0)

    x = np.array([-1.0, 2.0])
    J = sparse.jacobian(chosen, x, format="values", local=True)
    J.save(tmp_path / "j.npz")
    again = sparse.load(tmp_path / "j.npz", chosen)
    assert again.pattern == J.pattern
    assert np.array_equal(again(x), J(x))
    with pytest.raises(sparse.LocalPatternError):
        again(-x)


def test_a_hessian_without_reverse_mode_comes_back(tmp_path: Path) -> None:
    def f(z: Any) -> Any:
        return jax.lax.while_loop(lambda s: s[0] < 3.0, lambda s: (s[0] + 1.0, s[1] * z[0]), (0.0, z[1]))[1]

    x = np.array([2.0, 3.0])
    H = sparse.hessian(f, x, format="values")
    H.save(tmp_path / "h.npz")
    np.testing.assert_allclose(sparse.load(tmp_path / "h.npz", f)(x), H(x))


def test_a_triangle_stays_a_triangle(tmp_path: Path) -> None:
    f, x = HESSIANS["chain"]
    H = sparse.hessian(f, x, format="csr", part="lower")
    H.save(tmp_path / "h.npz")
    again = sparse.load(tmp_path / "h.npz", f)
    assert again.pattern == H.pattern
    assert np.array_equal(again(x).data, H(x).data)


Point = namedtuple("Point", "a b")


def test_points_of_a_kind_of_their_own_need_an_example(tmp_path: Path) -> None:
    x = Point(np.ones(2), np.ones(2))
    J = sparse.jacobian(lambda p: p.a * p.b, x, format="values")
    J.save(tmp_path / "j.npz")
    with pytest.raises(ArgumentError, match="pass one"):
        sparse.load(tmp_path / "j.npz", J.f)
    assert np.array_equal(sparse.load(tmp_path / "j.npz", J.f, x)(x), J(x))


def test_a_file_of_something_else_or_a_damaged_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "j.npz"
    with pytest.raises(StorageError, match="does not exist"):
        sparse.load(path, jnp.sin)
    path.write_bytes(b"something else")
    with pytest.raises(StorageError, match="not a saved"):
        sparse.load(path, jnp.sin)
    np.savez(path, about=np.array('{"format": "from the future"}'))
    with pytest.raises(StorageError, match="from the future"):
        sparse.load(path, jnp.sin)
    np.savez(path, about=np.array([object()], dtype=object))
    with pytest.raises(StorageError, match="not a saved"):
        sparse.load(path, jnp.sin)
    sparse.jacobian(jnp.sin, np.ones(40)).save(path)
    whole = path.read_bytes()
    for cut in (10, len(whole) // 2, len(whole) - 30):
        path.write_bytes(whole[:cut])
        with pytest.raises(StorageError):
            sparse.load(path, jnp.sin)


def test_a_place_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    J = sparse.jacobian(jnp.sin, np.ones(3))
    with pytest.raises(DiskError, match="could not be written"):
        J.save(tmp_path / "missing" / "j.npz")
    assert list(tmp_path.iterdir()) == []
