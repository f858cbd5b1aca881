"""Clipping after every move of the critic."""

from pathlib import Path

import equinox as eqx
import jax
import numpy as np

import chainrule as cr
from chainrule.train import fit

TOY = {"width": 8, "depth": 2, "latent": 3}


def test_no_weight_of_the_critic_ever_leaves_the_box(tmp_path: Path) -> None:
    data = cr.data.load("ring", n=200)
    model = cr.models.build("wgan", data, clip=0.02, n_critic=2, **TOY)
    run = fit(
        model, data, run=tmp_path / "run", steps=6, batch=16, ema=0, log_every=2, optimizer={"lr": 0.01}
    )
    trained = run.model_at(run.checkpoints[-1])
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(trained.discriminator, eqx.is_array))]
    largest = max(np.abs(leaf).max() for leaf in leaves)
    assert largest == np.float32(0.02)
    assert any(
        np.abs(leaf).max() > 0.02 for leaf in jax.tree.leaves(eqx.filter(trained.generator, eqx.is_array))
    )
    share = run.curve("discriminator.clipped_share")[1]
    assert ((share >= 0) & (share <= 1)).all()
    assert share[-1] > 0.5, "at such a rate most weights end at the ends"


def test_the_published_settings_are_the_defaults() -> None:
    entry = cr.models.entry("wgan")
    assert (entry.config().clip, entry.config().n_critic) == (0.01, 5)
    optimizer = entry.training["optimizer"]
    assert (optimizer["name"], optimizer["lr"], entry.training["batch"]) == ("rmsprop", 5e-5, 64)
