"""The record of the table: made row by row, by several processes at once, and written after each."""

import json
import multiprocessing
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.diffusion_table.combinations import Combination, combinations
from benchmarks.diffusion_table.measuring import PROBLEMS, row
from benchmarks.machine import machine, today, versions

RESULTS = Path(__file__).resolve().parents[1] / "results"


def file(data: str) -> Path:
    """Where the results of a data set are."""
    return RESULTS / f"diffusion-table-{data}.json"


def read(path: Path) -> dict[str, Any]:
    """A record of results."""
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def fresh(data: str) -> dict[str, Any]:
    """A record without rows."""
    problem = PROBLEMS[data]
    return {
        "benchmark": "diffusion-table",
        "date": today(),
        "machine": machine(),
        "versions": versions(),
        **plan(data),
        "limit_is": problem.why,
        "of_real": float(f"{problem.judge.of_real():.4g}"),
        "rows": [],
    }


def plan(data: str) -> dict[str, Any]:
    """What has to be the same for rows to stand in one table."""
    problem = PROBLEMS[data]
    return {
        "data": data,
        "steps": problem.steps,
        "n": problem.n,
        "distance": problem.name,
        "limit": problem.limit,
    }


def measure(data: str, chosen: list[Combination], record: dict[str, Any], path: Path, jobs: int) -> None:
    """Make the rows that are missing, and write each as it comes."""
    there = {_key(found) for found in record["rows"]}
    missing = [one for one in chosen if (one.model, *one.settings) not in there]
    print(f"{data}: {len(missing)} of {len(chosen)} combinations to do, in {jobs} processes")
    context = multiprocessing.get_context("spawn")
    cores = context.Queue()
    for number in range(jobs):
        cores.put(number)
    with tempfile.TemporaryDirectory() as cache:
        # Programs depend on the target more than on anything else: the processes share what they compile.
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", cache)
        with ProcessPoolExecutor(jobs, context, _settle, (cores,)) as pool:
            waiting = {pool.submit(partial(_row, data), one): one for one in missing}
            for done, future in enumerate(as_completed(waiting), start=1):
                found = future.result()
                record["rows"].append(found)
                record["rows"].sort(key=partial(_place, combinations()))
                _write(path, record)
                print(
                    f"{done:4} of {len(missing)}  {waiting[future]}: {_said(found, record['limit'])}",
                    flush=True,
                )
    print(f"written  {os.path.relpath(path)}")


def _settle(cores: Any) -> None:
    """One core for each process, before JAX counts them."""
    mine = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {mine[cores.get() % len(mine)]})


def _row(data: str, combination: Combination) -> dict[str, Any]:
    return row(combination, PROBLEMS[data])


def _key(found: dict[str, Any]) -> tuple[Any, ...]:
    named = [(name, found[name]) for name in ("target", "weight", "noise") if name in found]
    return found["model"], *named


def _place(known: list[Combination], found: dict[str, Any]) -> int:
    return [(one.model, *one.settings) for one in known].index(_key(found))


def _write(path: Path, record: dict[str, Any]) -> None:
    """All or nothing: a run that is stopped while it writes leaves what was there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".part")
    rows = ",\n".join("  " + json.dumps(found) for found in record["rows"])
    head = json.dumps({**record, "rows": []}, indent=1)
    draft.write_text(head.replace('"rows": []', f'"rows": [\n{rows}\n ]') + "\n", encoding="utf-8")
    draft.replace(path)


def _said(found: dict[str, Any], limit: float) -> str:
    if "refused" in found:
        return f"refused: {found['refused']}"
    values = [float("inf") if value is None else value for value in found["distances"].values()]
    beyond = [name for name, value in zip(found["distances"], values, strict=True) if value > limit]
    return f"{min(values):.3g} to {max(values):.3g}" + (
        f"; beyond {limit:g}: {', '.join(beyond)}" if beyond else ""
    )


__all__ = ["file", "fresh", "measure", "plan", "read"]
