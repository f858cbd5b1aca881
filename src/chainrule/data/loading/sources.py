"""Sources of data: from a name or a path to a reader.

A name that Chainrule knows always means that data set; a file or folder of the same name is reached as `./name`.
A dash means a text on the standard input.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, final

from chainrule.core.errors import ArgumentError, DataError, suggest
from chainrule.data.generated.captioned_digits import CAPTIONED, CaptionedDigits
from chainrule.data.generated.functions import FUNCTIONS, Wave
from chainrule.data.generated.heads import HEADS, Heads
from chainrule.data.generated.mixes import MIXES, Mixes
from chainrule.data.generated.oscillations import OSCILLATIONS, Oscillation
from chainrule.data.generated.photos import PHOTOS, Photos
from chainrule.data.generated.plays import PLAYS, Plays
from chainrule.data.generated.shapes import SHAPES, Shapes
from chainrule.data.generated.shifted_digits import SHIFTED_DIGITS, TEXTURED, ShiftedDigits
from chainrule.data.generated.shifted_points import SHIFTED_POINTS, GaussianPair, RotatedMoons
from chainrule.data.generated.spoofs import SPOOFED, Spoofs
from chainrule.data.generated.tasks import TASKS, Task
from chainrule.data.generated.toys import TOYS, Toy
from chainrule.data.generated.tunes import TUNES, Tunes
from chainrule.data.loading.bounded import STDIN
from chainrule.data.loading.options import Option, resolve
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.loading.scan import ReadRequest, Scan, SourceReader
from chainrule.data.readers import arrays, cifar, recognise, text
from chainrule.data.readers.table import FORMATS, suffix_of

_EMBEDDED = Path(__file__).parents[1] / "embedded"
_SYSTEM = Path("/usr/share/datasets")
_Made: TypeAlias = (
    Toy
    | RotatedMoons
    | GaussianPair
    | Wave
    | Oscillation
    | Task
    | CaptionedDigits
    | ShiftedDigits
    | Plays
    | Mixes
    | Tunes
    | Shapes
    | Photos
    | Heads
    | Spoofs
)
_MADE: Mapping[str, _Made] = {
    **TOYS,
    **SHIFTED_POINTS,
    **FUNCTIONS,
    **OSCILLATIONS,
    **TASKS,
    **CAPTIONED,
    **SHIFTED_DIGITS,
    **PLAYS,
    **MIXES,
    **TUNES,
    **SHAPES,
    **PHOTOS,
    **HEADS,
    **SPOOFED,
}
_FOUR = [f"{part}-{what}-ubyte.gz" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1")]
_CLOTHES = "T-shirt/top,trouser,pullover,dress,coat,sandal,shirt,sneaker,bag,ankle boot"


@final
@dataclass(frozen=True)
class DataSource:
    """Something that can be read."""

    name: str
    address: str
    """The name, or the absolute path."""
    typed: str
    """The name or path as it was given; empty for data that a command cannot name."""
    reader: SourceReader
    path: Path
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Options that are not the user's to choose."""
    classes: tuple[str, ...] = ()
    """Names for classes that are numbers in the files."""
    note: Problem | None = None
    """What a user must know who asked for something else."""

    @property
    def options(self) -> dict[str, Option]:
        """Options the user can choose."""
        return {name: option for name, option in self.reader.options.items() if name not in self.fixed}

    def resolve(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Every option the user can choose, given or default."""
        return resolve(self.reader.label, self.options, given)

    def scan(self, options: Mapping[str, Any], seed: int) -> Scan:
        """Read everything."""
        try:
            found = self.reader.scan(ReadRequest(self.path, seed, {**options, **self.fixed}))
        except Refused as refused:
            return Scan(0, 0, (refused.problem,))
        return found if self.note is None else replace(found, problems=(*found.problems, self.note))


@final
@dataclass(frozen=True)
class _Downloaded:
    """A well-known data set that is read from where the user has put it."""

    summary: str
    files: tuple[str, ...]
    classes: tuple[str, ...] = ()
    package: str = ""
    """The Debian package that installs it."""
    subset: str = ""
    """The embedded data that stand in for it where it is not on this machine."""


_DOWNLOADED = {
    "mnist": _Downloaded("handwritten digits, 28×28, 60,000 + 10,000", tuple(_FOUR)),
    "fashion-mnist": _Downloaded(
        "pieces of clothing, 28×28, 60,000 + 10,000",
        tuple(_FOUR),
        tuple(_CLOTHES.split(",")),
        "dataset-fashion-mnist",
        "fashion-mnist-subset",
    ),
    "cifar10": _Downloaded("small photographs, 32×32 in colour, 50,000 + 10,000", cifar.FILES),
}


@final
@dataclass(frozen=True)
class KnownSource:
    """A data set that has a name."""

    name: str
    summary: str
    where: str
    """"embedded", "generated", the folder it was found in, or "" if it is not on this machine."""
    options: Mapping[str, Any]
    """Its own options with their defaults."""


def _embedded() -> dict[str, tuple[str, DataSource]]:
    digits = {name: option.default for name, option in arrays.reader.options.items()}
    digits |= {"kind": "image", "levels": 17}
    del digits["binarize"], digits["bits"]
    binary, clothes = "binary-digits", "fashion-mnist-subset"
    shakespeare = {name: option.default for name, option in text.reader.options.items() if option.guard}
    return {
        "digits": (
            "handwritten digits, 8×8 with 17 levels, 1,797",
            DataSource("digits", "digits", "digits", arrays.reader, _EMBEDDED / "digits.npz", digits),
        ),
        binary: (
            "the same digits in black and white",
            DataSource(
                binary,
                binary,
                binary,
                arrays.reader,
                _EMBEDDED / "digits.npz",
                {**digits, "binarize": "threshold", "bits": None},
            ),
        ),
        "shakespeare": (
            "Macbeth and Julius Caesar, speeches only, 204 KB",
            DataSource(
                "shakespeare",
                "shakespeare",
                "shakespeare",
                text.reader,
                _EMBEDDED / "shakespeare.txt",
                shakespeare,
            ),
        ),
        clothes: (
            "pieces of clothing, 28×28, the first 1,000 + 200 of fashion-mnist",
            DataSource(
                clothes,
                clothes,
                clothes,
                recognise(_EMBEDDED / clothes),
                _EMBEDDED / clothes,
                classes=tuple(_CLOTHES.split(",")),
            ),
        ),
    }


def names() -> list[KnownSource]:
    """Every data set that has a name, with where it comes from.

    >>> [known.name for known in names()][:3]
    ['digits', 'binary-digits', 'shakespeare']
    """
    return [
        *(
            KnownSource(name, summary, "embedded", _defaults(s.options))
            for name, (summary, s) in _embedded().items()
        ),
        *(
            KnownSource(name, toy.summary, "generated", _defaults(toy.reader.options))
            for name, toy in _MADE.items()
        ),
        *(
            KnownSource(name, known.summary, str(_folder(name) or ""), {})
            for name, known in _DOWNLOADED.items()
        ),
        *(
            KnownSource(name, made.summary, str(_folder(made.of) or ""), _defaults(made.options))
            for name, made in TEXTURED.items()
        ),
    ]


def find(name_or_path: str | os.PathLike[str]) -> DataSource:
    """The source behind a name or a path.

    >>> find("digit")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: unknown data 'digit' (did you mean 'digits'?)
           names: chainrule data ls; a file or folder of that name does not exist either
    """
    given = os.fspath(name_or_path)
    if given in _MADE:
        return DataSource(given, given, given, _MADE[given].reader, Path(given))
    if given in _embedded():
        return _embedded()[given][1]
    if given in _DOWNLOADED:
        folder = _folder(given)
        if folder is None:
            return _instead(given)
        return DataSource(given, given, given, recognise(folder), folder, classes=_DOWNLOADED[given].classes)
    if given in TEXTURED:
        plain = find(TEXTURED[given].of)
        return DataSource(
            given, given, given, TEXTURED[given].reader(plain.reader), plain.path, classes=plain.classes
        )
    if given == "-":
        return DataSource("stdin", given, given, text.reader, STDIN)
    path = Path(given).expanduser()
    if not path.exists():
        raise _unknown(given, path)
    path = path.resolve()
    ending = suffix_of(path) if path.is_file() else ""
    name = path.name[: -len(ending)] if ending in FORMATS else path.stem if path.is_file() else path.name
    return DataSource(name, str(path), given, recognise(path), path)


def _defaults(options: Mapping[str, Option]) -> dict[str, Any]:
    return {name: option.default for name, option in options.items() if not option.guard}


def _folders() -> list[Path]:
    """Where a downloaded data set is looked for, in this order."""
    own = os.environ.get("CHAINRULE_DATA")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return [*([Path(own)] if own else []), cache / "chainrule", _SYSTEM]


def _folder(name: str) -> Path | None:
    return next((folder / name for folder in _folders() if (folder / name).is_dir()), None)


def _instead(name: str) -> DataSource:
    """What stands in for a data set that is not on this machine, with a note that says so; or an error."""
    known, folders = _DOWNLOADED[name], [folder / name for folder in _folders()]
    lines = [
        f"put {', '.join(known.files)} into {folders[0]}",
        f"looked in: {', '.join(str(p) for p in folders)}",
    ]
    if known.package:
        lines.insert(0, f"Debian, Ubuntu: apt install {known.package}; elsewhere:")
    if not known.subset:
        raise DataError(
            f"{name} is not on this machine, and Chainrule never uses the network", remedy="\n".join(lines)
        )
    found = _embedded()[known.subset][1]
    kind = f"SUBSET: {name} is not on this machine, {known.subset} stands in, and figures differ"
    if known.package:
        kind += f" (apt install {known.package})"
    return replace(found, note=Problem(kind, name, "", "note", "\n".join(lines)))


def _unknown(given: str, path: Path) -> ArgumentError | DataError:
    if path.suffix or path.parent != Path() or given != path.name:
        siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        folder = "" if path.parent.is_dir() else f"there is no folder {path.parent}"
        return DataError(f"{given} does not exist{suggest(path.name, siblings)}", remedy=folder)
    hint = suggest(given, [*_embedded(), *_MADE, *_DOWNLOADED, *TEXTURED])
    remedy = "names: chainrule data ls; a file or folder of that name does not exist either"
    return ArgumentError(f"unknown data {given!r}{hint}", remedy=remedy)


__all__ = ["DataSource", "KnownSource", "find", "names"]
