"""PyTorch's side of the `adversarial` benchmark: a bare loop over both players, eager or compiled."""

import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from protocol import Ready, serve, steady
from torch import Tensor, nn

Made = Callable[..., Tensor]


def recorded(function: Made) -> Made:
    """Compiled with its launches recorded; outputs are copied, because the next call writes over them."""
    fast = torch.compile(function, mode="reduce-overhead")
    return lambda *arguments: fast(*arguments).clone()


FORMS: dict[str, Callable[[Made], Made]] = {
    "eager": lambda function: function,
    "compile": torch.compile,
    "graphs": recorded,
}


def prepare(file: str, task: str, form: str, threads: int, device: str) -> Ready:
    torch.set_num_threads(threads)
    torch.set_default_device(device)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    work = {name: torch.from_numpy(array).to(device) for name, array in np.load(file).items()}
    make, lr, betas = {
        "dcgan": (dcgan, 2e-4, (0.5, 0.999)),
        "penalty": (penalty, 1e-4, (0.0, 0.9)),
    }[task]
    generator, discriminator = make(work)
    judging, making = {"dcgan": (plain_loss, plain_made), "penalty": (penalised_loss, penalised_made)}[task]
    x, index = work["x"].float().contiguous(), work["index"].long()
    began = time.perf_counter()
    first = first_losses(generator, discriminator, judging, making, x[index[0]], work)
    if (
        device == "cuda" and form == "eager"
    ):  # not compiled: transposed convolutions fail its checks of strides
        generator, discriminator = (
            n.to(memory_format=torch.channels_last) for n in (generator, discriminator)
        )
        x = x.contiguous(memory_format=torch.channels_last)
    moves = [
        torch.optim.Adam(p.parameters(), lr=lr, betas=betas, fused=True) for p in (generator, discriminator)
    ]
    step = training(generator, discriminator, *moves, judging, making, work["z"].shape[1], FORMS[form])

    def steps(count: int) -> None:
        for number in range(count):
            # On a GPU in bfloat16, as ours.
            with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                step(x[index[number % len(index)]])
        if device == "cuda":
            torch.cuda.synchronize()

    steps(3)
    seconds = time.perf_counter() - began

    def turn() -> float:
        return steady(steps, 1 if device == "cpu" else 50)

    return Ready(first, seconds, {"torch": torch.__version__}, turn)


def training(
    generator: nn.Module,
    discriminator: nn.Module,
    of_generator: torch.optim.Optimizer,
    of_discriminator: torch.optim.Optimizer,
    judging: Made,
    making: Made,
    size: int,
    formed: Callable[[Made], Made],
) -> Callable[[Tensor], None]:
    """One move of each network; what is drawn, judged and made is one program each, with its loss."""
    drawn = formed(generator)
    judged = formed(lambda x, fake, u: judging(discriminator, x, fake, u))
    made = formed(lambda z: making(discriminator, generator(z)))

    def step(x: Tensor) -> None:
        with torch.no_grad():
            fake = drawn(torch.randn(len(x), size))
        of_discriminator.zero_grad(set_to_none=True)
        judged(x, fake, torch.rand(len(x), 1, 1, 1)).backward()
        of_discriminator.step()
        of_generator.zero_grad(set_to_none=True)
        made(torch.randn(len(x), size)).backward()
        of_generator.step()

    return step


def first_losses(
    generator: nn.Module,
    discriminator: nn.Module,
    judging: Made,
    making: Made,
    x: Tensor,
    work: dict[str, Tensor],
) -> list[float]:
    """Losses of both fresh players for given noise."""
    fake = generator(work["z"]).detach()
    judged, made = judging(discriminator, x, fake, work["u"]), making(discriminator, fake)
    return [float(judged.detach()), float(made.detach())]


def plain_loss(discriminator: nn.Module, real: Tensor, fake: Tensor, u: Tensor) -> Tensor:
    del u
    return F.softplus(-discriminator(real)).mean() + F.softplus(discriminator(fake)).mean()


def plain_made(discriminator: nn.Module, fake: Tensor) -> Tensor:
    return F.softplus(-discriminator(fake)).mean()


def penalised_loss(discriminator: nn.Module, real: Tensor, fake: Tensor, u: Tensor) -> Tensor:
    # torch.autograd.grad cannot be compiled where its result is differentiated again, this can.
    slopes = torch.func.grad(lambda x: discriminator(x).sum())(u * real + (1 - u) * fake)
    charge = (slopes.flatten(1).norm(dim=1) - 1).square().mean()
    return discriminator(fake).mean() - discriminator(real).mean() + 10 * charge


def penalised_made(discriminator: nn.Module, fake: Tensor) -> Tensor:
    return -discriminator(fake).mean()


class FromNoise(nn.Module):
    """Layers over noise that is one pixel, or a small image after a dense layer."""

    def __init__(self, entry: nn.Module | None, start: tuple[int, ...], layers: nn.Module) -> None:
        super().__init__()
        self.entry, self.start, self.layers = entry, start, layers

    def forward(self, z: Tensor) -> Tensor:
        h = z if self.entry is None else F.relu(self.entry(z))
        return torch.tanh(self.layers(h.reshape(len(z), *self.start)))


def dcgan(work: dict[str, Tensor]) -> tuple[nn.Module, nn.Module]:
    """The published networks with the weights of the file."""
    up = [work[f"g{i}"] for i in range(sum(name[0] == "g" and name[1:].isdigit() for name in work))]
    down = [work[f"d{i}"] for i in range(sum(name[0] == "d" and name[1:].isdigit() for name in work))]
    layers: list[nn.Module] = []
    for i, weight in enumerate(up):
        stride, padding = (2, 1) if i else (1, 0)
        layer = nn.ConvTranspose2d(*weight.shape[:2], 4, stride=stride, padding=padding, bias=False)
        layers += [_with(layer, weight), *([*_normal(work, "g", i), nn.ReLU()] if i < len(up) - 1 else [])]
    generator = FromNoise(None, (up[0].shape[0], 1, 1), nn.Sequential(*layers))
    layers = []
    for i, weight in enumerate(down):
        last = i == len(down) - 1
        stride, padding = (1, 0) if last else (2, 1)
        layer = nn.Conv2d(weight.shape[1], weight.shape[0], 4, stride=stride, padding=padding, bias=False)
        layers += [_with(layer, weight), *([] if last else [*_normal(work, "d", i), nn.LeakyReLU(0.2)])]
    return generator, nn.Sequential(*layers, nn.Flatten(0))


def _normal(work: dict[str, Tensor], network: str, number: int) -> list[nn.Module]:
    if f"{network}s{number}" not in work:
        return []
    norm = nn.BatchNorm2d(len(work[f"{network}s{number}"]))
    with torch.no_grad():
        norm.weight.copy_(work[f"{network}s{number}"])
    return [norm]


def penalty(work: dict[str, Tensor]) -> tuple[nn.Module, nn.Module]:
    """Upsampling and convolutions against strided convolutions, without normalisation."""
    up = [i for i in range(len(work)) if f"g{i}" in work]
    down = [i for i in range(len(work)) if f"d{i}" in work]
    layers: list[nn.Module] = []
    for i in up:
        weight = work[f"g{i}"]
        conv = _with(nn.Conv2d(weight.shape[1], weight.shape[0], 3, padding=1), weight, work[f"gb{i}"])
        layers += [conv] if i == up[-1] else [nn.Upsample(scale_factor=2), conv, nn.ReLU()]
    entry = nn.Linear(*work["gw"].shape)
    with torch.no_grad():
        entry.weight.copy_(work["gw"].T)
        entry.bias.copy_(work["gb"])
    generator = FromNoise(entry, tuple(int(n) for n in work["start"]), nn.Sequential(*layers))
    layers = []
    for i in down:
        weight = work[f"d{i}"]
        size, stride = weight.shape[-1], 2 if i else 1
        conv = nn.Conv2d(weight.shape[1], weight.shape[0], size, stride=stride, padding=1)
        layers += [_with(conv, weight, work[f"db{i}"]), nn.LeakyReLU(0.2)]
    head = nn.Linear(len(work["dw"]), 1)
    with torch.no_grad():
        head.weight.copy_(work["dw"][None])
        head.bias.copy_(work["db"])
    return generator, nn.Sequential(*layers, nn.Flatten(1), head, nn.Flatten(0))


def _with(layer: nn.Module, weight: Tensor, bias: Tensor | None = None) -> nn.Module:
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias)
    return layer


if __name__ == "__main__":
    serve(prepare)
