"""The notebook in docs/ runs from the first cell to the last, and what it ends its cells with shows itself."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.ipynb"


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)


@pytest.mark.slow
def test_the_notebook_runs_and_its_objects_show_themselves(
    tmp_path: Path, oracle: Callable[[str], ModuleType]
) -> None:
    nbclient, nbformat = oracle("nbclient"), oracle("nbformat")
    oracle("ipykernel")
    book = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(book, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [
        "".join(output["data"].get("text/html", "") for output in cell.outputs if "data" in output)
        for cell in book.cells
        if cell.cell_type == "code"
    ]
    expected = ["", "<progress", "accuracy", "<iframe", "probability", "<svg", "<svg", "<svg"]
    assert [word in page for word, page in zip(expected, shown, strict=True)] == [True] * len(expected)
    assert "done at step 300" in shown[1]
    assert (tmp_path / "runs" / "notebook" / "report.html").is_file()


def test_what_derivatives_return_shows_itself() -> None:
    jacobian = cr.derive.sparse.jacobian(lambda x: x**2, jnp.zeros(3))
    for one in (jacobian, jacobian.pattern, jacobian.coloring):
        assert one._repr_html_().count("<svg") == 1
        assert repr(one).split("(")[0] in one._repr_html_()
    assert "<svg" in cr.derive.graph(lambda x: x * x, 2.0)._repr_html_()
    assert "<svg" in cr.derive.memory(lambda x: x * x, np.float32(2.0))._repr_html_()
