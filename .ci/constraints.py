"""Writes constraints.txt: the exact versions the tests run with, for every supported Python.

    python .ci/constraints.py python3.11 python3.12 python3.13

Each interpreter resolves the package with its test requirements against the package index, in a throw-away virtual
environment and without installing anything. Where they disagree, lines carry a marker; the newest interpreter's
answer also stands for Pythons to come.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADER = """\
# The versions Chainrule is tested with; pyproject.toml says what it accepts.
# Written by `make constraints` (needs {pythons}); do not edit by hand.
"""


def resolve(interpreter: str) -> tuple[str, dict[str, str]]:
    """The Python version (major.minor) of an interpreter and the version of every package it would install."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([interpreter, "-m", "venv", folder], check=True)
        python = str(Path(folder) / "bin" / "python")
        pip = [python, "-m", "pip", "--isolated", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "install", "--upgrade", "pip"], check=True)
        report = Path(folder) / "report.json"
        subprocess.run(
            [*pip, "install", "--dry-run", "--ignore-installed", "--report", str(report), f"{ROOT}[test]"],
            check=True,
        )
        found = json.loads(report.read_text(encoding="utf-8"))
    environment = found["environment"]["python_version"]
    packages = {
        re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower(): item["metadata"]["version"]
        for item in found["install"]
        if "dir_info" not in item["download_info"]
    }
    accelerated = [name for name in packages if name.startswith("nvidia") or "cuda" in name]
    if accelerated:
        raise SystemExit(f"{interpreter}: the tests must not need {', '.join(accelerated)}")
    return environment, packages


def lines(answers: Mapping[str, Mapping[str, str]]) -> list[str]:
    """One line per package and version, with a marker where Pythons differ.

    >>> lines({"3.11": {"jax": "0.10.2", "six": "1.0"}, "3.12": {"jax": "0.12.0"}, "3.13": {"jax": "0.12.0"}})
    ['jax==0.10.2 ; python_version < "3.12"', 'jax==0.12.0 ; python_version >= "3.12"', 'six==1.0']
    """
    pythons = sorted(answers, key=lambda version: [int(part) for part in version.split(".")])
    out = []
    for name in sorted({name for packages in answers.values() for name in packages}):
        asked = [(python, answers[python][name]) for python in pythons if name in answers[python]]
        starts = [k for k, (_, version) in enumerate(asked) if k == 0 or asked[k - 1][1] != version]
        for k, start in enumerate(starts):
            low = [f'python_version >= "{asked[start][0]}"'] if k > 0 else []
            high = [f'python_version < "{asked[starts[k + 1]][0]}"'] if k + 1 < len(starts) else []
            marker = " and ".join(low + high)
            out.append(f"{name}=={asked[start][1]}" + (f" ; {marker}" if marker else ""))
    return out


def main(arguments: Sequence[str]) -> None:
    """Resolve with every interpreter and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("interpreters", nargs="+")
    answers = dict(resolve(interpreter) for interpreter in parser.parse_args(arguments).interpreters)
    header = HEADER.format(pythons=", ".join(f"Python {version}" for version in sorted(answers)))
    (ROOT / "constraints.txt").write_text(header + "\n".join(lines(answers)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
