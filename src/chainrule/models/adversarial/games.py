"""Games between a generator and a discriminator: what each minimises, as functions of raw scores.

A discriminator gives a score a(x) to every example, the higher the more it looks like the data; a_r are scores of real
examples, a_f those of generated ones. D(x) = sigmoid(a(x)) is a probability in the games that mean it as one. Losses
are softplus functions of scores and never logarithms of probabilities, which overflow where a player is sure.

"Train the generator with real labels" is the non-saturating game. The minimax game of the theory is the other one: its
generator's gradient fades like sigmoid(a_f) where the discriminator is sure.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.registry import Registry
from chainrule.core.types import Array, Float, Scalar

softplus = jax.nn.softplus
Scores = Float[Array, " n"]


@final
@dataclass(frozen=True)
class Game:
    """What both players minimise, and what a score means at the end of it."""

    name: str
    summary: str
    discriminator: Callable[[Scores, Scores, float], Scalar]
    """From scores of real and of generated examples and the target of real ones, 1 unless labels are smoothed."""
    generator: Callable[[Scores, Scores], Scalar]
    """From scores of real and of generated examples; most games see the latter alone."""
    log_ratio: Callable[[Scores], Scores] | None
    """log p(x)/q(x), up to a constant, from the scores of the best discriminator; none: a score says nothing of it."""
    threshold: float | None = 0.0
    """The score at which the best discriminator finds both equally likely; none: only differences of scores count."""
    probability: bool = False
    """Whether sigmoid(a) is the probability that an example is real."""
    paired: bool = False
    """Whether the generator's loss depends on scores of real examples."""
    can_smooth: bool = False
    """Whether real examples have a target that can be less than 1."""
    bounded: bool = True
    """Whether a discriminator that is always right has won, and has nothing more to say."""
    reference: str = ""


games: Registry[Game] = Registry("game")


def _cross_entropy(real: Scores, fake: Scores, target: float) -> Scalar:
    # Written so that a target of 1 is softplus(-a_r) to the last bit. With target r the best discriminator is
    # r p/(p + q); smoothing both targets would add a share of q, and lead the generator to where q alone is large.
    return (softplus(-real) + (1 - target) * real + softplus(fake)).mean()


def _never_smooth(loss: Callable[[Scores, Scores], Scalar]) -> Callable[[Scores, Scores, float], Scalar]:
    return lambda real, fake, target: loss(real, fake)


def _log_ratio_of_probability(scores: Scores) -> Scores:
    """The best least-squares discriminator gives p/(p + q) itself."""
    share = jnp.clip(scores, 1e-6, 1 - 1e-6)
    return jnp.log(share) - jnp.log1p(-share)


def _same(scores: Scores) -> Scores:
    return scores


for _game in (
    Game(
        "minimax",
        "the discriminator's loss with its sign turned round: fades where the discriminator is sure",
        _cross_entropy,
        lambda real, fake: -softplus(fake).mean(),
        _same,
        probability=True,
        can_smooth=True,
        reference="Goodfellow et al., Generative adversarial nets, NeurIPS 2014",
    ),
    Game(
        "non-saturating",
        "the generator is trained with the labels of real examples: strong where the discriminator is sure",
        _cross_entropy,
        lambda real, fake: softplus(-fake).mean(),
        _same,
        probability=True,
        can_smooth=True,
        reference="Goodfellow et al., Generative adversarial nets, NeurIPS 2014",
    ),
    Game(
        "least-squares",
        "scores are pulled to 1 for real and 0 for generated examples",
        lambda real, fake, target: (jnp.square(real - target) + jnp.square(fake)).mean() / 2,
        lambda real, fake: jnp.square(fake - 1).mean() / 2,
        _log_ratio_of_probability,
        threshold=0.5,
        can_smooth=True,
        bounded=False,
        reference="Mao et al., Least squares generative adversarial networks, ICCV 2017",
    ),
    Game(
        "hinge",
        "scores beyond a margin of 1 count no more",
        _never_smooth(lambda real, fake: (jax.nn.relu(1 - real) + jax.nn.relu(1 + fake)).mean()),
        lambda real, fake: -fake.mean(),
        None,
        bounded=False,
        reference="Lim and Ye, Geometric GAN, arXiv:1705.02894",
    ),
    Game(
        "wasserstein",
        "the difference of mean scores; means something only for a critic whose slope is bounded",
        _never_smooth(lambda real, fake: (fake - real).mean()),
        lambda real, fake: -fake.mean(),
        None,
        threshold=None,
        bounded=False,
        reference="Arjovsky, Chintala and Bottou, Wasserstein generative adversarial networks, ICML 2017",
    ),
    Game(
        "relativistic",
        "each generated example is judged against a real one: no mode can be given up without a price",
        _never_smooth(lambda real, fake: softplus(fake - real).mean()),
        lambda real, fake: softplus(real - fake).mean(),
        _same,
        threshold=None,
        paired=True,
        reference="Jolicoeur-Martineau, The relativistic discriminator, ICLR 2019; Huang et al., The GAN is dead; long "
        "live the GAN! A modern baseline GAN, NeurIPS 2024",
    ),
):
    games.add(_game.name, _game)


def right_share(game: Game, real: Scores, fake: Scores) -> tuple[Scalar, Scalar]:
    """How often real and generated examples are told for what they are; pairs where only differences count."""
    if game.threshold is None:
        pairs = (real > fake).mean()
        return pairs, pairs
    return (real > game.threshold).mean(), (fake < game.threshold).mean()


def check_target(game: Game, target: float) -> None:
    """Raise for smoothed labels in a game without any."""
    if target != 1 and not game.can_smooth:
        able = ", ".join(name for name in games if games[name].can_smooth)
        raise ArgumentError(
            f"real_target={target:g}: the {game.name} game has no labels to smooth",
            remedy=f"leave real_target out, or use game={able.split(', ')[1]} (games with labels: {able})",
        )


__all__ = ["Game", "Scores", "check_target", "games", "right_share"]
