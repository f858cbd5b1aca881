"""PyTorch's side of `explain-attacks`: the same projected steps, keeping for every image the worst point on the way."""

import time

import attack_network
import torch
import torch.nn.functional as F
from attack_network import EPS, STEPS
from protocol import Ready, serve, steady
from torch import Tensor

FORMS = {"eager": lambda f: f, "compile": torch.compile}


def prepare(count: int, side: int, form: str, threads: int) -> Ready:
    torch.set_num_threads(threads)
    arrays = {name: torch.from_numpy(a) for name, a in attack_network.weights(side).items()}
    kernels = [arrays[f"conv{i}"].permute(3, 2, 0, 1).contiguous() for i in range(3)]
    x, y = (torch.from_numpy(a) for a in attack_network.images(count, side))
    x = x.permute(0, 3, 1, 2).contiguous()
    own = F.one_hot(y, attack_network.CLASSES).bool()

    def logits(x: Tensor) -> Tensor:
        for kernel in kernels:
            # What "same" pads at stride 2: one entry behind where the size is even, one on both sides otherwise.
            even = x.shape[-1] % 2 == 0
            x = F.relu(F.conv2d(F.pad(x, (0, 1, 0, 1) if even else (1, 1, 1, 1)), kernel, stride=2))
        return x.permute(0, 2, 3, 1).flatten(1) @ arrays["dense"]

    def margin(z: Tensor) -> Tensor:
        return z.masked_fill(own, -torch.inf).amax(1) - z.gather(1, y[:, None])[:, 0]

    def slope(at: Tensor) -> tuple[Tensor, Tensor]:
        at = at.detach().requires_grad_(True)
        z = logits(at)
        (g,) = torch.autograd.grad(F.cross_entropy(z, y, reduction="sum"), at)
        return g, margin(z.detach())

    def move(at: Tensor, best: Tensor, ahead: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        g, here = slope(at)
        better = here > ahead
        best = torch.where(better[:, None, None, None], at, best)
        change = (at + 2.5 * EPS / STEPS * g.sign() - x).clamp(-EPS, EPS)
        return (x + change).clamp(0, 1), best, torch.where(better, here, ahead)

    moved = FORMS[form](move)

    def attack() -> Tensor:
        at, best, ahead = x, x, torch.full((len(x),), -torch.inf)
        for _ in range(STEPS):
            at, best, ahead = moved(at, best, ahead)
        with torch.no_grad():
            here = margin(logits(at))
        return torch.where((here > ahead)[:, None, None, None], at, best)

    began = time.perf_counter()
    found = attack()
    seconds = time.perf_counter() - began
    with torch.no_grad():
        result = [float(margin(logits(found)).mean()), float(margin(logits(x)).mean())]

    def repeat(times: int) -> None:
        for _ in range(times):
            attack()

    return Ready(result, seconds, {"torch": torch.__version__}, lambda: steady(repeat, 1))


if __name__ == "__main__":
    serve(prepare)
