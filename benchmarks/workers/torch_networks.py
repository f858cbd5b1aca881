"""PyTorch's side of `nn` and `nets`: the same networks as modules, in a plain training loop with fused optimizers.

`eager`: as written. `channels-last`: images and weights in that memory format. `compile`: the loss compiled (its
backward pass with it), images channels last.
"""

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from protocol import Ready, serve
from torch import Tensor, nn
from torch_steps import measured


def prepare(file: str, network: str, form: str, optimizer: str, lr: float, threads: int, check: int) -> Ready:
    torch.set_num_threads(threads)
    work = np.load(file)
    x, index = torch.from_numpy(work["x"]), torch.from_numpy(work["index"]).long()
    y = torch.from_numpy(work["y"]).long() if "y" in work else None
    images = x.ndim == 4
    if images:
        x = x.permute(0, 3, 1, 2).contiguous()
    model = {
        "mlp": perceptron,
        "conv": ConvNet,
        "unet": UNet,
        "resnet": ResNet,
        "lstm": Memory,
        "gpt": Transformer,
    }[network]()
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(torch.from_numpy(work[f"w{number}"]))
    if images and form != "eager":
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    rules = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    rule = rules[optimizer](model.parameters(), lr=lr, fused=True)

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        out = model(x)
        if network == "gpt":
            out = out.flatten(0, 1)
            y = y.flatten()
        return F.cross_entropy(out, y)

    objective: Callable[[Tensor, Tensor], Tensor] = torch.compile(loss_of) if form == "compile" else loss_of

    def step(rows: Tensor) -> Tensor:
        chosen = x[rows]
        if network == "gpt":
            chosen, target = chosen[:, :-1].long(), chosen[:, 1:].long()
        else:
            assert y is not None
            target = y[rows]
        rule.zero_grad()
        loss = objective(chosen, target)
        loss.backward()
        rule.step()
        return loss.detach()

    return measured(step, index, check)


def perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        shapes = ((1, 32, 1), (32, 64, 1), (64, 64, 2), (64, 128, 1), (128, 128, 2))
        self.convolutions = nn.ModuleList(nn.Conv2d(a, b, 3, stride=s, padding=1) for a, b, s in shapes)
        self.head = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.convolutions:
            x = F.relu(layer(x))
        return self.head(x.mean(dim=(2, 3)))


def double(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1),
        nn.ReLU(),
    )


class UNet(nn.Module):
    def __init__(self, widths: tuple[int, ...] = (16, 32, 64)) -> None:
        super().__init__()
        self.down = nn.ModuleList(double(a, b) for a, b in zip((1, *widths), widths, strict=False))
        turns = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.up = nn.ModuleList(
            nn.ModuleList([nn.ConvTranspose2d(a, b, 2, stride=2), double(2 * b, b)]) for a, b in turns
        )
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        seen = []
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else F.max_pool2d(x, 2))
            seen.append(x)
        for (grow, block), beside in zip(self.up, reversed(seen[:-1]), strict=True):
            x = block(torch.cat([beside, grow(x)], dim=1))
        return self.head(x)


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        self.shortcut = (
            nn.Identity()
            if stride == 1 and inputs == outputs
            else nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        h = self.second_norm(self.second(F.relu(self.first_norm(self.first(x)))))
        return F.relu(h + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        shapes = ((16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1))
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.blocks = nn.Sequential(*(Block(*shape) for shape in shapes))
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x)).mean(dim=(2, 3)))


class Memory(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(32, 128, batch_first=True)
        self.head = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0][:, -1])


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.inward = nn.Linear(width, 3 * width)
        self.outward = nn.Linear(width, width)
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        mixed = self.inward(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(*mixed, is_causal=True)
        return self.outward(out.transpose(1, 2).reshape(x.shape))


class TransformerBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.second_norm = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first_norm(x))
        return x + self.narrow(F.gelu(self.widen(self.second_norm(x))))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.symbols = nn.Embedding(65, 128)
        self.positions = nn.Embedding(128, 128)
        self.blocks = nn.Sequential(TransformerBlock(128, 4), TransformerBlock(128, 4))
        self.norm = nn.LayerNorm(128)
        self.head = nn.Linear(128, 65)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.symbols(x) + self.positions.weight)))


if __name__ == "__main__":
    serve(prepare)
