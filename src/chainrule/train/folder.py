"""The run folder: plain files that are the whole truth about a run.

| file | holds |
|---|---|
| `config.yaml` | every setting, resolved; also a recipe that repeats the run |
| `env.json` | versions, device, flags |
| `data.json` | schema, scaling, hash, counts, skipped files with reasons |
| `metrics.jsonl` | one object a line: `step`, `split`, named numbers |
| `status.json` | state, process, heartbeat |
| `checkpoints/step-*/` | tensors and manifest |
| `tokenizer.json` | text that another run or file was the start of: the tokenizer, as a file to load data with |
| `residuals.json` | values: how far validation examples were from their predictions, for intervals around new ones |
| `temperature.json` | classes: the temperature at which probabilities are honest, fitted on validation examples |
| `snapshots/step-*.npy` | models that draw the same examples again and again: those examples along the way |
| `model.py` | networks of the user's own out of a file: a copy of it, never run |
| `log.txt` | what happened when, for people |
"""

import contextlib
import importlib.metadata
import itertools
import json
import math
import os
import platform
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import yaml

from chainrule import __version__
from chainrule.core import notebook
from chainrule.core.errors import RunError
from chainrule.core.formatting import duration, number
from chainrule.data.dataset import Data
from chainrule.data.reading import TableReading
from chainrule.data.scaling import Scaling
from chainrule.data.schema import Schema
from chainrule.train.files import disk_errors, read_own, write_atomic, write_json
from chainrule.train.naming import recipe_word

_HEARTBEAT_SECONDS = 2.0
_STALE_SECONDS = 60.0
CODE = "model.py"
"""The copy of the Python file that a model of the user's own came from."""
_SECTIONS = ("model", "data", "train")
_OWN = (
    *("config.yaml", "env.json", "data.json", "metrics.jsonl", "status.json", "log.txt"),
    *("checkpoints", "snapshots", ".lock", "tokenizer.json", "residuals.json", "temperature.json", CODE),
    "anchor.safetensors",
)


def write_config(folder: Path, config: Mapping[str, Any]) -> None:
    """The resolved settings as YAML."""
    write_atomic(folder / "config.yaml", yaml.safe_dump(plain(config), sort_keys=False, allow_unicode=True))


def refuse_links(folder: Path) -> None:
    """Raise when a file of the run is a link: writing to it would change something outside the folder."""
    for name in _OWN:
        if (folder / name).is_symlink():
            raise RunError(
                f"{folder / name} is a link: a run is read and written only where it really lies",
                remedy="put the file itself in its place; to use another disk, choose it with runs=DIR",
            )


def read_config(path: Path) -> dict[str, Any]:
    """The settings of a run folder, or of a config.yaml anywhere."""
    file = path / "config.yaml" if path.is_dir() else path.resolve()
    try:
        text = read_own(file, most=1 << 20).decode()
        bombs = _bombs(text)
        found = None if bombs else yaml.safe_load(text)
    except FileNotFoundError:
        raise RunError(
            f"{path} is not a run folder: it has no config.yaml", remedy="list runs: chainrule runs ls"
        ) from None
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise RunError(f"{file} cannot be read: {str(error).splitlines()[0]}") from None
    if bombs:
        raise RunError(f"{file} {bombs}", remedy="write the values out, as chainrule does")
    if not isinstance(found, dict) or not all(_is_section(found.get(name)) for name in _SECTIONS):
        raise RunError(f"{file} is not a Chainrule config: it needs the sections {', '.join(_SECTIONS)}")
    model = found["model"] = {"name": None, "settings": {}, **found["model"]}
    if not isinstance(model["name"], str | None) or not _is_section(model["settings"]):
        raise RunError(f"{file}: the section model needs a name and settings")
    return found


def of_agents(config: Mapping[str, Any]) -> bool:
    """Whether a run is one of agents, which have an environment instead of data."""
    return "env" in config


def _bombs(text: str) -> str:
    """What in a YAML text could take more time or memory than there is; empty when nothing does."""
    depths = itertools.accumulate((letter in "[{") - (letter in "]}") for letter in text)
    if max(depths, default=0) > 100:  # the parser takes quadratic time
        return "is nested too deeply"
    # An alias can stand for a whole section, and aliases of aliases for more than memory holds.
    if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader)):
        return "uses YAML aliases (*name)"
    return ""


def _is_section(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(name, str) for name in value)


def write_data(folder: Path, data: Data) -> None:
    """What is known about the data, so that a run can be opened without them."""
    write_json(
        folder / "data.json",
        {
            "name": data.name,
            "hash": data.hash,
            "summary": data.describe(),
            "source": plain(data.source),
            "schema": data.schema.to_json(),
            "scaling": data.scaling.to_json(),
            "target_scaling": data.target_scaling.to_json() if data.target_scaling else None,
            "reading": data.reading.to_json() if data.reading else None,
            "counts": {name: len(data.split(name)) for name in ("train", "val", "test")},
            "skipped": [list(pair) for pair in data.skipped],
            "notes": [list(pair) for pair in data.notes],
        },
    )


def read_data(folder: Path) -> dict[str, Any]:
    """What `write_data` wrote, with schema, scalings and reading brought back."""
    try:
        found = json.loads(read_own(folder / "data.json"))
        stored, reading = found["target_scaling"], found.get("reading")
        return {
            **found,
            "hash": str(found["hash"]),
            "schema": Schema.from_json(found["schema"]),
            "scaling": Scaling.from_json(found["scaling"]),
            "target_scaling": Scaling.from_json(stored) if stored else None,
            "reading": TableReading.from_json(reading) if reading else None,
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RunError(
            f"{folder.name}: data.json cannot be read ({type(error).__name__})",
            remedy=f"it is written when a run starts: train the run again: chainrule train {recipe_word(folder)}",
        ) from error


def write_environment(folder: Path) -> None:
    """Versions, device and flags."""
    import jax  # the only use of JAX here; reading run folders does not need it

    packages = ("jax", "jaxlib", "equinox", "optax", "numpy")
    write_json(
        folder / "env.json",
        {
            "python": platform.python_version(),
            "platform": platform.platform(),
            "versions": {
                "chainrule": __version__,
                **{name: importlib.metadata.version(name) for name in packages},
            },
            "device": str(jax.devices()[0].device_kind),
            "devices": len(jax.devices()),
            "backend": jax.default_backend(),
            "cores": os.cpu_count(),
            "xla_flags": os.environ.get("XLA_FLAGS", ""),
            "x64": bool(jax.config.read("jax_enable_x64")),
            "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        },
    )


@final
class RunWriter:
    """Appends to metrics.jsonl and log.txt and keeps status.json alive while a run is going on."""

    def __init__(self, folder: Path, total: int) -> None:
        self.folder = folder
        self.began = time.time()
        self._earlier = _seconds_so_far(folder)
        self._last_beat = 0.0
        self._metrics = folder / "metrics.jsonl"
        self.status: dict[str, Any] = {
            "status": "running",
            "pid": os.getpid(),
            "pid_start": process_start(os.getpid()),
            "host": socket.gethostname(),
            "started": self.began,
            "heartbeat": self.began,
            "step": 0,
            "total": total,
            "seconds": self._earlier,
            "best": {},
            "message": "",
        }

    def metrics(self, step: int, split: str, values: Mapping[str, float]) -> None:
        """Add one line; numbers that are not finite are written as null."""
        record = {
            "step": step,
            "split": split,
            **{k: v if math.isfinite(v) else None for k, v in values.items()},
        }
        with disk_errors(self._metrics), self._metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, allow_nan=False) + "\n")

    def sync(self) -> int:
        """Wait until all metrics are on the disk; the length of the file."""
        with disk_errors(self._metrics), self._metrics.open("a") as file:
            os.fsync(file.fileno())
            return self._metrics.stat().st_size

    def cut(self, length: int) -> None:
        """Forget metrics written after a checkpoint, so that a resumed run writes them again."""
        if not self._metrics.exists() or self._metrics.stat().st_size < length:
            self.log(
                f"metrics.jsonl is shorter than the checkpoint remembers ({length} bytes): earlier lines are missing"
            )
            self._metrics.touch()
            length = self._metrics.read_bytes().rfind(b"\n") + 1  # a torn line must not meet the next one
        with disk_errors(self._metrics):
            os.truncate(self._metrics, length)

    def log(self, line: str) -> None:
        """Add a line for people."""
        path = self.folder / "log.txt"
        with disk_errors(path), path.open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {line}\n")

    def beat(self, **changes: Any) -> None:
        """Bring status.json up to date, at most every two seconds."""
        self.status.update(changes)
        if time.time() - self._last_beat >= _HEARTBEAT_SECONDS:
            self.write(durable=False)

    def write(self, *, durable: bool = True, **changes: Any) -> None:
        """Write status.json now."""
        self._last_beat = time.time()
        self.status.update(
            changes, heartbeat=self._last_beat, seconds=self._earlier + self._last_beat - self.began
        )
        write_json(self.folder / "status.json", self.status, durable=durable)


def read_status(folder: Path) -> dict[str, Any]:
    """The state of a run as it is now: one whose process is gone is `interrupted`, whatever its file says."""
    never = {
        "status": "interrupted",
        "step": 0,
        "total": 0,
        "seconds": 0.0,
        "best": {},
        "message": "never started",
    }
    try:
        status = json.loads(read_own(folder / "status.json"))
        if any(not isinstance(status[name], type(value)) for name, value in never.items()):
            raise ValueError("a field has the wrong type")
        if status["status"] == "running" and not _alive(status):
            status |= {"status": "interrupted", "message": "the process ended without saying why"}
    except FileNotFoundError:
        return never
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise RunError(
            f"{folder.name}: status.json cannot be read",
            remedy=f"remove {folder / 'status.json'} and resume the run",
        ) from None
    return dict(status)


def _seconds_so_far(folder: Path) -> float:
    """How long a run was trained before; a status that cannot be read does not keep it from going on."""
    with contextlib.suppress(RunError):
        return float(read_status(folder)["seconds"])
    return 0.0


def decisive(best: Mapping[str, float]) -> str:
    """The name of the number that made a step the best: the one beside the loss, if there is another.

    >>> decisive({"loss": 0.4, "step": 200}), decisive({"loss": 0.5, "accuracy": 0.9, "step": 100})
    ('loss', 'accuracy')
    """
    return next((name for name in best if name not in ("loss", "step")), "loss")


def summary_html(folder: Path, config: Mapping[str, Any]) -> str:
    """What a notebook shows of a run."""
    status = read_status(folder)
    best = status["best"]
    rows = [
        ("model", config["model"]["name"] or "your own"),
        ("data", read_data(folder)["summary"]),
        ("status", f"{status['status']} at step {status['step']:,} of {status['total']:,}"),
        ("time", duration(status["seconds"])),
        *([("best", f"{number(best['loss'])} at step {best['step']:,}")] if "loss" in best else []),
        ("folder", folder),
    ]
    return notebook.table([], rows, title=folder.name)


def inline_report(folder: Path, height: int) -> notebook.InlinePage:
    """The report as a notebook shows it."""
    page = folder / "report.html"
    if not page.is_file():
        raise RunError(f"{folder.name} has no report", remedy="write it: chainrule.report.write(run)")
    return notebook.InlinePage(page.read_text(encoding="utf-8"), height)


def process_start(pid: int) -> str:
    """When a process started, in the kernel's own units: tells a process from a later one with the same number."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return ""


def _alive(status: Mapping[str, Any]) -> bool:
    if status["host"] != socket.gethostname():
        return time.time() - float(status["heartbeat"]) < _STALE_SECONDS
    pid = int(status["pid"])
    if pid < 1:  # to the kernel these are not one process but many
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it exists and belongs to somebody else
        return process_start(pid) == status["pid_start"]
    # A killed child its parent has not yet waited for still has a number, but no work.
    return process_start(pid) == status["pid_start"] and not _zombie(pid)


def _zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return False


def plain(values: Any) -> Any:
    """Mappings, sequences and paths as YAML and JSON know them."""
    if isinstance(values, Mapping):
        return {str(k): plain(v) for k, v in values.items()}
    if isinstance(values, list | tuple):
        return [plain(v) for v in values]
    return str(values) if isinstance(values, Path) else values


__all__ = [
    "CODE",
    "RunWriter",
    "decisive",
    "of_agents",
    "plain",
    "process_start",
    "read_config",
    "read_data",
    "read_status",
    "refuse_links",
    "write_config",
    "write_data",
    "write_environment",
]
