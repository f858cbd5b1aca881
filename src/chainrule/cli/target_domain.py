"""Another domain on the command line: `target=DATA`, its options `target.OPTION=`, and how many targets it gives."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from chainrule.cli import settings
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, ChainruleError
from chainrule.data.dataset import Data
from chainrule.data.domains import with_target
from chainrule.data.loading.load import load
from chainrule.data.loading.options import COMMON
from chainrule.data.loading.sources import DataSource, find
from chainrule.data.matching_classes import LabelMap
from chainrule.models.protocol import Entry

PREFIX = "target."
WORDS = {
    "target": "another domain to adapt to, a data set or a path; its examples are seen without their targets",
    "label_map": "with target=: its classes by the names of the first domain, THEIRS:OURS with commas between, or "
    "names where they differ by case only",
    "target_labels": "with target=: how many of its training examples keep their targets; 0 unless given",
    "baselines": "with target=: false leaves out the trainings that tell afterwards whether adaptation helped",
}


@final
@dataclass(frozen=True)
class TargetDomain:
    """The other domain of a training."""

    data: Mapping[str, Any]
    """Arguments of `data.load`."""
    labels: int = 0
    label_map: LabelMap | None = None
    baselines: bool = True
    """Whether the run is compared with what there would be without adaptation."""

    def beside(self, data: Data) -> Data:
        """The data with those of the other domain beside them."""
        return with_target(data, load(**self.data), labels=self.labels, label_map=self.label_map)


def target_of(
    given: Mapping[str, str], recipe: Mapping[str, Any], entry: Entry, *, default_data: bool
) -> TargetDomain | None:
    """The other domain that words name, that of a recipe, or the one a model is tried on with its own data.

    A model's own setting of this name comes first.
    """
    stored = recipe.get("target") or {}
    hidden = settings.find("target", settings.of(entry.config)) is not None
    given = {name: text for name, text in given.items() if not (hidden and name == "target")}
    if given.get("target") == "":
        raise ArgumentError("target= needs a value", remedy=f"target: {WORDS['target']}")
    if "target" in given:
        source = {"name_or_path": given["target"]}
    elif stored:
        source = dict(stored["data"])
    elif entry.target_data and default_data:
        source = {"name_or_path": entry.target_data}
    else:
        for name in given:
            if name in WORDS or name.startswith(PREFIX):
                raise ArgumentError(
                    f"{name}={given[name]}: there is no other domain", remedy="name it: target=DATA"
                )
        if entry.target_data:
            raise ArgumentError(
                f"{entry.name} learns from two domains", remedy="name the other one: target=FILE-OR-NAME"
            )
        return None
    known = [*COMMON, *_found(source["name_or_path"], entry).options]
    for name, text in given.items():
        if name.startswith(PREFIX):
            option = name.removeprefix(PREFIX)
            if option not in known:
                words = [f"{PREFIX}{one}" for one in known]
                raise settings.unknown(
                    name, words, f"options of {source['name_or_path']}: {', '.join(known)}", {}
                )
            source[option] = settings.guess(text)
    labels = stored.get("labels", 0)
    if "target_labels" in given:
        labels = whole("train", "target_labels", settings.guess(given["target_labels"]), 0)
    names = _label_map(given["label_map"]) if "label_map" in given else stored.get("label_map")
    return TargetDomain(
        source, labels, names, settings.yes_or_no("baselines", {"baselines": "true", **given})
    )


def _found(name: str, entry: Entry) -> DataSource:
    """The source of another domain; the name of a column is told from that of data."""
    try:
        return find(name)
    except ChainruleError as error:
        if entry.target_data:  # a model that learns from two domains
            raise
        raise ArgumentError(
            f"target={name}: {error.message}",
            remedy=f"target= names another domain; a column that is to be predicted is data.target={name}",
        ) from None


def _label_map(text: str) -> LabelMap:
    """Names of classes to those of the first domain, from THEIRS:OURS,THEIRS:OURS or from the word `names`.

    >>> _label_map("Dog:dog, Hound:dog")
    {'Dog': 'dog', 'Hound': 'dog'}
    """
    if text == "names":
        return "names"
    pairs = {}
    for pair in text.split(","):
        theirs, colon, ours = (part.strip() for part in pair.rpartition(":"))
        if not (theirs and colon and ours):
            raise ArgumentError(
                f"label_map={text}: {pair.strip()!r} is no pair of classes",
                remedy="label_map=THEIRS:OURS,THEIRS:OURS, or label_map=names where they differ by case only",
            )
        pairs[theirs] = ours
    return pairs


__all__ = ["PREFIX", "WORDS", "TargetDomain", "target_of"]
