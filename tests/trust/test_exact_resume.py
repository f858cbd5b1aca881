"""A run that was killed and gone on with ends as if nothing had happened, bit for bit, and repeats no work."""

import functools
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from chainrule.data.batches import Batches
from chainrule.train import events
from tests.trust.resuming import CASES
from tests.trust.toys import fingerprint, go_on, train

REPOSITORY = Path(__file__).parents[2]


QUICK = ("everything", "two parts")
LONG = tuple(name for name in CASES if name not in QUICK)


@pytest.fixture(scope="module")
def trained(
    tmp_path_factory: pytest.TempPathFactory, compiled: dict[str, str]
) -> Callable[[Sequence[str]], Path]:
    """Trains cases, killed at all their instants and gone on with to the end, and uninterrupted; each group once."""

    @functools.cache
    def train_all(names: Sequence[str]) -> Path:
        folder = tmp_path_factory.mktemp("trained")
        command = [sys.executable, "-m", "tests.trust.resuming", str(folder), *names]
        as_for_users = {"XLA_FLAGS": ""}  # a difference must not hide behind programs that nobody else runs
        done = subprocess.run(
            command,
            cwd=REPOSITORY,
            env=os.environ | compiled | as_for_users,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return folder

    return train_all


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in LONG)])
def test_a_killed_run_ends_bit_for_bit_like_one_that_was_not(
    name: str, trained: Callable[[Sequence[str]], Path]
) -> None:
    folder = trained(QUICK if name in QUICK else LONG)
    expected = fingerprint(folder / "uninterrupted" / name)
    assert len(expected) >= 3
    assert fingerprint(folder / "killed" / name) == expected


def test_runs_that_differ_in_one_batch_have_different_fingerprints(tmp_path: Path) -> None:
    train(tmp_path / "one")
    train(tmp_path / "other", shuffle=False)
    assert fingerprint(tmp_path / "one") != fingerprint(tmp_path / "other")


def test_resuming_computes_no_batch_before_its_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(tmp_path / "toy", steps=8, schedule={"name": "constant"})
    asked: list[tuple[int, int]] = []
    original = Batches.indices

    def watched(self: Batches, first: int, count: int) -> object:
        asked.append((first, count))
        return original(self, first, count)

    monkeypatch.setattr(Batches, "indices", watched)
    compiled: list[int] = []
    go_on(
        tmp_path / "toy",
        steps=12,
        listener=lambda event: compiled.append(len(asked)) if isinstance(event, events.Compiled) else None,
    )
    assert asked[: compiled[0]] == [(0, 1)]  # one batch, to know the shapes
    later = [first + i for first, count in asked[compiled[0] :] for i in range(count)]
    assert min(later) == 8  # some are made in advance and asked for again, none is made up for
    assert set(later) >= {8, 9, 10, 11}
