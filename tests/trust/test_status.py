"""The status of a run is the truth about it: a killed run is interrupted, a held one cannot be written twice."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chainrule.core.errors import ArgumentError, DataError, RunError
from chainrule.train import Run, events, fit, resume, runs
from chainrule.train.files import sole_writer
from chainrule.train.folder import RunWriter, process_start, read_status
from chainrule.train.naming import new_folder
from tests.trust.toys import fingerprint, go_on, mlp, newest, points, train

HOLD = """
import sys
from pathlib import Path
from chainrule.train.files import sole_writer
from chainrule.train.folder import RunWriter
with sole_writer(Path(sys.argv[1])):
    RunWriter(Path(sys.argv[1]), total=12).write(step=4)
    print("holding", flush=True)
    sys.stdin.read()
"""


def edit(run: Path, **changes: Any) -> None:
    """Overwrite fields of status.json."""
    file = run / "status.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.fixture
def holder(run: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that writes to the run."""
    command = [sys.executable, "-c", HOLD, str(run)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "holding\n"
        yield process
        process.kill()


def test_a_run_whose_process_is_at_work_is_running(run: Path, holder: subprocess.Popen[str]) -> None:
    assert read_status(run)["status"] == "running"


def test_a_run_that_another_process_writes_is_refused_until_that_one_is_killed(
    run: Path, finished: Path, holder: subprocess.Popen[str]
) -> None:
    shutil.rmtree(newest(run))
    before = fingerprint(run)
    for attempt in (lambda: go_on(run), lambda: fit(mlp(), points(), run=run, **_settings(run))):
        with pytest.raises(RunError, match="toy is being written by another process") as error:
            attempt()
        assert "run=NAME" in error.value.remedy
    assert fingerprint(run) == before
    holder.kill()
    holder.wait()
    assert read_status(run)["status"] == "interrupted"
    go_on(run)
    assert fingerprint(run) == fingerprint(finished)


def _settings(run: Path) -> dict[str, Any]:
    return Run.open(run).settings.model_dump()


def test_a_killed_process_that_nobody_has_waited_for_is_not_at_work(
    run: Path, holder: subprocess.Popen[str]
) -> None:
    os.kill(holder.pid, signal.SIGKILL)
    os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is still in the table
    assert process_start(holder.pid)
    status = read_status(run)
    assert status["status"] == "interrupted"
    assert status["message"] == "the process ended without saying why"
    assert status["step"] == 4


def test_a_process_with_the_number_of_an_old_one_is_not_mistaken_for_it(run: Path) -> None:
    RunWriter(run, total=12).write()
    assert read_status(run)["status"] == "running"
    edit(run, pid_start="1")
    assert read_status(run)["status"] == "interrupted"


@pytest.mark.parametrize("pid", [2**22 + 1, 0, -1])
def test_a_number_that_no_process_has_means_interrupted(run: Path, pid: int) -> None:
    RunWriter(run, total=12).write()
    edit(run, pid=pid, pid_start="")
    assert read_status(run)["status"] == "interrupted"


def test_a_run_on_another_machine_is_judged_by_its_heartbeat(run: Path) -> None:
    RunWriter(run, total=12).write()
    elsewhere = {"host": socket.gethostname() + "-2", "pid": 1}
    edit(run, **elsewhere, heartbeat=time.time())
    assert read_status(run)["status"] == "running"
    edit(run, **elsewhere, heartbeat=time.time() - 3600)
    assert read_status(run)["status"] == "interrupted"


def test_a_run_that_was_killed_before_its_first_step_is_interrupted_and_can_be_gone_on_with(
    run: Path, finished: Path
) -> None:
    (run / "status.json").unlink()
    shutil.rmtree(run / "checkpoints")
    assert read_status(run) == {
        **{"status": "interrupted", "step": 0, "total": 0, "seconds": 0.0},
        **{"best": {}, "message": "never started"},
    }
    go_on(run)
    assert fingerprint(run) == fingerprint(finished)


@pytest.mark.parametrize(
    "garbage",
    [
        *(b"", b"{", b"[]", b"{}", b"null", b'"done"', b"\xff\xfe", b"[" * 100_000),
        b'{"status": "running", "step": 1, "total": 2, "seconds": 1.0, "best": {}, "message": ""}',
        b'{"status": 1, "step": "x", "total": 2, "seconds": 1.0, "best": {}, "message": ""}',
    ],
    ids=range(10),
)
def test_a_status_that_cannot_be_read_is_said_so_and_does_not_stop_the_run_from_going_on(
    run: Path, garbage: bytes
) -> None:
    (run / "status.json").write_bytes(garbage)
    with pytest.raises(RunError, match=r"toy: status\.json cannot be read") as error:
        read_status(run)
    assert f"remove {run / 'status.json'} and resume" in error.value.remedy
    assert Run.open(run).step == 12


def test_a_run_goes_on_over_a_status_that_cannot_be_read(run: Path) -> None:
    (run / "status.json").write_bytes(b"{")
    assert go_on(run).status["status"] == "done"


def test_what_a_killed_run_left_half_written_is_swept(run: Path) -> None:
    (run / ".status.json.123.tmp").write_bytes(b"{")
    (run / "checkpoints" / ".tmp-step-00000016-123").mkdir()
    go_on(run)
    assert not list(run.glob("**/.*tmp*"))


def test_an_error_of_a_listener_is_not_hidden_and_leaves_an_honest_status(tmp_path: Path) -> None:
    def listen(event: events.Event) -> None:
        if isinstance(event, events.Started):
            raise RuntimeError("no screen")

    with pytest.raises(RuntimeError, match="no screen"):
        train(tmp_path / "toy", listener=listen)
    status = Run.open(tmp_path / "toy").status
    assert (status["status"], status["message"]) == ("failed", "RuntimeError: no screen")


# ---------------------------------------------------------------------- history


def test_a_line_that_is_just_being_written_is_left_out_of_the_history(run: Path) -> None:
    whole = Run.open(run).metrics
    contents = (run / "metrics.jsonl").read_bytes()
    start = len(contents)
    line = b'{"step": 13, "split": "train", "loss": 0.5}\n'
    for length in range(len(line)):
        (run / "metrics.jsonl").write_bytes(contents + line[:length])
        assert Run.open(run).metrics["step"].tolist() == whole["step"].tolist()
    (run / "metrics.jsonl").write_bytes(contents + line)
    assert Run.open(run).metrics["step"].tolist() == [*whole["step"].tolist(), 13]
    assert (run / "metrics.jsonl").stat().st_size == start + len(line)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"step": "x", "split": "val"}',
        '{"step": 1, "split": "val", "loss": [1]}',
        "[" * 10**5,
    ],
)
def test_a_whole_line_that_cannot_be_read_is_named(run: Path, line: str) -> None:
    contents = (run / "metrics.jsonl").read_text()
    (run / "metrics.jsonl").write_text(line + "\n" + contents)
    with pytest.raises(RunError, match=r"toy: line 1 of metrics\.jsonl cannot be read"):
        _ = Run.open(run).metrics


# ---------------------------------------------------------------------- folders


def test_settings_that_cannot_be_used_leave_no_run_behind(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="warm-up"):
        train(tmp_path / "toy", schedule={"warmup": 99})
    assert runs(tmp_path) == []
    assert train(tmp_path / "toy").status["status"] == "done"


def test_a_folder_with_another_run_is_refused(run: Path) -> None:
    with pytest.raises(RunError, match="holds a run with other settings"):
        train(run, seed=1)


def test_a_run_on_other_data_is_refused(run: Path) -> None:
    with pytest.raises(DataError, match="have changed since it was trained"):
        resume(Run.open(run, data=points(bad=3)))


def test_one_unreadable_run_does_not_hide_the_others(run: Path) -> None:
    broken = Path(shutil.copytree(run, run.with_name("broken")))
    (broken / "config.yaml").write_text("model: [")
    found = {each.id: each for each in runs(run.parent)}
    assert found.keys() == {"toy", "broken"}
    assert found["toy"].settings.steps == 12
    with pytest.raises(RunError, match=r"config\.yaml cannot be read"):
        _ = found["broken"].config


def test_new_folders_are_numbered_and_odd_neighbours_ignored(tmp_path: Path) -> None:
    for name in ("toy-003", "toy-x", "toy-²", "toy-1.5", "other-9"):
        (tmp_path / name).mkdir()
    assert [new_folder(tmp_path, "toy").name for _ in range(2)] == ["toy-004", "toy-005"]


def test_a_folder_can_be_held_again_after_it_was_let_go(tmp_path: Path) -> None:
    for _ in range(2):
        with sole_writer(tmp_path), pytest.raises(RunError, match="another process"), sole_writer(tmp_path):
            pass
