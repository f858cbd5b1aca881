"""R-CNN, the first detector with a convolutional network: every stage built, scored and timed."""

from typing import Any, final

import numpy as np
from pydantic import Field

from chainrule import data as sources
from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Bars, Images, Table
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.data.kinds.image import unit_images
from chainrule.data.splits import Split
from chainrule.explain.methods import region_classifier as stages
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.networks.pictures import detections as pictures
from chainrule.nn.detection.average_precision import average_precisions


@final
class RCNNSettings(Settings):
    """The images, and the size of the network."""

    data: str = Field("shapes", description="images with boxes, by name or path")
    load: dict[str, Any] = Field(default_factory=dict, description="options of the data, e.g. load.size=128")
    train: int = Field(300, ge=2, description="training images")
    test: int = Field(100, ge=1, description="held-out images that are scored and timed")
    kept: int = Field(64, ge=1, description="proposals of an image at most")
    side: int = Field(24, ge=8, le=256, description="pixels a side that every region is stretched to")
    width: int = Field(
        16, ge=1, description="channels of the first convolutions; the last have twice as many"
    )
    features: int = Field(128, ge=1, description="units of the hidden layer that the linear machines see")
    steps: int = Field(1000, ge=1, description="steps of 128 regions that the network learns from")
    lr: float = Field(1e-3, gt=0, description="learning rate of Adam")
    penalty: float = Field(100.0, gt=0, description="of squared weights of the linear classifiers")
    ridge: float = Field(1000.0, gt=0, description="of squared weights of the regressors; 1,000 as published")
    seed: int = Field(0, ge=0, description="data, weights and which regions are drawn")


def run(settings: RCNNSettings, listener: Listener) -> Outcome:
    """Propose, warp, learn, fit, detect: what boxes are worth before their edges move and after, and what it takes."""
    data = sources.load(settings.data, **{"seed": settings.seed, **settings.load})
    schema = data.schema
    if not targets.of(schema).has_boxes:
        raise ArgumentError(
            f"r-cnn(data={settings.data!r}): these are no images with boxes",
            remedy="use data=shapes, or a folder of images with boxes.csv",
        )
    images, objects = _some(data, data.train, settings.train)
    held, true = _some(data, data.held_out()[0], settings.test)
    found = stages.propose(images, settings.kept)
    listener(f"{len(images)} training images: {found.there.sum(axis=1).mean():.0f} proposals each")
    regions = stages.sampled(images, objects, found, settings.side)
    del found
    network = stages.RegionNetwork(
        *(schema.shape[2], len(schema.classes), settings.side, settings.width, settings.features),
        random.key(settings.seed, "network"),
    )
    network = stages.learnt(network, regions, steps=settings.steps, lr=settings.lr, seed=settings.seed)
    machine = stages.fitted(
        network,
        regions,
        len(schema.classes),
        settings.side,
        penalty=settings.penalty,
        ridge_penalty=settings.ridge,
    )
    listener(f"network and linear machines have learnt from {len(regions.boxes):,} regions")
    proposals = stages.propose(held, settings.kept)
    detected = stages.detect(machine, held, proposals)
    shared = stages.shared_seconds(network, held)
    return _told(settings, schema.classes, (held, true), proposals, detected, shared, _warps(regions))


def _some(data: Data, part: Split, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The first images, in [0, 1], and their objects."""
    batch = part.batch(np.arange(min(most, len(part))))
    images = unit_images(data.schema, data.inverse(np.asarray(batch.x)))
    return images.astype(np.float32), np.asarray(batch.y, np.float64)


def _warps(regions: stages.SampledRegions) -> Images:
    """Regions of objects as the network sees them."""
    chosen = np.flatnonzero((regions.overlap >= 0.5) & ~regions.exact)[:20]
    return Images(
        *("warped-regions", "Proposals as the network sees them", regions.crops[chosen].clip(0, 1), (), 10),
        caption="Each stretched to one size, with 16/227 of its side from around it. All overlap an object by half.",
    )


def _told(
    settings: RCNNSettings,
    classes: tuple[str, ...],
    held: tuple[np.ndarray, np.ndarray],
    proposals: stages.RegionProposals,
    detected: stages.DetectedRegions,
    shared: float,
    warps: Images,
) -> Outcome:
    images, true = held
    there = [number for number in range(len(classes)) if (true[..., 4] == number).any()]
    before, after = (
        average_precisions(one, true, len(classes))[:, there] for one in (detected.unmoved, detected.moved)
    )
    milliseconds = {name: 1000 * value / len(images) for name, value in detected.seconds.items()}
    once, each = 1000 * shared / len(images), milliseconds["network"]
    many = float(proposals.there.sum(axis=1).mean())
    scored = np.concatenate([proposals.boxes, proposals.there[..., None]], axis=-1)
    recall = pictures.proposal_recall(scored, true)
    last = {name: float(values[1][-1]) for name, values in recall.series.items()}
    rows: list[list[Any]] = [[name, value] for name, value in milliseconds.items()]
    rows.append(["all stages", sum(milliseconds.values())])
    rows.append(["the convolutions once over the image", once])
    return Outcome(
        [
            f"mAP50 {after[0].mean():.3f} on {len(images)} held-out images, {before[0].mean():.3f} with the edges as "
            f"proposed; over COCO's sweep {after.mean():.3f} and {before.mean():.3f}.",
            f"{many:.0f} proposals of an image cover {last['IoU 0.5']:.0%} of the objects with an IoU of 0.5.",
            f"An image takes {sum(milliseconds.values()):.3g} ms, {milliseconds['proposals']:.3g} for proposals and "
            f"{each:.3g} for {settings.kept} passes of the network. Its convolutions once over the whole "
            f"image, as Fast R-CNN shares them, take {once:.3g}.",
        ],
        [
            pictures.beside_truth(images[:12], detected.moved[:12], true[:12], classes),
            warps,
            pictures.precision_recall(detected.moved, true, classes),
            pictures.error_bars(detected.moved, true),
            recall,
            Bars(
                *("stage-times", "Where the time of an image goes", "", "milliseconds"),
                list(milliseconds),
                {"an image": np.array(list(milliseconds.values()))},
                caption="Measured one image after the other; everything was compiled before.",
            ),
        ],
        Table("stages", "Milliseconds of an image", ["stage", "milliseconds"], rows),
        {
            "map50": float(after[0].mean()),
            "map": float(after.mean()),
            "map50_unmoved": float(before[0].mean()),
            "map_unmoved": float(before.mean()),
            "recall": last,
            "proposals": many,
            "milliseconds": {**milliseconds, "convolutions_shared": once},
        },
    )


experiment = Experiment(
    "R-CNN built stage by stage: proposals, warped regions, linear classifiers, ridge regression of boxes, timed.",
    RCNNSettings,
    run,
    toy={
        "load": {"n": 20, "size": 32},
        "train": 8,
        "test": 2,
        "kept": 12,
        "side": 8,
        "width": 2,
        "features": 8,
        "steps": 5,
    },
    reference="Girshick, Donahue, Darrell and Malik, Rich feature hierarchies for accurate object detection, CVPR 2014",
)

__all__ = ["RCNNSettings", "experiment", "run"]
