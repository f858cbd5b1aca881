"""Run folders as the user names them: by name, by the beginning of a name, or by path."""

from pathlib import Path

from chainrule.core.errors import RunError, suggest
from chainrule.train.folder import handle, root


def runs_folder(word: str | None = None) -> Path:
    """The folder of the runs: the word after `runs=`, `$CHAINRULE_RUNS`, or `./runs`."""
    return root(word).expanduser()


def names(folder: Path) -> list[str]:
    """The runs in a folder by name."""
    return sorted(path.parent.name for path in folder.glob("*/config.yaml"))


def find(word: str, folder: Path) -> Path:
    """The folder of a run: a name below `folder`, the beginning of exactly one such name, or a path."""
    known = names(folder)
    if word.rstrip("/") in known:
        return folder / word
    if (Path(word).expanduser() / "config.yaml").is_file():
        return Path(word).expanduser()
    begin = [name for name in known if name.startswith(word)]
    if len(begin) == 1:
        return folder / begin[0]
    if begin:
        raise RunError(
            f"{word!r} is the beginning of {len(begin)} runs: {', '.join(begin[:5])}",
            remedy="write more of it",
        )
    where = f"in {folder}" if known else f"in {folder}, which holds no runs"
    raise RunError(
        f"there is no run {word!r} {where}{suggest(word, known)}",
        remedy="list runs: chainrule runs ls   look elsewhere: runs=DIR or a path",
    )


__all__ = ["find", "handle", "names", "runs_folder"]
