"""Python files that a person names to be run: the one module in which a file becomes code."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chainrule.core.errors import ArgumentError, suggest

_SHOWN = 12


def named(target: str, what: str, example: str) -> tuple[Path, str]:
    """File and name of a target written FILE:NAME; `what` is the name of.

    >>> named("nets.py", "CLASS", "nets.py:Net")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: 'nets.py': write FILE:CLASS, for example nets.py:Net
    """
    file, colon, name = target.rpartition(":")
    if not colon or not file or not name:
        raise ArgumentError(f"{target!r}: write FILE:{what}, for example {example}")
    path = Path(file).expanduser()
    if not path.is_file():
        raise ArgumentError(f"there is no file {file!r}")
    return path, name


def contents(path: Path) -> dict[str, Any]:
    """Everything that a file defines. The file is run, with its folder among those it may import from."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ArgumentError(f"{str(path)!r} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(spec.name)
    sys.modules[spec.name] = module  # where classes look for the names in their annotations
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a file that ends the process is no file of definitions
        lines = str(error).splitlines() or [""]
        raise ArgumentError(
            f"{path} fails when it is run: {type(error).__name__}: {lines[0]}",
            remedy="mend the file; --trace shows where it fails",
        ) from error
    finally:
        sys.path.remove(str(path.resolve().parent))
        if before is not None:
            sys.modules[spec.name] = before
    return vars(module)


def member(path: Path, name: str, what: str = "function or class") -> Callable[..., Any]:
    """A function or class of a file, which is run."""
    found = contents(path)
    own = [key for key, value in found.items() if callable(value) and not key.startswith("_")]
    if name not in own:
        raise ArgumentError(
            f"{path} has no {what} {name!r}{suggest(name, own)}",
            remedy=f"it has: {', '.join(own[:_SHOWN]) or 'none'}",
        )
    chosen: Callable[..., Any] = found[name]
    return chosen


__all__ = ["contents", "member", "named"]
