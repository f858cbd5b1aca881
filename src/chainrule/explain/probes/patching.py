"""Activation patching: which layers, positions and heads carry the answer from one input into another.

A language model is asked what follows, a masked one what is hidden, a translator what it writes next, a vision
transformer what an image shows. Two inputs are compared, and activations of the first put into the run of the second.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Picture
from chainrule.data import kinds, targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.text import tokenizers
from chainrule.data.text.tokenizers import Tokenizer
from chainrule.explain.methods import answers, contrasts
from chainrule.explain.methods import patching_pictures as pictures
from chainrule.explain.methods.contrasts import Contrast
from chainrule.explain.methods.patching import Patching, patch_each
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import HasResidualStream, HasTokenStream, Model, PatchSite
from chainrule.networks.pictures import tokens as token_pictures
from chainrule.train import Run

_HIDDEN = "[MASK]"


@final
class PatchingSettings(Settings):
    """Two inputs of the same length, and what is asked about them."""

    text: str = Field(
        "",
        description="the clean text, of a masked model with a [MASK], of a translator the source; held-out text if "
        "not given",
    )
    corrupted: str = Field(
        "",
        description="the other text, with as many tokens; if not given, the one change of a token that matters most",
    )
    written: str = Field(
        "",
        description="translators: what has been written of the target; if not given, the model's own target up to the "
        "token that matters most",
    )
    corrupted_written: str = Field(
        "", description="translators: another beginning of the target, with as many tokens"
    )
    image: str = Field(
        "", description="models of images: the clean one, a number among held-out images, from 0, or a file"
    )
    other: str = Field("", description="the corrupted image, likewise; one of another class if not given")
    answer: str = Field(
        "", description="a token or class; if not given, the likeliest of the clean input; end: of a target"
    )
    against: str = Field(
        "", description="a token or class; if not given, the likeliest of the corrupted input"
    )


class _Asked(NamedTuple):
    """What is compared, in the words of the model's kind of input."""

    contrast: Contrast
    names: Sequence[str]
    word: str
    """"text" or "image"."""
    where: str
    """What stands before the name of an input: "After", "In", "Of"."""
    columns: Sequence[Sequence[str]]
    """Of each input the names of its positions; empty: they are patches of an image."""


def examine(run: Run, data: Data, settings: PatchingSettings) -> Outcome:
    """Patch the streams of every layer position by position, and the heads one by one."""
    model: Any = eqx.nn.inference_mode(run.model)  # has a residual stream, see `_applies`
    asked = _asked(run, model, data, settings)
    answer, against = _answers(model, run.schema, asked.contrast, settings)
    position = asked.contrast.clean.position

    def metric(logits: Any) -> Any:
        return logits[0, position, answer] - logits[0, position, against]

    sites = model.patch_sites()
    clean, corrupted = (tuple(jnp.asarray(x)[None] for x in posed.inputs) for posed in asked.contrast)
    patched = patch_each(model.stream_logits, clean, corrupted, metric, at=[site.names for site in sites])
    found = dict(zip(sites, patched, strict=True))
    one = patched[0]
    names = [answers.name_of(run.schema, number) for number in (answer, against)]
    heads = {site: each.restored for site, each in found.items() if site.over is None}
    best = max(heads, key=lambda site: float(heads[site].max()))
    i, j = np.unravel_index(heads[best].argmax(), heads[best].shape)
    shown = [name[-60:] if asked.where == "After" else name for name in asked.names]
    shown = [repr(name) if asked.word == "text" else name for name in shown]
    return Outcome(
        [
            f"{asked.where} {shown[0]} the logit of {names[0]!r} is {one.clean:+.3g} above that of {names[1]!r}, "
            f"{asked.where.lower()} {shown[1]} {one.corrupted:+.3g}.",
            f"One head{best.of} brings back most of the difference: layer {i + 1}, head {j + 1}, "
            f"{heads[best][i, j]:.0%}.",
            _moved(model, asked, found),
        ],
        _pictures(model, asked, found),
        None,
        {
            "clean": asked.names[0],
            "corrupted": asked.names[1],
            "answer": names[0],
            "against": names[1],
            "clean_difference": one.clean,
            "corrupted_difference": one.corrupted,
            **{site.name: each.restored.tolist() for site, each in found.items()},
        },
    )


# ---------------------------------------------------------------------- what is asked


def _asked(run: Run, model: HasResidualStream, data: Data, settings: PatchingSettings) -> _Asked:
    """The two inputs, as given or as found."""
    schema = run.schema
    of_texts, of_pairs = kinds.of(schema).has_tokens, targets.of(schema).has_tokens
    _refuse(settings, ("text", "corrupted"), of_texts, f"the model reads {schema.kind} data, not text")
    _refuse(settings, ("written", "corrupted_written"), of_pairs, "the model writes no target")
    _refuse(settings, ("image", "other"), not of_texts, f"the model reads {schema.kind} data, not images")
    if not of_texts:
        contrast, images = contrasts.of_images(run, model, data, settings.image, settings.other)
        return _Asked(contrast, images, "image", "Of", ())
    if of_pairs:
        contrast = contrasts.of_pairs(
            model, data, settings.text, settings.corrupted, settings.written, settings.corrupted_written
        )
        source, target = tokenizers.of(schema), tokenizers.of_target(schema)
        names = [
            f"{_text(source, posed.inputs[0][:-1])} → {_text(target, posed.inputs[1][:-1])}"
            for posed in contrast
        ]
        columns = [
            _labels(tokenizer, [posed.inputs[number] for posed in contrast], end)
            for number, (tokenizer, end) in enumerate([(source, token_pictures.END), (target, "?")])
        ]
        # The decoder reads a begin mark and lags one token behind what it writes.
        return _Asked(contrast, names, "text", "After", [columns[0], ["begin", *columns[1][:-1]]])
    assert isinstance(model, HasTokenStream)
    contrast = contrasts.of_texts(model, data, settings.text, settings.corrupted)
    tokenizer = tokenizers.of(schema)
    texts = [_text(tokenizer, posed.inputs[0]) for posed in contrast]
    follows = contrast.clean.position == len(contrast.clean.inputs[0]) - 1
    labels = _labels(tokenizer, [posed.inputs[0] for posed in contrast], _HIDDEN)
    return _Asked(contrast, texts, "text", "After" if follows else "In", [labels])


def _refuse(settings: PatchingSettings, names: Sequence[str], fits: bool, why: str) -> None:
    for name in names:
        if not fits and getattr(settings, name):
            raise ArgumentError(f"{name}: {why}", remedy="leave it out")


def _answers(model: Any, schema: Schema, contrast: Contrast, settings: PatchingSettings) -> tuple[int, int]:
    """The numbers of the two answers, as given or the likeliest ones."""
    stacked = [
        jnp.asarray(np.stack(both)) for both in zip(*(posed.inputs for posed in contrast), strict=True)
    ]
    logits = np.array(_logits_at(model, stacked, contrast.clean.position))
    given = settings.answer, settings.against
    answer = answers.number_of(schema, given[0], "answer") if given[0] else int(logits[0].argmax())
    logits[1, answer] = -np.inf  # the likeliest of the others, where both inputs have the same
    against = answers.number_of(schema, given[1], "against") if given[1] else int(logits[1].argmax())
    if answer == against:
        kind = "classes" if answers.tokenizer_of(schema) is None else "tokens"
        raise ArgumentError(f"answer and against are both {given[1]!r}", remedy=f"take two different {kind}")
    return answer, against


@eqx.filter_jit
def _logits_at(model: Any, inputs: Any, position: int) -> Any:
    return model.stream_logits(*inputs)[:, position]


def _text(tokenizer: Tokenizer, tokens: Int[np.ndarray, " tokens"]) -> str:
    """The text of tokens; the number of a hidden one may lie behind the vocabulary."""
    parts = np.split(tokens, np.flatnonzero(tokens >= len(tokenizer)))
    return _HIDDEN.join(tokenizer.decode(part[part < len(tokenizer)]) for part in parts)


def _labels(tokenizer: Tokenizer, both: Sequence[np.ndarray], mark: str) -> list[str]:
    """The tokens of the clean text; where the other differs, both; `mark` is a number behind the vocabulary."""
    sides = []
    for tokens in both:
        known = tokens < len(tokenizer)
        names = iter(token_pictures.names(tokenizer, tokens[known]))
        sides.append([next(names) if there else mark for there in known])
    return [a if a == b else f"{a} ({b})" for a, b in zip(*sides, strict=True)]


# ---------------------------------------------------------------------- what is shown


def _moved(model: HasResidualStream, asked: _Asked, found: Mapping[PatchSite, Patching]) -> str:
    """From which layer on the position of the answer holds more of it than the parts that differ."""
    read = model.residual_stream().names[0].rpartition(".")[0]
    site = next(one for one in found if one.names == f"{read}.*.resid_pre")
    stream, position = found[site].restored, asked.contrast.clean.position
    assert site.over is not None
    layer, held = "layer {}", "more of the answer than the tokens that differ"
    where = "the last position" if position == stream.shape[1] - 1 else "the hidden position"
    if not asked.columns:
        others = stream[:, 1:].sum(axis=1)
        where, held = "the token that gathers", "more of the answer than all patches together"
    else:
        pair = len(asked.columns) > 1
        differ = asked.contrast.differ[site.over] + pair  # a decoder lags one token behind what it writes
        if position in differ:
            return f"The texts differ in the token at {where}, from which the answer is read."
        others = stream[:, differ[differ < stream.shape[1]]].sum(axis=1)
        if pair:
            layer, others = "layer {} of the decoder", np.full(len(stream), 0.5)
            where, held = "the position that writes", "more than half of the answer"
    arrived = np.flatnonzero(stream[:, position] > others)
    if not len(arrived):
        return f"Before no {layer.replace(' {}', '')} does {where} hold {held}."
    return f"From {layer.format(arrived[0] + 1)} on {where} holds {held}."


def _pictures(model: HasResidualStream, asked: _Asked, found: Mapping[PatchSite, Patching]) -> list[Picture]:
    grid = model.stream_grid()
    streams = {site: one for site, one in found.items() if site.over is not None}
    heads = [pictures.heads(site, one, asked.word) for site, one in found.items() if site.over is None]
    if grid is None or asked.columns:
        return [
            *(pictures.stream(site, one, asked.columns[site.over or 0]) for site, one in streams.items()),
            *heads,
        ]
    clean, corrupted = (posed.inputs[0] for posed in asked.contrast)
    return [pictures.over_the_image(clean, corrupted, streams, grid), pictures.gathered(streams), *heads]


def _applies(model: Model, schema: Schema) -> bool:
    if not isinstance(model, HasResidualStream):
        return False
    if kinds.of(schema).has_tokens:
        return schema.shape[0] > 3 or targets.of(schema).has_tokens
    return targets.of(schema).one_class and model.stream_grid() is not None


probe = Probe(
    "Which layers, positions and heads carry an answer: activations of one input put into another.",
    "a model of text, of pairs or of images with a class whose layers add to a residual stream",
    _applies,
    examine,
    PatchingSettings,
)

__all__ = ["PatchingSettings", "examine", "probe"]
