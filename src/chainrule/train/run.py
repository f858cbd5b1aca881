"""Runs: the handle on a run folder, during training and after it."""

# Long because everything a run does is found in one class; each method calls the module that does it.

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
import numpy as np

from chainrule import data as data_sources
from chainrule import models
from chainrule.core import notebook, random
from chainrule.core.errors import (
    ArgumentError,
    CapabilityError,
    ChainruleError,
    CheckpointError,
    DataError,
    RunError,
)
from chainrule.core.types import Key
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.data.inputs.protocol import Given, Preparation
from chainrule.data.loading.others import load_other
from chainrule.data.reading import TableReading
from chainrule.data.scaling import Scaling, to_original
from chainrule.data.schema import Schema
from chainrule.data.text import tokenizers
from chainrule.information.compression.codes import LEVELS_WANTED, Code
from chainrule.information.compression.sources import HasCode
from chainrule.models.protocol import (
    CanPredict,
    CanSample,
    HasBound,
    HasLogProb,
    Model,
    NeedsSchema,
    needs_targets,
)
from chainrule.models.wrapping import ModelFile
from chainrule.nn import lora
from chainrule.train import checkpoints, folder, former, history, naming, scores, temperature, thresholds
from chainrule.train.adapters import Adapting, Learnt, attached, mounted
from chainrule.train.config import TrainConfig
from chainrule.train.files import disk_errors
from chainrule.train.folder import CODE
from chainrule.train.forecasting import answering
from chainrule.train.predictions import Predictions, Written, collect, write
from chainrule.train.preparing import as_model
from chainrule.train.sample_inputs import in_model_units
from chainrule.train.scoring import Scores
from chainrule.train.segmenting import refined
from chainrule.train.temperature import Temperature
from chainrule.train.thresholds import Thresholds


@final
class Run(HasCode):
    """A finished, running or interrupted run, read from its folder.

    `run.model` is the trained model (the checkpoint with the best validation loss), `run.metrics` the training
    history, `run.score()` and `run.sample()` put the model to work.
    """

    def __init__(
        self,
        path: Path,
        *,
        model: Model | None = None,
        data: Data | None = None,
        config: dict[str, Any] | None = None,
    ) -> None:
        self.path = path
        self._template = model
        self._data = data
        self._config = config
        self._strength = 1.0
        self._more: tuple[tuple[Learnt, float], ...] = ()
        """Adapters of other runs that the model takes up, and how much of each."""

    @classmethod
    def open(
        cls,
        path: str | Path,
        model: Model | Callable[[], Model] | None = None,
        data: Data | None = None,
    ) -> "Run":
        """The run in a folder, or of a name where run folders go; `data` replaces the source.

        A run of a network of your own holds its arrays, not its code: `model` is a model of the same structure, or the
        function that builds one, whatever its weights.
        """
        found = Path(path)
        if not found.is_dir() and isinstance(path, str) and "/" not in path:
            found = naming.root().expanduser() / path
        if not found.is_dir():
            raise RunError(f"there is no run folder {str(path)!r}", remedy="list runs: chainrule runs ls")
        run = cls(found, model=None if model is None else as_model(model), data=data)
        if folder.of_agents(run.config):
            raise RunError(
                f"{run.id} is a run of agents, which this is not for",
                remedy="verbs for it: score, probe, resume, play   in Python: cr.agents.AgentRun.open",
            )
        former.warn_if_newer(run.id, run.config)  # a folder that is no run is refused here, not at first use
        return run

    def __repr__(self) -> str:
        status = self.status
        return f"Run({str(self.path)!r}, {status['status']}, step {status['step']} of {status['total']})"

    def _repr_html_(self) -> str:
        return folder.summary_html(self.path, self.config)

    def report(self, height: int = 800) -> notebook.InlinePage:
        """The report of the run, to be shown inside a notebook."""
        return folder.inline_report(self.path, height)

    @property
    def id(self) -> str:
        """The name of the folder."""
        return self.path.name

    @property
    def config(self) -> dict[str, Any]:
        """Every setting, resolved: the sections model, data and train of config.yaml."""
        if self._config is None:
            folder.refuse_links(self.path)
            self._config = former.config(folder.read_config(self.path))
        return self._config

    @property
    def status(self) -> dict[str, Any]:
        """The state of the run as it is now; `status` is running, done, interrupted, diverged or failed."""
        return folder.read_status(self.path)

    @property
    def settings(self) -> TrainConfig:
        """The training settings."""
        return TrainConfig.parse(**self.config["train"])

    # ------------------------------------------------------------------ history

    @property
    def metrics(self) -> dict[str, np.ndarray]:
        """The history as columns: `step`, `split`, and every named number (NaN where a line does not have it)."""
        return history.columns(self.path)

    def curve(self, name: str, split: str = "train") -> tuple[np.ndarray, np.ndarray]:
        """Steps and values of one number on one split."""
        return history.curve(self.metrics, name, split)

    # ------------------------------------------------------------------ data

    @functools.cached_property
    def _data_record(self) -> dict[str, Any]:
        return folder.read_data(self.path)

    @property
    def schema(self) -> Schema:
        """Shape and meaning of one example; known without the data."""
        found: Schema = self._data_record["schema"]
        return found

    @property
    def scaling(self) -> Scaling:
        """Original units to model units; known without the data."""
        found: Scaling = self._data_record["scaling"]
        return found

    @property
    def target_scaling(self) -> Scaling | None:
        """The same for numeric targets."""
        found: Scaling | None = self._data_record["target_scaling"]
        return found

    @property
    def preparation(self) -> Preparation:
        """How examples became what the model sees; known without the data."""
        record, options = self._data_record, self.config["data"] or {}
        scalings = self.scaling, self.target_scaling
        return Preparation(self.schema, *scalings, options, record["reading"], self._reread)

    def _reread(self) -> TableReading | None:
        try:
            return self.data.reading
        except ChainruleError:  # the table is gone or has changed; the caller says that it did without
            return None

    def tokenizer_file(self) -> Path:
        """The tokenizer of a run on text as a file of its folder, written when it is asked for first."""
        file = self.path / "tokenizer.json"
        if not file.exists():
            with disk_errors(file):
                tokenizers.write(tokenizers.of(self.schema), file)
        return file

    @property
    def data(self) -> Data:
        """The data the run was trained on, loaded from their source and compared with the stored hash."""
        if self._data is None:
            source = self.config["data"]
            if not source:
                raise ArgumentError(
                    f"{self.id} was trained on data built in Python",
                    remedy="open it with Run.open(path, data=...)",
                )
            call = dict(source)
            if call.get("target_as") == "auto" and targets.of(self.schema).of_numbers:
                call["target_as"] = self.schema.target  # whatever "auto" would choose today
            self._data = replace(data_sources.load(**call), source=source)
            self._data = self._beside_target(self._data)
        if self._data.hash != self._data_record["hash"]:
            raise DataError(
                f"the data of {self.id} have changed since it was trained (hash {self._data.hash[:12]}, "
                f"was {self._data_record['hash'][:12]})",
                remedy="bring the old files back, or train a new run on the new ones",
            )
        return self._data

    def _beside_target(self, data: Data) -> Data:
        """The data, with those of the other domain beside them where the run has one."""
        target = self.config.get("target")
        if target is None:
            return data
        if not target["data"]:
            raise ArgumentError(
                f"the other domain of {self.id} was built in Python",
                remedy="open it with Run.open(path, data=cr.data.with_target(data, target))",
            )
        return data_sources.with_target(
            data,
            data_sources.load(**target["data"]),
            labels=int(target["labels"]),
            label_map=target.get("label_map"),
        )

    # ------------------------------------------------------------------ the model

    def skeleton(self) -> Model:
        """A model of the right structure, with the weights that training began with where they were drawn."""
        return self.builder()()

    def builder(self) -> Callable[[], Model]:
        """What makes the model, everything read and checked: what is wrong with the folder is said here."""
        if self._template is not None:
            template = self._template
            if isinstance(template, NeedsSchema):
                template = template.bound(self.schema)
            return lambda: template
        name, settings = self.config["model"]["name"], self.config["model"]["settings"]
        if "file" in self.config["model"]:
            file = self.code_file()
            file.check_allowed(f"chainrule runs trust {naming.handle(self.path)}")
            entry = file.entry()
            config = models.configured(entry, settings, f"the settings are in {self.path / 'config.yaml'}")
            return functools.partial(entry.build, config, self.schema, random.key(self.settings.seed, "init"))
        if name is None:
            raise ArgumentError(
                f"{self.id} holds a network of your own, whose code is not in it",
                remedy="open it in Python: Run.open(path, model=build), where build() makes one of the same structure",
            )
        models.fits(models.entry(name), self.schema)
        models.configure(name, **settings)
        return functools.partial(models.build, name, self.schema, seed=self.settings.seed, **settings)

    def code_file(self) -> ModelFile:
        """The Python file that a model of the user's own came from, as long as it is the same."""
        stored = self.config["model"].get("file")
        if stored is None:
            raise ArgumentError(f"the model of {self.id} is not code from a file")
        return ModelFile.recorded(stored, naming.handle(self.path), self.path / CODE)

    @property
    def origin(self) -> dict[str, Any]:
        """How another run says that it began with the model of this one: `fit(model, data, origin=run.origin)`."""
        return {"run": str(self.path.resolve()), "step": self.step}

    @property
    def checkpoints(self) -> list[int]:
        """Steps with a checkpoint."""
        return checkpoints.steps(self.path / "checkpoints")

    @property
    def step(self) -> int:
        """The step of the checkpoint `model` comes from: best validation loss where there was one, newest otherwise."""
        available = self.checkpoints
        if not available:
            raise CheckpointError(
                f"{self.id} has no checkpoint yet",
                remedy=f"go on with it: chainrule resume {naming.handle(self.path)}",
            )
        # Not from status.json, which a kill can leave one checkpoint behind.
        newest = checkpoints.read_manifest(checkpoints.path(self.path / "checkpoints", available[-1]))
        best = newest["journal"].get("best", {})
        step = best.get("step") if isinstance(best, dict) else None
        return step if step in available else available[-1]

    @functools.cached_property
    def model(self) -> Model:
        """The trained model, in inference mode."""
        return self.model_at(self.step)

    def model_at(self, step: int) -> Model:
        """The model at a checkpoint (its averaged weights where the run keeps them), in inference mode."""
        if step not in self.checkpoints:
            raise ArgumentError(
                f"{self.id} has no checkpoint of step {step}", remedy=f"it has: {self.checkpoints}"
            )
        model = lora.merged(self.adapted_at(step), self._strength)
        for learnt, strength in self._more:
            model = learnt.onto(model, strength)
        return eqx.nn.inference_mode(model)

    def adapted_at(self, step: int) -> Model:
        """The same as it is trained: low-rank adapters, if it has any, apart from the weights beside them."""
        build, config = self.builder(), self.settings
        shapes = eqx.filter_eval_shape(lambda: attached(build(), config))  # enough here: nothing is drawn
        like, static = eqx.partition(shapes, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
        stored, part = (
            checkpoints.path(self.path / "checkpoints", step),
            "ema" if config.averages else "model",
        )
        arrays, _ = checkpoints.load(stored, like, part=part, former=former.arrays_of(self.config))
        model: Model = eqx.combine(arrays, static)
        return model

    def with_lora(self, *sources: "Adapting", strength: float | Sequence[float] = 1.0) -> "Run":
        """The run with the low-rank adapters of others, each a run or a file of adapters, in its model.

        `strength` says how much of what was learnt is added, for all or one for each: 0 nothing, 1 what was trained.
        Without sources it is that of the run's own adapters. The folder stays as it is.
        """
        found = Run(self.path, model=self._template, data=self._data, config=self._config)
        found._strength, found._more = mounted(self, sources, strength, Run.open)
        return found

    # ------------------------------------------------------------------ at work

    def score(
        self,
        split: str | None = None,
        *,
        data: Data | str | os.PathLike[str] | None = None,
        text: str | None = None,
        stride: int | None = None,
        n: int | None = None,
        positive: str | None = None,
        top: Sequence[int] = (),
        calibrated: bool = False,
        k: int | None = None,
        samples: int | None = None,
        crf: bool = False,
        **options: Any,
    ) -> Scores:
        """Every number the model's capabilities give on a split (test unless told), or on `n` of its examples.

        `data` is another source to judge the model by, or what `other` made of it; `options` are those of that source.
        `text` is a text of one's own, for a model of texts. Texts of any length are read in windows `stride` tokens
        apart. Bounds are estimated on 2,048 examples unless told otherwise. `positive` names the one of two classes
        that is looked for, the second unless told. `top=(3,)` asks how often the true class is among the three
        likeliest, `calibrated` what probabilities are worth at the `temperature`. `k` says by how many codes a model
        with a latent variable estimates the likelihood of an example, 100 unless told, and `samples` how many
        examples a model draws to be compared with real ones, 1,000 at most unless told. `crf` judges masks refined
        by a conditional random field.
        """
        if options and (data is None or isinstance(data, Data)):
            unknown = f"{next(iter(options))}: no such setting of score"
            raise ArgumentError(unknown, remedy="options of a source need data=SOURCE")
        data = data if text is None else self.other(data and str(data), text=text)
        if data is not None and split is not None:
            raise ArgumentError(f"split={split}: other data are judged as a whole", remedy="leave split out")
        if isinstance(data, Data):
            self.preparation.check(data)
        found = data if isinstance(data, Data) else self.data if data is None else self.other(data, **options)
        seed, part = self.settings.seed, split or "test"
        model = refined(self.model, self.id) if crf else self.model
        heat = self.temperature().value if calibrated else None
        said = (
            self.thresholds()
            if targets.of(self.schema).has_labels and isinstance(model, CanPredict)
            else None
        )
        cuts = said.values if said is not None and said.examples else None
        judged = functools.partial(scores.score, model, found, part, seed=seed, stride=stride, n=n)
        return judged(positive=positive, top=top, temperature=heat, thresholds=cuts, k=k, samples=samples)

    def temperature(self) -> Temperature:
        """The temperature that makes probabilities of classes honest, fitted on the validation examples once."""
        return temperature.of_run(self)

    def thresholds(self) -> Thresholds:
        """The probabilities from which on labels are said to be there, chosen on the validation examples once."""
        return thresholds.of_run(self)

    def other(
        self, data: str | os.PathLike[str] | None = None, *, text: str | None = None, **options: Any
    ) -> Data:
        """Another source, or a text, as data of this run to judge the model by: all is in their test split.

        Scaling, classes (by their names), tokens and the reading of columns are those of training. Where the source has
        a test part of its own, only that is taken. `options` are those of the source.
        """
        needs = needs_targets(self.model)
        return load_other(data, self.preparation, text=text, needs_targets=needs, **options)

    def predict(
        self,
        given: Given,
        *,
        level: float = 0.9,
        horizon: int | None = None,
        calibrated: bool = False,
        crf: bool = False,
        tiled: bool | None = None,
        gallery: str | os.PathLike[str] | None = None,
    ) -> Predictions:
        """What the model predicts for new inputs, prepared as the training examples were.

        `given` is a path (an image, a folder of images or texts, a CSV, NumPy or text file), an array in the units of
        the data, a data frame, a text, an image of Pillow, or a list of these. Inputs that cannot be used are named in
        `problems` and keep their rows. `level` is the probability with which intervals hold a value. A model of series
        forecasts the next `horizon` steps of the one that is given, as many as a training example has unless told.
        `calibrated` gives probabilities of classes at the run's `temperature`. Masks are refined by a conditional
        random field with `crf`; `tiled` looks at images at their own scale, tile by tile (unless told, where training
        did). A model of identities looks for images in a `gallery`, a folder with a folder for each identity or one
        image of each.
        """
        return collect(answering(self, given, level, horizon, calibrated, crf, tiled, gallery))

    def write_predictions(
        self,
        given: Given,
        out: str | Path,
        *,
        level: float = 0.9,
        horizon: int | None = None,
        calibrated: bool = False,
        crf: bool = False,
        tiled: bool | None = None,
        gallery: str | os.PathLike[str] | None = None,
    ) -> Written:
        """The same as `predictions.csv` in the folder `out`, in memory that does not grow with their number.

        Masks become PNG files in `out/masks`, and sources of sound WAV files in `out`.
        """
        answers = answering(self, given, level, horizon, calibrated, crf, tiled, gallery)
        return write(answers, Path(out).expanduser())

    def code(self) -> Code:
        """The model as a code: see `chainrule.information.compress`."""
        if isinstance(self.model, HasCode):
            return self.model.code()
        lacks = "has no probabilities that data could be coded by"
        if isinstance(self.model, HasLogProb | HasBound):
            lacks = "knows a density of whole examples, or a bound of it, but gives no single symbol a probability"
        possible = self.schema.levels or self.schema.tokens
        raise CapabilityError(
            f"{models.title(self.model)} {lacks}",
            remedy="train a vae, made, pixel-cnn or gpt on the same data" if possible else LEVELS_WANTED,
        )

    def sample(self, n: int, key: Key | None = None, condition: Any = None, **options: Any) -> np.ndarray:
        """`n` new examples in the original units of the data.

        `condition` is one class, caption or, in the units of the data, vector or picture for all, or one for each.
        """
        model = self.model
        if not isinstance(model, CanSample):
            raise CapabilityError(
                f"{models.title(model)} does not generate examples",
                remedy=f"it can be scored: chainrule score {naming.handle(self.path)}",
            )
        if n < 1:
            raise ArgumentError(f"n={n}: ask for at least one example")
        key = random.key(self.settings.seed, "sample") if key is None else key
        if condition is not None:
            options["condition"] = condition
        given = in_model_units(self.preparation, options, Run.open)
        return to_original(self.schema, self.scaling, model.sample(key, n, **given))


def runs(where: str | Path | None = None) -> list[Run]:
    """Every run in a folder, oldest first."""
    found = [path.parent for path in naming.root(where).glob("*/config.yaml")]
    found.sort(key=lambda path: ((path / "config.yaml").stat().st_mtime, path.name))
    return [Run(path) for path in found]


__all__ = ["Run", "runs"]
