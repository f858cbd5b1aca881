"""A peer: a worker process in the peers' own environment that takes orders as JSON lines.

Peers must not share an interpreter with Chainrule (their dependencies are not ours), yet have to take turns with it.
The worker answers `{"do": "prepare", ...}` with its result and compile time, and `{"do": "turn"}` with seconds.
"""

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

from benchmarks.harness import BenchmarkError, Contestant, Prepared

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv-peers" / "bin" / "python"
WORKERS = Path(__file__).resolve().parent / "workers"


@final
class Peer(Contestant):
    """A contestant that lives in another process."""

    def __init__(self, name: str, worker: str, arguments: Mapping[str, Any], python: Path = PYTHON) -> None:
        if not python.exists():
            raise BenchmarkError("the peers are not installed: make peers")
        self.name = name
        self._arguments = dict(arguments)
        self._errors = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 (lives as long as the process)
        self._process = subprocess.Popen(
            [str(python), str(WORKERS / f"{worker}.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def prepare(self) -> Prepared:
        """Have the worker compile and compute its result."""
        answer = self._ask("prepare", **self._arguments)
        return Prepared(answer["result"], answer["compile_seconds"], answer["versions"])

    def turn(self) -> float:
        """Have the worker take a turn."""
        return float(self._ask("turn")["seconds"])

    def processes(self) -> Sequence[int]:
        """The worker."""
        return (self._process.pid,)

    def close(self) -> None:
        """End the worker."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def _ask(self, order: str, **arguments: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": order, **arguments}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            status = self._process.wait()
            self._errors.seek(0)
            said = (
                self._errors.read()[-3000:]
                or "it said nothing; a negative status is the signal that ended it"
            )
            raise BenchmarkError(f"{self.name} failed with status {status}:\n{said}")
        answer: dict[str, Any] = json.loads(line)
        return answer


__all__ = ["PYTHON", "Peer"]
