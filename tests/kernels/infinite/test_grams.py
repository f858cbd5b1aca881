"""Kernel matrices in tiles: equal to the whole, mirrored, bounded, resumed from a folder, shared by devices."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.kernels.infinite import Convolutional, Dense, DropUnits, Flatten, Serial, kernel_matrices
from chainrule.kernels.infinite import grams as module
from chainrule.kernels.infinite.grams import tile_size

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(7, 3)), RNG.normal(size=(5, 3))
NETWORK = Dense(2, "relu")


@pytest.mark.parametrize("block", [1, 3, 4, 100])
def test_tiles_make_up_the_whole(block: int) -> None:
    for one, other in zip(kernel_matrices(NETWORK, X, block=block), NETWORK.both(X), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
        np.testing.assert_array_equal(one, one.T)
    for one, other in zip(kernel_matrices(NETWORK, X, Y, block=block), NETWORK.both(X, Y), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_halves_are_not_computed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    compute = module._Tiles.compute
    monkeypatch.setattr(
        module._Tiles, "compute", lambda self, i, j: calls.append((i, j)) or compute(self, i, j)
    )
    kernel_matrices(NETWORK, X, block=3)
    assert calls == [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]


def test_one_example_is_itself_in_every_tile() -> None:
    network = Serial(*Dense(1).layers[:2], DropUnits(0.5), Dense(0, scaled_inputs=True))
    tiled = kernel_matrices(network, X, block=3).nngp
    np.testing.assert_allclose(tiled, network.nngp(X), rtol=1e-6)


def test_the_size_of_tiles_follows_the_budget_and_the_positions_held() -> None:
    memory = 2**20
    assert tile_size(Dense(1), (28, 28, 1), memory) < tile_size(
        Serial(Flatten(), Dense(1)), (28, 28, 1), memory
    )
    flat, pooled = (tile_size(Convolutional(1, gather=g), (8, 8, 1), memory) for g in ("flatten", "pool"))
    assert flat == int((memory / (64 * 64)) ** 0.5)
    assert pooled == int((memory / (64 * 64**2)) ** 0.5)


def test_an_interrupted_computation_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, compute, calls = tmp_path / "tiles", module._Tiles.compute, []

    def failing(self: module._Tiles, i: int, j: int) -> np.ndarray:
        if len(calls) == 3:
            raise KeyboardInterrupt
        calls.append((i, j))
        return compute(self, i, j)

    monkeypatch.setattr(module._Tiles, "compute", failing)
    with pytest.raises(KeyboardInterrupt):
        kernel_matrices(NETWORK, X, block=3, folder=folder)
    assert sorted(path.name for path in folder.glob("*.npy")) == [f"tile-00000-0000{n}.npy" for n in range(3)]
    again = []
    monkeypatch.setattr(
        module._Tiles, "compute", lambda self, i, j: again.append((i, j)) or compute(self, i, j)
    )
    found = kernel_matrices(NETWORK, X, block=3, folder=folder)
    assert again == [(1, 1), (1, 2), (2, 2)]
    np.testing.assert_array_equal(found.ntk, kernel_matrices(NETWORK, X, block=3).ntk)


def test_tiles_of_something_else_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "tiles"
    kernel_matrices(NETWORK, X, block=4, folder=folder)
    for call, what in (
        (lambda: kernel_matrices(NETWORK, X + 1, block=4, folder=folder), "inputs"),
        (lambda: kernel_matrices(Dense(3, "relu"), X, block=4, folder=folder), "network"),
        (lambda: kernel_matrices(NETWORK, X, block=3, folder=folder), "tile"),
        (lambda: kernel_matrices(NETWORK, X, block=4, ntk=False, folder=folder), "ntk"),
    ):
        with pytest.raises(ArgumentError, match=f"something else; what differs: .*{what}"):
            call()
    first, second = ((lambda x: jnp.tanh(x)), (lambda x: jnp.tanh(2 * x)))  # both are called <lambda>
    kernel_matrices(Dense(1, first), X, folder=tmp_path / "own")
    with pytest.raises(ArgumentError, match="kernel of the first points"):
        kernel_matrices(Dense(1, second), X, folder=tmp_path / "own")


def test_damaged_files_are_named_and_computed_again_once_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "tiles"
    whole = kernel_matrices(NETWORK, X, block=4, folder=folder).ntk
    tile = folder / "tile-00000-00001.npy"
    tile.write_bytes(tile.read_bytes()[:100])
    with pytest.raises(ArgumentError, match=r"tile-00000-00001.npy: not a finished tile"):
        kernel_matrices(NETWORK, X, block=4, folder=folder)
    tile.unlink()
    np.testing.assert_array_equal(kernel_matrices(NETWORK, X, block=4, folder=folder).ntk, whole)
    np.save(tile, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ArgumentError, match="not a finished tile"):
        kernel_matrices(NETWORK, X, block=4, folder=folder)
    (folder / "tiles.json").write_text(json.dumps(["something"]))
    with pytest.raises(ArgumentError, match="not the description of kernel tiles"):
        kernel_matrices(NETWORK, X, block=4, folder=folder)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"x": [1.0, 2.0]}, "first axis"),
        ({"x": [[np.inf]]}, r"x\[0, 0\] is inf"),
        ({"y": np.ones((2, 2))}, "shape"),
    ],
)
def test_inputs_that_cannot_be_used_are_named(settings: dict[str, object], message: str) -> None:
    given = {"x": X, "y": None, **settings}
    with pytest.raises(ArgumentError, match=message):
        kernel_matrices(NETWORK, given["x"], given["y"])


@pytest.mark.slow
def test_devices_share_the_rows_of_every_tile() -> None:
    program = """
import jax, numpy as np
from chainrule.kernels.infinite import Dense, kernel_matrices
x = np.random.default_rng(0).normal(size=(10, 3))
alone = kernel_matrices(Dense(2), x, block=4)
shared = kernel_matrices(Dense(2), x, block=4, devices=jax.devices())
assert len(jax.devices()) == 4
np.testing.assert_allclose(shared.ntk, alone.ntk, rtol=1e-12)
try:
    kernel_matrices(Dense(2), x, block=5, devices=jax.devices())
except ValueError as error:
    assert "block=4" in str(error), error
else:
    raise AssertionError("five rows over four devices")
"""
    environment = {
        **os.environ,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "JAX_PLATFORMS": "cpu",
    }
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
