"""The command line: one file per verb, all registered here.

Importing this package costs Typer and nothing else: a verb imports what it needs when it runs, so `chainrule --help`
does not wait for JAX. Errors leave through `main` alone, which turns them into a message and an exit code.
"""

import errno
import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from chainrule.cli import (
    completion,
    compress,
    data,
    decompress,
    derive,
    doctor,
    embed,
    export,
    importing,
    models,
    play,
    predict,
    probe,
    resume,
    runs,
    sample,
    score,
    train,
)
from chainrule.cli.defaults import EXAMPLES

_OUTPUT_ERRORS = (errno.ENOSPC, errno.EIO, errno.EBADF, errno.EDQUOT)
"""Of an error without a file: standard output is a full disk, a terminal that was closed, or was never open."""

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,  # rich costs more time than all of Typer, and help needs no colours
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)

# A verb is registered by adding its command, or its group of commands, here.
app.command("train", add_help_option=False)(train.train)
app.command("resume")(resume.resume)
app.command("sample")(sample.sample)
app.command("predict")(predict.predict)
app.command("score")(score.score)
app.command("play")(play.play)
app.command("probe", add_help_option=False)(probe.probe)
app.add_typer(runs.app, name="runs")
app.add_typer(models.app, name="models")
app.add_typer(data.app, name="data")
app.command("derive")(derive.derive)
app.command("import")(importing.import_)
app.command("embed")(embed.embed)
app.command("compress")(compress.compress)
app.command("decompress")(decompress.decompress)
app.command("export")(export.export)
app.command("doctor")(doctor.doctor)
app.command("completion")(completion.completion)
app.command("complete", hidden=True)(completion.complete)


def _version(wanted: bool) -> bool:
    if wanted:
        from chainrule import __version__
        from chainrule.cli.output import show

        show(f"chainrule {__version__}")
        raise typer.Exit
    return wanted


@app.callback(epilog="Every verb takes --trace: show where in the code an error arose.")
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Train, sample, score and take apart models on your own data."""
    del version


def main(words: Sequence[str] | None = None) -> None:
    """Run one command and exit: 0 ok, 1 a bug of ours, 2 usage, 3 data, 4 diverged, 5 disk, 130 interrupted."""
    everything = list(sys.argv[1:] if words is None else words)
    given = [word for word in everything if word != "--trace"]
    if not given:
        from chainrule.cli.output import show

        show(EXAMPLES, end="")
        sys.exit(0)
    if given in [[group.name] for group in app.registered_groups]:
        given.append("--help")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a letter shows a question mark
    quiet_environment()
    from chainrule.cli import output

    try:
        with output.warnings_as_notes():
            code = typer.main.get_command(app).main(given, prog_name="chainrule", standalone_mode=False)
        sys.stdout.flush()
    except Exception as error:
        sys.exit(_report(error, trace="--trace" in everything, machine="--json" in given))
    sys.exit(code)


def quiet_environment() -> None:
    """Settings that JAX reads from the environment when it is imported: no log noise, compiled programs kept."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if not os.environ.get("CHAINRULE_NO_CACHE"):
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", doctor.cache_folder())
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")


def _report(error: Exception, *, trace: bool, machine: bool) -> int:
    """Tell people and machines about an error; the exit code."""
    from chainrule.cli import output
    from chainrule.core.errors import ChainruleError, DiskError

    if isinstance(error, BrokenPipeError):  # the reader left (`chainrule models ls | head -1`)
        output.silence()
        return 1
    if isinstance(error, typer.Abort):  # Ctrl-C or the end of the input instead of an answer
        return 130
    if isinstance(error, ChainruleError):
        message, code = str(error), error.exit_code
    elif isinstance(error, typer.TyperException):
        message, code = _usage(error), 2
    elif isinstance(error, OSError) and error.filename is not None:
        # Nobody below could say more than the operating system does: a file that cannot be made, opened or read.
        message, code = f"{error.filename}: {(error.strerror or str(error)).lower()}", DiskError.exit_code
    elif isinstance(error, OSError) and error.errno in _OUTPUT_ERRORS:
        output.silence()
        machine = False
        message, code = f"output cannot be written: {(error.strerror or '').lower()}", DiskError.exit_code
    elif isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(
        error
    ):  # JAX has no class of its own for it
        message, code = "there is not enough memory for what was asked", 2
        message += "\nask for less at once: a smaller batch, n, length, window or model"
    else:
        message, code = f"{type(error).__name__}: {error}", 1
        message = message.splitlines()[0] + (
            "" if trace else "\nrun again with --trace to see where it arose"
        )
    if trace:
        import traceback

        traceback.print_exception(error)
    output.complain(message)
    if machine:
        output.emit({"error": "\n".join(line.strip() for line in message.splitlines()), "exit_code": code})
    return code


def _usage(error: typer.TyperException) -> str:
    """Typer's complaint in our words; a setting written as an option is the usual slip."""
    message = error.format_message().rstrip(".")
    if message.startswith("No such option: --"):
        option = message.removeprefix("No such option: --").split(" ")[0]
        message += f"\nsettings are words without dashes: {option.replace('-', '_')}=..."
    elif "Did you mean" not in message:
        message += "\nchainrule --help lists the verbs, chainrule VERB --help explains one"
    return message[0].lower() + message[1:]


__all__ = ["app", "main", "quiet_environment"]
