"""Folders of sound: recordings cut into examples of equal length, or tracks whose sources lie in files of their own.

A folder of tracks has a folder for each, with files of the same names in all of them (`song/voice.wav`,
`song/drums.wav`): their sum is the mixture that a model is given, and they are what it is to find. A file called
`mixture` beside them is not used. In any other folder every file is a recording by itself. All pieces of a recording
are in one split, so that a model is never judged by what it has heard; fewer than three are cut in time instead.
"""

import math
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float

from chainrule.data.loading.options import MAX_BYTES, MAX_RATIO, Option, flag, guard, optional, whole
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.loading.scan import Contents, ReadRequest, Scan, SourceReader
from chainrule.data.loading.walking import LINKS, files_of
from chainrule.data.readers.images import divided
from chainrule.data.readers.waveforms import SUFFIXES, SoundRecording, read

LENGTH = 2048
"""Samples of an example of plain sound."""
MIX_LENGTH = 16_384
"""Samples of an example that is to be separated."""
_MIXTURES = ("mixture", "mix")
_HERTZ = (1, 2**20)
_STEEPEST = 2**20
"""The larger number of the shortest ratio of two rates; the filter between them has twenty times as many entries."""


def _sources(value: Any) -> list[str]:
    names = [value] if isinstance(value, str) else value
    words = isinstance(names, list | tuple) and all(isinstance(one, str) and one for one in names)
    if not words or len(set(names)) != len(names) or (len(names) < 2 and list(names) != ["none"]):
        raise ValueError("names of two or more files in the folder of a track, or none")
    return list(names)


REMIX = Option(True, flag, "whether training mixes sources with those of other examples, louder and softer")
OPTIONS = {
    "length": Option(
        None,
        optional(whole(16, 2**26)),
        f"samples in an example; unless given {LENGTH:,}, and {MIX_LENGTH:,} where there are sources",
    ),
    "rate": Option(
        None, optional(whole(*_HERTZ)), "samples a second: recordings with others are brought to it"
    ),
    "channels": Option(
        None, optional(whole(1, 2)), "1 or 2: recordings with another number are mixed down or repeated"
    ),
    "sources": Option(
        None,
        optional(_sources),
        "files of a track that are its sources, by their names; unless given those that all tracks have, none: each "
        "file is a recording by itself",
    ),
    "remix": REMIX,
    "max_files": guard(1_000_000, "most files in a folder"),
    "max_bytes": MAX_BYTES,
    "max_ratio": MAX_RATIO,
    "links": LINKS,
}


def has_sound(folder: Path) -> bool:
    """Whether a folder holds sound files at any depth."""
    return any(
        name.lower().endswith(SUFFIXES)
        for _, _, names in os.walk(folder, followlinks=False)
        for name in names
    )


class _Track(NamedTuple):
    """Files that belong together: one for each source, or a single recording."""

    name: str
    part: int | None
    files: dict[str, Path]


@final
@dataclass
class _Gathered:
    """Tracks that were read, and what is wrong with others."""

    request: ReadRequest
    problems: list[Problem] = field(default_factory=list)
    left: int = 0

    def recordings(self, track: _Track) -> list[SoundRecording] | None:
        """The sources of a track, as the options want them; none if one cannot be read."""
        found = []
        options = self.request.options
        for file in track.files.values():
            where = self.request.shown(file)
            try:
                one = read(file, where, options["max_bytes"], options["max_ratio"])
                found.append(self._wanted(one, where))
            except Refused as refused:
                if refused.problem.kind in ("too large", "needs soundfile"):
                    raise
                self.problems.append(replace(refused.problem, where=where, effect="skip"))
                return None
        return found

    def _wanted(self, one: SoundRecording, where: str) -> SoundRecording:
        rate, channels = self.request.options["rate"], self.request.options["channels"]
        if clipped := one.clipped:
            detail = f"{clipped:,} places where the sound stands at its limit"
            self.problems.append(Problem("clipped", where, detail, "note"))
        if rate is not None and rate != one.rate:
            # Before anything is made: a file may declare any rate.
            self._held(one.x.nbytes * rate // one.rate)
            if max(rate, one.rate) // math.gcd(rate, one.rate) > _STEEPEST:
                detail = f"{one.rate:,} samples a second have no ratio to {rate:,} that a filter could follow"
                raise Refused("strange rate", where, detail)
            moved = one.at(rate)
            over = (
                f"; {moved.beyond:,} samples that came out beyond 1 are cut off there" if moved.beyond else ""
            )
            detail = f"from {one.rate:,} to {rate:,} a second{over}"
            self.problems.append(Problem("resampled", where, detail, "note"))
            one = moved.within()
        if channels is not None and channels != one.x.shape[1]:
            made = f"{one.x.shape[1]} to {channels}"
            self.problems.append(Problem("channels changed", where, f"from {made}", "note"))
            one = one.in_channels(channels)
        self._held(one.x.nbytes)
        self.left -= one.x.nbytes
        return one

    def _held(self, size: int) -> None:
        """Raise where so many bytes more are too many."""
        if size > self.left:
            most = self.request.options["max_bytes"]
            remedy = f"a lower data.rate, or, with enough memory: data.max_bytes={4 * most}"
            raise Refused(
                "too large", self.request.path.name, f"more than max_bytes={most:,} of sound", remedy
            )


def _scan(request: ReadRequest) -> Scan:
    options = request.options
    every = files_of(request.path, options["max_files"], options["links"])
    files = [file for file in every if file.suffix.lower() in SUFFIXES]
    names, tracks, problems = _tracks(request, files)
    gathered = _Gathered(request, problems, options["max_bytes"])
    read = [(track, found) for track in tracks if (found := gathered.recordings(track)) is not None]
    read = _alike(read, gathered.problems)
    total = len(tracks) + sum(problem.effect == "skip" for problem in problems if problem.kind == "no source")
    length = options["length"] or (MIX_LENGTH if names else LENGTH)
    pieces, parts, groups = [], [], []
    usable = 0
    for track, found in read:
        sources = _together(request, track, found, gathered.problems)
        if sources is None:
            continue
        cut = _cut(sources, length, track.name, gathered.problems)
        pieces.append(cut)
        groups += [usable] * len(cut)
        parts += [track.part] * len(cut)
        usable += 1
    if not pieces:
        stop = Problem(
            "empty", request.path.name, "no sound is left", "stop", "chainrule data check lists why"
        )
        return Scan(total, 0, (*gathered.problems, stop))
    stacked = np.concatenate(pieces)
    contents = Contents(
        "audio",
        stacked.sum(axis=1),
        stacked if names else None,
        "sources" if names else "none",
        classes=tuple(names),
        rate=read[0][1][0].rate,
        groups=np.array(groups),
        remix=options["remix"],
        parts=np.array(parts) if None not in parts and len(set(parts)) > 1 else None,
    )
    return Scan(total, usable, tuple(gathered.problems), contents)


def _tracks(request: ReadRequest, files: Sequence[Path]) -> tuple[list[str], list[_Track], list[Problem]]:
    """The names of the sources, the tracks that have all of them, and those that do not."""
    asked, problems = request.options["sources"], []
    locations = divided(request.path, files)
    folders: dict[Path, dict[str, Path]] = {}
    for file, (_, below) in zip(files, locations, strict=True):
        if below:
            folders.setdefault(file.parent, {})[file.stem] = file
    names = _common(folders, len(files)) if asked is None else [] if asked == ["none"] else asked
    part_of = dict(zip(files, (part for part, _ in locations), strict=True))
    if not names:
        return [], [_Track(request.shown(one), part_of[one], {"": one}) for one in files], []
    found = []
    for folder, own in folders.items():
        lacking = [name for name in names if name not in own]
        if lacking:
            detail = f"the track has no {' and no '.join(lacking)}"
            problems.append(Problem("no source", request.shown(folder), detail))
            continue
        chosen = {name: own[name] for name in names}
        found.append(_Track(request.shown(folder), part_of[own[names[0]]], chosen))
    return names, found, problems


def _common(folders: dict[Path, dict[str, Path]], files: int) -> list[str]:
    """Names that files have in more than half of the folders, where these hold all the files; none: no tracks."""
    if len(folders) < 2 or sum(map(len, folders.values())) < files:
        return []
    counted = Counter(name for own in folders.values() for name in own)
    names = sorted(
        name for name, count in counted.items() if 2 * count > len(folders) and name not in _MIXTURES
    )
    return names if len(names) > 1 else []


def _alike(
    read: list[tuple[_Track, list[SoundRecording]]], problems: list[Problem]
) -> list[tuple[_Track, list[SoundRecording]]]:
    """Tracks that have the rate and channels that most have; the others are named, with what would bring them in."""
    forms = Counter((one.rate, one.x.shape[1]) for _, found in read for one in found)
    if not forms:
        return read
    rate, channels = forms.most_common(1)[0][0]
    kept = []
    for track, found in read:
        other = next((one for one in found if (one.rate, one.x.shape[1]) != (rate, channels)), None)
        if other is None:
            kept.append((track, found))
        elif other.rate != rate:
            detail = f"{other.rate:,} samples a second, most have {rate:,}"
            remedy = f"to bring all to one rate: data.rate={rate}"
            problems.append(Problem("another rate", track.name, detail, remedy=remedy))
        else:
            detail = f"{_spoken(other.x.shape[1])}, most are {_spoken(channels)}"
            problems.append(
                Problem(
                    "other channels", track.name, detail, remedy="to mix all down to one: data.channels=1"
                )
            )
    return kept


def _spoken(channels: int) -> str:
    return {1: "mono", 2: "stereo"}.get(channels, f"{channels} channels")


def _together(
    request: ReadRequest, track: _Track, found: Sequence[SoundRecording], problems: list[Problem]
) -> Float[np.ndarray, "sources samples channels"] | None:
    """The sources of a track side by side; nothing where there is nothing to hear."""
    for (name, file), one in zip(track.files.items(), found, strict=True):
        if one.silent and name:
            problems.append(Problem("silent source", request.shown(file), "nothing is to be heard", "note"))
    if all(one.silent for one in found):
        problems.append(Problem("silent", track.name, "nothing is to be heard in it"))
        return None
    shortest, longest = (choose(len(one.x) for one in found) for choose in (min, max))
    if shortest != longest:
        detail = f"sources of {shortest:,} to {longest:,} samples, cut to the shortest"
        problems.append(Problem("different lengths", track.name, detail, "note"))
    return np.stack([one.x[:shortest] for one in found])


def _cut(
    sources: Float[np.ndarray, "sources samples channels"], length: int, where: str, problems: list[Problem]
) -> Float[np.ndarray, "pieces sources length channels"]:
    """Pieces one after the other; a rest is left out, and what is shorter than a piece gets silence after it."""
    samples = sources.shape[1]
    if samples < length:
        problems.append(
            Problem("short", where, f"{samples:,} samples, filled up with silence to {length:,}", "note")
        )
        return np.pad(sources, ((0, 0), (0, length - samples), (0, 0)))[None]
    count = samples // length
    whole = sources[:, : count * length].reshape(len(sources), count, length, -1)
    return np.swapaxes(whole, 0, 1)


reader = SourceReader("sound", "recordings", OPTIONS, _scan)

__all__ = ["LENGTH", "MIX_LENGTH", "REMIX", "has_sound", "reader"]
