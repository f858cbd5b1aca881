"""Models out of Python files of the user's own: `nets.py:Net`.

The arguments of the class or function are the settings of the model, except those that the data decide: `inputs` (how
many numbers an example has), `shape` (its shape), `outputs` (how many numbers the target asks for), `schema` (all that
is known of the data) and `key` (what draws the weights). It gives a model, or a network that is wrapped with the usual
loss of the target.

A file is code, and running it is an act of the person who names it. A run records the path, the name and the SHA-256 of
its file. It is run again only while it is the same and this user has named or allowed it on this machine
(`chainrule runs trust RUN`): a run folder that came from elsewhere runs nothing.
"""

import functools
import hashlib
import inspect
import os
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

import equinox as eqx
import pydantic

from chainrule.core import code_files
from chainrule.core.errors import ArgumentError
from chainrule.core.settings import Config
from chainrule.core.types import Key
from chainrule.data import kinds, targets
from chainrule.data.schema import Schema
from chainrule.models.protocol import Entry, Model, NeedsSchema, output_count
from chainrule.models.wrapping.wrapped import wrap

_PLAIN = (bool, int, float, str, type(None))
_FROM_DATA: Mapping[str, Callable[[Schema, Key], Any]] = {
    "inputs": lambda schema, key: schema.dimensions,
    "shape": lambda schema, key: schema.shape,
    "outputs": lambda schema, key: output_count(schema),
    "schema": lambda schema, key: schema,
    "key": lambda schema, key: key,
}


class FromFile(NamedTuple):
    """Where a model comes from, for the run that is trained with it."""

    file: "ModelFile"
    settings: Mapping[str, Any]


@typing.final
@dataclass(frozen=True)
class ModelFile:
    """A class or function in a Python file, and the contents the file has."""

    path: Path
    name: str
    sha256: str

    @classmethod
    def named(cls, target: str) -> "ModelFile":
        """The file a person names, which is thereby allowed to be run."""
        path, name = code_files.named(target, "CLASS", "nets.py:Net")
        found = cls(path.resolve(), name, _sha256(path))
        found.allow()
        return found

    @classmethod
    def recorded(cls, stored: Any, run: str, copy: Path) -> "ModelFile":
        """The file that a run was trained from, if it is the same; `run` is the word that names the run."""
        if not isinstance(stored, dict) or any(
            not isinstance(stored.get(k), str) for k in ("path", "name", "sha256")
        ):
            raise ArgumentError(f"config.yaml of {run} does not say which file its model is in")
        found = cls(Path(stored["path"]), stored["name"], stored["sha256"])
        now = _sha256(found.path) if found.path.is_file() else ""
        if now != found.sha256:
            what = (
                f"has changed since (SHA-256 {now[:12]}, was {found.sha256[:12]})" if now else "is not there"
            )
            raise ArgumentError(
                f"the model of {run} is code from {found.path}, which {what}",
                remedy=f"as it was it is in {copy}: put that back (and keep a copy of yours), or train a new run",
            )
        return found

    def check_allowed(self, to_allow: str) -> None:
        """Raise unless this user has named or allowed these contents on this machine; `to_allow` is how to do so."""
        if self.sha256 not in _allowed():
            raise ArgumentError(
                f"the model of this run is code from {self.path}, which was never named or allowed here",
                remedy=f"look at the file, and if you trust it: {to_allow}",
            )

    def allow(self) -> None:
        """Remember that this user wants these contents to be run on this machine."""
        if self.sha256 in _allowed():
            return
        try:
            _list().parent.mkdir(parents=True, exist_ok=True)
            with _list().open("a", encoding="ascii") as file:
                file.write(f"{self.sha256}\n")
        except OSError as error:
            raise ArgumentError(
                f"{_list()} cannot be written ({error.strerror}): it holds which Python files may be run again",
                remedy="set XDG_STATE_HOME to a folder that can be written",
            ) from None

    def to_json(self) -> dict[str, str]:
        """What a run records."""
        return {"path": str(self.path), "name": self.name, "sha256": self.sha256}

    def entry(self) -> Entry:
        """The model as if it were registered; this runs the file, once: its classes are then the same everywhere."""
        return _entry(self)


@functools.cache
def _entry(file: ModelFile) -> Entry:
    made = code_files.member(file.path, file.name)
    title = f"{file.path.name}:{file.name}"
    return Entry(
        name=title,
        summary=(inspect.getdoc(made) or "A model of your own.").splitlines()[0],
        config=_settings(made, title),
        build=lambda config, schema, key: _built(made, title, config, schema, key),
        kinds=kinds.names(),
        targets=targets.names(),
        data="",
        toy={},
        toy_data="",
        citation="",
    )


def _built(made: Callable[..., Any], title: str, config: Config, schema: Schema, key: Key) -> Model:
    wanted = inspect.signature(made).parameters
    given = {name: value(schema, key) for name, value in _FROM_DATA.items() if name in wanted}
    found = made(**given, **config.model_dump())
    if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], eqx.nn.State):
        found = wrap(found[0], state=found[1])
    if not isinstance(found, Model):
        if not isinstance(found, eqx.Module):
            raise ArgumentError(
                f"{title} gives a {type(found).__name__}", remedy="it must give an equinox.Module or a model"
            )
        found = wrap(found)
    return found.bound(schema) if isinstance(found, NeedsSchema) else found


def _settings(made: Callable[..., Any], title: str) -> type[Config]:
    """The arguments of a class or function as a schema of settings."""
    try:
        hints = typing.get_type_hints(vars(made).get("__init__", made) if isinstance(made, type) else made)
    except (NameError, TypeError):  # annotations that mean nothing at run time
        hints = {}
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(made).parameters.items():
        if name in _FROM_DATA or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        default = parameter.default
        required = default is parameter.empty
        kind = hints.get(name, Any if required else type(default))
        if _is_plain(kind):
            fields[name] = (kind, ... if required else default)
        elif required:
            raise ArgumentError(
                f"{title}: argument {name!r} can be no setting",
                remedy="give it a default, or a type: int, float, bool, str or a tuple of these; from the data come "
                + ", ".join(_FROM_DATA),
            )
    schema: type[Config] = pydantic.create_model("Settings", __base__=Config, **fields)
    return schema


def _is_plain(kind: Any) -> bool:
    """Whether values of a type can be written on a command line and in a YAML file."""
    origin = get_origin(kind)
    if origin is Literal:
        return True
    if origin in (tuple, list, typing.Union, types.UnionType):
        return all(one is Ellipsis or _is_plain(one) for one in get_args(kind))
    return kind in _PLAIN


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ArgumentError(f"{path} cannot be read: {error.strerror}") from None


def _list() -> Path:
    """The file with the hashes of all Python files that may be run."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "chainrule" / "allowed-code"


def _allowed() -> set[str]:
    try:
        return set(_list().read_text(encoding="ascii").split())
    except (FileNotFoundError, NotADirectoryError):
        return set()
    except (OSError, ValueError) as error:
        raise ArgumentError(f"{_list()} cannot be read: {error}", remedy="remove it") from None


__all__ = ["FromFile", "ModelFile"]
