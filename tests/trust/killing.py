"""A program that saves checkpoints and is killed at every point where that could do harm.

`python -m tests.trust.killing shim|strace|careless FOLDER` imports what saving needs once and then forks a process for
every point, so that a point costs milliseconds. JAX is imported but never used: a used JAX does not survive a fork.

- `shim` kills before every call that changes files, and in the middle of every write.
- `strace` kills at the entry of every system call of that kind, wherever it comes from.
- `careless` is `shim` over a way of saving that is not atomic, to show that the checks can fail.
"""

import ctypes
import io
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import safetensors.numpy

from chainrule.train import checkpoints, folder, history
from chainrule.train.files import sweep
from chainrule.train.folder import RunWriter
from chainrule.train.trainer import Trainer

STEPS = (10, 20, 30)
BEST = {10: 10, 20: 10, 30: 30}
"""Step of the best checkpoint after each save: the second save keeps an older one, the third drops it."""
SYSTEM_CALLS = (
    *("openat", "write", "fsync", "truncate", "ftruncate", "rename", "renameat", "renameat2"),
    *("mkdir", "mkdirat", "unlink", "unlinkat", "rmdir"),
)
PR_SET_PTRACER = 0x59616D61


def state(step: int) -> dict[str, np.ndarray]:
    return {"weight": np.full((3, 2), step, np.float32), "count": np.asarray(step, np.int32)}


def kept(step: int) -> set[int]:
    return {step, BEST[step]}


def save_all(run: Path, say: Callable[[int], None]) -> None:
    """The saves of a training run, in the order of writes of the training loop itself."""
    trainer: Any = SimpleNamespace(
        writer=RunWriter(run, total=STEPS[-1]),
        store=run / "checkpoints",
        journal={"best": {}},
        config=SimpleNamespace(keep=1),
        notify=lambda event: say(event.step),
    )
    for step in STEPS:
        trainer.writer.metrics(step, "train", {"loss": 1 / step})
        trainer.journal["best"] = {"loss": 0.0, "step": BEST[step]}
        Trainer._save(trainer, state(step), step)


def save_carelessly(run: Path, say: Callable[[int], None]) -> None:
    """Writes in place: at some instants the checkpoint is there but not whole."""
    for step in STEPS:
        made = checkpoints.save(run.with_name("elsewhere"), state(step), step, {"best": {}})
        final = checkpoints.path(run / "checkpoints", step)
        final.mkdir(parents=True)
        for name in ("manifest.json", "state.safetensors"):
            with (final / name).open("wb") as file:
                file.write((made / name).read_bytes())
        say(step)


class Shim:
    """Counts down over calls that change files and kills this process when the count is used up."""

    def __init__(self, calls: int) -> None:
        self.left = calls
        for name in ("open", "fsync", "rename", "replace", "mkdir", "unlink", "rmdir", "truncate"):
            setattr(os, name, self._counted(getattr(os, name)))
        self._open, io.open = io.open, self._opened

    def tick(self) -> None:
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **options: Any) -> Any:
            self.tick()
            return call(*args, **options)

        return counted

    def _opened(self, path: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        if "r" in mode:
            return self._open(path, mode, *args, **options)
        self.tick()
        file = self._open(path, mode, *args, **options)
        whole = file.write

        def write(contents: Any) -> None:
            for piece in (contents[: len(contents) // 2], contents[len(contents) // 2 :]):
                self.tick()
                whole(piece)
                file.flush()

        return Writes(file, write)


class Writes:
    """A file with another `write`."""

    def __init__(self, file: Any, write: Callable[[Any], None]) -> None:
        self._file, self.write = file, write

    def __enter__(self) -> "Writes":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def fork(run: Path, how: str, call: str, number: int) -> tuple[bool, list[int]]:
    """Save in a child that is killed at one point; whether it came to that, and the saves it had announced."""
    said, say = os.pipe()
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        if how == "strace":
            ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)
            os.write(say, b"?")
            os.read(ready, 1)
        else:
            Shim(number)
        work = save_carelessly if how == "careless" else save_all
        work(run, lambda step: os.write(say, b"%d " % step) and None)
        os._exit(0)
    os.close(say)
    tracer = _trace(child, said, call, number) if how == "strace" else None
    os.write(go, b"!")
    _, status = os.waitpid(child, 0)
    if tracer:
        tracer.wait()
    with os.fdopen(said, "rb") as pipe:
        announced = [int(word) for word in pipe.read().split()]
    os.close(ready)
    os.close(go)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, f"the child failed: {status}"
    return os.WIFSIGNALED(status), announced


def _trace(child: int, said: int, call: str, number: int) -> subprocess.Popen[bytes]:
    os.read(said, 1)
    # The question mark: not every processor has every one of these calls.
    inject = f"inject=?{call}:signal=KILL:when={number + 1}"
    tracer = subprocess.Popen(
        ["strace", "-qq", "-o", os.devnull, "-p", str(child), "-e", f"trace=?{call}", "-e", inject]
    )
    while "TracerPid:\t0\n" in Path(f"/proc/{child}/status").read_text():
        assert tracer.poll() is None, "strace could not attach"
        time.sleep(0.001)
    return tracer


def check(run: Path, announced: list[int]) -> None:
    """Everything that must hold after a kill at any instant, and after the next start."""
    store = run / "checkpoints"
    visible = checkpoints.steps(store)
    newest = visible[-1] if visible else 0
    assert newest >= max(announced, default=0), f"saved {announced}, found {visible}"
    assert folder.read_status(run)["status"] == "interrupted"
    for step in visible:
        checkpoints.verify(checkpoints.path(store, step))
        found = safetensors.numpy.load_file(checkpoints.path(store, step) / "state.safetensors")
        assert all(np.array_equal(found[name], value) for name, value in state(step).items())
    if visible:
        assert kept(newest) <= set(visible), f"newest is {newest}, found {visible}"
        counted = checkpoints.read_manifest(checkpoints.path(store, newest))["journal"]["metrics_bytes"]
        writer = RunWriter(run, total=STEPS[-1])
        writer.cut(counted)
        assert [record["step"] for record in history.read(run)] == [s for s in STEPS if s <= newest]
    sweep(run)
    checkpoints.sweep(store)
    left = {path.name for path in (*run.iterdir(), *store.glob("*"))}
    shown = {checkpoints.path(store, step).name for step in visible}
    assert left <= {"checkpoints", "metrics.jsonl", "status.json", "log.txt", *shown}, left


def main(how: str, folder: Path) -> None:
    warnings.simplefilter("ignore", RuntimeWarning)  # JAX warns of forks; it has no threads here
    points: dict[str, int] = {}
    outcomes = set()
    for call in SYSTEM_CALLS if how == "strace" else ("any",):
        for number in itertools.count():
            run = folder / f"{call}-{number}"
            run.mkdir()
            killed, announced = fork(run, how, call, number)
            check(run, announced)
            outcomes.add((tuple(announced), tuple(checkpoints.steps(run / "checkpoints"))))
            shutil.rmtree(run)
            if not killed:
                break
            points[call] = number + 1
    print(json.dumps({"points": points, "outcomes": sorted(outcomes)}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
