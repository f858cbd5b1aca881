"""A training run that is killed at instants over its whole length, from the first line to the last.

`python -m tests.trust.sweeping FOLDER POINTS` trains once in peace, then POINTS times with `kill -9` from outside,
each a little later than the one before, looks at what is left, goes on to the end, and prints a table:

| killed after | event the run told of last before the kill |
| announced | newest save the run had told of |
| found | checkpoints on the disk, each whole and verified |
| status | what `runs ls` shows |
| resumed | whether the run, gone on with, ends bit for bit like the one that was left in peace |

Each attempt is a fork of a process in which everything is imported but JAX has not yet been used.
"""

import os
import random
import select
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

from chainrule.train import checkpoints, events, folder
from tests.trust.resuming import Case, start
from tests.trust.toys import fingerprint, mlp

CASE = Case(
    (),
    {"steps": 240, "save_every": 20, "eval_every": 30, "log_every": 7, "keep": 4, "ema": 0.9},
    lambda: mlp(normalization="batch", dropout=0.3),
)


class Point(NamedTuple):
    """What one kill left behind."""

    after: str
    announced: int
    found: list[int]
    status: str
    equal: bool


def begin(path: Path) -> tuple[int, int]:
    """A child that trains, or goes on; its number, and a pipe from which its events can be read."""
    pipe, tell = os.pipe()
    if (child := os.fork()) == 0:

        def listen(event: events.Event) -> None:
            os.write(tell, f"{type(event).__name__} {getattr(event, 'step', 0)}\n".encode())

        start(CASE, path, listener=listen)
        os._exit(0)
    os.close(tell)
    return child, pipe


def to_the_end(path: Path) -> list[str]:
    """Train in peace; every event."""
    child, pipe = begin(path)
    with os.fdopen(pipe) as file:
        lines = file.read().splitlines()
    _, status = os.waitpid(child, 0)
    assert status == 0, f"{path} was not trained to the end: {status}"
    return lines


def kill(path: Path, number: int, delay: float) -> Point:
    """Train, and kill from outside a moment after the event of that number; nothing if it had ended before."""
    child, pipe = begin(path)
    heard = b""
    while heard.count(b"\n") <= number and (more := os.read(pipe, 1 << 16)):
        heard += more
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while select.select([pipe], [], [], 0)[0] and (more := os.read(pipe, 1 << 16)):
        heard += more
    os.close(pipe)
    lines = heard.decode().splitlines()
    announced = [int(line.split()[1]) for line in lines if line.startswith("Saved")]
    store = path / "checkpoints"
    found = checkpoints.steps(store)
    for step in found:
        checkpoints.verify(checkpoints.path(store, step))
    status = folder.read_status(path)["status"]
    return Point(lines[-1] if lines else "", max(announced, default=0), found, status, equal=False)


def sweep(parent: Path, points: int) -> list[Point]:
    """Kills spread evenly over the events of a run."""
    chance = random.Random(0)
    events_of = to_the_end(parent / "peace")
    expected = fingerprint(parent / "peace")
    table = []
    for point in range(points):
        path = parent / f"killed-{point}"
        number = (2 * point + 1) * len(events_of) // (2 * points)
        left = kill(path, number, chance.uniform(0, 0.004))
        to_the_end(path)
        table.append(left._replace(equal=fingerprint(path) == expected))
    return table


def main(parent: Path, points: int) -> None:
    warnings.simplefilter("ignore", RuntimeWarning)  # JAX warns of forks; here it has no threads yet
    table = sweep(parent, points)
    print(f"{'killed after':<15}{'announced':>10}   {'found':<24}{'status':<13}resumed")
    for point in table:
        found = " ".join(map(str, point.found)) or "-"
        equal = "equal" if point.equal else "DIFFERENT"
        print(f"{point.after:<15}{point.announced or '-':>10}   {found:<24}{point.status:<13}{equal}")
    lost = [p for p in table if max(p.found, default=0) < p.announced]
    wrong = [p for p in table if not p.equal or p.status not in ("interrupted", "done")]
    print(
        f"{len(table)} kills: {len(lost)} announced saves lost, {len(wrong)} runs not as if nothing had happened"
    )
    sys.exit(bool(lost or wrong))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
