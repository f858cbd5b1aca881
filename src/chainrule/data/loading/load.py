"""`load` and `check`: one scan of the source, then either data ready for training or a report.

Nothing is left out or converted silently: with `bad="error"` a single bad item stops the call and says so, with
`bad="skip"` bad items are left out and listed in `Data.skipped`.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from chainrule.core.errors import ArgumentError, DataError, check_choice
from chainrule.core.quoting import shell_word
from chainrule.data import kinds, targets
from chainrule.data.dataset import Data
from chainrule.data.division import check_shares
from chainrule.data.loading import sources
from chainrule.data.loading.assembly import assemble, schema_of
from chainrule.data.loading.binarize import binarize
from chainrule.data.loading.bits import reduce_bits
from chainrule.data.loading.copies import ANYWHERE, CHOICES, TOGETHER, check_together, noted
from chainrule.data.loading.moments import moments
from chainrule.data.loading.problems import Problem, Refused, ScanReport, group
from chainrule.data.loading.scan import Contents, Scan
from chainrule.data.loading.series import cut
from chainrule.data.text.windows import WINDOW


def load(
    name_or_path: str | os.PathLike[str],
    *,
    seed: int = 0,
    split: Sequence[float] | None = None,
    bad: str = "error",
    copies: str = ANYWHERE,
    **options: Any,
) -> Data:
    """Data from a name (see `names`), a file or a folder, divided into training, validation and test.

    `split` gives the three shares: 80, 10 and 10 % unless said otherwise, 90, 5 and 5 % for text. Classes keep their
    proportions in every split; text is cut into three consecutive pieces; an official test set stays the test set.
    Each split gets at least one example. `seed` decides who goes where, and what generated data look like.

    `bad` says what to do about files or rows that cannot be used: "error" or "skip". `copies` says where examples with
    exactly the same input may be: "anywhere" (held-out ones that training has too are counted in `Data.notes`) or
    "together" in one split; of a source that comes divided, training then does without what is held out. Other options
    belong to the source, for example `window`, `tokenizer` and `vocab` for text, `size`, `bits` and `binarize` for
    images, `target` for tables.

    >>> data = load("digits")
    >>> data.describe()
    '1,797 images of 8×8×1, 10 classes, train 80 % / val 10 % / test 10 %'
    >>> load(**data.source).hash == data.hash
    True
    """
    source = sources.find(name_or_path)
    return load_from(source, seed=seed, split=split, bad=bad, copies=copies, options=options)


def load_from(
    source: sources.DataSource,
    *,
    seed: int,
    split: Sequence[float] | None,
    bad: str,
    copies: str,
    options: Mapping[str, Any],
) -> Data:
    """Data from a source that was found already; the arguments are those of `load`."""
    check_choice("load", "bad", bad, ["error", "skip"])
    check_choice("load", "copies", copies, CHOICES)
    _check_seed(seed)
    shares = None if split is None else check_shares(split)
    resolved = source.resolve(options)
    scan = _examine(source, resolved, seed, copies)
    contents = _accept(scan, source, bad, {**options, "seed": seed})
    if shares is None:
        shares = kinds.of(contents).shares(contents)
    call = {"name_or_path": source.address, "seed": seed, "split": list(shares), "bad": bad}
    for name, option in source.options.items():
        if not option.guard or resolved[name] != option.default:
            call[name] = resolved[name]
    if copies != ANYWHERE:
        call["copies"] = copies
    return assemble(source.name, contents, shares, seed, call, scan.problems)


def check(
    name_or_path: str | os.PathLike[str],
    *,
    seed: int = 0,
    split: Sequence[float] | None = None,
    bad: str = "error",
    copies: str = ANYWHERE,
    **options: Any,
) -> ScanReport:
    """Everything that is wrong with a source, found by the scan that `load` makes; the arguments are those of `load`.

    >>> check("digits").lines()
    ['digits: 1,797 of 1,797 examples can be used']
    """
    check_choice("check", "bad", bad, ["error", "skip"])
    check_choice("check", "copies", copies, CHOICES)
    _check_seed(seed)
    shares = None if split is None else check_shares(split)
    source = sources.find(name_or_path)
    scan = _examine(source, source.resolve(options), seed, copies)
    reading = scan.contents.reading if scan.contents else None
    columns = reading.table() if reading else ()
    found = group((*scan.problems, *_divided(scan.contents, shares, seed, source.name)))
    return ScanReport(source.name, source.reader.unit, scan.total, scan.usable, found, columns, bad)


def _divided(
    contents: Contents | None, shares: Sequence[float] | None, seed: int, where: str
) -> list[Problem]:
    """What keeps examples from being divided into splits, if anything does, and what is to be said of the splits."""
    if contents is None:
        return []
    kind = kinds.of(contents)
    shares = shares or kind.shares(contents)
    try:
        parts = kind.positions(contents, shares, seed)
        if parts is not None:
            return noted(contents, parts, where)
        made = kind.divide(contents, schema_of(contents), shares, seed)
    except DataError as error:
        return [Problem("cannot be divided", where, error.message, "stop", error.remedy)]
    return [*kind.decided(contents, made, where).remarks]


def check_command(call: Mapping[str, Any]) -> str:
    """The command that lists everything odd about data, by the call that loaded them.

    >>> check_command({"name_or_path": "moons", "seed": 0, "n": 50, "split": [0.8, 0.1, 0.1]})
    'chainrule data check moons data.n=50'
    """
    known = sources.find(call["name_or_path"]).options
    usual = {
        **{name: option.default for name, option in known.items()},
        "seed": 0,
        "copies": ANYWHERE,
        "split": [0.8, 0.1, 0.1],
    }
    if "window" in known:
        usual |= {"split": [0.9, 0.05, 0.05], "window": WINDOW}
    changed = {name: call[name] for name, value in usual.items() if call.get(name, value) != value}
    words = (shell_word(f"data.{name}={_written(value)}") for name, value in changed.items())
    return " ".join(["chainrule data check", shell_word(call["name_or_path"]), *words])


def _written(value: Any) -> str:
    """A value of an option as it is typed."""
    if isinstance(value, list | tuple):
        return ",".join(map(_written, value))
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def _check_seed(seed: object) -> None:
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ArgumentError(f"seed={seed!r}: seed must be a whole number of at least 0")


def read_contents(source: sources.DataSource, options: Mapping[str, Any], seed: int, bad: str) -> Contents:
    """The contents of a source as they are, to judge a model by, whether or not anything could be learnt from them."""
    return _accept(_scanned(source, options, seed), source, bad, {**options, "seed": seed}, "scoring")


def _scanned(source: sources.DataSource, options: Mapping[str, Any], seed: int) -> Scan:
    """The scan of a source, its contents as all the options want them."""
    scan = source.scan(options, seed)
    if scan.contents is None:
        return scan
    contents = scan.contents
    try:
        contents = _with_options(contents, {**options, **source.fixed}, seed, source.name)
    except Refused as refused:
        return Scan(scan.total, scan.usable, (*scan.problems, refused.problem))
    if source.classes and len(source.classes) == len(contents.classes):
        contents = replace(contents, classes=source.classes)
    return replace(scan, contents=contents)


def _examine(source: sources.DataSource, options: Mapping[str, Any], seed: int, copies: str) -> Scan:
    """The scan of a source, with what can be said about contents of any format added to it."""
    scan = _scanned(source, options, seed)
    if scan.contents is None:
        return scan
    contents = replace(scan.contents, together=copies == TOGETHER)
    try:
        check_together(contents, source.name)
    except Refused as refused:
        return Scan(scan.total, scan.usable, (*scan.problems, refused.problem))
    without = "to do without classes: data.target=none" if "target" in source.options else ""
    found = [
        *targets.of(contents).problems(contents, source.name, without),
        *_constant(contents, source.name),
    ]
    stopped = any(problem.effect == "stop" for problem in found)
    return Scan(scan.total, scan.usable, (*scan.problems, *found), None if stopped else contents)


def _with_options(contents: Contents, options: Mapping[str, Any], seed: int, where: str) -> Contents:
    """The contents as the options that are common to several formats want them."""
    if options.get("series") is not None:
        contents = cut(contents, options["series"], where)
    if options.get("bits") is not None:
        if options.get("binarize") is not None:
            detail = "zeros and ones have one bit"
            raise Refused(
                "no bits to drop", where, f"bits={options['bits']}: {detail}", "leave data.bits out"
            )
        contents = reduce_bits(contents, options["bits"], where)
    if options.get("binarize") is not None:
        contents = binarize(contents, options["binarize"], seed, where)
    return contents


def _constant(contents: Contents, where: str) -> list[Problem]:
    if contents.standardise is None:
        return []
    rows = np.arange(len(contents.x)) if contents.rows is None else contents.rows
    _, deviation = moments(contents.x, rows)
    constant = np.flatnonzero(contents.standardise & (deviation == 0))
    names = contents.columns or tuple(f"feature {index}" for index in range(len(deviation)))
    return [Problem("constant feature", where, names[index], "note") for index in constant]


def _accept(
    scan: Scan, source: sources.DataSource, bad: str, options: Mapping[str, Any], purpose: str = "training"
) -> Contents:
    """The contents, unless a problem stands in the way; `options` are those that found it."""
    stops = [problem for problem in scan.problems if problem.effect == "stop"]
    faults = [problem for problem in scan.problems if problem.effect == "skip"]
    summary = ""
    if faults:
        first = f"first: {faults[0].where} ({faults[0].reason})"
        summary = f"{len(faults):,} of {scan.total:,} {source.reader.unit} cannot be read; {first}"
    if stops:
        remedy = [stops[0].remedy, *([f"also: {summary}", faults[0].remedy] if faults else [])]
        raise DataError(f"{stops[0].where}: {stops[0].detail}", remedy="\n".join(filter(None, remedy)))
    if faults and bad == "error":
        accept = f"{purpose} would use {scan.usable:,}.   accept: data.bad=skip"
        if source.typed:
            accept += f"   list: {check_command({'name_or_path': source.typed, **options})}"
        raise DataError(summary, remedy="\n".join(filter(None, [accept, faults[0].remedy])))
    assert scan.contents is not None, "a scan without contents names the problem that stopped it"
    return scan.contents


__all__ = ["check", "check_command", "load", "load_from", "read_contents"]
