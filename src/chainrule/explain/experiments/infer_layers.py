"""Convolutions from a table: every kernel, stride and padding that explains sizes, channels and parameter counts."""

import math
from typing import Annotated, final

from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Table
from chainrule.explain.protocol import Count, Experiment, Listener, Outcome, Settings
from chainrule.nn import infer_layers


@final
class InferLayersSettings(Settings):
    """The table: sizes and channels of the input and after each layer, and the parameters of each layer."""

    sizes: tuple[Annotated[int, Field(ge=1, le=1024)], ...] = Field(
        (28, 14, 7, 4, 2, 1),
        min_length=2,
        description="entries along an axis: of the input, then of every output",
    )
    channels: tuple[Count, ...] = Field(
        (1, 4, 8, 16, 32, 2), min_length=2, description="channels: of the input, then of every output"
    )
    parameters: tuple[Annotated[int, Field(ge=1, le=1_000_000_000)], ...] = Field(
        (40, 296, 1168, 4640, 578), min_length=1, description="numbers that each layer learns"
    )
    dimensions: int = Field(2, ge=1, le=3, description="axes that the kernel moves over, all treated alike")


def run(settings: InferLayersSettings, listener: Listener) -> Outcome:
    """Every explanation of every layer, and how many stacks there are."""
    del listener
    layers = len(settings.parameters)
    for name, numbers in (("sizes", settings.sizes), ("channels", settings.channels)):
        if len(numbers) != layers + 1:
            raise ArgumentError(
                f"{name}={','.join(map(str, numbers))}: {len(numbers)} numbers for {layers} layers",
                remedy=f"give {layers + 1}: of the input, then of each of the {layers} outputs that parameters names",
            )
    shapes = list(zip(settings.sizes, settings.channels, strict=True))
    found = infer_layers(shapes, settings.parameters, dimensions=settings.dimensions)
    rows: list[list[str | float | int]] = []
    for number, (candidates, parameters) in enumerate(zip(found, settings.parameters, strict=True)):
        (size, inputs), (after, outputs) = shapes[number], shapes[number + 1]
        step = f"{size} to {after}, {inputs} to {outputs} channels, {parameters:,} parameters"
        rows += [
            [number + 1, step, one.kernel, one.stride, one.padding, "yes" if one.bias else "no"]
            for one in candidates
        ] or [[number + 1, step, "none fits", "", "", ""]]
    counts = [len(candidates) for candidates in found]
    unexplained = [str(number + 1) for number, count in enumerate(counts) if not count]
    stacks = math.prod(counts)
    findings = [
        f"{layers} layers; explanations of each: {', '.join(map(str, counts))}; together {stacks:,} stacks.",
    ]
    if unexplained:
        findings.append(
            f"No convolution explains layer {', '.join(unexplained)}: its parameters are no "
            f"(kernel^{settings.dimensions} inputs + 1) outputs, with or without the 1, or no stride and padding below "
            "the kernel gives its size. Groups, pooling between layers and kernels of unlike sides are not tried."
        )
    return Outcome(
        findings,
        [],
        Table(
            "infer-layers",
            "Explanations",
            ["layer", "from the table", "kernel", "stride", "padding", "bias"],
            rows,
        ),
        {
            "layers": [
                [
                    {"kernel": c.kernel, "stride": c.stride, "padding": c.padding, "bias": c.bias}
                    for c in candidates
                ]
                for candidates in found
            ],
            "stacks": stacks,
        },
    )


experiment = Experiment(
    "Convolutions from a table of sizes, channels and parameters: every kernel, stride, padding and bias that fits.",
    InferLayersSettings,
    run,
    toy={},
    reference="Dumoulin and Visin, A guide to convolution arithmetic for deep learning, 2016 (arXiv:1603.07285)",
)

__all__ = ["InferLayersSettings", "experiment", "run"]
