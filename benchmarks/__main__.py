"""`python -m benchmarks` lists the benchmarks; `python -m benchmarks NAME` runs one."""

import argparse
import ast
import importlib
import json
import os
import pkgutil
import sys
from pathlib import Path

from rich.console import Console

from benchmarks import suite
from benchmarks.harness import THREADS, BenchmarkError, Options
from benchmarks.quiet import Watch

RESULTS = Path(__file__).resolve().parent / "results"


def main() -> int:
    """Run the command line; the exit status."""
    names = sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(suite.__path__))
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog="How good samples are, not how fast, is a table of its own: python -m benchmarks.diffusion_table --help",
    )
    parser.add_argument("name", nargs="?", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--peer", action="extend", nargs="+", metavar="P", help="measure only these peers")
    parser.add_argument(
        "--rounds", type=int, default=7, metavar="N", help="turns of each contestant, 5 or more"
    )
    parser.add_argument(
        "--json", type=Path, metavar="PATH", help="where to write instead of benchmarks/results"
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=30,
        metavar="S",
        help="seconds to wait for a quiet machine before a turn",
    )
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="toy sizes, to see that it runs (benchmarks that have them say so); written only with --json",
    )
    parser.add_argument(
        "--case",
        metavar="C",
        help="measure only this case, of benchmarks that have a choice; written only with --json",
    )
    arguments = parser.parse_args()
    if arguments.rounds < 5:
        parser.error(f"--rounds {arguments.rounds}: a median with its spread needs at least 5")
    if not (arguments.name or "").endswith("-gpu"):
        # Before JAX starts its threads; workers inherit it. On a GPU the host only compiles.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    console = Console()
    if arguments.name is None:
        for name in names:
            console.print(f"{name:8} {_summary(name)}", highlight=False, soft_wrap=True)
        return 0
    try:
        peers = None if arguments.peer is None else tuple(arguments.peer)
        benchmark = importlib.import_module(f"{suite.__name__}.{arguments.name.replace('-', '_')}")
        if arguments.smoke and not hasattr(benchmark, "SMOKE"):
            parser.error(f"--smoke: {arguments.name} has no toy size")
        choices: tuple[str, ...] = getattr(benchmark, "CHOICES", ())
        if arguments.case is not None and arguments.case not in choices:
            parser.error(
                f"--case {arguments.case}: {arguments.name} has {', '.join(choices) or 'no choice of cases'}"
            )
        report = benchmark.run(
            Options(arguments.rounds, peers, Watch(arguments.patience), arguments.smoke, arguments.case)
        )
    except BenchmarkError as error:
        console.print(f"error: {error}", highlight=False, markup=False)
        return 2
    from benchmarks.output import record, table

    console.print(table(arguments.name, report))
    if (arguments.smoke or arguments.case is not None) and arguments.json is None:
        return 0  # the recorded result has true sizes, and all cases
    path = arguments.json or RESULTS / f"{arguments.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps(record(arguments.name, report, arguments.rounds, THREADS), indent=1) + "\n",
        encoding="utf-8",
    )
    console.print(f"written  {os.path.relpath(path)}", highlight=False)
    return 0


def _summary(name: str) -> str:
    """First line of a benchmark's docstring, without importing what it measures."""
    source = (Path(suite.__path__[0]) / f"{name.replace('-', '_')}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


if __name__ == "__main__":
    sys.exit(main())
