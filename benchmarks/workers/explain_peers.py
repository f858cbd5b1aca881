"""The peers' side of the `explain` benchmark: explainers of the package shap, with a network in torch."""

import time
import warnings
from importlib.metadata import version
from typing import Any

import explain_problems as problems
import numpy as np
from protocol import Ready, serve

warnings.filterwarnings("ignore")


def prepare(
    explainer: str, rows: int, columns: int, background: int, budget: int, timed: int, threads: int
) -> Ready:
    """`timed` rows are explained in a turn and stand for all of them: explainers take one row after another."""
    import shap
    import torch

    torch.set_num_threads(threads)
    given = problems.problem(rows, columns, background)
    weights = [torch.from_numpy(weight) for weight in given.weights]

    def predict(x: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            hidden = torch.from_numpy(np.asarray(x, np.float32))
            for weight in weights[:-1]:
                hidden = torch.relu(hidden @ weight)
            found: np.ndarray = (hidden @ weights[-1])[:, 0].numpy().astype(np.float64)
        return found

    masker = shap.maskers.Independent(given.background, max_samples=background)
    if explainer == "KernelExplainer":
        kernel = shap.KernelExplainer(predict, given.background)

        def work(x: np.ndarray) -> Any:
            return kernel.shap_values(x, nsamples=budget, l1_reg=False, silent=True)

    elif explainer == "PermutationExplainer":
        permutation = shap.PermutationExplainer(predict, masker)

        def work(x: np.ndarray) -> Any:
            return permutation(x, max_evals=budget, silent=True).values

    else:
        exact = shap.ExactExplainer(predict, masker)

        def work(x: np.ndarray) -> Any:
            return exact(x, max_evals=1 << columns, silent=True).values

    began = time.perf_counter()
    found = np.asarray(work(given.x[:timed]))
    taken = time.perf_counter() - began

    def turn() -> float:
        began = time.perf_counter()
        work(given.x[:timed])
        return (time.perf_counter() - began) * rows / timed

    return Ready(problems.summary(found), taken, {"shap": version("shap"), "torch": torch.__version__}, turn)


if __name__ == "__main__":
    serve(prepare)
