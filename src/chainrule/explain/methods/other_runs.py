"""Other runs that a probe is told of by name."""

from pathlib import Path

from chainrule.core.errors import RunError, suggest
from chainrule.train import Run


def beside(run: Run, word: str) -> Run:
    """A run by its name beside another one, or by its folder."""
    for path in (run.path.parent / word, Path(word).expanduser()):
        if (path / "config.yaml").is_file():
            return Run.open(path)
    known = sorted(path.parent.name for path in run.path.parent.glob("*/config.yaml"))
    raise RunError(
        f"there is no run {word!r} beside {run.id}{suggest(word, known)}",
        remedy="list runs: chainrule runs ls   a run elsewhere: its folder",
    )


__all__ = ["beside"]
