"""Low-rank adapters of runs: where training puts them, files that hold them alone, and models that take them up."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pydantic
import safetensors
import safetensors.numpy

from chainrule import models
from chainrule.core import random, tree
from chainrule.core.errors import ArgumentError, CapabilityError, DataError
from chainrule.core.types import Array
from chainrule.models.interchange import exported
from chainrule.models.protocol import Model, weight_checks
from chainrule.nn import lora
from chainrule.train.config import Adapters, TrainConfig
from chainrule.train.files import disk_errors
from chainrule.train.naming import handle

if TYPE_CHECKING:
    from chainrule.train.run import Run

Adapting: TypeAlias = "str | os.PathLike[str] | Run"
"""A trained run with adapters, its name or path, or the file of its adapters."""
Mounted: TypeAlias = tuple[float, tuple[tuple["Learnt", float], ...]]
"""How much a run's own adapters count, and those of others with how much each counts."""


def attached(model: Model, config: TrainConfig) -> Model:
    """The model with the adapters that the settings ask for, at their start; itself where they ask for none."""
    return _beside(model, config.lora, config.seed) if config.lora.rank else model


@final
class Learnt:
    """What a run with adapters has learnt: the adapters, and the layers that learned as a whole."""

    def __init__(self, name: str, model: str, settings: Adapters, arrays: Mapping[str, Array]) -> None:
        self.name = name
        """What the run or the file is called."""
        self.model = model
        """The model it belongs to, by its name in the registry."""
        self.settings = settings
        self.arrays = arrays

    @classmethod
    def by(cls, run: "Run") -> "Learnt":
        """That of a trained run."""
        settings = run.settings.lora
        if not settings.rank:
            raise CapabilityError(
                f"{run.id} was trained without adapters",
                remedy=f"train some beside it: chainrule train from={handle(run.path)} lora.rank=8",
            )
        model = run.adapted_at(run.step)
        return cls(run.id, models.title(model), settings, _moving(model, settings))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Learnt":
        """That in a file."""
        file = Path(path).expanduser()
        said = exported.read_any_head(file) if file.is_file() else None
        if said is None or said.layout != exported.ADAPTERS:
            raise DataError(
                f"{file}: {'no file of adapters' if file.exists() else 'there is no such file or run'}",
                remedy="write one: chainrule export RUN layout=lora, where RUN was trained with lora.rank",
            )
        try:
            settings = Adapters(**said.settings)
            arrays = {name: jnp.asarray(value) for name, value in safetensors.numpy.load_file(file).items()}
        except (pydantic.ValidationError, safetensors.SafetensorError, TypeError):
            raise DataError(f"{file}: its adapters cannot be read", remedy="export the run again") from None
        return cls(file.name, said.model, settings, arrays)

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write it to a safetensors file, which is as much smaller than the model as the adapters are."""
        file = Path(path).expanduser()
        if file.suffix != ".safetensors":
            raise ArgumentError(f"out={str(path)!r}: the name must end in .safetensors")
        head = exported.head(self.model, exported.ADAPTERS, self.settings.model_dump(mode="json"), {})
        with disk_errors(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            arrays = {name: np.asarray(a, order="C") for name, a in self.arrays.items()}
            file.write_bytes(safetensors.numpy.save(arrays, metadata=head))
        return file

    def onto(self, model: Model, strength: float) -> Model:
        """A model with `strength` times the adapters in its weights; layers that learned as a whole are exchanged."""
        if models.title(model) != self.model:
            raise ArgumentError(
                f"{self.name} holds adapters of a {self.model}, this is a {models.title(model)}",
                remedy="take the run they were trained beside",
            )
        ours = _beside(model, self.settings, seed=0)
        wanted = _moving(ours, self.settings)
        for name in sorted({**wanted, **self.arrays}):
            own, theirs = wanted.get(name), self.arrays.get(name)
            if own is None or theirs is None or own.shape != theirs.shape:
                shapes = ["not there" if a is None else str(a.shape) for a in (theirs, own)]
                raise ArgumentError(
                    f"{self.name} does not fit: {name} is {shapes[0]} in it and {shapes[1]} in the model",
                    remedy="take the run they were trained beside, or one of the same settings and data",
                )
            weight_checks.check_values(name, np.asarray(theirs))

        def filled(path: tuple[Any, ...], leaf: Any) -> Any:
            found = self.arrays.get(tree.path_name(path))
            return leaf if found is None else found.astype(leaf.dtype)

        return lora.merged(jax.tree_util.tree_map_with_path(filled, ours), strength)


def mounted(
    run: "Run", sources: Sequence[Adapting], strength: float | Sequence[float], opened: Callable[[Any], "Run"]
) -> Mounted:
    """Adapters for the model of a run, those of `sources` or else its own, and how much each counts."""
    given = [strength] if isinstance(strength, int | float) else list(strength)
    for value in given:
        if not math.isfinite(value):
            raise ArgumentError(
                f"lora_strength={value}: a strength is a number", remedy="1 is what was trained"
            )
    if not sources:
        if not run.settings.lora.rank:
            raise ArgumentError(
                f"lora_strength={given[0]:g}: {run.id} was trained without adapters",
                remedy="name some: lora=RUN or lora=FILE.safetensors",
            )
        if len(given) != 1:
            raise ArgumentError(f"lora_strength={strength}: the adapters of {run.id} have one strength")
        return float(given[0]), ()
    if len(given) not in (1, len(sources)):
        raise ArgumentError(
            f"lora_strength={','.join(f'{value:g}' for value in given)}: {len(given)} strengths for "
            f"{len(sources)} adapters",
            remedy="give one for all, or one for each",
        )
    found = [
        Learnt.read(source)
        if isinstance(source, str | os.PathLike) and Path(source).suffix == ".safetensors"
        else Learnt.by(opened(source) if isinstance(source, str | os.PathLike) else source)
        for source in sources
    ]
    each = given * len(sources) if len(given) == 1 else given
    return 1.0, tuple(zip(found, map(float, each), strict=True))


def _beside(model: Model, settings: Adapters, seed: int) -> Model:
    return lora.adapted(
        model,
        settings.rank,
        alpha=settings.alpha,
        layers=settings.layers or ("*",),
        without=settings.whole,
        key=random.key(seed, "lora"),
    )


def _moving(model: Model, settings: Adapters) -> dict[str, Array]:
    """The arrays of adapters, and of layers that learn as a whole, by name."""

    def moves(path: tuple[Any, ...], leaf: Any, thin: bool) -> bool:
        name = tree.path_name(path)
        return eqx.is_array(leaf) and (thin or any(tree.matches(name, one) for one in settings.whole))

    chosen = jax.tree_util.tree_map_with_path(moves, model, lora.marks(model))
    return dict(tree.named_leaves(eqx.filter(model, chosen)))


__all__ = ["Adapting", "Learnt", "attached", "mounted"]
