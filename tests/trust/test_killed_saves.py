"""A save is all or nothing, and once announced it is never lost, wherever a kill or a power cut falls."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chainrule.train import checkpoints, events
from tests.trust.toys import train

REPOSITORY = Path(__file__).parents[2]
BETWEEN_SAVES = [
    *([[], []], [[], [10]], [[10], [10]], [[10], [10, 20]], [[10, 20], [10, 20]]),
    *([[10, 20], [10, 20, 30]], [[10, 20], [20, 30]], [[10, 20], [30]], [[10, 20, 30], [30]]),
]
"""Every pair of (saves announced, checkpoints found) that a kill may leave behind, and no other."""


def sweep(how: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.trust.killing", how, str(folder)]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def strace_works() -> bool:
    if shutil.which("strace") is None:
        return False
    tried = subprocess.run(["strace", "-qq", "-o", os.devnull, "true"], capture_output=True, check=False)
    return tried.returncode == 0


def test_a_kill_between_or_inside_any_two_writes_leaves_whole_checkpoints_and_loses_none(quick: Path) -> None:
    done = sweep("shim", quick)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["outcomes"] == BETWEEN_SAVES
    assert found["points"]["any"] > 60


@pytest.mark.slow
def test_a_kill_at_any_system_call_leaves_whole_checkpoints_and_loses_none(quick: Path) -> None:
    if not strace_works():
        pytest.skip("strace is not installed or may not trace")
    done = sweep("strace", quick)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["outcomes"] == BETWEEN_SAVES
    assert {"openat", "write", "fsync"} <= found["points"].keys()


def test_the_sweep_catches_a_save_that_is_not_atomic(quick: Path) -> None:
    done = sweep("careless", quick)
    assert done.returncode != 0
    assert "DamagedError" in done.stderr


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Every call that makes a folder, moves something or syncs, in order, with resolved paths."""
    seen: list[tuple[str, ...]] = []
    fsync = os.fsync

    def synced(handle: int) -> None:
        seen.append(("sync", str(Path(f"/proc/self/fd/{handle}").readlink())))
        fsync(handle)

    def watch(name: str) -> None:
        original = getattr(os, name)

        def watched(*paths: Any, **options: Any) -> None:
            original(*paths, **options)
            seen.append(
                (name, *(str(Path(path).absolute()) for path in paths if isinstance(path, str | Path)))
            )

        monkeypatch.setattr(os, name, watched)

    monkeypatch.setattr(os, "fsync", synced)
    for name in ("mkdir", "rename", "replace"):
        watch(name)
    return seen


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs the names of open files")
def test_what_is_announced_as_saved_survives_a_power_cut(
    tmp_path: Path, history: list[tuple[str, ...]]
) -> None:
    """A file survives when it was synced after it was written, and every folder above it after it got its entry."""
    path = tmp_path / "new" / "runs" / "toy"
    train(
        path, listener=lambda e: history.append(("saved",)) if isinstance(e, events.Saved) else None, steps=4
    )
    before = history[: history.index(("saved",))]
    moved = next(
        h for h in before if h[0] == "rename" and h[2] == str(path / "checkpoints" / "step-00000004")
    )
    at = before.index(moved)
    for name in ("state.safetensors", "manifest.json"):
        assert ("sync", f"{moved[1]}/{name}") in before[:at]
    assert ("sync", moved[1]) in before[:at]
    assert ("sync", str(path / "checkpoints")) in before[at:]
    assert ("sync", str(path / "metrics.jsonl")) in before[:at]
    for folder in (path.parent.parent, path.parent, path, path / "checkpoints"):
        made = before.index(("mkdir", str(folder)))
        assert ("sync", str(folder.parent)) in before[made:], folder


def test_metrics_reach_the_disk_before_the_checkpoint_that_counts_them(tmp_path: Path) -> None:
    run = train(tmp_path / "toy", steps=4, log_every=1)
    manifest = checkpoints.read_manifest(checkpoints.path(run.path / "checkpoints", 4))
    assert manifest["journal"]["metrics_bytes"] == (run.path / "metrics.jsonl").stat().st_size


@pytest.mark.parametrize("points", [1, pytest.param(40, marks=pytest.mark.slow)])
def test_a_run_killed_anywhere_over_its_whole_length_loses_no_announced_save_and_ends_the_same(
    quick: Path, compiled: dict[str, str], points: int
) -> None:
    command = [sys.executable, "-m", "tests.trust.sweeping", str(quick), str(points)]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=os.environ | compiled, capture_output=True, text=True, check=False
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{points} kills: 0 announced saves lost" in done.stdout
