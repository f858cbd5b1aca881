"""Validation errors of settings in plain sentences."""

from collections.abc import Mapping
from types import MappingProxyType

import pydantic

from chainrule.core.errors import ArgumentError, suggest


def explain(
    error: pydantic.ValidationError,
    schema: type[pydantic.BaseModel],
    remedy: str,
    *,
    prefix: str = "",
    former: Mapping[str, str] = MappingProxyType({}),
) -> ArgumentError:
    """A validation error in one plain sentence, with the closest setting or choice for a misspelt one.

    `prefix` is what stands before the names of these settings where the user writes them; `former` holds the present
    names of settings that were once called something else.
    """
    first = error.errors()[0]
    where = prefix + _setting(first["loc"], schema)
    if first["type"] == "extra_forbidden":
        hint = _closest(where, [prefix + name for name in setting_names(schema)])
        if (present := former.get(where.removeprefix(prefix))) is not None:
            hint = f" (did you mean {prefix + present!r}?)"
        return ArgumentError(f"unknown setting {where!r}{hint}", remedy=remedy)
    hint = ""
    if first["type"] == "literal_error":
        hint = suggest(str(first["input"]), [part.strip("'") for part in _words(first["ctx"]["expected"])])
    message = _sentence(first["msg"].removeprefix("Value error, "))
    # Of a setting that is a number or a word, each has an error of its own.
    words = [one for one in error.errors()[1:] if one["type"] == "literal_error"]
    if words and prefix + _setting(words[0]["loc"], schema) == where:
        message = f"{message}, or {words[0]['ctx']['expected']}"
    return ArgumentError(f"{where}={first['input']!r}: {message}{hint}", remedy=remedy)


def _setting(loc: tuple[int | str, ...], schema: type[pydantic.BaseModel]) -> str:
    """The name of a setting from where an error is, without the kind of value that was tried there."""
    known = set(setting_names(schema))
    names = [".".join(map(str, loc[:count])) for count in range(len(loc) + 1)]
    longest = max((count for count, name in enumerate(names) if name in known), default=len(loc))
    entries = [
        str(part) for part in loc[longest:] if isinstance(part, int)
    ]  # of a setting with several values
    return ".".join([names[longest], *entries])


def setting_names(schema: type[pydantic.BaseModel]) -> list[str]:
    """Every setting of a schema; those of a nested schema with a dot.

    >>> from chainrule import models
    >>> setting_names(models.entry("mlp").config)[:2]
    ['depth', 'width']
    """
    found = []
    for name, field in schema.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, pydantic.BaseModel):
            found += [f"{name}.{below}" for below in setting_names(kind)]
        else:
            found.append(name)
    return found


def _closest(name: str, known: list[str]) -> str:
    group, _, leaf = name.rpartition(".")
    if name in known:  # written flat, as on the command line
        return f" (in Python: {group}={{{leaf!r}: ...}})"
    # A right name in the wrong place (lr for optimizer.lr) is likelier than a misspelt one.
    same = [one for one in known if one.rpartition(".")[2] == leaf]
    return f" (did you mean {' or '.join(map(repr, same))}?)" if same else suggest(name, known)


def _words(listing: str) -> list[str]:
    """The members of pydantic's "'a', 'b' or 'c'"."""
    return [word for part in listing.split(", ") for word in part.split(" or ")]


def _sentence(message: str) -> str:
    first = message.split(" ")[0]
    return message if any(letter.isupper() for letter in first[1:]) else message[0].lower() + message[1:]


__all__ = ["explain", "setting_names"]
