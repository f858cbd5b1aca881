"""Names of run folders: where they go, which names they may have, and how commands to copy say them."""

import contextlib
import os
import re
from pathlib import Path

from chainrule.core.errors import ArgumentError
from chainrule.core.quoting import is_plain, shell_word
from chainrule.train.files import disk_errors, make_folder, sync_folder

_NAME_BYTES = 200
_STEM_BYTES = 120


def root(where: str | Path | None = None) -> Path:
    """Where run folders go: the argument, `$CHAINRULE_RUNS`, or `./runs`."""
    return Path(where or os.environ.get("CHAINRULE_RUNS") or "runs")


def handle(path: Path) -> str:
    """The word that names a run in a command: its name where run folders go by default, its path elsewhere."""
    return shell_word(path.name if path.parent.resolve() == root().expanduser().resolve() else path)


def recipe_word(path: Path) -> str:
    """The word of a command that repeats a run."""
    return shell_word(f"config={path / 'config.yaml'}")


def run_folder(run: str | Path, runs: str | Path | None = None) -> Path:
    """The folder that `run=` means, in Python and on the command line.

    A plain name is that of a run where run folders go (`runs`, or as `root` says), and what has a slash in it, or is a
    `Path`, is the path of a folder. A name in the present folder that holds a run already is found too.
    """
    text, named = str(run), isinstance(run, str) and "/" not in run
    if not named and runs is not None:
        raise ArgumentError(
            f"run={text} is a path and runs={runs} another", remedy="give a plain name, or leave runs out"
        )
    path = (root(runs) / text if named else Path(text)).expanduser()
    if named and runs is None and _holds_run(Path(text)) and not _holds_run(path):
        return Path(text)
    if not _holds_run(path):  # a run of an earlier version may be called anything
        check_name("run", text if named else path.absolute().name)
    return path


def _holds_run(path: Path) -> bool:
    return os.path.isfile(path / "config.yaml")  # noqa: PTH113  # not for any name an error


def check_name(where: str, name: str) -> None:
    """Refuse a name that could not be typed again, would be read as something else, or leads elsewhere."""
    if name in ("", "..") or "/" in name or "\0" in name:
        raise ArgumentError(f"{where}={name}: give a plain name", remedy="runs=DIR says where run folders go")
    why = ""
    if not is_plain(name):
        why = "it holds characters that cannot be seen"
    elif name[0] in "-." or name != name.strip():
        why = "a name begins with neither a dash nor a dot, and with no space at either end"
    elif "=" in name:
        why = "with = in it, it would be read as a setting"
    elif len(name.encode()) > _NAME_BYTES:
        why = f"a name has at most {_NAME_BYTES} bytes"
    if why:
        raise ArgumentError(f"{where}={name}: {why}", remedy=f"for example {where}={stem_of(name)}")


def stem_of(text: str) -> str:
    """A text, such as the name of a file with data, as the beginning of a run's name.

    >>> stem_of("sales 2024"), stem_of("--help"), stem_of("$(reboot)\\x1b[2J;x")
    ('sales 2024', 'help', '(reboot)-2J-x')
    """
    kept = re.sub(r"[^\w .,+@()-]+", "-", text).strip("-. ")
    return kept.encode()[:_STEM_BYTES].decode(errors="ignore").strip("-. ") or "run"


def new_folder(parent: Path, stem: str) -> Path:
    """A new folder `stem-NNN` with the next free number; letters that no name should hold are left out."""
    stem = stem_of(stem)
    with disk_errors(parent):
        make_folder(parent)
        endings = [found.name.removeprefix(f"{stem}-") for found in parent.iterdir()]
        taken = [int(ending) for ending in endings if ending.isdecimal()]
        number = max(taken, default=0) + 1
        while True:
            with contextlib.suppress(FileExistsError):  # another process took the number in between
                folder = parent / f"{stem}-{number:03d}"
                folder.mkdir()
                sync_folder(parent)
                return folder
            number += 1


__all__ = ["check_name", "handle", "new_folder", "recipe_word", "root", "run_folder", "stem_of"]
