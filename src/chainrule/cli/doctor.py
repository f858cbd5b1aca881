"""`chainrule doctor`: what this machine offers, what is missing, and the command that brings it."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

_ENABLES = {
    "text": "sub-word tokenizers",
    "audio": "FLAC files",
    "tables": "Parquet and Excel files",
    "onnx": "export layout=onnx",
    "ot": "exact transport by network simplex",
    "compress": "compress and decompress",
    "games": "more games: env=pgx:othello",
    "rl": "environments of Gymnasium: env=gym:CartPole-v1",
    "cuda12": "NVIDIA GPUs, driver 525 or newer",
    "cuda13": "NVIDIA GPUs, driver 580 or newer",
}


def doctor(
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Check this machine: versions, devices, space, extras, data."""
    from chainrule.cli.output import emit

    problems: list[str] = []
    found = {
        "python": _python(),
        "packages": _packages(problems),
        "device": _devices(problems),
        "machine": _machine(),
        "native": _native(problems),
        "runs": _writable(_runs(), problems),
        "cache": _cache(problems),
        "extras": _extras(),
        "data": _data(problems),
        "problems": problems,
    }
    if json:
        emit(found)
    else:
        _show(found)
    if problems:
        raise typer.Exit(1)


def cache_folder() -> str:
    """Where compiled programs are kept between commands."""
    return str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "chainrule" / "jax")


def _python() -> dict[str, str]:
    import platform
    import sys

    return {"version": platform.python_version(), "executable": sys.executable, "system": platform.platform()}


def _requirements() -> list[tuple[str, str]]:
    """(package, extra) for everything Chainrule names in its metadata; the extra is empty for what it always needs.

    Nothing where Chainrule runs from a source tree, which has no metadata.
    """
    import importlib.metadata
    import re

    try:
        lines = importlib.metadata.requires("chainrule") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    found = []
    for line in lines:
        wanted, _, marker = line.partition(";")
        extra = re.search(r"""extra\s*==\s*['"]([\w-]+)""", marker)
        name, inner = re.findall(r"^([\w.-]+)(?:\[([\w-]+)\])?", wanted.strip())[0]
        # jax[cuda12] brings a plugin under a name of its own; that is what has to be there.
        found.append((f"{name}-{inner}-plugin" if inner else name, extra.group(1) if extra else ""))
    return found


def _version(package: str) -> str | None:
    import importlib.metadata

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _packages(problems: list[str]) -> dict[str, str | None]:
    from chainrule import __version__

    wanted = [name for name, extra in _requirements() if not extra]
    if not wanted:
        problems.append("Chainrule is not installed: it runs from its source   remedy: pip install . there")
    versions = {"chainrule": __version__, **{name: _version(name) for name in wanted}}
    missing = [name for name, version in versions.items() if version is None]
    if missing:
        problems.append(f"missing: {', '.join(missing)}   remedy: pip install {' '.join(missing)}")
    return versions


def _devices(problems: list[str]) -> dict[str, Any]:
    try:
        import jax

        devices = jax.devices()
    except Exception as error:  # whatever keeps JAX from starting is exactly what has to be reported
        problems.append(f"JAX does not start: {str(error).splitlines()[0]}")
        return {
            "devices": [],
            "gpu": False,
            "why": "JAX does not start",
            "remedy": "pip install --upgrade jax",
        }
    shown = [{"platform": d.platform, "kind": d.device_kind, "id": d.id} for d in devices]
    gpu = any(d.platform != "cpu" for d in devices)
    why, remedy = ("", "") if gpu else _why_no_gpu()
    return {"devices": shown, "gpu": gpu, "why": why, "remedy": remedy}


def _why_no_gpu() -> tuple[str, str]:
    """The reason JAX computes on the CPU, and what would change it."""
    import shutil
    import subprocess

    if (asked := os.environ.get("JAX_PLATFORMS", "")) == "cpu":
        return f"JAX_PLATFORMS={asked} asks for the CPU", "unset JAX_PLATFORMS"
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "no NVIDIA driver on this machine (no nvidia-smi)", ""
    query = [tool, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, timeout=30, check=False)
    if answer.returncode != 0:
        lines = (answer.stdout + answer.stderr).strip().splitlines()
        return f"nvidia-smi fails: {lines[0] if lines else 'no message'}", "repair the NVIDIA driver"
    card = answer.stdout.strip().splitlines()[0]
    plugins = [name for name in ("jax-cuda12-plugin", "jax-cuda13-plugin") if _version(name)]
    if not plugins:
        return f"{card} is there, but JAX has no CUDA plugin", "pip install 'chainrule[cuda12]'"
    return (
        f"{card} and {plugins[0]} are there, but JAX does not use them",
        "python -c 'import jax; jax.devices(\"cuda\")'",
    )


def _machine() -> dict[str, int]:
    return {
        "cores": os.cpu_count() or 1,
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def _native(problems: list[str]) -> dict[str, Any]:
    """Whether layers run in native code on the CPU, for registers of how many numbers, and why not."""
    from chainrule.core.errors import ChainruleError
    from chainrule.nn.native.availability import availability

    try:
        registers, reason = availability()
    except ChainruleError as error:
        problems.append(f"{error.message}   remedy: {error.remedy}")
        return {"lanes": None, "reason": error.message}
    return {"lanes": registers.lanes if registers else None, "reason": reason}


def _runs() -> Path:
    return Path(os.environ.get("CHAINRULE_RUNS") or "runs")


def _writable(folder: Path, problems: list[str]) -> dict[str, Any]:
    """A folder that is written to: it, or the nearest one above that exists, must allow it."""
    import shutil

    there = next(p for p in (folder, *folder.resolve().parents) if p.is_dir())
    if not os.access(there, os.W_OK):
        problems.append(f"cannot write to {there}   remedy: choose another folder with CHAINRULE_RUNS=DIR")
    return {"path": str(folder), "free": shutil.disk_usage(there).free}


def _cache(problems: list[str]) -> dict[str, Any]:
    folder = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    if not folder:
        return {"path": None, "bytes": 0}
    files = Path(folder).rglob("*") if Path(folder).is_dir() else []
    return {
        "path": _writable(Path(folder), problems)["path"],
        "bytes": sum(f.stat().st_size for f in files if f.is_file()),
    }


def _extras() -> dict[str, dict[str, Any]]:
    extras: dict[str, dict[str, Any]] = {}
    for name, extra in _requirements():
        if extra in _ENABLES:
            row = extras.setdefault(extra, {"installed": True, "enables": _ENABLES[extra]})
            row["installed"] &= _version(name) is not None
            row["install"] = f"pip install 'chainrule[{extra}]'"
    return extras


def _data(problems: list[str]) -> list[str]:
    try:
        from chainrule.data import names

        return [known.name for known in names() if known.where]
    except Exception as error:  # a package that cannot be imported is a finding, not a reason to stop looking
        problems.append(f"the data sets cannot be listed: {error}")
        return []


def _show(found: dict[str, Any]) -> None:
    from chainrule.cli.output import say, show, table
    from chainrule.core.formatting import file_size

    python, device, machine = found["python"], found["device"], found["machine"]
    say("python", f"{python['version']}   {python['executable']}")
    say(
        "packages", ", ".join(f"{name} {version or 'MISSING'}" for name, version in found["packages"].items())
    )
    kinds = ", ".join(
        f"{d['platform']} {d['kind']}" if d["platform"] != "cpu" else "cpu" for d in device["devices"]
    )
    say("device", f"{kinds or 'none'}, {machine['cores']} cores, {file_size(machine['memory'])} memory")
    if device["why"]:
        say("no GPU", device["why"] + (f"   remedy: {device['remedy']}" if device["remedy"] else ""))
    native = found["native"]
    used = f"for registers of {native['lanes']} numbers   CHAINRULE_NATIVE=0 switches it off"
    say(
        "native",
        f"CPU code {used}" if native["lanes"] else f"no CPU code, layers run slower: {native['reason']}",
    )
    say("runs", f"{found['runs']['path']}   {file_size(found['runs']['free'])} free")
    cache = found["cache"]
    off = "off (CHAINRULE_NO_CACHE is set)"
    say(
        "cache",
        f"{cache['path']}   {file_size(cache['bytes'])} of compiled programs" if cache["path"] else off,
    )
    say("data", ", ".join(found["data"]) or "none")
    show()
    rows = [
        [n, "yes" if e["installed"] else "no", e["enables"], e["install"]] for n, e in found["extras"].items()
    ]
    table(["extra", "installed", "brings", "install with"], rows)
    show()
    for problem in found["problems"]:
        say("problem", problem)
    say("verdict", f"{len(found['problems'])} problems" if found["problems"] else "all well")


__all__ = ["cache_folder", "doctor"]
