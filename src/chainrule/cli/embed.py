"""`chainrule embed`: the vectors a trained encoder gives examples or captions, as data for other models.

A diffusion model trained on images and the vectors of these images can be conditioned on the vectors of captions, if
both come from one space.
"""

from collections.abc import Callable
from inspect import isfunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from chainrule.cli.options import Json, RunName, Settings

if TYPE_CHECKING:
    import numpy as np

    from chainrule.data.schema import Schema
    from chainrule.train import Run

_SETTINGS = ["text", "out", "runs"]
_BATCH = 512


def embed(name: RunName, settings: Settings = None, json: Json = False) -> None:
    """Write the vectors that a trained encoder gives its data, or captions, to an NPZ file.

    Settings: text="a three|two fives" (captions instead of the run's data), out=FILE.npz (default: RUN.npz), runs=DIR.
    The file holds examples and vectors as x_train, y_train and so on, ready to be trained on; of captions, y.
    """
    import numpy as np

    from chainrule.cli.arguments import parse, take
    from chainrule.cli.folders import find, runs_folder
    from chainrule.cli.output import emit, say
    from chainrule.cli.settings import unknown
    from chainrule.core.errors import ArgumentError
    from chainrule.core.quoting import shell_word
    from chainrule.data import kinds
    from chainrule.train import Run
    from chainrule.train.files import disk_errors

    words = parse([name, *(settings or [])])
    (wanted,) = take(words, "RUN")
    for word in words.settings:
        if word not in _SETTINGS:
            raise unknown(word, _SETTINGS, f"settings of embed: {', '.join(f'{s}=' for s in _SETTINGS)}")
    run = Run.open(find(wanted, runs_folder(words.settings.get("runs"))))
    out = Path(words.settings.get("out", f"{run.id}.npz")).expanduser()
    if out.suffix != ".npz":
        raise ArgumentError(f"out={out}: the name of the file must end in .npz")
    text = words.settings.get("text")
    arrays = _examples(run) if text is None else _captions(run, text)
    with disk_errors(out):
        np.savez(out, allow_pickle=False, **arrays)
    size = next(a.shape[1] for part, a in arrays.items() if part.startswith("y"))
    if json:
        emit({"path": str(out), "features": size, "rows": {part: len(a) for part, a in arrays.items()}})
        return
    say("written", f"{out}   vectors of {size}")
    if text is None and not kinds.of(run.schema).has_tokens:  # numbers of tokens are no quantities to draw
        levels = f" data.levels={run.schema.levels}" if run.schema.levels else ""
        say("next", f"chainrule train diffusion {shell_word(f'data={out}')}{levels}")


def _examples(run: "Run") -> "dict[str, np.ndarray]":
    """Every split in the units of the data, and its vectors."""
    import numpy as np

    from chainrule.core.errors import CapabilityError
    from chainrule.models.protocol import CanEncode

    model, data = run.model, run.data
    if not isinstance(model, CanEncode):
        raise CapabilityError(f"{run.id} gives examples no vectors", remedy=encoders(data.schema))
    found: dict[str, np.ndarray] = {}
    for part in ("train", "val", "test"):
        if not len(data.split(part)):
            continue
        x = data.split(part).x
        raw = data.inverse(x)
        found[f"x_{part}"] = raw.astype(np.min_scalar_type(data.schema.levels)) if data.schema.levels else raw
        found[f"y_{part}"] = _in_batches(model.encode, np.asarray(x))
    return found


def encoders(schema: "Schema") -> str:
    """What to train on the same data instead: models that say of what they build that it encodes."""
    from chainrule import models
    from chainrule.models.protocol import CanEncode

    found = []
    for entry in map(models.entry, models.names()):
        built = get_type_hints(entry.build)["return"] if isfunction(entry.build) else entry.build
        encodes = any(issubclass(one, CanEncode) for one in get_args(built) or (built,))
        if encodes and schema.kind in entry.kinds and schema.target in entry.targets:
            found.append(entry.name)
    return f"models that give such data vectors: {', '.join(found)}" if found else ""


def _captions(run: "Run", text: str) -> "dict[str, np.ndarray]":
    """Captions and their vectors."""
    import numpy as np

    from chainrule.core.errors import CapabilityError
    from chainrule.data import targets
    from chainrule.data.text import captions
    from chainrule.models.protocol import HasJointSpace

    model = run.model
    if not isinstance(model, HasJointSpace) or not targets.of(run.schema).has_tokens:
        raise CapabilityError(
            f"{run.id} gives captions no vectors",
            remedy="train a model of images with captions: chainrule train pair-encoder data=captioned-digits",
        )
    texts = [caption.strip() for caption in text.split("|")]
    rows = np.stack([captions.encode(run.schema, caption) for caption in texts])
    return {"y": _in_batches(model.encode_target, rows), "captions": np.array(texts)}


def _in_batches(encode: Callable[[Any], Any], x: "np.ndarray") -> "np.ndarray":
    """Codes of all rows, in equal batches (the last one filled up), so that one compiled call serves all."""
    import equinox as eqx
    import jax.numpy as jnp
    import numpy as np

    call, size = eqx.filter_jit(encode), min(_BATCH, len(x))
    full = np.resize(np.arange(len(x)), -(-len(x) // size) * size).reshape(-1, size)
    return np.concatenate([np.asarray(call(jnp.asarray(x[rows]))) for rows in full])[: len(x)]


__all__ = ["embed", "encoders"]
