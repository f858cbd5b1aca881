"""Games between a generator and a discriminator: what each minimises, as functions of raw scores.

A discriminator gives a score a(x) to every example, the higher the more it looks like the data; a_r are scores of real
examples, a_f those of generated ones. D(x) = sigmoid(a(x)) is a probability in the games that mean it as one. Losses
are softplus functions of scores and never logarithms of probabilities, which overflow where a player is sure.

"Train the generator with real labels" is the non-saturating game. The minimax game of the theory is the other one: its
generator's gradient fades like sigmoid(a_f) where the discriminator is sure.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.registry import Registry
from chainrule.core.types import Array, Float, Scalar
from chainrule.probability.divergences import FDivergence

softplus = jax.nn.softplus
Scores = Float[Array, " n"]


@final
@dataclass(frozen=True)
class AdversarialGame:
    """What both players minimise, and what a score means at the end of it."""

    name: str
    summary: str
    discriminator: Callable[[Scores, Scores, float], Scalar]
    """From scores of real and of generated examples and the target of real ones, 1 unless labels are smoothed."""
    generator: Callable[[Scores, Scores], Scalar]
    """From scores of real and of generated examples; most games see the latter alone."""
    log_ratio: Callable[[Scores, float], Scores] | None
    """log p(x)/q(x), up to a constant, from the scores of the best discriminator and the target of real examples; none:
    a score says nothing of it."""
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
    bounds: FDivergence | None = None
    """The f-divergence of the data from what is generated whose lower bound is the discriminator's loss with its sign
    turned round; none: the loss bounds nothing that has a name."""
    reference: str = ""


games: Registry[AdversarialGame] = Registry("game")


def _cross_entropy(real: Scores, fake: Scores, target: float) -> Scalar:
    # Written so that a target of 1 is softplus(-a_r) to the last bit. With target r the best discriminator is
    # r p/(p + q); smoothing both targets would add a share of q, and lead the generator to where q alone is large.
    return (softplus(-real) + (1 - target) * real + softplus(fake)).mean()


def _never_smooth(loss: Callable[[Scores, Scores], Scalar]) -> Callable[[Scores, Scores, float], Scalar]:
    return lambda real, fake, target: loss(real, fake)


def _log_ratio_of_probability(scores: Scores, target: float) -> Scores:
    """The best least-squares discriminator gives r p/(p + q) itself, for real examples of target r."""
    share = jnp.clip(scores / target, 1e-6, 1 - 1e-6)
    return jnp.log(share) - jnp.log1p(-share)


def _log_ratio_of_logit(scores: Scores, target: float) -> Scores:
    """The best discriminator's sigmoid(a) is r p/(p + q), so that a itself is the ratio unless labels are smoothed."""
    return scores if target == 1 else _log_ratio_of_probability(jax.nn.sigmoid(scores), target)


for _game in (
    AdversarialGame(
        "minimax",
        "the discriminator's loss with its sign turned round: fades where the discriminator is sure",
        _cross_entropy,
        lambda real, fake: -softplus(fake).mean(),
        _log_ratio_of_logit,
        probability=True,
        can_smooth=True,
        reference="Goodfellow et al., Generative adversarial nets, NeurIPS 2014",
    ),
    AdversarialGame(
        "non-saturating",
        "the generator is trained with the labels of real examples: strong where the discriminator is sure",
        _cross_entropy,
        lambda real, fake: softplus(-fake).mean(),
        _log_ratio_of_logit,
        probability=True,
        can_smooth=True,
        reference="Goodfellow et al., Generative adversarial nets, NeurIPS 2014",
    ),
    AdversarialGame(
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
    AdversarialGame(
        "hinge",
        "scores beyond a margin of 1 count no more",
        _never_smooth(lambda real, fake: (jax.nn.relu(1 - real) + jax.nn.relu(1 + fake)).mean()),
        lambda real, fake: -fake.mean(),
        None,
        bounded=False,
        reference="Lim and Ye, Geometric GAN, arXiv:1705.02894",
    ),
    AdversarialGame(
        "wasserstein",
        "the difference of mean scores; means something only for a critic whose slope is bounded",
        _never_smooth(lambda real, fake: (fake - real).mean()),
        lambda real, fake: -fake.mean(),
        None,
        threshold=None,
        bounded=False,
        reference="Arjovsky, Chintala and Bottou, Wasserstein generative adversarial networks, ICML 2017",
    ),
    AdversarialGame(
        "relativistic",
        "each generated example is judged against a real one: no mode can be given up without a price",
        _never_smooth(lambda real, fake: softplus(fake - real).mean()),
        lambda real, fake: softplus(real - fake).mean(),
        _log_ratio_of_logit,
        threshold=None,
        paired=True,
        reference="Jolicoeur-Martineau, The relativistic discriminator, ICLR 2019; Huang et al., The GAN is dead; long "
        "live the GAN! A modern baseline GAN, NeurIPS 2024",
    ),
):
    games.add(_game.name, _game)


def undecided(game: AdversarialGame, target: float) -> float | None:
    """The score at which the best discriminator finds both equally likely: half of the target, as a share or a logit.

    >>> undecided(games["least-squares"], 0.9), undecided(games["non-saturating"], 1.0)
    (0.45, 0.0)
    """
    if game.threshold is None or target == 1:
        return game.threshold
    return math.log(target / (2 - target)) if game.probability else target * game.threshold


def right_share(
    game: AdversarialGame, real: Scores, fake: Scores, target: float = 1.0
) -> tuple[Scalar, Scalar]:
    """How often real and generated examples are told for what they are; pairs where only differences count."""
    threshold = undecided(game, target)
    if threshold is None:
        pairs = (real > fake).mean()
        return pairs, pairs
    return (real > threshold).mean(), (fake < threshold).mean()


def check_target(game: AdversarialGame, target: float) -> None:
    """Raise for smoothed labels in a game without any."""
    if target != 1 and not game.can_smooth:
        able = ", ".join(name for name in games if games[name].can_smooth)
        raise ArgumentError(
            f"real_target={target:g}: the {game.name} game has no labels to smooth",
            remedy=f"leave real_target out, or use game={able.split(', ')[1]} (games with labels: {able})",
        )


__all__ = ["AdversarialGame", "Scores", "check_target", "games", "right_share", "undecided"]
