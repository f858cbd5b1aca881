"""How PyTorch's training steps are checked and timed, the same for every network."""

import time
from collections.abc import Callable

import torch
from protocol import Ready, steady
from torch import Tensor


def measured(step: Callable[[Tensor], Tensor], index: Tensor, check: int) -> Ready:
    """The losses of the first `check` calls of `step(rows)`, what the first one took longer, and turns of them."""
    began = time.perf_counter()
    result = [step(index[0]).item()]
    first = time.perf_counter() - began
    began = time.perf_counter()
    result += [step(rows).item() for rows in index[1:check]]
    later = (time.perf_counter() - began) / (check - 1)

    def work(steps: int) -> None:
        for number in range(steps):
            step(index[number % len(index)])

    piece = max(1, min(16, round(0.2 / later)))
    return Ready(result, max(first - later, 0.0), {"torch": torch.__version__}, lambda: steady(work, piece))
