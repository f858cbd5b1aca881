import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import check, load, names
from chainrule.data.generated.toys import TOYS, modes_of
from chainrule.data.loading import sources
from tests.data import corpus


def test_importing_data_imports_neither_jax_nor_pillow() -> None:
    program = "import sys, chainrule.data; sys.exit(bool({'jax', 'PIL'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_embedded_digits_are_those_of_scikit_learn(oracle) -> None:
    reference = oracle("sklearn.datasets").load_digits()
    data = load("digits")
    lookup = {
        image.astype(np.uint8).tobytes(): y
        for image, y in zip(reference.images, reference.target, strict=True)
    }
    splits = (data.train, data.val, data.test)
    assert sum(len(s) for s in splits) == 1797
    for split in splits:
        assert [lookup[x.tobytes()] for x in split.arrays["x"]] == split.y.tolist()
    assert data.schema.levels == 17
    assert data.scaling.factor == 1 / 16


def test_the_embedded_text_is_plain_speeches() -> None:
    data = load("shakespeare")
    text = "".join(data.schema.tokens[i] for i in data.train.arrays["tokens"])
    assert len(data.schema.tokens) == 66
    assert text.startswith("FIRST WITCH.\nWhen shall we three meet again?\n")
    assert not set("[]{}0123456789") & set(data.schema.tokens)


@pytest.mark.parametrize("name", ["digits", "shakespeare", *TOYS])
def test_every_call_can_be_repeated_from_its_record(name: str) -> None:
    data = load(name, seed=3)
    again = load(**json.loads(json.dumps(data.source)))
    assert again.hash == data.hash
    assert again.source == data.source
    assert np.array_equal(again.val.x, data.val.x)


@pytest.mark.parametrize("name", TOYS)
def test_toys_are_points_of_order_one_fixed_by_their_seed(name: str) -> None:
    data = load(name)
    x = np.concatenate([s.x for s in (data.train, data.val, data.test)])
    assert x.shape == (TOYS[name].n, 2)
    assert x.dtype == np.float32
    assert 0.3 < x.std() < 2
    assert np.abs(x).max() < 5
    assert load(name, seed=1).hash != data.hash
    assert len(load(name, n=50).train) == 40
    assert len(data.schema.classes) == len(set(data.schema.classes))
    if data.schema.classes:
        counts = np.bincount(np.concatenate([s.y for s in (data.train, data.val, data.test)]))
        assert len(counts) == len(data.schema.classes)
        assert np.ptp(counts) <= 1


def test_xor_without_noise_is_the_four_corners() -> None:
    data = load("xor", noise=0)
    corners, counts = np.unique(np.column_stack([data.train.x, data.train.y]), axis=0, return_counts=True)
    assert corners.tolist() == [[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]
    assert counts.sum() == 800
    assert counts.min() > 150
    noisy = load("xor", noise=0.1)
    assert abs((noisy.train.x - np.rint(noisy.train.x)).std() - 0.1) < 0.01


def test_toys_without_noise_lie_on_their_curves() -> None:
    moons, rings, gaussians = (load(n, noise=0).train for n in ("moons", "rings", "ring"))
    centres = np.where(moons.y[:, None] == 0, [-0.5, -0.25], [0.5, 0.25])
    assert np.allclose(np.linalg.norm(moons.x - centres, axis=1), 1, atol=1e-5)
    assert np.allclose(np.linalg.norm(rings.x, axis=1), 0.6 * (rings.y + 1), atol=1e-5)
    assert len(np.unique(gaussians.x.round(3), axis=0)) == 8
    board = load("checkerboard").train.x
    assert np.all(np.floor(board).sum(axis=1) % 2 == 0)


def test_mixtures_say_where_their_modes_are() -> None:
    for name, count in (("ring", 8), ("grid", 25)):
        data = load(name, noise=0.02)
        modes = modes_of(data.source)
        assert modes is not None
        assert modes.centres.shape == (count, 2)
        apart = data.train.x - modes.centres[data.train.y]
        assert abs(apart.std() - modes.deviation) < 0.001
    assert modes_of(load("moons").source) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nosie": 1}, r"unknown option 'nosie' of toy data \(did you mean 'noise'\?\)"),
        ({"sead": 1}, r"unknown option 'sead' of toy data \(did you mean 'seed'\?\)"),
        ({"noise": -1}, "noise=-1: noise must be a number of at least 0"),
        ({"noise": float("nan")}, "noise=nan: noise must be a number"),
        ({"n": 2.5}, "n=2.5: n must be a whole number from 10 to 100000000"),
        ({"n": True}, "n=True: n must be a whole number"),
        ({"seed": -1}, "seed=-1: seed must be a whole number of at least 0"),
        ({"bad": "ignore"}, 'bad must be "error" or "skip"'),
    ],
)
def test_an_option_that_cannot_be_used_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        load("moons", **options)


def test_a_name_that_is_not_known_is_refused_with_the_closest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match=r"unknown data 'mooons' \(did you mean 'moons'\?\)"):
        load("mooons")
    for path in ("poems.txt", "./digits", "folder/sub", "~/nothing-here.csv"):
        with pytest.raises(DataError, match=r"does not exist"):
            load(path)
    corpus.write(tmp_path / "poem.txt", b"rose")
    with pytest.raises(DataError, match=r"poems.txt does not exist \(did you mean 'poem.txt'\?\)"):
        load("poems.txt")


def test_a_name_wins_over_a_file_unless_it_is_written_as_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    corpus.pets(tmp_path / "digits")
    assert load("digits").schema.shape == (8, 8, 1)
    assert load("./digits").schema.shape == (6, 5, 3)


def test_downloaded_sets_are_found_in_their_folders_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_SYSTEM", tmp_path / "system")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CHAINRULE_DATA", str(tmp_path / "own"))

    def where() -> str:
        return next(known.where for known in names() if known.name == "fashion-mnist")

    assert where() == ""
    with pytest.raises(DataError, match="mnist is not on this machine") as caught:
        load("mnist")
    assert f"t10k-labels-idx1-ubyte.gz into {tmp_path / 'own' / 'mnist'}" in caught.value.remedy
    subset = load("fashion-mnist")
    assert subset.name == subset.source["name_or_path"] == "fashion-mnist-subset"
    ((said, count),) = subset.notes
    assert said.startswith("SUBSET: fashion-mnist is not on this machine, fashion-mnist-subset stands in")
    assert count == 1
    lines = "\n".join(check("fashion-mnist").lines())
    assert "apt install dataset-fashion-mnist" in lines
    assert f"t10k-labels-idx1-ubyte.gz into {tmp_path / 'own' / 'fashion-mnist'}" in lines
    for folder in ("system", "cache/chainrule", "own"):
        corpus.mnist_like(tmp_path / folder / "fashion-mnist")
        assert where() == str(tmp_path / folder / "fashion-mnist")
    data = load("fashion-mnist")
    assert (data.name, data.source["name_or_path"]) == ("fashion-mnist", "fashion-mnist")


def test_the_subset_is_the_first_images_of_every_class() -> None:
    subset = load("fashion-mnist-subset")
    assert not subset.notes
    assert subset.schema.classes[9] == "ankle boot"
    assert len(subset.train) + len(subset.val) == 1000
    assert np.bincount(subset.test.y).tolist() == [20] * 10
    folder = Path(sources.__file__).parents[1] / "embedded" / "fashion-mnist-subset"
    assert sum(file.stat().st_size for file in folder.iterdir()) < 700_000
    assert "Zalando SE" in (folder / "LICENSE").read_text(encoding="utf-8")
    whole = Path("/usr/share/datasets/fashion-mnist")
    if not whole.is_dir():
        pytest.skip("the whole set is not on this machine")
    for part in ("train", "t10k"):
        ours, theirs = (_numbers(one / f"{part}-images-idx3-ubyte.gz", 16) for one in (folder, whole))
        labels = _numbers(whole / f"{part}-labels-idx1-ubyte.gz", 8)
        each = len(ours) // 7840
        kept = np.sort(np.concatenate([np.flatnonzero(labels == c)[:each] for c in range(10)]))
        np.testing.assert_array_equal(ours.reshape(-1, 784), theirs.reshape(-1, 784)[kept])


def _numbers(path: Path, head: int) -> np.ndarray:
    return np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8)[head:]


def test_classes_of_a_downloaded_set_have_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAINRULE_DATA", str(tmp_path))
    rng = np.random.default_rng(0)
    for stem in ("train", "t10k"):
        images, labels = rng.integers(0, 256, (40, 4, 4)), np.arange(40) % 10
        corpus.write(tmp_path / "fashion-mnist" / f"{stem}-images-idx3-ubyte", corpus.idx(images))
        corpus.write(tmp_path / "fashion-mnist" / f"{stem}-labels-idx1-ubyte", corpus.idx(labels))
    assert load("fashion-mnist").schema.classes[9] == "ankle boot"


def test_a_folder_or_file_of_no_known_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"it holds notes\.bin"):
        load(corpus.write(tmp_path / "odd" / "notes.bin", b"\0\1\2").parent)
    with pytest.raises(DataError, match="this kind of file is not known"):
        load(tmp_path / "odd" / "notes.bin")
    with pytest.raises(DataError, match="is a single image"):
        load(corpus.write(tmp_path / "one.png", corpus.packed(corpus.picture())))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="it holds nothing"):
        load(tmp_path / "empty")


def test_every_named_set_has_a_summary_and_a_place() -> None:
    known = {one.name: one for one in names()}
    assert known["digits"].where == "embedded"
    assert known["moons"].where == "generated"
    assert known["moons"].options == {"n": 4000, "noise": 0.05}
    assert all(one.summary for one in known.values())


def test_signatures_are_enforced_in_tests() -> None:
    with pytest.raises(TypeCheckError):
        load(3)  # type: ignore[arg-type]
