"""The peers' side of the `vision` benchmark: PyTorch by the book, torchvision's own operators, and SciPy."""

import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import vision_problems as problems
from protocol import Ready, serve, steady


def prepare(package: str, task: str, count: int, side: int, threads: int) -> Ready:
    if package != "scipy":
        import torch

        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
    began = time.perf_counter()
    work = TASKS[package, task](count, side)
    found = work()
    taken = time.perf_counter() - began
    return Ready(
        found, taken, {package: version(package)}, lambda: steady(lambda n: [work() for _ in range(n)], 1)
    )


def _boxes(count: int) -> tuple[Any, Any, Any]:
    import torch

    boxes, scores, labels = (torch.from_numpy(one) for one in problems.scored_boxes(count))
    return boxes, scores, labels


def _apart(boxes: Any, labels: Any) -> Any:
    """Boxes of different classes moved so far apart that they never overlap, as torchvision does it."""
    return boxes + (labels.to(boxes) * (boxes.max() + 1))[:, None]


def _kept(scores: Any, labels: Any, index: Any) -> list[float]:
    index = index[: problems.KEPT]
    return [float(scores[index].sum()), float(labels[index].sum()), float(len(index))]


def plain_nms(count: int, side: int) -> Callable[[], list[float]]:
    """All overlaps at once, then one box after the other."""
    import torch

    del side
    boxes, scores, labels = _boxes(count)

    def work() -> list[float]:
        order = scores.argsort(descending=True)
        own = _apart(boxes, labels)[order]
        area = (own[:, 2:] - own[:, :2]).prod(dim=1)
        low = torch.maximum(own[:, None, :2], own[None, :, :2])
        high = torch.minimum(own[:, None, 2:], own[None, :, 2:])
        common = (high - low).clamp(min=0).prod(dim=2)
        over = (common / (area[:, None] + area[None] - common) > problems.THRESHOLD).numpy()
        gone, kept = over[0] & False, []
        for one in range(len(own)):
            if not gone[one]:
                kept.append(one)
                gone |= over[one]
                if len(kept) == problems.KEPT:
                    break
        return _kept(scores, labels, order[torch.tensor(kept)])

    return work


def vision_nms(count: int, side: int) -> Callable[[], list[float]]:
    """torchvision's operator."""
    from torchvision.ops import batched_nms

    del side
    boxes, scores, labels = _boxes(count)
    return lambda: _kept(scores, labels, batched_nms(boxes, scores, labels, problems.THRESHOLD))


def plain_align(count: int, side: int) -> Callable[[], list[float]]:
    """All points of all regions by one call of grid_sample, and their means."""
    import torch

    features, boxes = (torch.from_numpy(one) for one in problems.regions(count, side))
    image = features.permute(2, 0, 1)[None].contiguous()
    points = 2 * problems.CELLS

    def work() -> list[float]:
        step = (torch.arange(points) + 0.5) / points
        x = boxes[:, 0:1] + step * (boxes[:, 2:3] - boxes[:, 0:1])
        y = boxes[:, 1:2] + step * (boxes[:, 3:4] - boxes[:, 1:2])
        grid = torch.stack([x[:, None].expand(-1, points, -1), y[:, :, None].expand(-1, -1, points)], dim=-1)
        grid = (grid / side * 2 - 1).reshape(1, -1, points, 2)
        found = torch.nn.functional.grid_sample(image, grid, align_corners=False, padding_mode="border")
        found = torch.nn.functional.avg_pool2d(found.reshape(1, -1, count * points, points), 2)
        return [float(found.sum()), float((found**2).sum())]

    return work


def vision_align(count: int, side: int) -> Callable[[], list[float]]:
    """torchvision's operator."""
    import torch
    from torchvision.ops import roi_align

    features, boxes = (torch.from_numpy(one) for one in problems.regions(count, side))
    image = features.permute(2, 0, 1)[None].contiguous()

    def work() -> list[float]:
        found = roi_align(image, [boxes], problems.CELLS, sampling_ratio=2, aligned=True)
        return [float(found.sum()), float((found**2).sum())]

    return work


def torch_stft(count: int, side: int) -> Callable[[], list[float]]:
    """torch.stft and torch.istft."""
    import torch

    del side
    x, window = torch.from_numpy(problems.sound(count)), torch.hann_window(problems.WINDOW)

    def work() -> list[float]:
        given: dict[str, Any] = {"hop_length": problems.HOP, "window": window, "center": True}
        found = torch.stft(x, problems.WINDOW, pad_mode="constant", return_complex=True, **given)
        back = torch.istft(found, problems.WINDOW, length=count, **given)
        return [float(found.abs().square().sum()), float((back[:, ::7] * x[:, ::7]).sum())]

    return work


def scipy_stft(count: int, side: int) -> Callable[[], list[float]]:
    """scipy.signal.ShortTimeFFT, which has a few more frames at either end."""
    import numpy as np
    from scipy.signal import ShortTimeFFT, get_window

    del side
    x, window = problems.sound(count), get_window("hann", problems.WINDOW).astype(np.float32)
    transform = ShortTimeFFT(window, hop=problems.HOP, fs=1, fft_mode="onesided")
    first, frames = -transform.p_min, count // problems.HOP + 1

    def work() -> list[float]:
        found = transform.stft(x)
        back = transform.istft(found, k1=count)
        held = found[..., first : first + frames]
        power = float((held.real**2 + held.imag**2).sum())
        return [power, float((back[:, ::7] * x[:, ::7]).sum())]

    return work


TASKS = {
    ("torch", "nms"): plain_nms,
    ("torchvision", "nms"): vision_nms,
    ("torch", "align"): plain_align,
    ("torchvision", "align"): vision_align,
    ("torch", "stft"): torch_stft,
    ("scipy", "stft"): scipy_stft,
}

if __name__ == "__main__":
    serve(prepare)
