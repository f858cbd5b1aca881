"""PyTorch's side of the detector's training step: the same pyramid, head and loss as modules, by the book.

`eager`: as written. `channels-last`: images and weights in that memory format. `compile`: the loss compiled (its
backward pass with it), images channels last.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from protocol import Ready, serve
from torch import Tensor, nn
from torch_steps import measured

SPAN, RADIUS, ALPHA = 6.0, 1.5, 0.25
MOST_GROWTH = math.log(1000 / 16)


class Block(nn.Module):
    """Convolution, batch norm where there is one, rectifier."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1, normalised: bool = True) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=not normalised)
        self.norm = nn.BatchNorm2d(outputs) if normalised else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.norm(self.conv(x)))


class Detector(nn.Module):
    """Modules in the order in which Chainrule's model holds its weights."""

    def __init__(self, width: int, levels: int, blocks: int, channels: int, depth: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(Block(3, width, 2), Block(width, width))
        widths = [width << min(level + 1, 3) for level in range(levels)]
        self.stages = nn.ModuleList(
            nn.Sequential(Block(before, wide, 2), *(Block(wide, wide) for _ in range(blocks)))
            for before, wide in zip([width, *widths], widths, strict=False)
        )
        self.lateral = nn.ModuleList(nn.Conv2d(wide, channels, 1) for wide in widths)
        self.smooth = nn.ModuleList(Block(channels, channels) for _ in widths)
        self.class_tower = nn.Sequential(*(Block(channels, channels, normalised=False) for _ in range(depth)))
        self.box_tower = nn.Sequential(*(Block(channels, channels, normalised=False) for _ in range(depth)))
        self.classes = nn.Conv2d(channels, classes, 3, padding=1)
        self.edges = nn.Conv2d(channels, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(2 * x - 1)
        seen = []
        for stage in self.stages:
            x = stage(x)
            seen.append(x)
        maps = [lateral(one) for lateral, one in zip(self.lateral, seen, strict=True)]
        for level in range(len(maps) - 2, -1, -1):
            above = F.interpolate(maps[level + 1], scale_factor=2, mode="nearest")
            maps[level] = maps[level] + above[:, :, : maps[level].shape[2], : maps[level].shape[3]]
        found = []
        for one, smooth in zip(maps, self.smooth, strict=True):
            one = smooth(one)
            both = torch.cat([self.classes(self.class_tower(one)), self.edges(self.box_tower(one))], dim=1)
            found.append(both.flatten(2).transpose(1, 2))
        return torch.cat(found, dim=1)


def cells(grids: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """The middle of every cell and its side, in pixels."""
    centres, strides = [], []
    for height, width, stride in grids:
        y, x = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
        centres.append(torch.stack([x, y], dim=-1).reshape(-1, 2) * stride)
        strides.append(torch.full((height * width, 1), float(stride)))
    return torch.cat(centres), torch.cat(strides)


def giou(a: Tensor, b: Tensor) -> Tensor:
    """Generalised overlap of boxes and their counterparts."""
    area = [
        (box[..., 2] - box[..., 0]).clamp(min=0) * (box[..., 3] - box[..., 1]).clamp(min=0) for box in (a, b)
    ]
    common = (
        (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0).prod(-1)
    )
    around = (torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])).prod(-1)
    union = area[0] + area[1] - common
    return common / union.clamp(min=1e-12) - (around - union) / around.clamp(min=1e-12)


class Loss:
    """Focal loss of the classes and 1 - GIoU of the boxes; each cell finds the smallest object that is its own."""

    def __init__(self, grids: Sequence[Sequence[int]], box_weight: float) -> None:
        self.centres, self.strides = cells(grids)
        self.box_weight = box_weight

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        at, stride = self.centres[None, :, None], self.strides[None, :, None]
        low, high, there = y[:, None, :, :2], y[:, None, :, 2:4], y[:, :, 4] >= 0
        away = (at - (low + high) / 2).abs().amax(-1)
        inside = torch.minimum(at - low, high - at).amin(-1) > 0
        stride = stride[..., 0]
        near = (inside & (away <= RADIUS * stride)) | (away <= stride / 2)
        side = (high - low).amax(-1)
        finest, coarsest = stride == stride.amin(), stride == stride.amax()
        fits = ((side > SPAN * stride / 2) | finest) & ((side <= SPAN * stride) | coarsest)
        mine = near & fits & there[:, None]
        area = (y[..., 2] - y[..., 0]) * (y[..., 3] - y[..., 1])
        index = torch.where(mine, area[:, None], torch.inf).argmin(-1)
        positive = mine.any(-1)
        own = torch.gather(y, 1, index[..., None].expand(-1, -1, 5))
        logits, edges = outputs[..., :-4], outputs[..., -4:]
        count = positive.sum(1).clamp(min=1).to(outputs.dtype)
        labels = own[..., 4].long().clamp(min=0)
        wanted = F.one_hot(labels, logits.shape[-1]).to(logits.dtype) * positive[..., None]
        surprisal = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
        probability = torch.sigmoid(logits)
        right = wanted * probability + (1 - wanted) * (1 - probability)
        share = wanted * ALPHA + (1 - wanted) * (1 - ALPHA)
        of_classes = (share * (1 - right) ** 2 * surprisal).sum((1, 2)) / count
        reach = edges.clamp(-MOST_GROWTH, MOST_GROWTH).exp() * self.strides[None]
        boxes = torch.cat([self.centres[None] - reach[..., :2], self.centres[None] + reach[..., 2:]], dim=-1)
        of_boxes = torch.where(positive, 1 - giou(boxes, own[..., :4]), 0.0).sum(1) / count
        return (of_classes + self.box_weight * of_boxes).mean()


def prepare(file: str, form: str, lr: float, threads: int, check: int) -> Ready:
    torch.set_num_threads(threads)
    work = np.load(file)
    x, y = torch.from_numpy(work["x"]).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(work["y"])
    index = torch.from_numpy(work["index"]).long()
    model = Detector(*(int(one) for one in work["sizes"]))
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            given = torch.from_numpy(work[f"w{number}"])
            parameter.copy_(given.permute(3, 2, 0, 1) if given.ndim == 4 else given)
    if form != "eager":
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    judge = Loss(work["grids"].tolist(), float(work["box_weight"]))
    rule = torch.optim.Adam(model.parameters(), lr=lr, fused=True)

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        return judge(model(x), y)

    objective: Callable[[Tensor, Tensor], Tensor] = torch.compile(loss_of) if form == "compile" else loss_of

    def step(rows: Tensor) -> Tensor:
        rule.zero_grad()
        loss = objective(x[rows], y[rows])
        loss.backward()
        rule.step()
        return loss.detach()

    return measured(step, index, check)


if __name__ == "__main__":
    serve(prepare)
