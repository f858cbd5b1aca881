"""Two inputs of a model that differ in what is asked about: a clean one and a corrupted one.

Texts and pairs are given, or a token is changed where it costs the likeliest answer most; images are two of different
classes. What the model makes of them, and where it is asked, it says itself (`HasResidualStream.posed`).
"""

from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Num

from chainrule.core.errors import ArgumentError
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.text import pairs
from chainrule.explain.methods.prompts import check_length
from chainrule.models.protocol import HasResidualStream, HasTokenStream, Posed
from chainrule.train import Run

_LENGTH = 24
"""Tokens of the held-out text that are taken where no text is given."""
_LOOKED_AT = 256
"""Held-out images among which two are looked for."""


class Contrast(NamedTuple):
    """Two inputs of equal shapes, asked about at the same position."""

    clean: Posed
    corrupted: Posed

    @property
    def differ(self) -> "list[Int[np.ndarray, ' positions']]":
        """Of each input the positions, along its first axis, at which the two differ."""
        both = zip(self.clean.inputs, self.corrupted.inputs, strict=True)
        return [np.flatnonzero((a != b).reshape(len(a), -1).any(axis=1)) for a, b in both]


# ---------------------------------------------------------------------- texts


def of_texts(model: HasTokenStream, data: Data, text: str, corrupted: str) -> Contrast:
    """Two texts with as many tokens; what is not given is held-out text, and its costliest change of a token."""
    schema = data.schema
    most = schema.shape[0] - 1 if model.context is None else model.context
    begun = np.asarray(data.val.batch(np.arange(1)).x[0], np.int32)[: min(_LENGTH, most)]
    clean = model.posed(text or begun)
    check_length(clean.inputs[0], most=most)
    if not corrupted:
        changed = _changed(clean.inputs[0], len(schema.tokens), but=clean.position)
        costs = _costs(model, (changed,), clean)[:, clean.position]
        return Contrast(clean, Posed((changed[int(costs.argmax())],), clean.position))
    other = model.posed(corrupted)
    check_length(other.inputs[0], most=most, what="corrupted")
    _check_alike("corrupted", clean.inputs[0], other.inputs[0])
    if other.position != clean.position:
        raise ArgumentError(
            f"corrupted: asks about token {other.position + 1}, the clean text about token {clean.position + 1}",
            remedy="put [MASK] at the same position of both",
        )
    return _checked(Contrast(clean, other))


def of_pairs(
    model: Any, data: Data, text: str, corrupted: str, written: str, corrupted_written: str
) -> Contrast:
    """Two sources, two beginnings of a target, or both; what is not given is held out, and its costliest change.

    Where nothing is said to be written, the model's own target of the clean source is, up to the token that the
    corrupted source costs most.
    """
    schema = data.schema
    part, _ = data.held_out()
    row = pairs.encode(schema, text) if text else np.asarray(part.batch(np.arange(1)).x[0], np.int32)
    source, by_target = _tokens(row, len(schema.tokens)), bool(written or corrupted_written)
    if not len(source):
        raise ArgumentError("text: a source without tokens", remedy="give a longer text")
    if by_target:
        begun = [_written(schema, one) for one in (written, corrupted_written or written)]
        _check_alike("corrupted_written", *begun)
    else:
        target = np.asarray(model.translate(jnp.asarray(row)[None, :])[0])
        begun = [_tokens(target, len(schema.target_tokens))] * 2
    if corrupted or corrupted_written:
        other = _tokens(pairs.encode(schema, corrupted), len(schema.tokens)) if corrupted else source
        _check_alike("corrupted", source, other)
        sources = other[None, :]
    else:
        sources = _changed(source, len(schema.tokens))
    clean = model.posed(source, begun[0])
    posed = [model.posed(one, begun[1]).inputs for one in sources]
    costs = _costs(model, tuple(np.stack(side) for side in zip(*posed, strict=True)), clean)
    first = clean.position if by_target else 0
    chosen, where = np.unravel_index(costs[:, first:].argmax(), costs[:, first:].shape)
    sides = zip((source, sources[chosen]), begun, strict=True)
    return _checked(Contrast(*(model.posed(one, side[: first + where]) for one, side in sides)))


def _changed(
    tokens: Int[np.ndarray, " time"], vocabulary: int, *, but: int | None = None
) -> Int[np.ndarray, "rows time"]:
    """The tokens with another one in their place, at each position, or at each but one."""
    others = np.delete(np.arange(len(tokens)), [] if but is None else but)
    changed = np.repeat(tokens[None, :], len(others), axis=0)
    changed[np.arange(len(others)), others] = (tokens[others] + max(1, vocabulary // 2)) % vocabulary
    return changed


def _costs(
    model: HasResidualStream, rows: tuple[Int[np.ndarray, "rows _"], ...], clean: Posed
) -> Float[np.ndarray, "rows time"]:
    """What each row costs the likeliest answers of the clean input: nats, at each position."""
    both = [np.concatenate([one[None, :], other]) for one, other in zip(clean.inputs, rows, strict=True)]
    scores = np.asarray(_log_probs(model, tuple(jnp.asarray(x) for x in both)))
    likeliest = scores[0].argmax(axis=-1)
    found = np.take_along_axis(scores, likeliest[None, :, None], axis=-1)[..., 0]
    return found[0] - found[1:]


@eqx.filter_jit
def _log_probs(model: Any, inputs: Any) -> Any:
    return jax.nn.log_softmax(model.stream_logits(*inputs), axis=-1)


def _tokens(row: Int[np.ndarray, " time"], end: int) -> Int[np.ndarray, " tokens"]:
    """Those before the end mark."""
    ends = np.flatnonzero(row == end)
    return row[: ends[0]] if len(ends) else row


def _written(schema: Any, text: str) -> Int[np.ndarray, " tokens"]:
    return _tokens(pairs.encode_target(schema, text), len(schema.target_tokens))


def _check_alike(what: str, clean: np.ndarray, other: np.ndarray) -> None:
    if len(other) != len(clean):
        raise ArgumentError(
            f"{what}: {len(other)} tokens, the clean text has {len(clean)}",
            remedy="change tokens, and add or leave out none",
        )


def _checked(found: Contrast) -> Contrast:
    if not any(map(len, found.differ)):
        raise ArgumentError("corrupted: the same text as the clean one", remedy="change a token")
    return found


# ---------------------------------------------------------------------- images


class _Named(NamedTuple):
    """An image, what it is called, and its class: the true one, or for files what the model says."""

    x: Num[np.ndarray, "..."]
    name: str
    label: int


def of_images(run: Run, model: Any, data: Data, image: str, other: str) -> tuple[Contrast, tuple[str, str]]:
    """Two images, and what they are called: held-out ones by number, or files; by default of different classes.

    Those that the model recognises are taken first.
    """
    part, said = data.held_out()
    called, classes = "held-out" if said else "test", run.schema.classes
    batch = part.batch(np.arange(min(_LOOKED_AT, len(part))))
    labels, order = np.asarray(batch.y), np.argsort(_classes(model, batch.x) != batch.y, kind="stable")

    def numbered(index: int) -> _Named:
        one = part.batch(np.array([index]))
        label = int(one.y[0])
        return _Named(np.asarray(one.x[0]), f"{called} image {index} ({classes[label]})", label)

    def named(given: str, what: str) -> _Named:
        if not given.isdecimal():
            x = _from_file(run, given, what)
            return _Named(x, Path(given).name, int(_classes(model, x[None])[0]))
        if int(given) >= len(part):
            raise ArgumentError(
                f"{what}={given}: there are {len(part)} {called} images, from 0 on",
                remedy="take one of them, or a file",
            )
        return numbered(int(given))

    clean = named(image, "image") if image else numbered(int(order[0]))
    rest = [int(i) for i in order if labels[i] != clean.label]
    if not other and not rest:
        raise ArgumentError(
            f"other: the first {len(labels)} {called} images are all of one class",
            remedy="say which: other=NUMBER, or a file",
        )
    corrupted = named(other, "other") if other else numbered(rest[0])
    found = Contrast(model.posed(clean.x), model.posed(corrupted.x))
    if not len(found.differ[0]):
        raise ArgumentError(f"other={other}: the same image", remedy="take another one")
    return found, (clean.name, corrupted.name)


def _classes(model: Any, x: Num[np.ndarray, "batch ..."]) -> Int[np.ndarray, " batch"]:
    """What the model takes each image for."""
    scores = _log_probs(model, (jnp.asarray(x, jnp.float32),))[:, model.posed(x[0]).position]
    return np.asarray(scores.argmax(axis=-1))


def _from_file(run: Run, path: str, what: str) -> Num[np.ndarray, "..."]:
    """An image as the model sees it."""
    if not Path(path).expanduser().is_file():
        raise ArgumentError(
            f"{what}={path}: there is no such file",
            remedy="give an image file, or the number of a held-out image",
        )
    one = next(iter(kinds.of(run.schema).inputs(path, run.preparation).chunks(1)))
    if not len(one.x):
        raise ArgumentError(f"{what}={path}: {one.faults[0].reason}", remedy="give another image")
    return np.asarray(one.x[0])


__all__ = ["Contrast", "of_images", "of_pairs", "of_texts"]
