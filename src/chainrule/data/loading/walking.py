"""The files of a folder, found without opening any: links that lead elsewhere are refused, special files are known.

A folder may come from a stranger. A link to `/` would make a scan of the whole machine, a link to a private file would
make data of it, and a pipe or device that is opened never ends.
"""

import os
import stat
from pathlib import Path

from chainrule.core.quoting import plain
from chainrule.data.loading.options import Option, choice
from chainrule.data.loading.problems import Refused

LINKS = Option(
    "inside",
    choice("inside", "follow"),
    "links to files and folders: inside the folder only, or wherever they lead",
    guard=True,
)
_SPECIAL = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def special(path: Path) -> str:
    """What a path leads to if that is neither a file nor a folder, in words; empty if it is, or is not there."""
    try:
        return _SPECIAL.get(stat.S_IFMT(path.stat().st_mode), "")
    except OSError:
        return ""


def files_of(folder: Path, max_files: int, links: str = "inside") -> list[Path]:
    """Every file below a folder, hidden ones left out, sorted by path; a folder reached twice is entered once.

    Pipes, devices and sockets are among them; whoever opens one asks `special` first.
    """
    found: list[Path] = []
    seen: set[str] = set()
    root = os.path.realpath(folder)
    for here, folders, names in os.walk(folder, followlinks=True):
        seen.add(os.path.realpath(here))
        folders[:] = [name for name in sorted(folders) if not name.startswith((".", "__MACOSX"))]
        names = [name for name in names if not name.startswith(".") and name != "Thumbs.db"]
        if links == "inside":
            for name in (*folders, *names):
                _refuse_outside(Path(here, name), folder, root)
        folders[:] = [name for name in folders if os.path.realpath(Path(here, name)) not in seen]
        found += [Path(here, name) for name in names]
        if len(found) > max_files:
            detail = f"more than max_files={max_files:,} files"
            raise Refused(
                "too many files", folder.name, detail, f"to read them all: data.max_files={10 * max_files}"
            )
    return sorted(found, key=lambda path: path.relative_to(folder).parts)


def _refuse_outside(path: Path, folder: Path, root: str) -> None:
    if not path.is_symlink():
        return
    target = os.path.realpath(path)
    if Path(target).exists() and os.path.commonpath([root, target]) != root:
        raise Refused(
            "link out of the folder",
            path.relative_to(folder.parent).as_posix(),
            f"a link to {plain(target)}, which is outside of the folder",
            "put what it leads to in its place; or, if you trust the folder: data.links=follow",
        )


__all__ = ["LINKS", "files_of", "special"]
