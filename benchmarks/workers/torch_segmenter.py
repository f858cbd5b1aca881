"""PyTorch's side of the segmenter's training step: the same U-Net from the same arrays, cross-entropy plus Dice, Adam.

`eager`: as written. `channels-last`: images and weights in that memory format. `compile`: the loss compiled (its
backward pass with it), images channels last.
"""

import numpy as np
import torch
import torch.nn.functional as F
from protocol import Ready, serve
from torch import Tensor, nn
from torch_steps import measured

IGNORE = 255


class UNet(nn.Module):
    """Two convolutions with batch norm at each resolution, on the way down and up, skips side by side."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        super().__init__()
        for name, array in arrays.items():
            if "running" in name or "tracked" in name:
                continue  # training does not read them
            self.register_parameter(name.replace(".", "_"), nn.Parameter(torch.from_numpy(array.copy())))
        self.depth = sum(name.startswith("network.rise") and name.endswith("bias") for name in arrays)

    def at(self, name: str) -> tuple[Tensor, Tensor | None]:
        key = f"network_{name}".replace(".", "_")
        return getattr(self, f"{key}_weight"), getattr(self, f"{key}_bias", None)

    def block(self, name: str, x: Tensor) -> Tensor:
        for number in (0, 1):
            x = F.conv2d(
                x, self.at(f"{name}.{number}.conv")[0], padding=1
            )  # a bias would fall out of the norm
            x = F.silu(F.batch_norm(x, None, None, *self.at(f"{name}.{number}.norm"), training=True))
        return x

    def forward(self, x: Tensor) -> Tensor:
        h, skips = 2 * x - 1, []
        for level in range(self.depth + 1):
            h = self.block(f"down.{level}", F.max_pool2d(h, 2) if level else h)
            skips.append(h)
        for step in range(self.depth):
            h = F.conv_transpose2d(h, *self.at(f"rise.{step}"), stride=2)
            h = self.block(f"up.{step}", torch.cat([skips[self.depth - 1 - step], h], dim=1))
        return F.conv2d(h, *self.at("exit"))


def loss_of(out: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy plus one minus the mean Dice of the classes that an image has."""
    counted = (y != IGNORE)[:, None]
    pixels = F.cross_entropy(out, y, ignore_index=IGNORE, reduction="none").sum((1, 2))
    pixels = pixels / counted.sum((1, 2, 3)).clamp(min=1)
    p = out.softmax(1) * counted
    true = F.one_hot(torch.where(y == IGNORE, 0, y), out.shape[1]).permute(0, 3, 1, 2) * counted
    own, said = true.sum((2, 3)), p.sum((2, 3))
    there = own > 0
    share = torch.where(there, 2 * (p * true).sum((2, 3)) / torch.where(there, own + said, 1.0), 0.0)
    return (pixels + 1 - share.sum(1) / there.sum(1).clamp(min=1)).mean()


def prepare(file: str, form: str, lr: float, threads: int, check: int) -> Ready:
    torch.set_num_threads(threads)
    work = dict(np.load(file, allow_pickle=False))
    x, y, index = (torch.from_numpy(work.pop(name)) for name in ("x", "y", "index"))
    x, y, index = x.permute(0, 3, 1, 2).contiguous(), y.long(), index.long()
    model = UNet(work)
    if form != "eager":
        x = x.contiguous(memory_format=torch.channels_last)
        for parameter in model.parameters():
            if parameter.ndim == 4:
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    rule = torch.optim.Adam(model.parameters(), lr=lr, fused=True)

    def objective(x: Tensor, y: Tensor) -> Tensor:
        return loss_of(model(x), y)

    chosen = torch.compile(objective) if form == "compile" else objective

    def step(rows: Tensor) -> Tensor:
        rule.zero_grad()
        loss = chosen(x[rows], y[rows])
        loss.backward()
        rule.step()
        return loss.detach()

    return measured(step, index, check)


if __name__ == "__main__":
    serve(prepare)
