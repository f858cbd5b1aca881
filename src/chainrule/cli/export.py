"""`chainrule export`: the weights of a run as a file that other programs read."""

from typing import TYPE_CHECKING

from chainrule.cli.adapters import USAGE, WORDS
from chainrule.cli.options import Json, RunName, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from chainrule.train import Run

_SETTINGS = ["layout", "out", "runs", *WORDS]
_USAGE = (
    "settings of export: out=FILE.safetensors (layout=transformers of a model of text: out=FOLDER), layout=torch, "
    f"chainrule, onnx, lora, timm or transformers, {USAGE}, runs=DIR"
)


def export(name: RunName, settings: Settings = None, json: Json = False) -> None:
    """Write the weights of a run as a safetensors file, or what it predicts as an ONNX file.

    Settings: out=FILE.safetensors (default: RUN.safetensors), layout=torch (shapes of PyTorch, under the names of its
    libraries where they have the model), layout=chainrule (its own), layout=timm or transformers (some classifiers),
    layout=onnx (RUN.onnx, for runtimes without Python), runs=DIR. A tokenizer is written beside the weights; chainrule
    import reads both again.

    The adapters of a run that was trained with lora.rank are merged into what is written, lora_strength=1 times, as are
    those of lora=RUN or FILE.safetensors. layout=lora writes the adapters alone (RUN.lora.safetensors), a small file
    for lora= of the verbs that use a run.

    layout=transformers makes a folder of a gpt or bert run (out=FOLDER, default: RUN), with config.json and tokenizer,
    which AutoModelForCausalLM.from_pretrained (bert: AutoModel) opens and computes the same with.
    """
    import shutil
    from pathlib import Path

    from chainrule import models
    from chainrule.cli.adapters import with_adapters
    from chainrule.cli.arguments import parse, take
    from chainrule.cli.folders import find, runs_folder
    from chainrule.cli.output import emit, say
    from chainrule.cli.settings import unknown
    from chainrule.core.errors import check_choice
    from chainrule.data import kinds, targets
    from chainrule.models.interchange import exported, folders
    from chainrule.train import Run
    from chainrule.train.files import disk_errors

    words = parse([name, *(settings or [])])
    (wanted,) = take(words, "RUN")
    for word in words.settings:
        if word not in _SETTINGS:
            raise unknown(word, _SETTINGS, _USAGE)
    folder = runs_folder(words.settings.get("runs"))
    run = Run.open(find(wanted, folder))
    if words.settings.get("layout") == exported.ADAPTERS:
        _adapters(run, words.settings, json=json)
        return
    run = with_adapters(run, words.settings, folder)
    entry = models.entry_of(run.model)
    named = entry is not None and entry.torch_names is not None
    layout = words.settings.get("layout", "torch" if named else "chainrule")
    whole = entry.hugging_face if entry is not None else None
    more = [*(entry.layouts if entry else ()), *([folders.LAYOUT] if whole else ())]
    check_choice("export", "layout", layout, ("torch", "chainrule", "onnx", *more))
    if whole is not None and layout == folders.LAYOUT:
        _folder(run, Path(words.settings.get("out", run.id)), whole.opens, json=json)
        return
    out = Path(words.settings.get("out", f"{run.id}.{'onnx' if layout == 'onnx' else 'safetensors'}"))
    if layout == "onnx":
        written = models.export_onnx(run.model, out)
    else:
        written = models.export_weights(run.model, out, layout=layout, data=run.config["data"])
    size = written.stat().st_size
    tokenizer = None
    if kinds.of(run.schema).has_tokens and not targets.of(run.schema).has_tokens:
        tokenizer = out.with_suffix(".tokenizer.json")
        with disk_errors(tokenizer):
            shutil.copyfile(run.tokenizer_file(), tokenizer)
    if json:
        also = {} if tokenizer is None else {"tokenizer": str(tokenizer)}
        emit({"path": str(written), "layout": layout, "bytes": size, **also})
        return
    say("written", f"{written}   {size / 1e6:.3g} MB, layout {layout}")
    if tokenizer is not None:
        say("written", f"{tokenizer}   what makes tokens of its texts")
    if entry is not None and layout != "onnx":
        say("again", _again(run, written))


def _adapters(run: "Run", given: "Mapping[str, str]", *, json: bool) -> None:
    """Write the adapters of a run alone, and say how they are used."""
    from pathlib import Path

    from chainrule.cli.output import emit, say
    from chainrule.core.errors import ArgumentError
    from chainrule.core.quoting import shell_word
    from chainrule.models.interchange.exported import ADAPTERS
    from chainrule.train.adapters import Learnt

    for word in WORDS:
        if word in given:
            raise ArgumentError(
                f"{word}={given[word]}: layout=lora writes the adapters of {run.id} as they were trained",
                remedy=f"leave {word} out, or leave layout=lora out to write merged weights",
            )
    written = Learnt.by(run).write(Path(given.get("out", f"{run.id}.lora.safetensors")))
    size = written.stat().st_size
    if json:
        emit({"path": str(written), "layout": ADAPTERS, "bytes": size})
        return
    say("written", f"{written}   {size / 1e6:.3g} MB, layout {ADAPTERS}")
    base = (run.config["model"].get("from") or {}).get("run")
    name = "RUN" if base is None else shell_word(Path(base).name)
    say("use", f"chainrule sample {name} {shell_word(f'lora={written}')}")


def _folder(run: "Run", out: "Path", opens: str, *, json: bool) -> None:
    """Write the folder of a model of text, and say what opens it."""
    from chainrule import models
    from chainrule.cli.output import emit, say
    from chainrule.core.errors import ArgumentError

    if out.is_file() or out.suffix == ".safetensors":
        raise ArgumentError(
            f"out={out}: layout=transformers writes a folder", remedy="name a folder, or leave out= out"
        )
    models.export_folder(run.model, out, data=run.config["data"])
    files = sorted(file.name for file in out.iterdir())
    size = sum(file.stat().st_size for file in out.iterdir())
    if json:
        emit({"path": str(out), "layout": "transformers", "bytes": size, "files": files})
        return
    say("written", f"{out}   {size / 1e6:.3g} MB, {', '.join(files)}")
    say("open", f"transformers.{opens}.from_pretrained({str(out)!r})")
    say("again", _again(run, out))


def _again(run: "Run", written: "Path") -> str:
    """The command that reads what was written."""
    from chainrule.core.quoting import shell_word

    # A file does not hold where its data lie, and the data of a model's own may be of another shape.
    source = run.config["data"].get("name_or_path")
    again = ["chainrule import", run.config["model"]["name"], shell_word(written)]
    return " ".join(again if source is None else [*again, shell_word(f"data={source}")])


__all__ = ["export"]
