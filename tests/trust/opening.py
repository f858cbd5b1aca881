"""A program that opens run folders, some of them hostile, and reports everything it was made to do.

`python -m tests.trust.opening KNOWN FOLDER...` first opens a folder that is known to be good, so that whatever Python
and JAX load on first use is loaded. From then on every file that is opened, every module that is imported, every piece
of code that is compiled or executed and every process that is started is noted, folder by folder.
"""

import json
import sys
import warnings
from pathlib import Path
from typing import Any

from chainrule.core.errors import ChainruleError
from chainrule.train import Run

WATCHED = (
    "open",
    "import",
    "exec",
    "compile",
    "os.",
    "subprocess.",
    "pickle.",
    "marshal.",
    "ctypes.",
    "socket.",
    "shutil.",
)


def use(path: str) -> str:
    """Read all there is to a run; the error that ended it, if any."""
    complaint = ""
    run = Run(Path(path))
    for read in ("status", "metrics", "config", "schema", "settings", "model"):
        try:
            getattr(run, read)
        except ChainruleError as error:
            complaint = complaint or f"{type(error).__name__}: {error.message}"
    return complaint


def main(known: str, folders: list[str]) -> None:
    warnings.simplefilter("error")
    assert use(known) == ""
    notes: dict[str, dict[str, Any]] = {}
    current: list[str] = []

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if current and event.startswith(WATCHED):
            notes[current[0]]["events"].append([event, *(str(arg)[:200] for arg in args[:2])])

    sys.addaudithook(hook)
    for folder in folders:
        notes[folder] = {"events": []}
        current.append(folder)
        complaint = use(folder)
        current.clear()
        notes[folder]["complaint"] = complaint
    print(json.dumps(notes))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
