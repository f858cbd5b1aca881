"""PyTorch's side of the `diffusion` benchmark: the same U-Net from the same arrays, trained and sampled.

Arrays come under the names they have in Chainrule; convolutions are turned to the layout of PyTorch when they are read.
"""

import math
import time

import numpy as np
import torch
import torch.nn.functional as F
from protocol import Ready, serve, steady
from torch import Tensor, nn

GROUPS = 32


class UNet(nn.Module):
    """Residual blocks with FiLM on the way down, in the middle and on the way up; attention where it has weights."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        super().__init__()
        self.names: dict[str, str] = {}
        for name, array in arrays.items():
            array = np.transpose(array, (3, 2, 0, 1)) if array.ndim == 4 else array
            array = array.T if name.endswith("weight") and array.ndim == 2 else array
            key = name.replace(".", "_")
            self.names[name] = key
            self.register_parameter(key, nn.Parameter(torch.from_numpy(array.copy())))
        self.stages = self.count("encoder.stages.")

    def count(self, prefix: str) -> int:
        return 1 + max(
            int(name[len(prefix) :].split(".")[0]) for name in self.names if name.startswith(prefix)
        )

    def has(self, name: str) -> bool:
        return name in self.names

    def at(self, name: str) -> Tensor:
        return getattr(self, self.names[name])

    def linear(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self.at(f"{name}.weight"), self.at(f"{name}.bias"))

    def conv(self, name: str, x: Tensor, stride: int = 1) -> Tensor:
        weight = self.at(f"{name}.weight")
        return F.conv2d(x, weight, self.at(f"{name}.bias"), stride, weight.shape[-1] // 2)

    def norm(self, name: str, x: Tensor) -> Tensor:
        channels = x.shape[1]
        groups = math.gcd(math.gcd(GROUPS, max(1, channels // 4)), channels)
        return F.group_norm(x, groups, self.at(f"{name}.scale"), self.at(f"{name}.shift"), 1e-5)

    def block(self, stage: str, index: int, x: Tensor, c: Tensor) -> Tensor:
        name = f"{stage}.blocks.{index}"
        h = self.conv(f"{name}.convs.0", F.silu(self.norm(f"{name}.norms.0", x)))
        scale, shift = self.linear(f"{name}.film", c)[:, :, None, None].chunk(2, dim=1)
        h = self.conv(f"{name}.convs.1", F.silu((1 + scale) * self.norm(f"{name}.norms.1", h) + shift))
        x = (self.conv(f"{name}.skip", x) if self.has(f"{name}.skip.weight") else x) + h
        look = f"{stage}.attention.{index}"
        return self.attention(look, x) if self.has(f"{look}.gate") else x

    def attention(self, name: str, x: Tensor) -> Tensor:
        batch, channels, height, width = x.shape
        heads = max(1, channels // 64)
        flat = self.norm(f"{name}.norm", x).flatten(2).transpose(1, 2)
        mixed = self.linear(f"{name}.attention.inward", flat)
        mixed = mixed.reshape(batch, height * width, 3, heads, channels // heads).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(mixed[0], mixed[1], mixed[2]).transpose(1, 2)
        out = self.linear(f"{name}.attention.outward", out.reshape(batch, height * width, channels))
        gate = self.at(f"{name}.gate")[None, :, None, None]
        return x + gate * out.transpose(1, 2).reshape(x.shape)

    def forward(self, x: Tensor, lam: Tensor, y: Tensor) -> Tensor:
        frequencies = torch.exp2(torch.linspace(-5.0, 2.0, 32, device=x.device))
        angles = lam[:, None] * frequencies[None]
        waves = torch.cat([angles.sin(), angles.cos()], dim=1).to(x.dtype)
        c = self.linear("embedding.level.1", F.silu(self.linear("embedding.level.0", waves)))
        c = F.silu(c + self.at("embedding.condition.names")[y])
        h = self.conv("encoder.entry", x)
        skips = []
        for i in range(self.stages):
            stage = f"encoder.stages.{i}"
            for j in range(self.count(f"{stage}.blocks.")):
                h = self.block(stage, j, h, c)
                skips.append(h)
            if self.has(f"{stage}.leave.weight"):
                h = self.conv(f"{stage}.leave", h, stride=2)
        for j in range(2):
            h = self.block("encoder.middle", j, h, c)
        for i in range(self.stages):
            stage = f"decoder.stages.{i}"
            for j in range(self.count(f"{stage}.blocks.")):
                h = self.block(stage, j, torch.cat([h, skips.pop()], dim=1), c)
            if self.has(f"{stage}.leave.weight"):
                h = self.conv(f"{stage}.leave", F.interpolate(h, scale_factor=2.0))
        return self.conv("decoder.exit", F.silu(self.norm("decoder.norm", h)))


def levels(lam: Tensor) -> tuple[Tensor, Tensor]:
    return torch.sigmoid(lam).sqrt()[:, None, None, None], torch.sigmoid(-lam).sqrt()[:, None, None, None]


FORMS = {
    "channels-last": lambda f: f,
    "compile": torch.compile,
    "graphs": lambda f: torch.compile(f, mode="reduce-overhead"),
}


def prepare(file: str, task: str, form: str, lr: float, threads: int, device: str, half: bool) -> Ready:
    torch.set_num_threads(threads)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    arrays = dict(np.load(file, allow_pickle=False))
    own = {name: a for name, a in arrays.items() if name.split(".")[0] in ("embedding", "encoder", "decoder")}
    model = UNet(own).to(device)
    for parameter in model.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)

    def pictures(name: str) -> Tensor:
        x = torch.from_numpy(arrays[name]).to(device).permute(0, 3, 1, 2)
        return x if x.dtype == torch.uint8 else x.contiguous(memory_format=torch.channels_last)

    make = sample if task != "training" else train
    return make(model, arrays, pictures, form, lr, device, half)


def train(model, arrays, pictures, form, lr, device, half) -> Ready:
    x0, eps = pictures("fixed.x0"), pictures("fixed.eps")
    lam, y = (torch.from_numpy(arrays[f"fixed.{name}"]).to(device) for name in ("lam", "y"))
    rule = torch.optim.Adam(model.parameters(), lr=lr, fused=device == "cuda")

    def loss_of(x0: Tensor, eps: Tensor, lam: Tensor, y: Tensor) -> Tensor:
        a, s = levels(lam)
        with torch.autocast(device, torch.bfloat16, enabled=half):
            said = model(a * x0 + s * eps, lam, y).float()
        return (said - (a * eps - s * x0)).square().mean()

    objective = FORMS[form](loss_of)
    began = time.perf_counter()
    loss = objective(x0, eps, lam, y)
    loss.backward()
    length = math.sqrt(sum(float(p.grad.square().sum()) for p in model.parameters() if p.grad is not None))
    result = [loss.item(), length]
    first = time.perf_counter() - began
    every, classes = pictures("x"), torch.from_numpy(arrays["y"]).long().to(device)
    size = len(x0)

    def step() -> None:
        rows = torch.randint(len(every), (size,), device=device)
        clean = (every[rows].float() / 127.5 - 1).contiguous(memory_format=torch.channels_last)
        # The fixed levels lie evenly over the schedule, as those of a batch do; classes are dropped at random.
        dropped = torch.where(torch.rand(size, device=device) < 0.1, 10, classes[rows])
        rule.zero_grad()
        objective(clean, torch.randn_like(clean), lam, dropped).backward()
        rule.step()

    def many(steps: int) -> None:
        for _ in range(steps):
            step()
        if device == "cuda":
            torch.cuda.synchronize()

    return Ready(result, first, {"torch": torch.__version__}, lambda: steady(many, 1, 2.0))


def sample(model, arrays, pictures, form, lr, device, half) -> Ready:
    del lr
    start = pictures("fixed.start")
    y = torch.arange(len(start), device=device) % 10
    a, s = (torch.from_numpy(arrays[f"grid.{name}"]).double() for name in ("a", "s"))
    lams = (2 * (a.log() - s.log())).float().to(device)
    network = FORMS[form](model.bfloat16() if half else model)
    kind = torch.bfloat16 if half else torch.float32

    @torch.no_grad()
    def walk() -> Tensor:
        x = start
        for i in range(len(a) - 1):
            here, noise, there, less = float(a[i]), float(s[i]), float(a[i + 1]), float(s[i + 1])
            v = network(x.to(kind), lams[i].expand(len(x)), y).float()
            x0 = (here * x - noise * v).clamp(-1, 1)
            x = there * x0 + less * (x - here * x0) / noise
        return x

    def many(times: int) -> None:
        for _ in range(times):
            walk()
        if device == "cuda":
            torch.cuda.synchronize()

    began = time.perf_counter()
    out = walk().float().cpu()
    first = time.perf_counter() - began
    result = [2 + one.mean().item() for one in out[:8]]
    return Ready(result, first, {"torch": torch.__version__}, lambda: steady(many, 1, 1.0))


if __name__ == "__main__":
    serve(prepare)
