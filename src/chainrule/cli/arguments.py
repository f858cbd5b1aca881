"""The words of a command: names, and settings written `key=value`, nested with dots.

Words stay text here. What a value means is decided by the schema of the setting it belongs to (`cli/settings.py`).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, final

from chainrule.core.errors import ArgumentError
from chainrule.core.quoting import shell_word

_KEY = re.compile(r"[A-Za-z_][\w-]*(\.[\w*-]+)*")
_HOW = "settings are written key=value, for example steps=100 or optimizer.lr=3e-4"


@final
@dataclass(frozen=True)
class Words:
    """Words of a command, sorted into plain names and settings."""

    names: tuple[str, ...]
    settings: Mapping[str, str]


def parse(words: Iterable[str | None]) -> Words:
    """Names and settings; of a setting given twice the last counts.

    >>> parse(["mlp", "steps=20", "optimizer.lr=3e-4"])
    Words(names=('mlp',), settings={'steps': '20', 'optimizer.lr': '3e-4'})
    >>> parse(["3=4"])
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: '3=4' is not a setting
           settings are written key=value, for example steps=100 or optimizer.lr=3e-4
    """
    names, settings = [], {}
    for word in words:
        key, equals, value = (word or "").partition("=")
        if equals:
            if not _KEY.fullmatch(key):
                raise ArgumentError(f"{word!r} is not a setting", remedy=_HOW)
            settings[key] = value
        elif word:
            names.append(word)
    return Words(tuple(names), settings)


def take(words: Words, *wanted: str, spare: str = "") -> tuple[str, ...]:
    """The plain names of a command, exactly as many as it wants; one more may have been meant for the setting `spare`.

    >>> take(parse(["digits-mlp-001", "n=4"]), "RUN")
    ('digits-mlp-001',)
    >>> take(parse(["a", "b"]), "RUN")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: unexpected word 'b'
           settings are written key=value, for example steps=100 or optimizer.lr=3e-4
    """
    if len(words.names) < len(wanted):
        missing = " ".join(wanted[len(words.names) :])
        raise ArgumentError(f"missing {missing}", remedy="chainrule VERB --help shows what a verb wants")
    if len(words.names) > len(wanted):
        word = words.names[len(wanted)]
        remedy = f"did you mean {spare}={shell_word(word)}?" if spare else _HOW
        raise ArgumentError(f"unexpected word {word!r}", remedy=remedy)
    return words.names


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted names as nested dictionaries.

    >>> nest({"steps": 20, "optimizer.lr": 0.1, "optimizer.name": "sgd"})
    {'steps': 20, 'optimizer': {'lr': 0.1, 'name': 'sgd'}}
    """
    tree: dict[str, Any] = {}
    for name, value in flat.items():
        *groups, leaf = name.split(".")
        level = tree
        for group in groups:
            level = level.setdefault(group, {})
            if not isinstance(level, dict):
                raise ArgumentError(f"{name}={value}: {group!r} was given a value of its own before")
        if isinstance(level.get(leaf), dict):
            raise ArgumentError(f"{name}={value}: settings below {name!r} were given before")
        level[leaf] = value
    return tree


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries as dotted names; the inverse of `nest`.

    >>> flatten({"steps": 20, "optimizer": {"lr": 0.1}})
    {'steps': 20, 'optimizer.lr': 0.1}
    """
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{prefix}{name}."))
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def of_data(source: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `data.load` as the words of `chainrule train`.

    >>> of_data({"name_or_path": "moons", "n": 100})
    {'data': 'moons', 'data.n': 100}
    """
    return {"data" if name == "name_or_path" else f"data.{name}": value for name, value in source.items()}


__all__ = ["Words", "flatten", "nest", "of_data", "parse", "take"]
