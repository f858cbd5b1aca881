"""Train every target, weight and schedule, draw with every sampler, and say how far samples are from the data.

Results are written after every row, and rows that are there already are not made again: a run that was stopped goes on.
Every process works on one core.
"""

import argparse
import os
import sys
from pathlib import Path

from benchmarks.diffusion_table.combinations import combinations
from benchmarks.diffusion_table.measuring import PROBLEMS
from benchmarks.diffusion_table.page import page
from benchmarks.diffusion_table.recording import file, fresh, measure, plan, read


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.diffusion_table", description=__doc__)
    parser.add_argument("--data", choices=PROBLEMS, default="moons", help="what to learn (moons)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes, one core each (1)")
    parser.add_argument(
        "--only",
        action="extend",
        nargs="+",
        default=[],
        metavar="WORD",
        help="only combinations with all of these words, as target=eps",
    )
    parser.add_argument(
        "--json", type=Path, metavar="PATH", help="where to write instead of benchmarks/results"
    )
    parser.add_argument(
        "--page",
        type=Path,
        metavar="PATH",
        help="write the page from the results that are there, and do no more",
    )
    given = parser.parse_args(arguments)
    if given.jobs < 1:
        parser.error(f"--jobs {given.jobs}: at least one process has to work")
    if given.page is not None:
        known = [file(data) for data in PROBLEMS if file(data).exists()]
        if not known:
            parser.error("--page: there are no results yet; run it without --page first")
        given.page.write_text(page([read(path) for path in known]), encoding="utf-8")
        print(f"written  {os.path.relpath(given.page)}")
        return 0
    chosen = [one for one in combinations() if set(given.only) <= set(str(one).split())]
    if not chosen:
        parser.error(f"--only {' '.join(given.only)}: no combination has all of these words")
    path = given.json or file(given.data)
    made = read(path) if path.exists() else fresh(given.data)
    if not plan(given.data).items() <= made.items():
        parser.error(
            f"{path} was measured otherwise (steps, samples or limit); remove it, or name another: --json"
        )
    measure(given.data, chosen, made, path, given.jobs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
