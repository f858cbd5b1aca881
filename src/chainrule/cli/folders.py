"""Run folders as the user names them: by name or by path, and by the beginning of a name where they are only read."""

import fnmatch
from pathlib import Path

from chainrule.core.errors import RunError, suggest
from chainrule.train.naming import handle, root


def runs_folder(word: str | None = None) -> Path:
    """The folder of the runs: the word after `runs=`, `$CHAINRULE_RUNS`, or `./runs`."""
    return root(word).expanduser()


def names(folder: Path) -> list[str]:
    """The runs in a folder by name."""
    return sorted(path.parent.name for path in folder.glob("*/config.yaml"))


def find(word: str, folder: Path) -> Path:
    """The folder of a run to read: a name below `folder`, the beginning of exactly one such name, or a path."""
    named = _named(word, folder)
    if named is not None:
        return named
    begin = _beginning_with(word, folder)
    if len(begin) == 1:
        return folder / begin[0]
    if begin:
        raise RunError(
            f"{word!r} is the beginning of {len(begin)} runs: {', '.join(begin[:5])}",
            remedy="write more of it",
        )
    raise _absent(word, folder)


def find_exact(word: str, folder: Path) -> Path:
    """The folder of a run that is going to be changed: its whole name or a path, never the beginning of a name."""
    named = _named(word, folder)
    if named is not None:
        return named
    begin = _beginning_with(word, folder)
    if not begin:
        raise _absent(word, folder)
    raise RunError(
        f"there is no run {word!r} in {folder}; what changes or removes a run wants its whole name",
        remedy=f"names that begin like this: {', '.join(begin[:5])}",
    )


def find_matching(word: str, folder: Path) -> list[Path]:
    """The folders of the runs that are going to be removed: one by its whole name, or all that a pattern matches."""
    if _named(word, folder) is None and any(letter in word for letter in "*?["):
        matching = fnmatch.filter(names(folder), word)
        if not matching:
            raise RunError(
                f"no run in {folder} has a name like {word!r}", remedy="list runs: chainrule runs ls"
            )
        return [folder / name for name in matching]
    return [find_exact(word, folder)]


def _named(word: str, folder: Path) -> Path | None:
    if word.rstrip("/") in names(folder):
        return folder / word.rstrip("/")
    path = Path(word).expanduser()
    return path if (path / "config.yaml").is_file() else None


def _beginning_with(word: str, folder: Path) -> list[str]:
    return [name for name in names(folder) if name.startswith(word)]


def _absent(word: str, folder: Path) -> RunError:
    known = names(folder)
    where = f"in {folder}" if known else f"in {folder}, which holds no runs"
    return RunError(
        f"there is no run {word!r} {where}{suggest(word, known)}",
        remedy="list runs: chainrule runs ls   look elsewhere: runs=DIR or a path",
    )


__all__ = ["find", "find_exact", "find_matching", "handle", "names", "runs_folder"]
