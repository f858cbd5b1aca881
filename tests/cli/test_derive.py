"""`chainrule derive`: a function in a file of the user's own, read from the command line and taken apart."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from chainrule.cli.points import point
from chainrule.core.errors import ArgumentError

FUNCTIONS = '''
"""Functions to differentiate."""
import jax
import jax.numpy as jnp

def polynomial(x):
    return x + x**2

def phases(x):
    return 1j * jnp.arange(1.0, len(x) + 1) * x

def network(weights, x):
    return jnp.tanh(weights["w"] @ x) + weights["b"]

def growing(x):
    return jax.lax.while_loop(lambda s: s < 10, lambda s: 1.5 * s + 0.1 * jnp.sin(s), x)

def branching(x):
    return x**3 if x > 0 else -x

@jax.custom_vjp
def cube(x):
    return x**3

cube.defvjp(lambda x: (x**3, x), lambda x, u: (3 * x**2 * u,))
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "functions.py"
    path.write_text(FUNCTIONS)
    return path


def test_a_scalar_function_gets_plans_a_table_and_two_pictures(cli, file, tmp_path) -> None:
    result = cli("derive", f"{file}:polynomial", "--at", "3.0", "--out", str(tmp_path / "out"))
    assert result.code == 0, result.err
    for words in ("jacobian of 1 inputs", "hessian of 1 inputs", "reverse-over-reverse", "value     7\n"):
        assert words in result.out
    graph = (tmp_path / "out" / "graph.svg").read_text()
    assert "6 + 1 = 7" in graph
    for name in ("graph.svg", "memory.svg"):
        ElementTree.parse(tmp_path / "out" / name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("growing", "reverse-over-forward: does not apply (Reverse-mode"),
        ("branching", "measured is the branch taken at this point"),
        ("cube", "forward-over-forward: does not apply"),
    ],
)
def test_loops_branches_and_custom_rules_are_taken_apart_too(cli, file, tmp_path, name, words) -> None:
    result = cli("derive", f"{file}:{name}", "--at", "3.0", "--out", str(tmp_path / "out"))
    assert result.code == 0, result.err
    assert words in result.out
    for picture in ("graph.svg", "memory.svg"):
        ElementTree.parse(tmp_path / "out" / picture)


def test_trees_and_several_arguments_come_as_json(cli, file, tmp_path) -> None:
    weights = '{"w": [[1, 2], [3, 4]], "b": [0, 0]}'
    words = [
        "derive",
        f"{file}:network",
        "--at",
        weights,
        "--at",
        "[0.1, 0.2]",
        "--out",
        str(tmp_path / "out"),
    ]
    result = cli(*words, "--json")
    assert result.code == 0, result.err
    answer = json.loads(result.out)
    assert answer["plans"]["jacobian"]["inputs"] == 6
    assert answer["plans"]["jacobian"]["outputs"] == 2
    slope = 1 - np.tanh([0.5, 1.1]) ** 2
    np.testing.assert_allclose(answer["values"]["jacobian"]["b"], np.eye(2))
    rows = [[0, 0], slope[1] * np.array([0.1, 0.2])]
    np.testing.assert_allclose(answer["values"]["jacobian"]["w"][1], rows)
    assert set(answer["pictures"]) == {"graph", "memory"}


def test_values_are_printed_row_by_row_while_they_are_few(cli, file, tmp_path) -> None:
    words = ["--out", str(tmp_path / "out")]
    result = cli("derive", f"{file}:phases", "--at", "[1, 2]", *words)
    assert "[real][0] 0  0\n" in result.out
    assert "[imaginary][1] 0  2\n" in result.out
    many = json.loads(cli("derive", f"{file}:phases", "--at", "normal(30)", *words, "--json").out)
    assert many["values"] == {}


def test_program_steps_and_paths_are_printed_on_request(cli, file, tmp_path) -> None:
    words = ["derive", f"{file}:polynomial", "--at", "3.0", "--out", str(tmp_path / "out")]
    result = cli(*words, "--program", "--steps", "--paths", "x")
    assert result.code == 0, result.err
    assert "polynomial'(x: float64[]):" in result.out
    assert "x ← 1 · 6 = 6; x has 7 so far" in result.out
    assert "r[x] += r[integer_pow] * (2.0 * x)" in result.out
    assert "x -> integer_pow -> add: 6" in result.out
    page = (tmp_path / "out" / "backward.html").read_text()
    assert "step 2 of 2" in page
    answer = json.loads(cli(*words, "--steps", "--json").out)
    assert answer["steps"].startswith("step 0")
    assert answer["page"].endswith("backward.html")


def test_plans_and_sparse_derivatives_are_printed_on_request(cli, file, tmp_path) -> None:
    words = ["derive", f"{file}:phases", "--at", "[1, 2, 3]", "--out", str(tmp_path / "out")]
    result = cli(*words, "--plan", "1MiB", "--sparse", "--json")
    assert result.code == 0, result.err
    answer = json.loads(result.out)
    assert answer["plan"]["budget"] == 1 << 20
    assert [one["label"] for one in answer["plan"]["points"] if one["chosen"]] == ["store all"]
    assert (answer["sparse"]["nnz"], answer["sparse"]["products"]) == (3, {"forward": 1})
    for name in ("plan", "sparse"):
        ElementTree.parse(answer["pictures"][name])


def test_more_paths_than_the_limit_are_refused_by_the_name_of_the_option(cli, file, tmp_path) -> None:
    words = ["derive", f"{file}:polynomial", "--at", "3.0", "--paths", "x", "--out", str(tmp_path / "out")]
    result = cli(*words, "--limit", "1")
    assert result.code == 2
    assert "there are 2 paths, more than limit=1" in result.err
    assert "raise limit= (--limit)" in result.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["derive", "FILE:polynomail", "--at", "1"],
            "has no function 'polynomail' (did you mean 'polynomial'?)",
        ),
        (["derive", "FILE", "--at", "1"], "write FILE:FUNCTION"),
        (["derive", "missing.py:f", "--at", "1"], "there is no file 'missing.py'"),
        (["derive", "FILE:polynomial", "--at", "three"], "--at three: not a point"),
        (["derive", "FILE:polynomial"], "missing option '--at'"),
    ],
)
def test_what_cannot_be_differentiated_is_answered_plainly(cli, file, words, message) -> None:
    if words[1] == "FILE":
        words = [words[0], "functions.py", *words[2:]]
    result = cli(*(word.replace("FILE:", f"{file}:") for word in words))
    assert result.code == 2
    assert message in result.err


def test_the_help_says_that_the_file_is_run(cli) -> None:
    assert "name only files you trust" in " ".join(cli("derive", "--help").out.split())


def test_points_are_read_and_never_evaluated(tmp_path) -> None:
    assert point("zeros(2,3)").shape == (2, 3)
    assert point("normal(4)").tolist() == point("normal(4)").tolist()
    np.save(tmp_path / "x.npy", np.arange(3.0))
    np.savez(tmp_path / "x.npz", a=np.ones(2), b=np.zeros(1))
    assert point(f"@{tmp_path / 'x.npy'}").tolist() == [0.0, 1.0, 2.0]
    assert set(point(f"@{tmp_path / 'x.npz'}")) == {"a", "b"}
    for text in ("__import__('os')", "eye(3)", "@nowhere.npy", '["a"]', "[[1, 2], [3]]"):
        with pytest.raises(ArgumentError):
            point(text)
