"""Training requests: the words after `chainrule train`, sorted into model, data and settings.

Every word belongs to exactly one of four: the model's settings, the training settings, the data's options (`data.`),
and the words of the command itself. A recipe (`config=FILE`, the config.yaml of an earlier run, or `recipe=NAME`, one
that the model brings along) comes first and the words after it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from chainrule import models
from chainrule.cli import defaults, recipes, settings
from chainrule.cli.adapters import beside_start
from chainrule.cli.arguments import Words, nest, take
from chainrule.cli.folders import runs_folder
from chainrule.cli.starts import Start, start_of, text_options, with_teacher
from chainrule.cli.target_domain import PREFIX, TargetDomain, target_of
from chainrule.cli.target_domain import WORDS as TARGET_WORDS
from chainrule.core import code_files, random
from chainrule.core.errors import ArgumentError
from chainrule.core.quoting import shell_word
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.loading.as_series import series_options
from chainrule.data.loading.load import load
from chainrule.data.loading.options import COMMON, NO_COLUMN
from chainrule.data.loading.sources import find
from chainrule.models.protocol import Entry, Model, Recipe
from chainrule.models.vectors import with_vectors
from chainrule.models.wrapping import FromFile, ModelFile
from chainrule.train import Callback, TrainConfig, fisher_diagonal, former
from chainrule.train.config import FORMER_SETTINGS
from chainrule.train.folder import CODE, read_config
from chainrule.train.loop import merge, settled
from chainrule.train.naming import handle, run_folder

OWN = {
    "model": "name of the model, another way to write it first",
    "data": "name of a data set, or path of a file or folder",
    "config": "config.yaml of an earlier run to repeat; other words override it",
    "recipe": "name of settings that go together, listed by `chainrule train MODEL --help`; other words override it",
    "from": "run to begin with: its settings, its tokenizer and its weights",
    "fresh": "with from=: layers that begin afresh all the same, by name or pattern",
    "head_first": "with from= and a fresh head: steps in which the head learns alone, before all learn at a tenth of "
    "the rate; 0: all at once; 1,000 where published weights got a new head, else 0",
    "vectors": "text file of GloVe or word2vec whose vectors the tokens begin with; freeze=LAYER keeps them",
    "callbacks": "FILE.py:FUNCTION, or several, asked after every evaluation; the file is run (docs/training.md)",
    "run": "name of the run, or path of its folder",
    "runs": "folder of the runs; default $CHAINRULE_RUNS or ./runs",
}
"""Words of the command, which no model has a setting of."""
WORDS = {**OWN, **TARGET_WORDS}
"""All of them; of models that call a setting of their own `target`, such as `diffusion`, the word means that."""


@final
@dataclass(frozen=True)
class TrainingRequest:
    """Everything needed to train, checked as far as it can be without the data."""

    entry: Entry
    model: Mapping[str, Any]
    """Settings of the model that were given; the rest is left to `models.build`."""
    data: Mapping[str, Any]
    """Arguments of `data.load`."""
    train: Mapping[str, Any]
    """Training settings that were given, typed; the rest is left to `fit`."""
    runs_folder: Path
    """The folder of the runs."""
    run: Path | None
    """The folder of the run, if it was given one."""
    start: Start | None = None
    """What it begins with, if not with weights drawn at random."""
    vectors: Path | None = None
    """The file its tokens take their vectors from."""
    file: ModelFile | None = None
    """The Python file the model comes from, if it is one of the user's own."""
    callbacks: tuple[Callback, ...] = ()
    """Functions of the user's own that are asked after every evaluation."""
    recipe: tuple[str, Recipe] | None = None
    """The settings that go together it was asked for, and their name."""
    target: TargetDomain | None = None
    """The other domain that the model is brought to."""

    def stem(self, data: Data) -> str:
        """The beginning of the names of what this training writes: the data, and the model or, of a file, its class."""
        return f"{data.name}-{self.entry.name.rpartition(':')[2]}"

    def build(self, data: Data) -> tuple[Model, dict[str, Any] | None]:
        """The model before training, and what a recipe says about weights that were not drawn at random."""
        name, seed = self.entry.name, self.settled(data)[0].seed
        if self.file is not None:
            config = self.entry.config(**self.model)
            return self.entry.build(config, data.schema, random.key(seed, "init")), None
        if self.start is not None:
            self.start.check_units(self.entry, data)
            begun = models.begin(
                name, self.start.run.model, data, seed=seed, fresh=self.start.fresh, **self.model
            )
            return begun, self.start.to_json()
        model = models.build(name, data, seed=seed, **self.model)
        if self.vectors is None:
            return model, None
        found = with_vectors(model, data, self.vectors)
        known = {"of_tokens": found.tokens, "of_text": found.text}
        return found.model, {"vectors": str(self.vectors), "coverage": known}

    @property
    def code(self) -> FromFile | None:
        """Which file and settings a run of a model of the user's own records."""
        return (
            None if self.file is None else FromFile(self.file, self.entry.config(**self.model).model_dump())
        )

    def load(self) -> Data:
        """The data, beside those of another domain where there is one."""
        data = self._load()
        return data if self.target is None else self.target.beside(data)

    def _load(self) -> Data:
        """The data; for a model that takes series alone, the rows of a table as one series unless options say else."""
        known = find(self.data["name_or_path"]).options
        fitting = [kinds.get(name) for name in self.entry.kinds]
        choose = "series" in known and self.data.get("series", known["series"].default) is None
        if (
            not choose
            or any(kind.has_rows for kind in fitting)
            or not any(kind.from_rows for kind in fitting)
        ):
            return load(**self.data)
        without = {"target": NO_COLUMN} if "target" in known else {}
        data = load(**{**without, **self.data})
        options = series_options(data)
        return load(**{**without, **self.data, **options}) if options else data

    def chosen(self, data: Data) -> list[str]:
        """What `load` has chosen beyond the options that were given, in words."""
        window = data.source.get("series")
        known = find(self.data["name_or_path"]).options
        if window is None or self.data.get("series", known["series"].default) is not None:
            return []
        left = [str(name) for name in data.source.get("drop", ()) if name not in self.data.get("drop", ())]
        without = f", without {', '.join(left)}" if left else ""
        return [
            f"rows as one series{without}, {window} steps in an example; to change it: data.series={2 * window}"
        ]

    def fitted(self, data: Data) -> "TrainingRequest":
        """The request once its data are known: other classes than those of the run it begins with need a new head."""
        if self.start is None:
            return self
        start = self.start.fitted(self.entry, data)
        if start == self.start:
            return self
        return replace(self, start=start, train=beside_start(dict(self.train), start.fresh))

    def importance(self) -> Any:
        """How much each parameter counts that is held where the run it begins with left it; nothing if all alike."""
        anchor = self.train.get("anchor", {})
        if self.start is None or not anchor.get("strength") or anchor.get("by") != "fisher":
            return None
        return fisher_diagonal(self.start.run.model, self.start.run.data)

    def check(self, data: Data) -> None:
        """Raise where the settings contradict each other or the data are not for the model; nothing is built."""
        self.settled(data)
        if self.file is None:
            models.fits(self.entry, data.schema)

    def check_device(self) -> None:
        """Refuse a recipe that would take too long on this machine."""
        if self.recipe is not None:
            name, recipe = self.recipe
            recipes.check_work(name, recipe, self.model, self.data, self.train)

    def settled(self, data: Data) -> tuple[TrainConfig, int]:
        """All training settings, those that suit the model and the data where none were given, and the steps."""
        return settled(self.entry.training_for(data.schema), self.train, len(data.train))


def parse_request(words: Words) -> TrainingRequest:
    """The request that the words of `chainrule train` make."""
    own = _own(words)
    recipe = _recipe(own["config"]) if "config" in own else {"model": {}, "data": {}, "train": {}}
    folder = runs_folder(own.get("runs"))
    file = _file(words, own, recipe)
    start = start_of(own, recipe, folder)
    entry = models.entry(_model_name(words, own, recipe, start)) if file is None else file.entry()
    named = recipes.named(own, entry)
    if start is not None and "from" in own and (named.model or named.data):
        raise _said_twice(own, "from")
    same = start is not None and start.learns_as_before(entry)
    if "data" in own:
        source = {"name_or_path": own["data"]}
    elif "config" in own:
        source = _stored(recipe["data"], own["config"])
    else:
        source = (
            _stored(start.run.config["data"], start.run.id)
            if start and same
            else {"name_or_path": _default_data(entry)}
        )
    known = find(source["name_or_path"]).options
    model, data, train = sort(words.settings, entry, [*COMMON, *known])
    settings = merge(recipe["model"].get("settings", {}), named.model)
    if start is not None:
        source = {**text_options(start.run, known), **source}
        settings = settings or models.inherited(entry.name, start.run.model)
    given = merge(merge(recipe["train"], named.train), nest(train))
    typed = with_teacher(TrainConfig.parse(**given).model_dump(exclude_unset=True), folder)
    return TrainingRequest(
        entry=entry,
        model=_configured(entry, merge(settings, nest(model)), file),
        data={**source, **recipes.suited(named.data, known, data), **data},
        train=beside_start(typed, None if start is None else start.fresh),
        runs_folder=folder,
        run=run_folder(own["run"], own.get("runs")) if "run" in own else None,
        start=start,
        vectors=_vectors(own, recipe, start),
        file=file,
        callbacks=callbacks(own.get("callbacks")),
        recipe=(own["recipe"], named) if "recipe" in own else None,
        target=target_of(words.settings, recipe, entry, default_data=not {"data", "config"} & own.keys()),
    )


def callbacks(targets: str | None) -> tuple[Callback, ...]:
    """The functions that are named FILE:FUNCTION, with commas between them; their files are run, as a person asked."""
    words = targets.split(",") if targets else []
    named = [code_files.named(word.strip(), "FUNCTION", "mine.py:careful") for word in words]
    return tuple(code_files.member(path, name, "function") for path, name in named)


def _file(words: Words, own: Mapping[str, str], recipe: Mapping[str, Any]) -> ModelFile | None:
    """The Python file of a model of the user's own: the one that is named, or the one of the recipe."""
    named = [*words.names, *([own["model"]] if "model" in own else [])]
    if named and ".py" in named[0]:
        take(Words(tuple(named), {}), "MODEL")
        for other in ("config", "from", "recipe", "vectors"):
            if other in own:
                raise ArgumentError(
                    f"{other}={own[other]}: this is for models of the registry",
                    remedy=f"leave it out, or leave {named[0]!r} out",
                )
        return ModelFile.named(named[0])
    if "file" not in recipe["model"]:
        return None
    path = Path(own["config"]).expanduser()
    run = path if path.is_dir() else path.parent
    found = ModelFile.recorded(recipe["model"]["file"], handle(run), run / CODE)
    found.check_allowed(f"chainrule runs trust {handle(run)}")
    return found


def _configured(entry: Entry, given: Mapping[str, Any], file: ModelFile | None) -> dict[str, Any]:
    where = (
        f"models show {entry.name}"
        if file is None
        else f"train {shell_word(f'{file.path}:{file.name}')} --help"
    )
    remedy = f"settings of {entry.name}: chainrule {where}"
    return models.configured(entry, given, remedy).model_dump(exclude_unset=True)


def _default_data(entry: Entry) -> str:
    if not entry.data:
        raise ArgumentError(
            f"{entry.name} needs data", remedy="name them: data=FILE-OR-NAME   some to try: chainrule data ls"
        )
    return entry.data


def _own(words: Words) -> dict[str, str]:
    """The words of the command itself."""
    own = {name: value for name, value in words.settings.items() if name in OWN}
    for name, value in own.items():
        if not value:
            raise ArgumentError(f"{name}= needs a value", remedy=f"{name}: {OWN[name]}")
    if "recipe" in own and "config" in own:
        raise _said_twice(own, "config")
    return own


def _said_twice(own: Mapping[str, str], other: str) -> ArgumentError:
    return ArgumentError(
        f"recipe={own['recipe']} and {other}={own[other]}: both say what the model is",
        remedy="leave one out",
    )


def _vectors(own: Mapping[str, str], recipe: Mapping[str, Any], start: Start | None) -> Path | None:
    """The file of vectors that is named, or the one of the recipe."""
    stored = recipe["model"].get("from")
    given = own.get("vectors") or (stored.get("vectors") if isinstance(stored, dict) else None)
    if given is None:
        return None
    if start is not None:
        raise ArgumentError(
            f"vectors={given}: a run that begins with another has its vectors", remedy="leave one out"
        )
    return Path(given).expanduser().resolve()


def sort(
    given: Mapping[str, str], entry: Entry, options: Iterable[str]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The settings of the model, of the data and of training, values read by the type each setting has."""
    of_model, of_train = settings.of(entry.config), settings.of(TrainConfig)
    of_data = {f"data.{option}": option for option in options}
    model, data, train = {}, {}, {}
    for name, text in given.items():
        if found := settings.find(name, of_model):
            model[name] = settings.read(text, found.annotation)
        elif found := settings.find(name, of_train):
            train[name] = settings.read(text, found.annotation)
        elif name in of_data:
            data[of_data[name]] = settings.guess(text)
        elif name not in WORDS and not name.startswith(PREFIX):
            known = [*WORDS, *of_model, *of_train, *of_data]
            renamed = {**FORMER_SETTINGS, **entry.former_settings}
            raise settings.unknown(name, known, f"all settings: chainrule train {entry.name} --help", renamed)
    return model, data, train


def training(given: Mapping[str, str], also: Iterable[str] = ()) -> dict[str, Any]:
    """Training settings alone, typed and nested, for a run whose model and data are decided."""
    known = settings.of(TrainConfig)
    values = {}
    for name, text in given.items():
        found = settings.find(name, known)
        if found is None:
            raise settings.unknown(
                name,
                [*known, *also],
                "a resumed run keeps its model and data; training settings: chainrule train --help",
                FORMER_SETTINGS,
            )
        values[name] = settings.read(text, found.annotation)
    return TrainConfig.parse(**nest(values)).model_dump(exclude_unset=True)


def _recipe(config: str) -> dict[str, Any]:
    path = Path(config).expanduser()
    if not path.exists():
        raise ArgumentError(f"config={config}: there is no such file")
    return former.config(read_config(path))


def _model_name(words: Words, own: Mapping[str, str], recipe: Mapping[str, Any], start: Start | None) -> str:
    named = [*words.names, *([own["model"]] if "model" in own else [])]
    stored = recipe["model"].get("name")
    if "config" in own and stored is None:
        raise ArgumentError(
            f"{own['config']} holds a model class of your own", remedy="train it again from Python"
        )
    if len(named) > 1:
        take(Words(tuple(named), {}), "MODEL")
    if not named:
        begun = None if start is None else start.run.config["model"]["name"]
        return str(stored or begun or defaults.MODEL)
    name = named[0]
    if name not in models.names() and Path(name).exists():
        raise ArgumentError(
            f"{name!r} is not a model but a file or folder",
            remedy=f"to train on it: chainrule train {shell_word(f'data={name}')}",
        )
    if stored and stored != name:
        raise ArgumentError(
            f"{own['config']} is a recipe for {stored}, not for {name}",
            remedy=f"leave {name!r} out, or leave config= out",
        )
    return name


def _stored(source: Mapping[str, Any], config: str) -> dict[str, Any]:
    if "name_or_path" not in source:
        raise ArgumentError(f"the data of {config} were built in Python", remedy="name others with data=")
    return dict(source)


__all__ = ["OWN", "WORDS", "TrainingRequest", "callbacks", "parse_request", "sort", "training"]
