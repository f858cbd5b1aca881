"""A kind of data or a target is a file in its folder: a new one works without an edit anywhere else."""

from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, DataError
from chainrule.core.pictures import Lines, Table
from chainrule.data import Schema, from_arrays, kinds, load, preview, targets

# An audio clip is (channels, time, 2) here, so that its arrays look like no other kind's.
CLIP = '''
    """Sounds: clips in stereo."""

    from typing import ClassVar, final

    import numpy as np

    from chainrule.core.pictures import Lines
    from chainrule.data import targets
    from chainrule.data.kind import Arranged, Kind
    from chainrule.data.previews import some, title_of


    @final
    class ClipKind(Kind):
        """Pressure between -1 and 1."""

        sample_count: ClassVar[int] = 2
        axes: ClassVar[tuple[int, ...]] = (5,)

        def describe(self, schema, total):
            return f"{total:,} clips of {schema.shape[1]} samples{targets.of(schema).describe(schema)}"

        def claims(self, x, where):
            return x.ndim == 5

        def arranged(self, x, rows, levels, where):
            return Arranged(x)

        def shares(self, contents):
            return 0.6, 0.2, 0.2

        def preview(self, data):
            x = some(data, self.sample_count).x
            return self.picture(data.schema, x, title=title_of(data, len(x), "clips"))

        def picture(self, schema, drawn, names=(), *, real=None, follows=None, title="Samples", caption=""):
            series = {str(i): (np.arange(schema.shape[1]), one[0, :, 0, 0]) for i, one in enumerate(drawn)}
            return Lines("samples", title, "sample", "pressure", series, caption=caption)


    kind = ClipKind()
'''
ANGLE = '''
    """Angles: one number on the circle for each example."""

    from typing import ClassVar, final

    import numpy as np

    from chainrule.data.target import Cells, ReadTargets, Target


    @final
    class AngleTarget(Target):
        """Degrees."""

        has_values: ClassVar[bool] = True
        of_numbers: ClassVar[bool] = True

        def describe(self, schema):
            return ", angles"

        def claims(self, values):
            return values.ndim == 1 and values.max() == 359

        def from_numbers(self, values, where, names=()):
            return ReadTargets("angle", np.deg2rad(values))

        def cells(self, schema, y):
            return Cells(["degrees"], [[round(float(np.rad2deg(one)))] for one in y])


    target = AngleTarget()
'''


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two folders with one file each, which the package takes for parts of its own."""
    for package, name, text in ((kinds, "clip", CLIP), (targets, "angle", ANGLE)):
        folder = tmp_path / package.__name__
        folder.mkdir()
        (folder / f"{name}.py").write_text(dedent(text), encoding="utf-8")
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    _forget()
    yield
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    for cached in (kinds.names, kinds.get, targets.modules, targets.get):
        cached.cache_clear()


@pytest.mark.usefixtures("files")
class TestNewFiles:
    def test_a_new_kind_is_recognised_described_split_and_drawn(self, tmp_path: Path) -> None:
        assert "clip" in kinds.names()
        x = np.random.default_rng(0).uniform(-1, 1, (10, 1, 16, 1, 2)).astype(np.float32)
        np.savez(tmp_path / "sounds.npz", x=x, y=np.arange(10) % 2)
        data = load(tmp_path / "sounds.npz")
        assert data.schema.kind == "clip"
        assert data.describe() == "10 clips of 16 samples, 2 classes, train 60 % / val 20 % / test 20 %"
        np.testing.assert_array_equal(np.sort(data.train.x.ravel())[:1] >= -1, True)
        (picture,) = preview(data)
        assert isinstance(picture, Lines)
        assert picture.title == "sounds: 2 of 6 training clips"
        file = kinds.of(data.schema).write(tmp_path, data.schema, x[:3], {})
        with np.load(file, allow_pickle=False) as stored:
            np.testing.assert_array_equal(stored["samples"], x[:3])
        assert Schema.from_json(data.schema.to_json()) == data.schema
        with pytest.raises(DataError, match="clip data have no zeros and ones"):
            load(tmp_path / "sounds.npz", binarize="threshold")

    def test_a_new_target_is_recognised_described_and_shown(self) -> None:
        assert "angle" in targets.names()
        x, degrees = np.random.default_rng(0).normal(size=(360, 3)), np.arange(360)
        data = from_arrays(x, degrees, name="directions")
        assert data.describe().startswith("360 rows of 3 columns, angles, train")
        (picture,) = preview(data)
        assert isinstance(picture, Table)
        assert picture.columns[-1] == "degrees"
        assert all(0 <= row[-1] < 360 for row in picture.rows)
        assert from_arrays(x, degrees, target_as="value").schema.target == "value"
        with pytest.raises(
            ArgumentError, match='must be "auto", "angle", "class", "identity", "labels", "value" or "votes"'
        ):
            from_arrays(x, degrees, target_as="angel")


def test_a_kind_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(ArgumentError, match="unknown kind of data 'clip'"):
        kinds.of(Schema("clip", (2,)))
    with pytest.raises(ArgumentError, match="unknown target 'angle'"):
        targets.of(Schema("points", (2,), "angle"))
