"""Families of approximate posteriors by name."""

from typing import Any

from chainrule.core.types import Key
from chainrule.models.latent.hyperspherical import HypersphericalPosterior
from chainrule.models.latent.posteriors import DiagonalPosterior, FlowPosterior, FullPosterior, Posterior


def posterior(name: str, size: int, key: Key) -> Posterior:
    """A family by its name.

    >>> import jax
    >>> posterior("full", 3, jax.random.key(0)).parameter_count
    9
    """
    families: dict[str, Any] = {
        "diagonal": DiagonalPosterior,
        "full": FullPosterior,
        "flow": lambda size: FlowPosterior(size, key=key),
        "hyperspherical": HypersphericalPosterior,
    }
    made: Posterior = families[name](size)
    return made


__all__ = ["posterior"]
