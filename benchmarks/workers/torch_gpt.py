"""PyTorch's side of the `sequences` benchmarks: GPT-2 in a plain training loop, eager or compiled, CPU or GPU.

`whole` trains to the end and answers with the validation loss and the seconds it took, compilation included.
"""

import math
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from protocol import Ready, serve, steady
from torch import Tensor

Params = dict[str, Tensor]
FORMS = {
    "eager": lambda f: f,
    "compile": torch.compile,
    "graphs": lambda f: torch.compile(f, mode="reduce-overhead"),
}
BETAS, DECAY, CLIP = (0.9, 0.99), 0.1, 1.0


def prepare(
    folder: str,
    form: str,
    heads: int,
    window: int,
    lr: float,
    check: int,
    threads: int = 0,
    whole: bool = False,
    half: bool = False,
) -> Ready:
    if threads:
        torch.set_num_threads(threads)
    device = torch.device("cuda" if torch.cuda.is_available() and half else "cpu")
    if half:
        torch.set_float32_matmul_precision("high")
    work = np.load(f"{folder}/data.npz")
    symbols = torch.from_numpy(work["symbols"].astype(np.int64)).to(device)
    index = torch.from_numpy(work["index"].astype(np.int64)).to(device)
    positions = torch.arange(window + 1, device=device)
    params = {name: torch.from_numpy(a).to(device) for name, a in np.load(f"{folder}/weights.npz").items()}
    for param in params.values():
        param.requires_grad_()

    def loss_of(text: Tensor) -> Tensor:
        with torch.autocast(device.type, torch.bfloat16, enabled=half):
            logits = network(params, heads, text[:, :-1])
            return F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())

    loss = FORMS[form](loss_of)
    rule = optimiser(params, lr, device)

    def step(number: int, rate: float = lr) -> Tensor:
        for group in rule.param_groups:
            group["lr"] = rate
        rows = index[number % len(index)]
        rule.zero_grad()
        value = loss(symbols[rows[:, None] + positions[None, :]])
        value.backward()
        torch.nn.utils.clip_grad_norm_(params.values(), CLIP)
        rule.step()
        return value.detach()

    versions = {"torch": torch.__version__}
    began = time.perf_counter()
    if whole:
        for number in range(len(index)):
            step(number, lr * factor(number, len(index)))
        seconds = time.perf_counter() - began
        return Ready([validation(params, heads, work["val"], window)], seconds, versions, lambda: 0.0)
    result = [step(0).item()]
    first = time.perf_counter() - began
    began = time.perf_counter()
    result += [step(number).item() for number in range(1, check)]
    later = (time.perf_counter() - began) / max(check - 1, 1)

    def work_on(steps: int) -> None:
        for number in range(steps):
            value = step(number)
        value.item()  # waits for the device

    def turn() -> float:
        return steady(work_on, piece=4 if half else 16, seconds=3.0 if half else 1.0)

    return Ready(result, max(first - later, 0.0), versions, turn)


def network(params: Params, heads: int, x: Tensor) -> Tensor:
    """Logits of GPT-2 without biases."""
    time_, width = x.shape[1], params["wte.weight"].shape[1]
    h = params["wte.weight"][x] + params["wpe.weight"][:time_]
    for i in range(sum(name.endswith("ln_1.weight") for name in params)):
        at: Callable[[str], Tensor] = lambda name, i=i: params[f"h.{i}.{name}.weight"]  # noqa: E731
        y = F.layer_norm(h, (width,), at("ln_1"))
        three = F.linear(y, at("attn.c_attn").T).view(*y.shape[:2], 3, heads, -1).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(*three.unbind(0), is_causal=True).transpose(1, 2).flatten(2)
        h = h + F.linear(out, at("attn.c_proj").T)
        y = F.layer_norm(h, (width,), at("ln_2"))
        h = h + F.linear(F.gelu(F.linear(y, at("mlp.c_fc").T), approximate="tanh"), at("mlp.c_proj").T)
    return F.linear(F.layer_norm(h, (width,), params["ln_f.weight"]), params["wte.weight"])


def optimiser(params: Params, lr: float, device: torch.device) -> torch.optim.Optimizer:
    matrices = [p for p in params.values() if p.ndim >= 2]
    vectors = [p for p in params.values() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}]
    del device
    return torch.optim.AdamW(groups, lr=lr, betas=BETAS, fused=True)


def factor(step: int, steps: int, warmup: int = 100, floor: float = 0.1) -> float:
    """Linear warm-up, then half a cosine down to the floor."""
    if step < warmup:
        return step / warmup
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))


@torch.no_grad()
def validation(params: Params, heads: int, symbols: np.ndarray, window: int) -> float:
    """Mean nats per symbol over consecutive windows."""
    text = torch.from_numpy(symbols.astype(np.int64))
    starts = torch.arange(0, len(text) - window, window)
    total, count = 0.0, 0
    for rows in starts.split(128):
        x = text[rows[:, None] + torch.arange(window + 1)[None, :]]
        logits = network(params, heads, x[:, :-1])
        total += F.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten(), reduction="sum").item()
        count += x[:, 1:].numel()
    return total / count


if __name__ == "__main__":
    serve(prepare)
