"""`chainrule derive`: take the derivative of a function in a file apart."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainrule.cli.options import Json

if TYPE_CHECKING:
    from chainrule.derive.memory_timeline import Timeline
    from chainrule.derive.report import Report


def derive(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE:FUNCTION", show_default=False, help="A Python file of yours and a function in it."
        ),
    ],
    at: Annotated[
        list[str],
        typer.Option(
            "--at",
            metavar="POINT",
            help='One for each argument: 3.0, "[1, 2]", "normal(100)", @file.npy. The first is differentiated.',
        ),
    ],
    out: Annotated[str, typer.Option("--out", help="Folder for the pictures.")] = "",
    x64: Annotated[bool, typer.Option("--x64/--x32", help="Double or single precision.")] = True,
    json: Json = False,
) -> None:
    """Mode, cost and memory of a function's derivatives, and pictures of its graph and its memory.

    This runs the Python file you name, with all that it does when it is imported: name only files you trust.
    """
    import jax

    from chainrule.cli.output import emit, say, show
    from chainrule.cli.points import point

    with jax.enable_x64(x64):
        file, name, function = load(target)
        args = [jax.tree.map(jax.numpy.asarray, point(text)) for text in at]
        plans, shown = _plans(function, args)
        pictures = _draw(function, args, Path(out or f"derive-{name}"))
    if json:
        results = {what: report.to_json() for what, report in plans.items()}
        emit({"function": f"{file}:{name}", "plans": results, "pictures": pictures})
        return
    say("function", f"{file}:{name}")
    for report in plans.values():
        show(report)
    if shown:
        show(shown)
    for what, path in pictures.items():
        say(what, str(path))


def load(target: str) -> tuple[Path, str, Callable[..., Any]]:
    """The function a person names as FILE:FUNCTION; the file is run, as the person asked."""
    from chainrule.core import code_files

    path, name = code_files.named(target, "FUNCTION", "model.py:loss")
    return path, name, code_files.member(path, name, "function")


def _plans(function: Callable[..., Any], args: list[Any]) -> tuple[dict[str, "Report"], str]:
    """How the derivatives are computed; for a function with one output also its Hessian strategies, measured."""
    import jax
    import jax.numpy as jnp

    from chainrule import derive
    from chainrule.derive.validation import fix

    first = derive.jacobian(function)
    first(*args)
    plans = {"jacobian": first.report}
    if first.report.outputs != 1 or first.report.inputs > 1000:
        return plans, ""
    second = derive.hessian(function)
    second(*args)
    plans["hessian"] = second.report
    one = fix(function, tuple(args), 0)
    scalar = lambda x: jnp.sum(jax.tree.leaves(one(x))[0])  # noqa: E731
    return plans, str(derive.compare_hessian(scalar, args[0]))


def _draw(function: Callable[..., Any], args: list[Any], folder: Path) -> dict[str, Path]:
    from chainrule import derive
    from chainrule.train.files import disk_errors

    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        graph, memory = folder / "graph.svg", folder / "memory.svg"
        derive.graph(function, *args).to_svg(graph)
        _timeline(function, args).to_svg(memory)
    return {"graph": graph, "memory": memory}


def _timeline(function: Callable[..., Any], args: list[Any]) -> "Timeline":
    """Memory of the gradient, or of a forward product where there is no reverse rule; its title says which."""
    from chainrule import derive
    from chainrule.core.errors import CapabilityError

    try:
        return derive.memory(function, *args)
    except CapabilityError:
        return derive.memory(function, *args, mode="forward")


__all__ = ["derive", "load"]
