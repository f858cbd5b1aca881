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


__all__ = ["check_name", "handle", "new_folder", "recipe_word", "root", "stem_of"]
