"""Settings of a training run: one schema for Python, the command line and the run folder."""

from typing import Annotated, Any, Literal, TypeAlias, final

import pydantic
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.settings import LARGEST_COUNT
from chainrule.models import explain
from chainrule.models.protocol import LossSettings
from chainrule.train.tuning import Adapters, Anchor, Distillation, FrozenSettings

_Share: TypeAlias = Annotated[float, Field(ge=0, lt=1)]

TORCH: dict[str, dict[str, Any]] = {
    **{name: {} for name in ("sgd", "momentum", "nesterov", "adam")},
    "adagrad": {"eps": 1e-10},
    "rmsprop": {"momentum": 0.99},
    "adamw": {"decay": 0.01},
}
"""What PyTorch's optimisers take by default where it is not what ours take."""
_STEPS = 2000
_EPOCHS = 5


FORMER_SETTINGS: dict[str, str] = {}
"""Training settings that had another name in an earlier version, dotted; see `Entry.former_settings`."""


def _usual_lr(settings: dict[str, Any]) -> float:
    """The learning rate of a method that was given none."""
    return 3e-4 if settings.get("name", "adamw") == "adamw" and settings.get("parity") != "torch" else 1e-3


def _usual_decay(settings: dict[str, Any]) -> float:
    """The weight decay of a method that was given none."""
    return 0.01 if settings.get("name", "adamw") == "adamw" else 0.0


@final
class Optimizer(FrozenSettings):
    """How parameters move. `decay` acts apart from the gradient (as in AdamW), `l2` through the loss."""

    name: Literal[
        "sgd",
        "momentum",
        "nesterov",
        "adagrad",
        "adagrad-full",
        "rmsprop",
        "adam",
        "adamw",
        "lion",
        "muon",
        "schedule-free",
        "lbfgs",
        "newton-cg",
    ] = Field(
        "adamw",
        description="method; muon moves matrices, and the rest by Adam with Nesterov momentum; schedule-free is AdamW "
        "with averaged weights and a constant rate; lbfgs and newton-cg are for small data, all of them in every batch",
    )
    parity: Literal["chainrule", "torch"] = Field(
        "chainrule",
        description="torch: PyTorch's defaults, and its decay: of all parameters, part of the gradient but in adamw",
    )
    lr: float = Field(
        default_factory=_usual_lr,
        gt=0,
        description="peak learning rate; adamw 3e-4, else 1e-3; lbfgs and newton-cg find their own",
    )
    momentum: float = Field(
        0.9,
        ge=0,
        lt=1,
        description="momentum, nesterov: share of the old velocity that is kept; rmsprop: of the old average",
    )
    betas: tuple[_Share, _Share] = Field(
        (0.9, 0.999),
        description="adam, adamw, lion, muon: decay of the two averages; schedule-free: share of the averaged weights "
        "where gradients are taken, decay of the squares",
    )
    eps: float = Field(1e-8, gt=0, description="all that divide by a root: added to it")
    decay: float = Field(
        default_factory=_usual_decay,
        ge=0,
        description="weight decay apart from the gradient, of matrices, not of biases and scales; adamw 0.01, else 0",
    )
    l2: float = Field(
        0.0,
        ge=0,
        description="penalty in the loss, half of l2 times the squares of the same matrices; the same as decay for sgd "
        "without clipping, not for methods with a memory",
    )
    clip: float | None = Field(None, gt=0, description="largest global norm of the gradient")
    clip_value: float | None = Field(None, gt=0, description="largest absolute value of a gradient entry")
    clip_adaptive: float | None = Field(
        None, gt=0, description="largest norm of a unit's gradient as a share of the norm of its weights"
    )

    @pydantic.model_validator(mode="before")
    @classmethod
    def _defaults_of_torch(cls, given: Any) -> Any:
        if not isinstance(given, dict) or given.get("parity") != "torch":
            return given
        name = given.get("name", "adamw")
        if name not in TORCH:
            raise ValueError(f"PyTorch has no {name}; with parity=torch use {', '.join(TORCH)}")
        return {**TORCH[name], **given}


@final
class LearningRateSchedule(FrozenSettings):
    """How the learning rate moves over the run, as a factor of the peak."""

    name: Literal[
        "constant",
        "cosine",
        "1cycle",
        "step",
        "exponential",
        "linear",
        "polynomial",
        "inverse",
        "stable",
        "tripling",
        "plateau",
    ] = Field(
        "cosine",
        description="shape of the curve; stable is constant and falls over the last fifth; inverse is "
        "(1 + 10 p)^-0.75 after a share p of the steps; tripling falls to a tenth in eight stages, each three times as "
        "long as the one before",
    )
    warmup: int = Field(0, ge=0, description="steps of linear warm-up from zero")
    floor: float = Field(
        0.0,
        ge=0,
        le=1,
        description="cosine, linear, polynomial, stable, exponential: final factor (exponential: 0 means 0.001)",
    )
    power: float = Field(2.0, gt=0, description="polynomial: its degree")
    every: int = Field(1000, ge=1, description="step: steps between drops")
    gamma: float = Field(0.1, gt=0, le=1, description="step, plateau: factor of a drop")
    patience: int = Field(5, ge=1, description="plateau: evaluations without improvement before a drop")
    cycle_momentum: bool = Field(
        False, description="1cycle: momentum (or the first beta) falls from 0.95 to 0.85 and rises again"
    )


@final
class Stopping(FrozenSettings):
    """Early stopping by the validation loss, or by the number that `best` names."""

    patience: int = Field(0, ge=0, description="evaluations without improvement before stopping; 0 = never")
    min_delta: float = Field(0.0, ge=0, description="smallest change for the better that counts")


@final
class Augment(FrozenSettings):
    """Random changes of the images of every batch; validation and test see them as they are."""

    flip: bool = Field(False, description="mirror every second image left to right; not for digits or text")
    crop: int = Field(0, ge=0, description="move images by up to so many pixels each way")
    colour: float = Field(
        0.0, ge=0, lt=1, description="largest change of contrast, brightness and saturation, as a share"
    )
    resized_crop: float = Field(
        1.0,
        gt=0,
        le=1,
        description="smallest share of an image's area that is cut out and enlarged to it; 0.08 is usual, 1: off",
    )
    rand_augment: int = Field(
        0, ge=0, le=8, description="operations of RandAugment on each image, one after another; 2 are usual"
    )
    magnitude: float = Field(9, ge=0, le=30, description="how strong those operations are")
    mixup: float = Field(
        0.0,
        ge=0,
        le=100,
        description="mix images and targets of a batch, shares drawn from Beta(mixup, mixup); 0.2 is usual",
    )
    cutmix: float = Field(
        0.0,
        ge=0,
        le=100,
        description="put a box of one image into another and mix their targets, its area by Beta(cutmix, cutmix); 1 is "
        "usual; with mixup, each every second step",
    )


@final
class Adversary(FrozenSettings):
    """Adversarial training: examples of every batch are first changed so that the present network errs most."""

    eps: float = Field(
        0.0,
        ge=0,
        description="how far a number may move, in raw units: 0 to 255 for 8-bit images (8 for what is often written "
        "8/255), else 0 to 1; with norm=2 the length of the whole change; 0: off",
    )
    steps: int = Field(
        1,
        ge=1,
        le=1000,
        description="steps of the attack, each projected back (PGD; 7 are usual) and the cost of a further step of "
        "training; 1: one signed step (FGSM)",
    )
    norm: Literal["inf", "2"] = Field(
        "inf",
        description="what is bounded: the change of every number (inf), or the length of the whole change",
    )
    share: float = Field(
        1.0, gt=0, le=1, description="share of every batch that is attacked; the rest is learned as it is"
    )
    weight: float = Field(
        1.0, gt=0, le=1, description="weight of attacked examples in the loss; the rest is theirs as they are"
    )
    trades: float = Field(
        0.0,
        ge=0,
        le=1000,
        description="TRADES: learn examples as they are, and with this weight that answers within the bound are the "
        "same; 6 is usual; 0: off",
    )

    @pydantic.field_validator("eps", mode="before")
    @classmethod
    def _raw_units(cls, eps: Any) -> Any:
        if isinstance(eps, str) and "/" in eps:
            raise ValueError("a number in raw units, not a share of their range: 8 for 8/255 of 8-bit images")
        return eps

    @pydantic.field_validator("trades")
    @classmethod
    def _clean_already(cls, trades: float, info: Any) -> float:
        if trades and info.data.get("weight", 1.0) < 1:
            raise ValueError("trades learns examples as they are already; leave weight out")
        return trades


@final
class TrainConfig(FrozenSettings):
    """Everything about a run that is neither model nor data."""

    steps: int | None = Field(
        None, ge=1, description="number of steps; default: the longer of 2,000 and five epochs"
    )
    epochs: float | None = Field(None, gt=0, description="passes over the training data; or give steps")
    batch: int = Field(
        64, ge=1, description="examples per step; unless given, all there are if those are fewer"
    )
    shuffle: bool = Field(True, description="a fresh order of the examples in every epoch")
    balanced: bool = Field(
        False, description="classes take turns in the batches, so that rare ones come as often as common ones"
    )
    drop_last: bool = Field(
        False,
        description="leave out the examples of an epoch that fill no batch; otherwise the next epoch fills it",
    )
    seed: int = Field(0, ge=0, lt=2**63, description="decides initial weights, batches and noise")
    optimizer: Optimizer = Field(default_factory=Optimizer)
    parts: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="optimiser settings of single parts, e.g. parts.critic.lr=1e-4"
    )
    groups: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="optimiser settings of parameters by name or pattern, e.g. groups.head.lr=1e-4, groups.*.bias.lr=1",
    )
    freeze: tuple[str, ...] = Field(
        (),
        description="parameters or layers that stay as they are, by name or pattern: freeze=body,*.bias,blocks[:3]",
    )
    lora: Adapters = Field(default_factory=Adapters)
    layer_decay: float = Field(
        1.0,
        gt=0,
        le=1,
        description="rate of each layer as a share of the one after it; 0.75 is usual; 1: off",
    )
    unfreeze: float = Field(
        0.0,
        ge=0,
        description="epochs after which the next layer from the top begins to learn; 0: all at once",
    )
    anchor: Anchor = Field(default_factory=Anchor)
    distill: Distillation = Field(default_factory=Distillation)
    loss: LossSettings = Field(default_factory=LossSettings)
    schedule: LearningRateSchedule = Field(default_factory=LearningRateSchedule)
    augment: Augment = Field(default_factory=Augment)
    adversary: Adversary = Field(default_factory=Adversary)
    accumulate: int = Field(
        1,
        ge=1,
        description="micro-batches per step, weighted by their sizes; batch statistics are those of each micro-batch",
    )
    ema: float = Field(
        0.0, ge=0, lt=1, description="decay of the averaged weights used for evaluation; 0 = none"
    )
    precision: Literal["float32", "bfloat16", "float16"] = Field(
        "float32",
        description="type of the computation; state is float32; float16 scales the loss so that gradients fit",
    )
    best: str = Field(
        "loss",
        description="number of the validation split by which the best checkpoint is chosen and early stopping judges: "
        "loss, accuracy, f1, roc_auc, rmse, r2, ...",
    )
    best_mode: Literal["auto", "min", "max"] = Field(
        "auto", description="which way best is better; auto: as is known of it"
    )
    stopping: Stopping = Field(default_factory=Stopping)
    log_every: int = Field(
        50, ge=1, description="steps between two lines of training metrics; unless given, fewer in short runs"
    )
    eval_every: int = Field(
        200,
        ge=1,
        description="steps between two evaluations on the validation split; unless given, an epoch where epochs= is, "
        "and a tenth of a short run",
    )
    eval_examples: int = Field(
        10_000, ge=1, description="validation examples used by one evaluation, at most"
    )
    save_every: int = Field(200, ge=1, description="steps between two checkpoints")
    keep: int = Field(2, ge=1, description="newest checkpoints kept beside the best one")
    rollbacks: int = Field(
        0, ge=0, description="times a run that diverged may go back to its last checkpoint at half the rate"
    )
    minutes: float | None = Field(
        None, gt=0, description="wall-clock limit from here on; the run is saved and can be resumed"
    )

    @pydantic.field_validator("groups", mode="before")
    @classmethod
    def _dotted(cls, groups: Any) -> Any:
        """Patterns with dots arrive nested from the command line."""
        flat: dict[str, Any] = {}

        def walk(inside: Any, path: tuple[str, ...]) -> None:
            for name, value in inside.items():
                if isinstance(value, dict):
                    walk(value, (*path, name))
                else:
                    flat.setdefault(".".join(path), {})[name] = value

        if not isinstance(groups, dict):
            return groups
        walk(groups, ())
        return flat

    @property
    def averages(self) -> bool:
        """Whether a run keeps averaged weights, by which it is judged."""
        return bool(self.ema) or self.optimizer.name == "schedule-free"

    @classmethod
    def parse(cls, **settings: Any) -> "TrainConfig":
        """Validated settings.

        >>> TrainConfig.parse(epoch=3)
        Traceback (most recent call last):
        chainrule.core.errors.ArgumentError: unknown setting 'epoch' (did you mean 'epochs'?)
               training settings: chainrule train --help
        """
        try:
            return cls(**settings)
        except pydantic.ValidationError as error:
            remedy = "training settings: chainrule train --help"
            raise explain(error, cls, remedy, former=FORMER_SETTINGS) from None

    def total_steps(self, steps_per_epoch: float) -> int:
        """Length of the run in steps."""
        if self.steps is not None and self.epochs is not None:
            raise ArgumentError(f"steps={self.steps} and epochs={self.epochs}: give one of the two")
        if self.epochs is None:
            return self.steps or max(_STEPS, round(_EPOCHS * steps_per_epoch))
        total = max(1, round(self.epochs * steps_per_epoch))
        if total > LARGEST_COUNT:
            raise ArgumentError(
                f"epochs={self.epochs:g}: that would be {total:,} steps; {LARGEST_COUNT:,} can be counted",
                remedy="ask for fewer epochs",
            )
        return total


__all__ = [
    "FORMER_SETTINGS",
    "TORCH",
    "Adapters",
    "Adversary",
    "Anchor",
    "Augment",
    "Distillation",
    "LearningRateSchedule",
    "Optimizer",
    "Stopping",
    "TrainConfig",
]
