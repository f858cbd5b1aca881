"""`chainrule export`: the weights of a run as a file that other programs read."""

from chainrule.cli.options import Json, RunName, Settings

_SETTINGS = ["layout", "out", "runs"]
_USAGE = (
    "settings of export: out=FILE.safetensors, layout=torch, chainrule, onnx, timm or transformers, runs=DIR"
)


def export(name: RunName, settings: Settings = None, json: Json = False) -> None:
    """Write the weights of a run as a safetensors file, or what it predicts as an ONNX file.

    Settings: out=FILE.safetensors (default: RUN.safetensors), layout=torch (shapes of PyTorch, under the names of its
    libraries where they have the model), layout=chainrule (its own), layout=timm or transformers (some classifiers),
    layout=onnx (RUN.onnx, for runtimes without Python), runs=DIR. A tokenizer is written beside the weights; chainrule
    import reads both again.
    """
    import shutil
    from pathlib import Path

    from chainrule import models
    from chainrule.cli.arguments import parse, take
    from chainrule.cli.folders import find, runs_folder
    from chainrule.cli.output import emit, say
    from chainrule.cli.settings import unknown
    from chainrule.core.errors import check_choice
    from chainrule.core.quoting import shell_word
    from chainrule.data import kinds, targets
    from chainrule.train import Run
    from chainrule.train.files import disk_errors

    words = parse([name, *(settings or [])])
    (wanted,) = take(words, "RUN")
    for word in words.settings:
        if word not in _SETTINGS:
            raise unknown(word, _SETTINGS, _USAGE)
    run = Run.open(find(wanted, runs_folder(words.settings.get("runs"))))
    entry = models.entry_of(run.model)
    named = entry is not None and entry.torch_names is not None
    layout = words.settings.get("layout", "torch" if named else "chainrule")
    known = ("torch", "chainrule", "onnx", *(entry.layouts if entry else ()))
    check_choice("export", "layout", layout, known)
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
        # A file does not hold where its data lie, and the data of a model's own may be of another shape.
        source = run.config["data"].get("name_or_path")
        again = ["chainrule import", entry.name, shell_word(written)]
        say("again", " ".join(again if source is None else [*again, shell_word(f"data={source}")]))


__all__ = ["export"]
