"""PyTorch's side of the step of a variational auto-encoder in the `latent` benchmark, eager or compiled."""

import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from protocol import Ready, serve, steady
from torch import Tensor, nn
from torch_mlp import network, training


def prepare(file: str, form: str, lr: float, threads: int) -> Ready:
    torch.set_num_threads(threads)
    work = np.load(file)
    x = torch.from_numpy(work["x"]).float()
    index = torch.from_numpy(work["index"]).long()
    halves = [
        network(
            [(torch.from_numpy(work[f"{half}w{i}"]), torch.from_numpy(work[f"{half}b{i}"])) for i in range(2)]
        )
        for half in ("encoder", "decoder")
    ]
    model = nn.ModuleList(halves)
    began = time.perf_counter()
    with torch.no_grad():
        parts = terms(halves, x[index[0]], torch.zeros(len(index[0]), 1))
    loss = lambda x, _: sum(terms(halves, x, None))  # noqa: E731
    step = training(model, "adam", lr, torch.compile(loss) if form == "compile" else loss)
    step(x[index[0]], x[:1])
    first = time.perf_counter() - began

    def turn() -> float:
        return steady(lambda steps: [step(x[index[n % len(index)]], x[:1]) for n in range(steps)])

    return Ready([float(part) for part in parts], first, {"torch": torch.__version__}, turn)


def terms(halves: list[Callable[[Tensor], Tensor]], x: Tensor, noise: Tensor | None) -> tuple[Tensor, Tensor]:
    """Rate and distortion, sums over entries and means over examples."""
    mean, spread = halves[0](2 * x - 1).chunk(2, dim=1)
    noise = torch.randn_like(mean) if noise is None else noise
    z = mean + torch.exp(spread / 2) * noise
    rate = 0.5 * (mean**2 + spread.exp() - 1 - spread).sum(dim=1).mean()
    distortion = F.binary_cross_entropy_with_logits(halves[1](z), x, reduction="sum") / len(x)
    return rate, distortion


if __name__ == "__main__":
    serve(prepare)
