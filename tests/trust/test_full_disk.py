"""A disk that is full, read-only or too small ends a run with one clear message and costs nothing that was saved."""

import errno
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chainrule.core.errors import DiskError
from chainrule.train import Run, beginning, checkpoints, events, fit
from chainrule.train.files import sole_writer, write_atomic
from tests.trust.killing import Writes
from tests.trust.toys import fingerprint, go_on, mlp, newest, points, train

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Once `full["file"]` is set, a write to a path that holds it stops half-way with `full["error"]`."""
    wish: dict[str, Any] = {"file": None, "error": errno.ENOSPC}
    original = io.open

    def opened(path: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        file = original(path, mode, *args, **options)

        def write(contents: Any) -> None:
            file.write(contents[: len(contents) // 2])
            file.flush()
            raise OSError(wish["error"], os.strerror(wish["error"]), str(path))

        hit = wish["file"] is not None and wish["file"] in str(path) and "r" not in mode
        return Writes(file, write) if hit else file

    monkeypatch.setattr(io, "open", opened)
    return wish


def no_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beginning, "free_bytes", lambda folder: 1 << 20)


@pytest.mark.parametrize("named", [True, False])
def test_a_run_that_will_not_fit_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    no_space(monkeypatch)
    monkeypatch.setenv("CHAINRULE_RUNS", str(tmp_path / "runs"))
    with pytest.raises(
        DiskError, match=r"has 1 MB free; the checkpoints of this run need about \d+ MB"
    ) as error:
        fit(mlp(), points(), run=tmp_path / "toy" if named else None)
    assert error.value.exit_code == 5
    assert list(tmp_path.iterdir()) == []


def test_going_on_without_space_is_refused_and_changes_nothing(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fingerprint(run), (run / "config.yaml").read_bytes(), Run.open(run).status["status"]
    no_space(monkeypatch)
    with pytest.raises(DiskError, match="MB free"):
        go_on(run, steps=16)
    assert (fingerprint(run), (run / "config.yaml").read_bytes(), Run.open(run).status["status"]) == before


def test_a_finished_run_needs_no_more_space(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_space(monkeypatch)
    assert go_on(run).status["status"] == "done"


@pytest.mark.parametrize("file", ["state.safetensors", "manifest.json", "metrics.jsonl", "status.json"])
def test_a_disk_that_fills_up_costs_nothing_that_was_saved(
    tmp_path: Path, finished: Path, full: dict[str, Any], file: str
) -> None:
    def listen(event: events.Event) -> None:
        if isinstance(event, events.Saved) and event.step == 4:
            full["file"] = file

    with pytest.raises(DiskError, match=r"cannot write .*: the disk is full\n.*free some space") as error:
        train(tmp_path / "toy", keep=3, listener=listen)
    assert error.value.exit_code == 5
    full["file"] = None
    assert Run.open(tmp_path / "toy").checkpoints[0] == 4
    for step in Run.open(tmp_path / "toy").checkpoints:
        checkpoints.verify(checkpoints.path(tmp_path / "toy" / "checkpoints", step))
    assert not list(tmp_path.glob("toy/**/.tmp-*"))
    assert not list(tmp_path.glob("toy/.*.tmp"))
    status = Run.open(tmp_path / "toy").status
    if file != "status.json":  # that one could not be told any more; its process is not at fault
        assert status["status"] == "failed"
        assert "the disk is full" in status["message"]
    go_on(tmp_path / "toy")
    assert fingerprint(tmp_path / "toy") == fingerprint(finished)


def test_a_log_that_cannot_be_written_does_not_hide_the_status(tmp_path: Path, full: dict[str, Any]) -> None:
    def listen(event: events.Event) -> None:
        if isinstance(event, events.Saved):
            full["file"] = "log.txt"
            raise RuntimeError("out of luck")

    with pytest.raises(RuntimeError, match="out of luck"):
        train(tmp_path / "toy", listener=listen)
    status = Run.open(tmp_path / "toy").status
    assert (status["status"], status["message"]) == ("failed", "RuntimeError: out of luck")


@pytest.mark.parametrize("code", ["ENOSPC", "EDQUOT", "EROFS", "EFBIG", "EIO", "EACCES", "EPERM"])
def test_a_file_that_cannot_be_replaced_keeps_its_contents(
    tmp_path: Path, full: dict[str, Any], code: str
) -> None:
    write_atomic(tmp_path / "status.json", "old")
    full.update(file="status.json", error=getattr(errno, code))
    with pytest.raises(DiskError, match=r"cannot write .*status\.json: "):
        write_atomic(tmp_path / "status.json", "new and longer")
    assert [path.name for path in tmp_path.iterdir()] == ["status.json"]
    assert (tmp_path / "status.json").read_text() == "old"


def test_other_errors_are_not_taken_for_errors_of_the_disk(tmp_path: Path, full: dict[str, Any]) -> None:
    full.update(file="status.json", error=errno.EINTR)
    with pytest.raises(InterruptedError):
        write_atomic(tmp_path / "status.json", "new")


def test_a_file_of_the_data_that_may_not_be_read_is_not_blamed_on_the_run_folder(tmp_path: Path) -> None:
    with pytest.raises(PermissionError, match="photo"), sole_writer(tmp_path):
        raise PermissionError(errno.EACCES, "no permission", "photo.png")


def namespaces_work() -> bool:
    if shutil.which("unshare") is None:
        return False
    mount = "mount -t tmpfs -o size=1M tmpfs /mnt"
    return (
        subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True, check=False).returncode
        == 0
    )


def test_training_on_a_small_disk_survives_filling_it_and_a_read_only_one(
    tmp_path: Path, compiled: dict[str, str]
) -> None:
    if not namespaces_work():
        pytest.skip("this machine does not let a user mount a small disk")
    command = ["unshare", "-rm", sys.executable, "-m", "tests.trust.filling", str(tmp_path)]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=os.environ | compiled, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_failed_save_leaves_no_trace(tmp_path: Path, full: dict[str, Any], run: Path) -> None:
    before = newest(run)
    full["file"] = "manifest.json"
    with pytest.raises(DiskError):
        checkpoints.save(run / "checkpoints", {}, 99, {})
    assert newest(run) == before
    assert not list(run.glob("checkpoints/.tmp-*"))
