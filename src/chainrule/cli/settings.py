"""Settings as the command line sees them: their dotted names, how a value is read, how they are shown.

A pydantic schema says which settings exist, of what type, with which default and range. Text becomes a value by that
type alone, never by evaluating it; the schema then checks the value.
"""

import contextlib
import json
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, final, get_args, get_origin

import annotated_types
import pydantic
from pydantic.fields import FieldInfo

from chainrule.core.errors import ArgumentError, suggest

_SEQUENCES = (tuple, list, Sequence)
_BOUNDS = {
    annotated_types.Ge: (">=", "ge"),
    annotated_types.Gt: (">", "gt"),
    annotated_types.Le: ("<=", "le"),
    annotated_types.Lt: ("<", "lt"),
}


@final
@dataclass(frozen=True)
class Setting:
    """One setting of a schema."""

    name: str
    """Dotted, for example `optimizer.lr`."""
    annotation: Any
    default: str
    allowed: str
    description: str
    is_open: bool = False
    """Names below this one are free, for example `parts.critic.lr`."""


def of(schema: type[pydantic.BaseModel], prefix: str = "") -> dict[str, Setting]:
    """Every setting of a schema by its dotted name, nested schemas included."""
    found: dict[str, Setting] = {}
    for key, field in schema.model_fields.items():
        name = f"{prefix}{key}"
        groups = [
            o for o in _options(field.annotation) if isinstance(o, type) and issubclass(o, pydantic.BaseModel)
        ]
        if groups:
            found |= of(groups[0], f"{name}.")
            continue
        default = (
            "required"
            if field.is_required()
            else write(field.get_default(call_default_factory=True, validated_data={}))
        )
        is_open = any((get_origin(o) or o) is dict for o in _options(field.annotation))
        allowed = _allowed(field.annotation, field.metadata)
        found[name] = Setting(name, field.annotation, default, allowed, field.description or "", is_open)
    return found


def find(name: str, known: Mapping[str, Setting]) -> Setting | None:
    """The setting a dotted name belongs to, if any."""
    if name in known:
        return known[name]
    parts = name.split(".")
    above = (".".join(parts[:count]) for count in range(1, len(parts)))
    return next((known[head] for head in above if head in known and known[head].is_open), None)


def yes_or_no(name: str, given: Mapping[str, str]) -> bool:
    """Whether a setting of a command is true; false unless it is given.

    >>> yes_or_no("calibrated", {"calibrated": "true"}), yes_or_no("calibrated", {})
    (True, False)
    """
    text = given.get(name, "false")
    if text not in ("true", "false"):
        raise ArgumentError(f"{name}={text}: {name} must be true or false")
    return text == "true"


def whole_number(name: str, text: str, *, low: int = 1) -> int:
    """The whole number that a setting of a command is.

    >>> whole_number("n", "many")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: n=many: n must be a whole number of at least 1
    """
    if not text.isdecimal() or int(text) < low:
        raise ArgumentError(f"{name}={text}: {name} must be a whole number of at least {low}")
    return int(text)


def unknown(
    name: str, known: Iterable[str], remedy: str, former: Mapping[str, str] = types.MappingProxyType({})
) -> ArgumentError:
    """The error for a setting that does not exist, with the closest one that does.

    `former` holds the present names of settings that were once called something else.

    >>> raise unknown("lr", ["steps", "optimizer.lr"], "settings: chainrule train --help")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: unknown setting 'lr' (did you mean 'optimizer.lr'?)
           settings: chainrule train --help
    """
    if name in former:
        return ArgumentError(f"unknown setting {name!r} (did you mean {former[name]!r}?)", remedy=remedy)
    known = list(known)
    below = [k for k in known if k.startswith(f"{name}.")]
    if below:
        return ArgumentError(f"{name!r} has settings of its own: {', '.join(below)}", remedy=remedy)
    same_leaf = [repr(k) for k in known if k.rpartition(".")[2] == name]
    hint = f" (did you mean {' or '.join(same_leaf)}?)" if same_leaf else suggest(name, known)
    return ArgumentError(f"unknown setting {name!r}{hint}", remedy=remedy)


def read(text: str, annotation: Any) -> Any:
    """Text as a value for a setting of this type; what pydantic reads from text itself is left as text.

    >>> read("0.8,0.1,0.1", tuple[float, ...]), read("none", int | None), read("20", int)
    (['0.8', '0.1', '0.1'], None, '20')
    """
    options = _options(annotation)
    members = {write(m): m for o in options if get_origin(o) is Literal for m in get_args(o)}
    if text in members:
        return members[text]
    if text == "none" and type(None) in options:
        return None
    if dict in [get_origin(o) or o for o in options] or Any in options:
        return guess(text)
    sequences = [o for o in options if (get_origin(o) or o) in _SEQUENCES]
    others = [o for o in options if o is not type(None) and o not in sequences]
    if sequences and ("," in text or not others):
        parts = [part.strip() for part in text.split(",")] if text else []
        kinds = [o for o in get_args(sequences[0]) if o is not Ellipsis] or [Any]
        return [read(part, kinds[min(i, len(kinds) - 1)]) for i, part in enumerate(parts)]
    return text


def guess(text: str) -> Any:
    """Text as the plain value it looks like, for options without a schema.

    >>> guess("20"), guess("1e-4"), guess("true"), guess("none"), guess("0.8,0.2"), guess("ddim")
    (20, 0.0001, True, None, [0.8, 0.2], 'ddim')
    >>> guess('["<user>", "<end,>"]')
    ['<user>', '<end,>']
    """
    if text.startswith("[") and text.endswith("]"):
        with contextlib.suppress(ValueError):  # brackets that hold no JSON are a text
            return json.loads(text)
    if text in (words := {"none": None, "true": True, "false": False}):
        return words[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return [guess(part.strip()) for part in text.split(",")] if "," in text else text


def write(value: Any) -> str:
    """A value the way it is written on the command line; `read` gives it back.

    >>> write(None), write(True), write((0.8, 0.2)), write(1e-3), write("adamw")
    ('none', 'true', '0.8,0.2', '0.001', 'adamw')
    """
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(write(part) for part in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{k}={write(v)}" for k, v in value.items())
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def _options(annotation: Any) -> list[Any]:
    """The members of a union, `Annotated` removed."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        return [option for member in get_args(annotation) for option in _options(member)]
    return [annotation]


def members(annotation: Any) -> list[str]:
    """The values of a setting as they are written, where they can be listed.

    >>> members(Literal["relu", "gelu"]), members(bool | None), members(int)
    (['relu', 'gelu'], ['true', 'false', 'none'], [])
    """
    options = _options(annotation)
    listed = [write(member) for o in options if get_origin(o) is Literal for member in get_args(o)]
    listed += ["true", "false"] if bool in options else []
    return [*listed, *(["none"] if listed and type(None) in options else [])]


def _allowed(annotation: Any, metadata: Sequence[Any]) -> str:
    """What values are accepted, in words."""
    bounds = [(*_BOUNDS[type(m)], m) for m in metadata if type(m) in _BOUNDS]
    span = " and ".join(f"{sign} {getattr(bound, name):g}" for sign, name, bound in bounds)
    kinds = [_kind(option) for option in _options(annotation)]
    return " or ".join(f"{kind} {span}" if span and kind in ("int", "float") else kind for kind in kinds)


def _bounds_of(annotation: Any) -> list[Any]:
    """The range that `Annotated` gives to a member of a sequence."""
    fields = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return [bound for field in fields if isinstance(field, FieldInfo) for bound in field.metadata]


def _kind(option: Any) -> str:
    if get_origin(option) is Literal:
        return ", ".join(write(member) for member in get_args(option))
    if option is bool:
        return "true, false"
    if option is type(None):
        return "none"
    if option is str:
        return "text"
    origin = get_origin(option) or option
    if origin in _SEQUENCES:
        members = [_allowed(o, _bounds_of(o)) for o in get_args(option) if o is not Ellipsis]
        return ",".join(members) + (",..." if Ellipsis in get_args(option) or origin is not tuple else "")
    return "group" if origin is dict else getattr(option, "__name__", str(option))


__all__ = [
    "Setting",
    "find",
    "guess",
    "members",
    "of",
    "read",
    "unknown",
    "whole_number",
    "write",
    "yes_or_no",
]
