"""Settings of published image classifiers: what files beside the weights say, what the arrays tell, what is assumed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.models.interchange import weight_files
from chainrule.models.protocol import Entry
from chainrule.models.protocol.config_files import agree


class PublishedSettings(NamedTuple):
    """The settings of the model in a file, and where they come from."""

    settings: Mapping[str, Any]
    """All of them, those that were given among them."""
    said: Mapping[str, Any]
    """Those that files beside the weights say."""
    assumed: Mapping[str, Any]
    """Those that matter and that nothing says."""


def read(entry: Entry, file: str | Path, given: Mapping[str, Any]) -> PublishedSettings:
    """The settings of the model in a file or folder; `given` say what nothing else does, or contradict nothing."""
    if entry.published is None:
        raise CapabilityError(
            f"{entry.name} cannot be sized by a file of weights", remedy="build it, then use import_weights"
        )
    shapes = weight_files.shapes(file)
    from_shapes = dict(entry.published(shapes))
    config = None if entry.described is None else weight_files.config(file)
    said: dict[str, Any] = {}
    if config is not None and entry.described is not None:
        said = dict(entry.described(config, weight_files.preprocessor(file), shapes))
        # How images are brought to the network is the user's choice; the network itself is what it was trained as.
        free = ("pixels", "size")
        firm = {name: value for name, value in given.items() if name not in free}
        agree(firm, "what you gave", said, "config.json")
    settings = {**from_shapes, **said, **given}
    lacking = [name for name in entry.untold if name not in settings]
    if lacking:
        raise ArgumentError(
            f"{Path(file).name}: nothing beside the weights says {', '.join(lacking)}, and their shapes do not tell it",
            remedy=f"say it: {lacking[0]}=NUMBER, as the model was trained; or take the folder with its config.json",
        )
    known = {**said, **given}
    assumed = {name: settings[name] for name in entry.untold if name not in known}
    return PublishedSettings(settings, said, assumed)


__all__ = ["PublishedSettings", "read"]
