"""PyTorch's side of the `mlp` benchmark: a plain training loop over data in memory, eager or compiled.

`eager`: `nn.Module`, `backward`, fused optimiser. `compile`: loss compiled (its backward pass with it), fused
optimiser. `compile-step`: loss, gradients and update compiled as one function without autograd's bookkeeping.
"""

import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from protocol import Ready, serve, steady
from torch import Tensor, nn

Step = Callable[[Tensor, Tensor], Tensor]
BETAS, EPS = (0.9, 0.999), 1e-8


def prepare(file: str, form: str, optimizer: str, lr: float, threads: int, check: int) -> Ready:
    torch.set_num_threads(threads)
    work = np.load(file)
    # PyTorch's own best form: the data are scaled once, so that a step only gathers.
    x = torch.from_numpy(work["x"]).float() / 255
    y = torch.from_numpy(work["y"]).long()
    index = torch.from_numpy(work["index"]).long()
    layers = [(torch.from_numpy(work[f"w{i}"]), torch.from_numpy(work[f"b{i}"])) for i in range(3)]
    make = {"eager": eager, "compile": compiled, "compile-step": compiled_step}[form]

    began = time.perf_counter()
    step = make(layers, optimizer, lr)
    result = [step(x[rows], y[rows]).item() for rows in index[:1]]
    first = time.perf_counter() - began
    began = time.perf_counter()
    result += [step(x[rows], y[rows]).item() for rows in index[1:check]]
    later = (time.perf_counter() - began) / (check - 1)

    def work(steps: int) -> None:
        for number in range(steps):
            rows = index[number % len(index)]
            step(x[rows], y[rows])

    def turn() -> float:
        return steady(work)

    return Ready(result, max(first - later, 0.0), {"torch": torch.__version__}, turn)


def network(layers: list[tuple[Tensor, Tensor]]) -> nn.Module:
    modules: list[nn.Module] = []
    for weight, bias in layers:
        linear = nn.Linear(*weight.shape)
        with torch.no_grad():
            linear.weight.copy_(weight.T)
            linear.bias.copy_(bias)
        modules += [linear, nn.ReLU()]
    return nn.Sequential(*modules[:-1])


def optimiser(model: nn.Module, name: str, lr: float) -> torch.optim.Optimizer:
    if name == "sgd":
        return torch.optim.SGD(model.parameters(), lr=lr, fused=True)
    return torch.optim.Adam(model.parameters(), lr=lr, betas=BETAS, eps=EPS, fused=True)


def eager(layers: list[tuple[Tensor, Tensor]], optimizer: str, lr: float) -> Step:
    model = network(layers)
    return training(model, optimizer, lr, lambda x, y: F.cross_entropy(model(x), y))


def compiled(layers: list[tuple[Tensor, Tensor]], optimizer: str, lr: float) -> Step:
    model = network(layers)
    return training(model, optimizer, lr, torch.compile(lambda x, y: F.cross_entropy(model(x), y)))


def training(model: nn.Module, optimizer: str, lr: float, loss_of: Step) -> Step:
    rule = optimiser(model, optimizer, lr)

    def step(x: Tensor, y: Tensor) -> Tensor:
        rule.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        rule.step()
        return loss.detach()

    return step


def compiled_step(layers: list[tuple[Tensor, Tensor]], optimizer: str, lr: float) -> Step:
    params = [t.clone() for weight, bias in layers for t in (weight.T.contiguous(), bias)]
    first, second = ([torch.zeros_like(p) for p in params] for _ in range(2))
    count = torch.zeros(())

    def loss_of(params: list[Tensor], x: Tensor, y: Tensor) -> Tensor:
        for i in range(0, len(params) - 2, 2):
            x = F.relu(F.linear(x, params[i], params[i + 1]))
        return F.cross_entropy(F.linear(x, params[-2], params[-1]), y)

    def update(x: Tensor, y: Tensor) -> Tensor:
        grads, loss = torch.func.grad_and_value(loss_of)(params, x, y)
        if optimizer == "sgd":
            for p, g in zip(params, grads, strict=True):
                p.sub_(g, alpha=lr)
            return loss
        count.add_(1)
        corrections = [1 - beta**count for beta in BETAS]
        for p, g, m, v in zip(params, grads, first, second, strict=True):
            m.lerp_(g, 1 - BETAS[0])
            v.mul_(BETAS[1]).addcmul_(g, g, value=1 - BETAS[1])
            p.sub_(lr * (m / corrections[0]) / ((v / corrections[1]).sqrt() + EPS))
        return loss

    fast = torch.compile(update)

    def step(x: Tensor, y: Tensor) -> Tensor:
        with torch.no_grad():
            return fast(x, y)

    return step


if __name__ == "__main__":
    serve(prepare)
