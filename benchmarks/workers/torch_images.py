"""PyTorch's side of the `nn-gpu` benchmark: residual networks in bfloat16, channels last, eager or compiled.

Networks have the names and shapes of torchvision, so that exported weights load as they are.
"""

import time

import numpy as np
import torch
import torch.nn.functional as F
from protocol import Ready, serve, steady
from safetensors.torch import load_file
from torch import Tensor, nn

FORMS = {
    "eager": lambda f: f,
    "compile": torch.compile,
    "graphs": lambda f: torch.compile(f, mode="reduce-overhead"),
}
BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}


class Block(nn.Module):
    """Two 3 x 3 convolutions, or a 1 x 1, a 3 x 3 and a 1 x 1, around which the input is added."""

    def __init__(self, inputs: int, width: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        outputs = 4 * width if bottleneck else width
        widths = [inputs, width, width, outputs] if bottleneck else [inputs, width, outputs]
        kernels = [1, 3, 1] if bottleneck else [3, 3]
        strides = [1, stride, 1] if bottleneck else [stride, 1]
        self.count = len(kernels)
        for i, (kernel, step) in enumerate(zip(kernels, strides, strict=True)):
            conv = nn.Conv2d(widths[i], widths[i + 1], kernel, step, kernel // 2, bias=False)
            setattr(self, f"conv{i + 1}", conv)
            setattr(self, f"bn{i + 1}", nn.BatchNorm2d(widths[i + 1]))
        self.downsample = None
        if stride > 1 or inputs != outputs:
            conv = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.downsample = nn.Sequential(conv, nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for i in range(1, self.count + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            y = F.relu(y) if i < self.count else y
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """A 7 x 7 stem, pooling, four stages, the mean over the image, one affine map."""

    def __init__(self, depth: int, classes: int) -> None:
        super().__init__()
        bottleneck = depth >= 50
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        channels = 64
        for i, count in enumerate(BLOCKS[depth]):
            stage = []
            for j in range(count):
                stage.append(Block(channels, 64 << i, 2 if i and not j else 1, bottleneck))
                channels = (64 << i) * (4 if bottleneck else 1)
            setattr(self, f"layer{i + 1}", nn.Sequential(*stage))
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for i in range(1, 5):
            x = getattr(self, f"layer{i}")(x)
        return self.fc(x.mean(dim=(2, 3)))


def prepare(folder: str, form: str, depth: int, lr: float, check: int) -> Ready:
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    weights = load_file(f"{folder}/weights.safetensors")
    work = np.load(f"{folder}/data.npz")
    # PyTorch's own best form: the data lie on the GPU, channels last, scaled when a batch is cut.
    x = torch.from_numpy(work["x"]).cuda().permute(0, 3, 1, 2)
    y = torch.from_numpy(work["y"]).long().cuda()
    index = torch.from_numpy(work["index"]).long().cuda()
    model = ResNet(depth, len(weights["fc.bias"])).cuda().to(memory_format=torch.channels_last)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected
    assert all(name.endswith("num_batches_tracked") for name in missing), missing
    rule = torch.optim.Adam(model.parameters(), lr=lr, fused=True)

    def loss_of(rows: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            images = (x[rows].to(torch.bfloat16) / 255).contiguous(memory_format=torch.channels_last)
            return F.cross_entropy(model(images).float(), y[rows])

    objective = FORMS[form](loss_of)

    def step(rows: Tensor) -> Tensor:
        rule.zero_grad()
        loss = objective(rows)
        loss.backward()
        rule.step()
        return loss.detach()

    began = time.perf_counter()
    result = [step(index[0]).item()]
    first = time.perf_counter() - began
    result += [step(rows).item() for rows in index[1:check]]

    def many(steps: int) -> None:
        for number in range(steps):
            step(index[number % len(index)])
        torch.cuda.synchronize()

    return Ready(result, first, {"torch": torch.__version__}, lambda: steady(many, 4, 3.0))


if __name__ == "__main__":
    serve(prepare)
