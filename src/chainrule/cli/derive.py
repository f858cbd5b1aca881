"""`chainrule derive`: take the derivative of a function in a file apart."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from chainrule.cli.options import Json

if TYPE_CHECKING:
    from chainrule.derive import Graph
    from chainrule.derive.memory_timeline import Timeline
    from chainrule.derive.report import Report

_MOST_SHOWN = 100
"""Entries of a derivative up to which they are printed."""

Target = Annotated[
    str,
    typer.Argument(
        metavar="FILE:FUNCTION", show_default=False, help="A Python file of yours and a function in it."
    ),
]
Points = Annotated[
    list[str],
    typer.Option(
        "--at",
        metavar="POINT",
        help='One for each argument: 3.0, "[1, 2]", "normal(100)", @file.npy. The first is differentiated.',
    ),
]
Program = Annotated[bool, typer.Option("--program", help="Print the derivative as a program, simplified.")]
Steps = Annotated[
    bool, typer.Option("--steps", help="Print the backward pass step by step, numbers and expressions.")
]
Paths = Annotated[
    str,
    typer.Option(
        "--paths", metavar="INPUT", help="List the paths from this input to the result, with products."
    ),
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="Most paths that are listed.")]
Budget = Annotated[
    str,
    typer.Option(
        "--plan", metavar="MEMORY", help="Ways to checkpoint the gradient, and the one that fits, say, 2GiB."
    ),
]
Sparse = Annotated[
    bool, typer.Option("--sparse", help="Sparse Jacobian (Hessian of one output): pattern, colours, checks.")
]


class _Answer(NamedTuple):
    """What is printed on request: text, the same for `--json`, and a picture where there is one."""

    text: str
    values: Any
    picture: str = ""


def derive(
    target: Target,
    at: Points,
    program: Program = False,
    steps: Steps = False,
    paths: Paths = "",
    limit: Limit = 1000,
    plan: Budget = "",
    sparse: Sparse = False,
    out: Annotated[str, typer.Option("--out", help="Folder for the pictures.")] = "",
    x64: Annotated[bool, typer.Option("--x64/--x32", help="Double or single precision.")] = True,
    json: Json = False,
) -> None:
    """Mode, cost and memory of a function's derivatives, their values if few, and pictures.

    The pictures show its graph, its memory and, for a small graph, its backward pass step by step.

    This runs the Python file you name, with all that it does when it is imported: name only files you trust.
    """
    import jax

    from chainrule.cli.output import emit, heading, say, show
    from chainrule.cli.points import point
    from chainrule.derive import graph

    with jax.enable_x64(x64):
        file, name, function = load(target)
        args = [jax.tree.map(jax.numpy.asarray, point(text)) for text in at]
        found = graph(function, *args)
        asked = _asked(function, args, found, program, steps)
        if paths:
            asked["paths"] = _paths(found, paths, limit)
        if plan:
            asked["plan"] = _checkpointing(function, args, plan)
        plans, values, shown = _plans(function, args)
        if sparse:
            asked["sparse"] = _sparse(function, args, one_output=plans["jacobian"].outputs == 1)
        folder = Path(out or f"derive-{name}")
        pictures = _draw(function, args, found, asked, folder)
        page = _page(function, args, found, f"{file.name}:{name}", folder)
    if json:
        results = {what: report.to_json() for what, report in plans.items()}
        answer = {"function": f"{file}:{name}", "plans": results, "values": values}
        answers = {what: one.values for what, one in asked.items()}
        emit({**answer, **answers, "pictures": pictures, **page})
        return
    say("function", f"{file}:{name}")
    for what, report in plans.items():
        show(report)
        for line in _lines(values.get(what)):
            show(f"  {line}")
    if shown:
        show(shown)
    for what, one in asked.items():
        heading(what)
        show(one.text)
    for what, path in {**pictures, **page}.items():
        say(what, str(path))


def load(target: str) -> tuple[Path, str, Callable[..., Any]]:
    """The function a person names as FILE:FUNCTION; the file is run, as the person asked."""
    from chainrule.core import code_files

    path, name = code_files.named(target, "FUNCTION", "model.py:loss")
    return path, name, code_files.member(path, name, "function")


def _plans(function: Callable[..., Any], args: list[Any]) -> tuple[dict[str, "Report"], dict[str, Any], str]:
    """How the derivatives are computed, and their values if they are few.

    For a function with one output also its Hessian strategies, measured.
    """
    import jax
    import jax.numpy as jnp

    from chainrule import derive
    from chainrule.derive.validation import fix

    first = derive.jacobian(function)
    values = {"jacobian": first(*args)}
    plans = {"jacobian": first.report}
    if first.report.outputs != 1 or first.report.inputs > 1000:
        return plans, _few(values), ""
    second = derive.hessian(function)
    values["hessian"] = second(*args)
    plans["hessian"] = second.report
    one = fix(function, tuple(args), 0)
    scalar = lambda x: jnp.sum(jax.tree.leaves(one(x))[0])  # noqa: E731
    return plans, _few(values), str(derive.compare_hessian(scalar, args[0]))


def _few(values: dict[str, Any]) -> dict[str, Any]:
    """The derivatives with few enough entries to be read, as nested lists."""
    import jax
    import numpy as np

    sizes = {what: sum(leaf.size for leaf in jax.tree.leaves(tree)) for what, tree in values.items()}
    few = {what: tree for what, tree in values.items() if sizes[what] <= _MOST_SHOWN}

    def lists(array: Any) -> Any:
        if np.iscomplexobj(array):
            return {"real": np.real(array).tolist(), "imaginary": np.imag(array).tolist()}
        return np.asarray(array).tolist()

    return {what: jax.tree.map(lists, tree) for what, tree in few.items()}


def _lines(value: Any, name: str = "") -> Iterator[str]:
    """Nested lists and dictionaries of numbers as rows, each with its place in front."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _lines(part, f"{name}[{key}]")
    elif isinstance(value, (list, tuple)) and any(isinstance(part, (list, tuple, dict)) for part in value):
        for number, part in enumerate(value):
            yield from _lines(part, f"{name}[{number}]")
    elif value is not None:
        row = value if isinstance(value, (list, tuple)) else [value]
        yield f"{name or 'value':<9} " + "  ".join(f"{number:.6g}" for number in row)


def _asked(
    function: Callable[..., Any], args: list[Any], found: "Graph", program: bool, steps: bool
) -> dict[str, _Answer]:
    """What is printed on request, by name."""
    from chainrule import derive

    texts = {}
    if program:
        texts["program"] = str(derive.program(function, *args).simplify())
    if steps:
        texts["steps"] = str(found.backward())
    return {what: _Answer(text, text) for what, text in texts.items()}


def _paths(found: "Graph", start: str, limit: int) -> _Answer:
    (*_, last) = (found.node(edge.source) for edge in found.edges if edge.target is None)
    text = str(found.paths(start, last, limit=limit))
    return _Answer(text, text)


def _checkpointing(function: Callable[..., Any], args: list[Any], memory: str) -> _Answer:
    from chainrule import derive

    chosen = derive.plan(function, *args, memory=memory)
    return _Answer(str(chosen), chosen.to_json(), chosen.to_svg())


def _sparse(function: Callable[..., Any], args: list[Any], *, one_output: bool) -> _Answer:
    from chainrule import derive

    kind = derive.sparse.hessian if one_output else derive.sparse.jacobian
    made = kind(function, args[0], args=tuple(args[1:]))
    return _Answer(str(made.report), made.report.to_json(), made.pattern.to_svg(made.coloring))


def _draw(
    function: Callable[..., Any], args: list[Any], found: "Graph", asked: dict[str, _Answer], folder: Path
) -> dict[str, Path]:
    from chainrule.train.files import disk_errors

    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        graph, memory = folder / "graph.svg", folder / "memory.svg"
        found.to_svg(graph)
        _timeline(function, args).to_svg(memory)
        drawn = {what: folder / f"{what}.svg" for what, one in asked.items() if one.picture}
        for what, path in drawn.items():
            path.write_text(asked[what].picture, encoding="utf-8")
    return {"graph": graph, "memory": memory, **drawn}


def _timeline(function: Callable[..., Any], args: list[Any]) -> "Timeline":
    """Memory of the gradient, or of a forward product where there is no reverse rule; its title says which."""
    from chainrule import derive
    from chainrule.core.errors import CapabilityError

    try:
        return derive.memory(function, *args)
    except CapabilityError:
        return derive.memory(function, *args, mode="forward")


def _page(
    function: Callable[..., Any], args: list[Any], found: "Graph", name: str, folder: Path
) -> dict[str, Path]:
    """Of a small graph, a page that steps through the backward pass and shows the gradient program."""
    from chainrule import derive
    from chainrule.core.errors import ChainruleError
    from chainrule.core.pictures import Table
    from chainrule.derive.computation_graph.folding import LIMIT
    from chainrule.report import write_page
    from chainrule.train.files import disk_errors

    if len(found) > LIMIT:
        return {}
    lead = f"f has {len(found)} nodes at this point."
    listing = []
    try:
        program = derive.program(function, *args).simplify()
    except ChainruleError as error:  # as where f branches on values: there is no one program then
        lead += f" Its derivative is not shown as a program: {error.message}."
    else:
        lines = [[part.rstrip() for part in line.partition("#")[::2]] for line in str(program).splitlines()]
        lead += f" Its derivative has {program.count().operations} operations when simplified."
        listing = [Table("program", "The derivative as a program", ["", "type and source"], lines)]
    page = folder / "backward.html"
    with disk_errors(folder):
        write_page(page, name, lead, [found.slides(), *listing])
    return {"page": page}


__all__ = ["derive", "load"]
