"""What a checkpoint gives back is what was put in, bit for bit, whatever the shape, type or layout in memory."""

from pathlib import Path
from typing import Any

import hypothesis
import jax
import ml_dtypes
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from chainrule.core.errors import ArgumentError
from chainrule.train import checkpoints

TYPES = [
    *(np.float64, np.float32, np.float16, np.int64, np.int32, np.int16, np.int8),
    *(np.uint64, np.uint32, np.uint16, np.uint8, np.bool_),
]
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
JOURNALS = st.dictionaries(
    st.text(), st.none() | st.integers() | st.floats() | st.text() | st.booleans(), max_size=3
)


def arrays() -> st.SearchStrategy[np.ndarray]:
    plain = st.sampled_from(TYPES).flatmap(lambda dtype: hnp.arrays(dtype, SHAPES))
    half = hnp.arrays(np.uint16, SHAPES).map(lambda bits: bits.view(ml_dtypes.bfloat16))
    return (plain | half).flatmap(
        lambda a: st.sampled_from([a, a.T, a[::-1] if a.ndim else a, np.asfortranarray(a)])
    )


def keys() -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_characters="."), min_size=1, max_size=6)


def trees() -> st.SearchStrategy[Any]:
    return st.recursive(
        arrays(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys(), inner, max_size=3),
        max_leaves=5,
    )


def bits(array: Any) -> tuple[Any, ...]:
    raw = np.asarray(array)
    return raw.dtype, raw.shape, raw.tobytes()


@hypothesis.given(tree=trees(), step=st.integers(0, 10**9), journal=JOURNALS)
@hypothesis.settings(max_examples=60)
def test_any_tree_of_arrays_comes_back_bit_for_bit(
    tree: Any, step: int, journal: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    with jax.enable_x64(True):
        made = checkpoints.save(tmp_path_factory.mktemp("store"), tree, step, journal)
        checkpoints.verify(made)
        found, notes = checkpoints.load(made, tree)
    assert jax.tree.structure(found) == jax.tree.structure(tree)
    assert [bits(a) for a in jax.tree.leaves(found)] == [bits(a) for a in jax.tree.leaves(tree)]
    assert repr(notes) == repr(journal)


def test_the_same_state_gives_the_same_bytes(tmp_path: Path) -> None:
    state = {"b": np.arange(3.0), "a": [np.ones((2, 2), np.float32), np.int8(3)]}
    one, other = (checkpoints.save(tmp_path / name, state, 5, {"best": {}}) for name in ("one", "other"))
    for name in ("state.safetensors", "manifest.json"):
        assert (one / name).read_bytes() == (other / name).read_bytes()


def test_two_tensors_of_one_name_are_refused_before_one_is_lost(tmp_path: Path) -> None:
    state = {"layer.0": np.zeros(2), "layer": [np.ones(2)]}
    with pytest.raises(ArgumentError, match=r"both called 'layer\.0'"):
        checkpoints.save(tmp_path, state, 1, {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "leaf", [np.zeros(2, np.complex64), jax.random.key(0)], ids=["complex", "random key"]
)
def test_a_type_that_a_checkpoint_cannot_hold_is_refused_by_name(tmp_path: Path, leaf: Any) -> None:
    with pytest.raises(ArgumentError, match=r"tensor 'model\.odd' has type"):
        checkpoints.save(tmp_path, {"model": {"odd": leaf}}, 1, {})


def test_other_entries_of_the_store_are_not_taken_for_checkpoints(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, {"w": np.ones(2)}, 7, {})
    for name in (
        "step-7",
        "step-²²²²²²²²",
        "step-٠٠٠٠٠٠٠٩",
        "step-00000009.bak",
        "step-",
        "step-x",
        ".tmp-step-00000008-1",
    ):
        (tmp_path / name).mkdir()
    assert checkpoints.steps(tmp_path) == [7]


def test_sweeping_and_pruning_leave_nothing_behind(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        checkpoints.save(tmp_path, {"w": np.ones(2)}, step, {})
    outside = tmp_path.with_name("outside")
    outside.mkdir()
    (outside / "kept").touch()
    (tmp_path / ".tmp-folder").mkdir()
    (tmp_path / ".tmp-folder" / "torn").touch()
    (tmp_path / ".tmp-file").touch()
    (tmp_path / ".tmp-link").symlink_to(outside)
    checkpoints.sweep(tmp_path)
    checkpoints.prune(tmp_path, {2})
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000002"]
    assert (outside / "kept").exists()
