"""Former names of settings and arrays, as run folders of earlier versions hold them.

A registry entry says what its settings and arrays were once called (`Entry.former_settings`, `Entry.former_arrays`) and
which settings mean another model today (`Entry.became`), `train/config.py` what training settings were called. Whatever
is read from a run folder passes through here and comes out under present names; only present names are ever written.
"""

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chainrule import __version__, models
from chainrule.core.errors import CapabilityError, ChainruleWarning
from chainrule.core.quoting import plain
from chainrule.train import folder, naming
from chainrule.train.config import FORMER_SETTINGS


def arrays_of(config: Mapping[str, Any]) -> Mapping[str, str]:
    """The former names of arrays that apply to the run of a config; none for a class of the user's own."""
    name = config["model"]["name"]
    return models.entry(name).former_arrays if name in models.names() else {}


def config(stored: dict[str, Any]) -> dict[str, Any]:
    """What a config.yaml holds, under present names."""
    stored = {**stored, "data": load_call(stored["data"])}
    name = stored["model"]["name"]
    if name not in models.names():
        return stored
    model = dict(stored["model"])
    model["settings"] = settings(model["settings"], models.entry(name).former_settings)
    became = models.entry(name).became
    if became is not None and (present := became(model["settings"])) is not None:
        model["name"], model["settings"] = present[0], dict(present[1])
    table = arrays_of({"model": model})
    origin = model.get("from")
    if isinstance(origin, dict) and isinstance(origin.get("fresh"), list):
        model["from"] = {**origin, "fresh": _patterns(origin["fresh"], table)}
    train = settings(stored["train"], FORMER_SETTINGS)
    if isinstance(train.get("freeze"), list):
        train["freeze"] = _patterns(train["freeze"], table)
    if isinstance(train.get("groups"), dict):
        train["groups"] = {array(pattern, table): value for pattern, value in train["groups"].items()}
    return {**stored, "model": model, "train": train}


def check_goes_on(run: Path) -> None:
    """Refuse to go on with a run whose model is another one today: its losses so far would not be comparable."""
    stored = folder.read_config(run)
    old, new = stored["model"]["name"], config(stored)["model"]["name"]
    if old != new:
        raise CapabilityError(
            f"{run.name} is a {old} of an earlier version, which is the model {new} today, with another loss",
            remedy="it opens and can be judged as it is; to train on, begin a new run with it:\n"
            f"chainrule train from={naming.handle(run)}",
        )


def load_call(stored: Any) -> Any:
    """The call that loaded data, as it is written today.

    Tables were once read without percent, currencies, decimal commas, dates and numbers as names, and image files that
    have to be converted were bad files. The ring was called after what it is made of.
    """
    if not isinstance(stored, dict):
        return stored
    if stored.get("name_or_path") == "eight-gaussians":
        stored = {**stored, "name_or_path": "ring"}
    tables = {"notation": "plain"} if "drop" in stored else {}
    images = (
        {"convert": False} if "size" in stored and "n" not in stored else {}
    )  # what is generated has a number
    return {**tables, **images, **stored}


def settings(stored: Mapping[str, Any], table: Mapping[str, str]) -> dict[str, Any]:
    """Nested settings with those under a former dotted name moved to the present one.

    >>> settings({"net": {"dropping": 0.1, "width": 8}}, {"net.dropping": "net.condition_dropout"})
    {'net': {'width': 8, 'condition_dropout': 0.1}}
    """
    renamed = _copied(stored)
    for old, new in table.items():
        *groups, leaf = old.split(".")
        group = _group(renamed, groups, make=False)
        *wanted, name = new.split(".")
        if group is None or leaf not in group:
            continue
        target = _group(renamed, wanted, make=True)
        if target is not None and name not in target:  # given twice: the schema refuses the former name
            target[name] = group.pop(leaf)
    return renamed


def array(name: str, table: Mapping[str, str]) -> str:
    """The present name of an array: former segments are replaced wherever in the name they stand.

    They stand behind `model.` and `ema.`, and behind the fields of an optimiser's state. `*` is any one segment.

    >>> array("optimizers.model.2.mu.denoiser.nobody", {"denoiser.nobody": "denoiser.null_embedding"})
    'optimizers.model.2.mu.denoiser.null_embedding'
    >>> array("model.blocks.3.inner.weight", {"blocks.*.inner": "layers.*.network"})
    'model.layers.3.network.weight'
    """
    path = name.split(".")
    for old, new in table.items():
        former, present = old.split("."), new.split(".") if new else []
        start = 0
        while start + len(former) <= len(path):
            found = path[start : start + len(former)]
            if all(want in ("*", part) for want, part in zip(former, found, strict=True)):
                free = iter([part for want, part in zip(former, found, strict=True) if want == "*"])
                put = [next(free) if part == "*" else part for part in present]
                path[start : start + len(former)] = put
                start += len(put)
            else:
                start += 1
    return ".".join(path)


def _patterns(stored: list[Any], table: Mapping[str, str]) -> list[Any]:
    return [array(one, table) if isinstance(one, str) else one for one in stored]


def _copied(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _copied(value) if isinstance(value, dict) else value for name, value in values.items()}


def _group(values: dict[str, Any], path: list[str], *, make: bool) -> dict[str, Any] | None:
    """The nested dictionary at a path; `None` where there is none, or something else is in the way."""
    for name in path:
        if make:
            values.setdefault(name, {})
        below = values.get(name)
        if not isinstance(below, dict):
            return None
        values = below
    return values


def warn_if_newer(run: str, config: Mapping[str, Any]) -> None:
    """Say that a run comes from a version that may know more than this one."""
    written = str(config.get("chainrule", ""))
    if newer(written, __version__):
        warnings.warn(
            f"{run} was written by Chainrule {plain(written, 20)}, which is newer than this one ({__version__}): what "
            "it holds may mean something else here",
            ChainruleWarning,
            stacklevel=3,
        )


def newer(theirs: str, ours: str) -> bool:
    """Whether a version is newer than another; what is no version is not.

    >>> newer("2.0.0", "1.9.3"), newer("1.9.3", "1.9.3"), newer("", "1.0"), newer("1.10", "1.9")
    (True, False, False, True)
    """
    numbers = [[int(part) for part in re.findall(r"[0-9]{1,9}", version)] for version in (theirs, ours)]
    return numbers[0] > numbers[1]


__all__ = ["array", "arrays_of", "check_goes_on", "config", "load_call", "newer", "settings", "warn_if_newer"]
