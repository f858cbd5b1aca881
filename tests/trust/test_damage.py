"""A damaged checkpoint is refused, never half believed, and a run goes on from the one before it."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from chainrule.core.errors import CheckpointError
from chainrule.train import Run, checkpoints, events
from tests.trust.toys import fingerprint, go_on, newest, points

STATE = {"step": np.int32(6), "model": {"weight": np.arange(6, dtype=np.float32).reshape(2, 3)}}
JOURNAL = {"best": {"loss": 0.25, "step": 4}, "stale": 1, "pending": {"loss": 0.5}, "metrics_bytes": 120}
FILES = ("state.safetensors", "manifest.json")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoints.save(tmp_path_factory.mktemp("store"), STATE, 6, JOURNAL)


def loads_the_truth(checkpoint: Path) -> bool:
    """False when the checkpoint is refused as damaged; any other error, or a wrong answer, fails the test."""
    try:
        state, journal = checkpoints.load(checkpoint, STATE)
    except checkpoints.DamagedError:
        return False
    assert journal == JOURNAL
    assert jax.tree.all(jax.tree.map(np.array_equal, state, STATE))
    return True


@pytest.mark.parametrize("name", FILES)
def test_no_flipped_bit_in_any_byte_goes_unnoticed(name: str, checkpoint: Path) -> None:
    file = checkpoint / name
    whole = file.read_bytes()
    harmless = 0
    try:
        for index in range(len(whole)):
            damaged = bytearray(whole)
            damaged[index] ^= 1 << index % 8
            file.write_bytes(damaged)
            harmless += loads_the_truth(checkpoint)
    finally:
        file.write_bytes(whole)
    # Only the blanks between two words of JSON may change into one another.
    assert harmless <= (0 if name == "state.safetensors" else whole.count(b"\n"))
    assert loads_the_truth(checkpoint)


@pytest.mark.parametrize("name", FILES)
def test_no_missing_end_goes_unnoticed(name: str, checkpoint: Path) -> None:
    file = checkpoint / name
    whole = file.read_bytes()
    try:
        for length in range(len(whole.rstrip())):
            file.write_bytes(whole[:length])
            assert not loads_the_truth(checkpoint), length
        file.write_bytes(whole + b"\0")
        assert not loads_the_truth(checkpoint)
    finally:
        file.write_bytes(whole)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("instead", ["nothing", "a folder"])
def test_a_missing_file_is_noticed(name: str, instead: str, checkpoint: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(checkpoint, tmp_path / checkpoint.name))
    (copy / name).unlink()
    if instead == "a folder":
        (copy / name).mkdir()
    assert not loads_the_truth(copy)


def test_a_checkpoint_that_a_running_run_has_just_removed_is_not_called_damaged(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="step-00000003 is not there any more") as error:
        checkpoints.load(tmp_path / "step-00000003", STATE)
    assert not isinstance(error.value, checkpoints.DamagedError)


def test_a_checkpoint_under_the_name_of_another_step_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    renamed = Path(shutil.copytree(checkpoint, tmp_path / "step-00000009"))
    assert not loads_the_truth(renamed)


def test_the_two_files_of_different_checkpoints_do_not_pass_for_one(checkpoint: Path, tmp_path: Path) -> None:
    other = checkpoints.save(tmp_path, jax.tree.map(lambda a: a + 1, STATE), 6, JOURNAL)
    shutil.copy(checkpoint / "state.safetensors", other / "state.safetensors")
    assert not loads_the_truth(other)


# ---------------------------------------------------------------------- whole runs


def flip(name: str, index: int) -> Callable[[Path], Any]:
    def damage(checkpoint: Path) -> None:
        contents = bytearray((checkpoint / name).read_bytes())
        contents[index] ^= 4
        (checkpoint / name).write_bytes(contents)

    return damage


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "header length": flip("state.safetensors", 0),
    "header": flip("state.safetensors", 20),
    "tensor": flip("state.safetensors", -1),
    "format number": flip("manifest.json", len('{\n "format": ')),
    "manifest": flip("manifest.json", -40),
    "no manifest": lambda checkpoint: (checkpoint / "manifest.json").unlink(),
    "no tensors": lambda checkpoint: (checkpoint / "state.safetensors").unlink(),
    "empty": lambda checkpoint: (checkpoint / "state.safetensors").write_bytes(b""),
    "not JSON": lambda checkpoint: (checkpoint / "manifest.json").write_bytes(b"\xff\xfe{"),
    "deep JSON": lambda checkpoint: (checkpoint / "manifest.json").write_text("[" * 100_000),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_run_goes_on_from_the_last_intact_checkpoint_and_says_so(
    damage: str, run: Path, finished: Path
) -> None:
    DAMAGES[damage](newest(run))
    with pytest.raises(checkpoints.DamagedError, match="step-00000012 is damaged"):
        Run.open(run).model_at(12)
    said: list[events.Event] = []
    go_on(run, listener=said.append)
    notice = next(event for event in said if isinstance(event, events.Noticed))
    assert notice.text.startswith("checkpoint step-00000012 is damaged")
    assert notice.text.endswith("it is left out, and the run goes on from step 8")
    log = (run / "log.txt").read_text()
    assert "left out: checkpoint step-00000012 is damaged" in log
    assert "resumed at step 8" in log
    assert fingerprint(run) == fingerprint(finished)


def test_a_run_without_an_intact_checkpoint_is_refused_and_left_as_it_is(run: Path) -> None:
    for checkpoint in (run / "checkpoints").iterdir():
        flip("state.safetensors", -1)(checkpoint)
    before = fingerprint(run)
    with pytest.raises(CheckpointError, match="every checkpoint of toy is damaged") as error:
        go_on(run)
    assert "chainrule train config=" in error.value.remedy
    assert fingerprint(run) == before


def test_a_model_is_not_taken_from_a_run_whose_newest_checkpoint_is_damaged(run: Path) -> None:
    flip("manifest.json", -40)(newest(run))
    with pytest.raises(checkpoints.DamagedError) as error:
        _ = Run.open(run).model
    assert f"remove {newest(run)} and resume the run" in error.value.remedy


def test_metrics_that_are_shorter_than_the_checkpoint_remembers_are_gone_on_with_whole_lines(
    run: Path,
) -> None:
    shutil.rmtree(newest(run))
    metrics = run / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes()[:150])
    go_on(run, data=points())
    assert "earlier lines are missing" in (run / "log.txt").read_text()
    assert Run.open(run).metrics["step"].tolist() == [4, 10, 12, 12]
