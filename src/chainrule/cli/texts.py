"""Texts that `chainrule sample` draws: shown while one is being written, or when several are complete."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from chainrule.core.types import Key
    from chainrule.models.protocol import CanContinue, CanSearch, Hypothesis
    from chainrule.train import Run

_BETWEEN = f"\n{'-' * 20}\n"


class AskedTexts(NamedTuple):
    """What the texts are to be."""

    prompts: Sequence[str] | None
    """Those of a file, if there is one."""
    options: dict[str, Any]
    """Of the model's own, its single prompt among them."""
    condition: Any = None


class DrawnTexts(NamedTuple):
    """Texts, and what else machines are told of them."""

    texts: list[str]
    more: Mapping[str, Any] = MappingProxyType({})


def writes(run: "Run") -> bool:
    """Whether a run writes on from a text."""
    from chainrule.data import kinds
    from chainrule.models.protocol import CanContinue

    return isinstance(run.model, CanContinue) and kinds.of(run.schema).has_tokens


def prompts_of(given: dict[str, str]) -> list[str] | None:
    """The prompts in the file of `prompts=`, one on every line that is not empty; it is taken out of the settings."""
    from chainrule.core.errors import ArgumentError, DataError
    from chainrule.data.loading.problems import Refused
    from chainrule.data.readers.text import clean

    if "prompts" not in given:
        return None
    if "prompt" in given:
        raise ArgumentError("prompt and prompts: texts go on from one of them", remedy="leave one out")
    path = Path(given.pop("prompts")).expanduser()
    if not path.is_file():
        raise DataError(
            f"prompts={path}: there is no such file", remedy="give a text file, a prompt on every line"
        )
    try:
        text, bad, _ = clean(path.read_bytes(), path.name)
    except Refused as refused:
        raise DataError(f"{path}: {refused.problem.detail}", remedy=refused.problem.remedy) from None
    if bad:
        first = next(iter(bad.values()))
        raise DataError(f"{first.where}: {first.reason}", remedy=first.remedy)
    found = [line for line in text.splitlines() if line.strip()]
    if not found:
        raise DataError(f"{path}: there is no prompt in it", remedy="give one on every line")
    return found


def draw(run: "Run", key: "Key", n: int, asked: AskedTexts, *, json: bool) -> DrawnTexts:
    """`n` texts for each prompt, and shown unless a machine reads them."""
    from chainrule.cli.output import show
    from chainrule.core.errors import ArgumentError
    from chainrule.data.kinds.text import samples
    from chainrule.models.protocol import CanContinue, CanSample, CanSearch, CanTranslate, option_fields

    options, model = asked.options, run.model
    more: dict[str, Any] = {}
    if not json:
        _note_names(run, asked)
    if asked.prompts is None and writes(run) and n == 1 and "beams" not in options:
        assert isinstance(model, CanContinue), "it writes on"
        return DrawnTexts([_streamed(model, key, options, json)])
    if asked.prompts is None and isinstance(model, CanSearch) and "beams" in options:
        found = _searched(model, key, n, options)
        texts = [options.get("prompt", "") + one.text for one in found[:n]]
        more = {"hypotheses": [one._asdict() for one in found]}
    else:
        if asked.prompts is not None:
            if isinstance(model, CanSample) and "prompt" not in option_fields(model.sample_options()):
                raise ArgumentError(f"prompts: {run.id} goes on from no prompt", remedy="leave prompts out")
            options = {**options, "prompt": [prompt for prompt in asked.prompts for _ in range(n)]}
            n *= len(asked.prompts)
        texts = samples(run.schema, run.sample(n, key=key, condition=asked.condition, **options))
    if not json:
        show(("\n" if isinstance(model, CanTranslate) else _BETWEEN).join(texts) + "\n")
    return DrawnTexts(texts, {"texts": texts, **more})


def _note_names(run: "Run", asked: AskedTexts) -> None:
    """Say where a prompt holds the name of a special token, which is text unless it is allowed to be more."""
    from chainrule.cli.output import say
    from chainrule.core.quoting import plain
    from chainrule.data.text import tokenizers

    prompts = [asked.options.get("prompt", "")] if asked.prompts is None else asked.prompts
    special = tokenizers.of(run.schema).special
    if not asked.options.get("allow_special") and (
        name := next((name for name in special for prompt in prompts if name in prompt), None)
    ):
        say("note", f"{plain(name)} in the prompt is text; as the special token: allow_special=true")


def _streamed(model: "CanContinue", key: "Key", options: dict[str, Any], json: bool) -> str:
    """A text, shown while it is being written: as it is, or as one JSON object for every token."""
    from chainrule.cli.output import emit, show

    text: str = options.get("prompt", "")
    pieces = model.stream(key, **options)  # complains about its options before anything is shown
    if not json:
        show(text, end="")
    for piece in pieces:
        text += piece.text
        if json:
            emit(asdict(piece))
        else:
            show(piece.text, end="")
    if not json:
        show("\n")
    return text


def _searched(model: "CanSearch", key: "Key", n: int, options: dict[str, Any]) -> "Sequence[Hypothesis]":
    """All texts that a search ends with; at least the `n` that are wanted."""
    from chainrule.core.errors import ArgumentError

    beams = options["beams"]
    if n > beams:
        raise ArgumentError(f"n={n}: {beams} beams give at most {beams} texts", remedy=f"use beams={n}")
    return model.search(key, **options)


def keep(out: Path, texts: list[str]) -> dict[str, Path]:
    """The texts in `samples.txt`; one that is there already gets a number: samples-1.txt, samples-2.txt and so on."""
    from chainrule.data.kinds.text import write_texts
    from chainrule.train.files import disk_errors

    with disk_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        before, number = out / "samples.txt", 1
        if before.exists():
            while (numbered := out / f"samples-{number}.txt").exists():
                number += 1
            before.rename(numbered)
        return {"samples": write_texts(out, texts)}


__all__ = ["AskedTexts", "DrawnTexts", "draw", "keep", "prompts_of", "writes"]
