"""Signals, closed pipes and closed terminals save the run and stop it; a second signal stops it at once."""

import errno
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chainrule.train import Run, checkpoints, events, watching
from chainrule.train.step import Stepper
from tests.trust.toys import fingerprint, go_on, train

Ring = Callable[[], None]
Arm = Callable[[pytest.MonkeyPatch, Ring], events.Listener]


def on(kind: type, step: int = 0) -> Arm:
    """Ring when the run tells of that event."""

    def arm(patch: pytest.MonkeyPatch, ring: Ring) -> events.Listener:
        def listen(event: events.Event) -> None:
            if isinstance(event, kind) and getattr(event, "step", 0) >= step:
                ring()

        return listen

    return arm


def inside(owner: Any, name: str, call: int = 1) -> Arm:
    """Ring in the middle of the n-th call of that function."""

    def arm(patch: pytest.MonkeyPatch, ring: Ring) -> events.Listener:
        original = getattr(owner, name)
        calls = 0

        def rung(*args: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == call:
                ring()
            return original(*args, **options)

        patch.setattr(owner, name, rung)
        return events.silent

    return arm


MOMENTS = {
    "at the start": on(events.Started),
    "while compiling": inside(Stepper, "compile"),
    "after compiling": on(events.Compiled),
    "between two steps": on(events.Progress, 6),
    "while running a step": inside(Stepper, "run", 3),
    "while evaluating": inside(watching, "mean_loss", 2),
    "while writing metrics": on(events.Logged, 5),
    "while saving": inside(checkpoints, "sync_folder", 4),
    "after saving": on(events.Saved, 8),
}


def once(number: int) -> Ring:
    """Send this process one signal, the first time it is asked to."""
    sent: list[int] = []

    def ring() -> None:
        if not sent:
            sent.append(number)
            signal.raise_signal(number)

    return ring


@pytest.fixture(autouse=True)
def _not_deaf() -> Iterator[None]:
    """Whoever runs the tests may have told them to ignore hangups, which runs respect."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("moment", "number"),
    list(zip(MOMENTS, itertools.cycle([signal.SIGINT, signal.SIGTERM, signal.SIGHUP]), strict=False)),
)
def test_a_signal_saves_the_run_where_it_stands_and_it_can_be_gone_on_with(
    tmp_path: Path, finished: Path, monkeypatch: pytest.MonkeyPatch, moment: str, number: signal.Signals
) -> None:
    with monkeypatch.context() as patch:
        run = train(tmp_path / "toy", keep=3, listener=MOMENTS[moment](patch, once(number)))
    status = run.status
    assert (status["status"], status["message"]) == ("interrupted", f"interrupted by {number.name}")
    assert status["step"] == run.checkpoints[-1] < 12
    checkpoints.verify(checkpoints.path(run.path / "checkpoints", status["step"]))
    go_on(tmp_path / "toy")
    assert fingerprint(tmp_path / "toy") == fingerprint(finished)


@pytest.mark.parametrize(
    "moment", ["while compiling", "between two steps", "while evaluating", "while saving"]
)
def test_a_second_signal_stops_at_once_and_spoils_nothing(
    tmp_path: Path, finished: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        train(tmp_path / "toy", keep=3, listener=MOMENTS[moment](patch, twice))
    run = Run.open(tmp_path / "toy")
    assert (run.status["status"], run.status["message"]) == (
        "interrupted",
        "stopped at once by a second signal",
    )
    for step in run.checkpoints:
        checkpoints.verify(checkpoints.path(run.path / "checkpoints", step))
    go_on(tmp_path / "toy")
    assert fingerprint(tmp_path / "toy") == fingerprint(finished)
    assert not list(run.path.glob("**/.tmp-*"))


def test_a_signal_in_the_last_step_does_not_undo_that_the_run_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = on(events.Logged, 12)(monkeypatch, once(signal.SIGTERM))
    run = train(tmp_path / "toy", listener=listener)
    assert (run.status["status"], run.status["message"]) == ("done", "all steps done")


def test_the_first_signal_after_the_decision_to_stop_early_still_lets_the_run_be_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = on(events.Progress, 15)(monkeypatch, once(signal.SIGINT))
    run = train(tmp_path / "toy", steps=60, eval_every=3, stopping={"patience": 2}, listener=listener)
    assert (run.status["status"], run.status["message"]) == ("done", "no improvement for 2 evaluations")
    assert run.checkpoints[-1] == run.status["step"] == 15


def test_a_run_that_stopped_early_does_not_go_on_unless_it_is_given_more_patience(tmp_path: Path) -> None:
    early: dict[str, Any] = {"steps": 60, "eval_every": 3, "stopping": {"patience": 2}}
    train(tmp_path / "toy", **early)
    assert go_on(tmp_path / "toy").status["step"] == 15
    assert go_on(tmp_path / "toy", stopping={"patience": 3}).status["step"] > 15


@pytest.mark.parametrize("fails", [False, True])
def test_the_handlers_of_the_caller_are_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    def own(number: int, frame: Any) -> None:
        del number, frame

    def listen(event: events.Event) -> None:
        if fails and isinstance(event, events.Saved):
            raise RuntimeError("stop")

    before = {number: signal.signal(number, own) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        if fails:
            with pytest.raises(RuntimeError, match="stop"):
                train(tmp_path / "toy", listener=listen)
        else:
            train(tmp_path / "toy", listener=listen)
        assert [signal.getsignal(number) for number in before] == [own, own]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_training_in_another_thread_leaves_signals_alone(tmp_path: Path, finished: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[Any] = []

    def listen(event: events.Event) -> None:
        seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=train, args=(tmp_path / "toy",), kwargs={"keep": 3, "listener": listen})
    thread.start()
    thread.join()
    assert set(seen) == {before}
    assert fingerprint(tmp_path / "toy") == fingerprint(finished)


def test_a_run_that_reaches_its_time_limit_is_done_saved_and_can_go_on(
    tmp_path: Path, finished: Path
) -> None:
    run = train(tmp_path / "toy", keep=3, minutes=1e-9)
    assert run.status["status"] == "done"
    assert run.status["message"] == "the limit of 1e-09 minutes is reached"
    assert run.checkpoints == [run.status["step"]]
    go_on(tmp_path / "toy", minutes=None)
    assert fingerprint(tmp_path / "toy") == fingerprint(finished)


def test_the_signal_of_somebody_else_is_heard(tmp_path: Path) -> None:
    """Sent to the process from outside the training thread, as a scheduler or a terminal does."""

    def listen(event: events.Event) -> None:
        if isinstance(event, events.Compiled):
            sender = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGTERM))
            sender.start()
            sender.join()

    run = train(tmp_path / "toy", steps=5000, save_every=5000, eval_every=5000, listener=listen)
    assert run.status["status"] == "interrupted"
    assert run.checkpoints == [run.status["step"]]


def test_a_signal_to_be_ignored_is_ignored_as_under_nohup(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        run = train(tmp_path / "toy", listener=lambda event: signal.raise_signal(signal.SIGHUP))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert run.status["status"] == "done"


@pytest.mark.parametrize(
    ("code", "moment"),
    [
        (errno.EPIPE, (events.Progress, 6)),
        (errno.EIO, (events.Saved, 8)),
        (errno.ENOSPC, (events.Started, 0)),
    ],
)
def test_output_that_cannot_be_written_any_more_costs_no_step(
    tmp_path: Path, finished: Path, moment: tuple[type, int], code: int
) -> None:
    """The reader of a pipe leaves, the terminal is closed, the disk behind the log is full."""
    heard: list[events.Event] = []

    def listen(event: events.Event) -> None:
        heard.append(event)
        if isinstance(event, moment[0]) and getattr(event, "step", 0) >= moment[1]:
            raise OSError(code, os.strerror(code))

    with pytest.raises(OSError, match=os.strerror(code)):
        train(tmp_path / "toy", keep=3, listener=listen)
    run = Run.open(tmp_path / "toy")
    assert (run.status["status"], run.checkpoints[-1]) == ("interrupted", run.status["step"])
    assert run.status["message"] == f"its output could not be written ({os.strerror(code)})"
    assert isinstance(heard[-1], moment[0])
    go_on(tmp_path / "toy")
    assert fingerprint(tmp_path / "toy") == fingerprint(finished)


def test_a_run_whose_last_words_are_not_heard_is_done(tmp_path: Path) -> None:
    def listen(event: events.Event) -> None:
        if isinstance(event, events.Finished):
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    with pytest.raises(BrokenPipeError):
        train(tmp_path / "toy", listener=listen)
    assert Run.open(tmp_path / "toy").status["status"] == "done"


LONG = [
    *("mlp", "data=moons", "data.n=200", "width=8", "batch=16", "run=long"),
    *("steps=1000000", "save_every=1000000", "eval_every=1000000"),
]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["pipe", "full disk", "hangup", "terminal"])
def test_the_command_line_saves_and_says_so_when_its_output_goes_away(
    tmp_path: Path, compiled: dict[str, str], how: str
) -> None:
    command = [sys.executable, "-m", "chainrule", "train", *LONG, f"runs={tmp_path}"]
    master, terminal = os.openpty()
    full = os.open("/dev/full", os.O_WRONLY)
    out = {"full disk": full, "terminal": terminal}.get(how, subprocess.PIPE)
    process = subprocess.Popen(
        command, env=os.environ | compiled, stdout=out, stderr=subprocess.PIPE, start_new_session=True
    )
    for ours in (full, terminal):
        os.close(ours)
    with process:
        if how == "terminal":
            seen = b""
            while b"step" not in seen:
                seen += os.read(master, 1000)
        elif process.stdout is not None:
            while not process.stdout.readline().startswith(b"step"):
                pass
            if how == "pipe":
                process.stdout.close()
            else:
                process.send_signal(signal.SIGHUP)
                assert b"interrupted by SIGHUP" in process.stdout.read()
        os.close(master)
        assert process.stderr is not None
        said = process.stderr.read().decode()
        assert process.wait() == 130, said
    run = Run.open(tmp_path / "long")
    assert (run.status["status"], run.checkpoints) == ("interrupted", [run.status["step"]])
    assert how == "hangup" or f"saved at step {run.status['step']}" in said
    assert "Traceback" not in said


def test_the_time_of_all_sittings_adds_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = train(tmp_path / "toy", listener=on(events.Progress, 6)(monkeypatch, once(signal.SIGTERM)))
    status = json.loads((run.path / "status.json").read_text())
    (run.path / "status.json").write_text(json.dumps({**status, "seconds": 1000.0}))
    seconds: list[float] = []
    go_on(
        run.path,
        listener=lambda event: seconds.append(event.seconds) if isinstance(event, events.Finished) else None,
    )
    assert 1000 < run.status["seconds"] < 1060
    assert seconds == [run.status["seconds"]]
