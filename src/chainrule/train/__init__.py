"""Training: the loop, optimisers and schedules, checkpoints, scores, the run folder."""

from chainrule.train import events
from chainrule.train.anchoring import fisher_diagonal
from chainrule.train.callbacks import Callback, Moment
from chainrule.train.config import TrainConfig
from chainrule.train.finder import FoundRate, find_lr
from chainrule.train.loop import fit, keep, resume
from chainrule.train.one_batch import OneBatch, overfit_one_batch
from chainrule.train.rehearsal import rehearse
from chainrule.train.run import Run, runs
from chainrule.train.scores import score
from chainrule.train.scoring import Metric
from chainrule.train.temperature import Temperature, fit_temperature
from chainrule.train.thresholds import Thresholds, choose_thresholds

__all__ = [
    "Callback",
    "FoundRate",
    "Metric",
    "Moment",
    "OneBatch",
    "Run",
    "Temperature",
    "Thresholds",
    "TrainConfig",
    "choose_thresholds",
    "events",
    "find_lr",
    "fisher_diagonal",
    "fit",
    "fit_temperature",
    "keep",
    "overfit_one_batch",
    "rehearse",
    "resume",
    "runs",
    "score",
]
