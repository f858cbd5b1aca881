"""`chainrule decompress`: what was compressed, to the last bit, by the run that its header names."""

from typing import Annotated

import typer

from chainrule.cli.options import Json, Settings

OWN = ["out", "run", "runs"]
_HOW = f"settings of decompress: {', '.join(f'{one}=' for one in OWN)}"

File = Annotated[
    str, typer.Argument(metavar="FILE", show_default=False, help="A file of chainrule compress.")
]


def decompress(file: File, settings: Settings = None, json: Json = False) -> None:
    """Write what was compressed, to the last bit, or say why that cannot be.

    The run is found by the name and the weights that the file records. A file that was cut off or altered, other
    weights, or a machine that computes other probabilities are errors; nothing is written then.

    Settings: out=FILE-OR-FOLDER (default: its name when it was compressed), run=RUN (the run, where it has moved),
    runs=DIR.
    """
    from chainrule.cli.arguments import parse, take
    from chainrule.cli.folders import find, runs_folder
    from chainrule.cli.output import emit, say
    from chainrule.cli.progress_line import progress_line
    from chainrule.cli.settings import unknown
    from chainrule.core.quoting import shell_word
    from chainrule.train import Run
    from chainrule.train.compression import decompress_file

    words = parse([file, *(settings or [])])
    (wanted,) = take(words, "FILE")
    for word in words.settings:
        if word not in OWN:
            raise unknown(word, OWN, _HOW)
    folder = runs_folder(words.settings.get("runs"))
    run = Run.open(find(words.settings["run"], folder)) if "run" in words.settings else None
    with progress_line(silent=json):
        written = decompress_file(wanted, words.settings.get("out"), run, folder)
    if json:
        emit({"path": written})
    else:
        say("written", shell_word(str(written)))


__all__ = ["decompress"]
