"""`chainrule sample`: new examples from a trained model, as numbers in the data's own units and as a picture.

A single text is shown while it is being written.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin

from chainrule.cli.adapters import WORDS
from chainrule.cli.defaults import SAMPLES
from chainrule.cli.options import Json, RunName, Settings

if TYPE_CHECKING:
    import numpy as np

    from chainrule.core.types import Array
    from chainrule.data.schema import Schema
    from chainrule.train import Run

OWN = ("n", "class", "text", "y", "prompts", "seed", "out", "runs", *WORDS)


def sample(name: RunName, settings: Settings = None, json: Json = False) -> None:
    """Draw new examples from a trained model.

    Settings: n=64 (texts and translations: n=1, for each prompt), seed=0, out=DIR; what to draw: class=3 (or
    class=cat,dog in turn), text="a three" (or text="a three|two fives" in turn), y=0.5,1.2 (or y=FILE.npz, with an
    array y); and the model's own, such as prompt= (or prompts=FILE, one on every line), temperature=, bias=, steps= or,
    for control, control=EDGES.png strength=1 (or like=PHOTO.png; beside=RUN to follow a second control as well):
    chainrule models show MODEL lists them all. Texts go to samples.txt; what that held before is kept beside it. Rows
    are written as samples.csv too, under the names of their columns; inpaint=ROW.csv fills in the empty cells of a row.

    lora=RUN (or FILE.safetensors, several with commas) adds the low-rank adapters of other runs to the model, each
    lora_strength=1 times; without lora= that is the strength of the run's own adapters.
    """
    from chainrule.cli import texts
    from chainrule.cli.adapters import with_adapters
    from chainrule.cli.arguments import parse, take
    from chainrule.cli.folders import find, runs_folder
    from chainrule.cli.output import emit, say
    from chainrule.cli.sample_time import announce
    from chainrule.cli.settings import whole_number
    from chainrule.core import random
    from chainrule.data import kinds
    from chainrule.models.protocol import CanTranslate, HasSampleControls
    from chainrule.train import Run

    words = parse([name, *(settings or [])])
    (wanted,) = take(words, "RUN")
    given = dict(words.settings)
    folder = runs_folder(given.pop("runs", None))
    run = with_adapters(Run.open(find(wanted, folder)), given, folder)
    given = {word: text for word, text in given.items() if word not in WORDS}
    single = texts.writes(run) or isinstance(run.model, CanTranslate)
    n = whole_number("n", given.pop("n", "1" if single else str(SAMPLES)), low=1)
    prompts = texts.prompts_of(given)
    seed = whole_number("seed", given.pop("seed", str(run.settings.seed)), low=0)
    out = Path(given.pop("out", str(run.path / "samples"))).expanduser()
    condition = _condition(given, run.schema, n)
    options = _options(run, given, conditional=condition.value is not None)
    if "classifier" in options:
        options["classifier"] = find(given["classifier"], folder)
    if "beside" in options:
        options["beside"] = [find(word.strip(), folder) for word in given["beside"].split(",")]
    facts = {"run": run.id, "step": run.step, "seed": seed, "n": n, "settings": dict(words.settings)}
    key = random.key(seed, "sample")
    more: Mapping[str, Any] = {}
    if kinds.of(run.schema).has_tokens:
        found = texts.draw(run, key, n, texts.AskedTexts(prompts, options, condition.value), json=json)
        files, more = texts.keep(out, found.texts), found.more
    else:
        announce(run, n)
        drawn = run.sample(n, key=key, condition=condition.value, **options)
        controls = (
            run.model.sample_controls(n, **options) if isinstance(run.model, HasSampleControls) else None
        )
        files = _write(out, drawn, condition, run, facts, controls, options)
    if json:
        emit({"run": run.id, "n": n, "seed": seed, **files, **more})
        return
    for what, file in files.items():
        say(what, str(file))


class Condition(NamedTuple):
    """What the examples are to be: the condition for the model, an array that keeps it, and a name for each."""

    value: Any = None
    arrays: "Mapping[str, np.ndarray]" = MappingProxyType({})
    names: Sequence[str] = ()


def _condition(given: dict[str, str], schema: "Schema", n: int) -> Condition:
    """The condition that class=, text= or y= gives; they are taken out of the settings."""
    import numpy as np

    from chainrule.core.errors import ArgumentError
    from chainrule.data import targets

    named = {name: given.pop(name) for name in ("class", "text", "y") if name in given}
    if len(named) > 1:
        raise ArgumentError(
            f"{' and '.join(named)}: examples are asked for in one way", remedy="give one of them"
        )
    if "class" in named:
        labels = _labels(named["class"], schema, n)
        return Condition(labels, {"labels": labels}, [schema.classes[i] for i in labels])
    if "text" in named:
        if not targets.of(schema).has_tokens:
            raise ArgumentError(f"text={named['text']}: these data have no captions")
        texts = [caption.strip() for caption in named["text"].split("|")]
        captions = [texts[i % len(texts)] for i in range(n)]
        return Condition(captions, {"captions": np.array(captions)}, captions)
    if "y" in named:
        values = _numbers(named["y"])
        return Condition(values, {"y": values})
    return Condition()


def _numbers(text: str) -> "np.ndarray":
    """Numbers as they are typed, or the array `y` of a file."""
    import numpy as np

    from chainrule.core.errors import ArgumentError
    from chainrule.data.readers.npy import named

    if text.endswith(".npz"):
        return named(Path(text), ["y"])["y"]
    try:
        values = [float(number) for number in text.split(",")]
    except ValueError:
        raise ArgumentError(
            f"y={text}: numbers with commas between them, or the name of an .npz file"
        ) from None
    return np.array(values if len(values) > 1 else values[0])


def _labels(text: str, schema: "Schema", n: int) -> "np.ndarray":
    """Class numbers, one for each example: one class for all, or several in turn (`class=3`, `class=cat,dog`)."""
    import numpy as np

    from chainrule.core.errors import ArgumentError, suggest

    numbers = {name: i for i, name in enumerate(schema.classes)}
    numbers = {**{str(i): i for i in numbers.values()}, **numbers}
    chosen = [word.strip() for word in text.split(",")]
    for word in chosen:
        if word not in numbers:
            known = (
                f"classes: {', '.join(schema.classes[:20])}"
                if schema.classes
                else "these data have no classes"
            )
            raise ArgumentError(f"class={text}: unknown class {word!r}{suggest(word, numbers)}", remedy=known)
    return np.resize(np.array([numbers[word] for word in chosen], dtype=np.int32), n)


def _options(run: "Run", given: dict[str, str], *, conditional: bool) -> dict[str, Any]:
    """The model's own options, by the schemas it says they have."""
    from chainrule.cli.settings import unknown
    from chainrule.core.errors import CapabilityError
    from chainrule.models.protocol import CanSample, option_fields, read_options

    if not isinstance(run.model, CanSample):
        return {}  # run.sample says what is wrong
    groups = run.model.sample_options()
    fields = option_fields(groups)
    takes_any = any(group.is_open for group in groups)
    if conditional and not takes_any and "condition" not in fields:
        raise CapabilityError(f"{run.id} draws from all classes together", remedy="leave class= out")
    own = [name for name in fields if name != "condition"]
    for name in given:
        if name not in own and not takes_any:
            raise unknown(name, [*OWN, *own], f"options of {run.id}: {', '.join([*OWN, *own])}")
    found = {
        name: _value(text, fields[name].annotation if name in own else Any) for name, text in given.items()
    }
    read_options(groups, found)  # complains before anything is drawn
    return found


def _value(text: str, annotation: Any) -> Any:
    """An option as text where it may be that text, and otherwise as what it looks like."""
    from chainrule.cli.settings import guess

    options = (annotation, *get_args(annotation))
    members = [member for option in options if get_origin(option) is Literal for member in get_args(option)]
    return text if str in options or text in members else guess(text)


def _write(
    out: Path,
    drawn: "np.ndarray",
    condition: Condition,
    run: "Run",
    facts: dict[str, Any],
    controls: "Array | None",
    options: Mapping[str, Any],
) -> dict[str, Path]:
    """The files of the samples by what they are; `controls` are the pictures that the samples follow, if any."""
    import numpy as np

    from chainrule.data import kinds
    from chainrule.data.row_files import write_rows
    from chainrule.models.protocol import HasViews
    from chainrule.report import save
    from chainrule.train.files import disk_errors

    schema = run.schema
    kind, follows = kinds.of(schema), None if controls is None else np.asarray(controls)
    arrays = condition.arrays if follows is None else {**condition.arrays, "control": follows}
    with disk_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        files = {"samples": kind.write(out, schema, drawn, arrays), **kind.write_playable(out, schema, drawn)}
        if kind.has_rows:
            files["table"] = write_rows(
                out / "samples.csv", schema, drawn, run.preparation.reading, condition.names
            )
    # Files of pictures show titles alone.
    title = ": ".join(filter(None, [f"Samples of {facts['run']}", _caption(run, facts, condition, options)]))
    names = condition.names
    if isinstance(run.model, HasViews) and options.get("view") is not None:
        drawn, names = _both_views(run, drawn, names, options)
    picture = kind.picture(schema, drawn, names, follows=follows, title=title)
    return {**files, "picture": save(picture, out, "samples", facts)}


def _both_views(
    run: "Run", drawn: "np.ndarray", names: Sequence[str], options: Mapping[str, Any]
) -> tuple["np.ndarray", list[str]]:
    """Every sample as it stands and, beside it, in the other view, with what it was asked to be in each."""
    import jax.numpy as jnp
    import numpy as np

    from chainrule.data.scaling import to_original
    from chainrule.models.protocol import HasViews

    model, view = run.model, str(options["view"])
    assert isinstance(model, HasViews)
    seen = np.asarray(model.in_view(jnp.asarray(run.scaling.apply(drawn)), view))
    both = np.stack([drawn, to_original(run.schema, run.scaling, seen)], axis=1)
    other = "" if options.get("other") is None else f"{options['other']}, "
    labels = [text for name in (names or [""] * len(drawn)) for text in (name, f"{other}{view}")]
    return both.reshape(-1, *drawn.shape[1:]), labels


def _caption(run: "Run", facts: Mapping[str, Any], condition: Condition, options: Mapping[str, Any]) -> str:
    """How the samples were drawn, where the model says it, and what was asked for."""
    from chainrule.models.protocol import HasSampleCaption

    model, own = run.model, ("n", "seed", "out", "runs", "sampler", "steps", "guidance")
    how = (
        model.sample_caption(condition=condition.value, **options)
        if isinstance(model, HasSampleCaption)
        else ""
    )
    asked = [f"{name}={value}" for name, value in facts["settings"].items() if name not in own]
    return ", ".join(filter(None, [how, *asked]))


__all__ = ["sample"]
