"""Parts of detectors: boxes and their overlap, anchors, suppression, regions of feature maps, average precision."""

from chainrule.nn.detection.anchors import anchor_shapes, anchors, decode_boxes, encode_boxes, grid_centers
from chainrule.nn.detection.average_precision import (
    Ranking,
    average_precision,
    average_precisions,
    rankings,
)
from chainrule.nn.detection.boxes import (
    box_area,
    centers_of,
    clip_boxes,
    diou,
    from_centers,
    from_sizes,
    giou,
    iou,
    pairwise,
    sizes_of,
)
from chainrule.nn.detection.detections import detections
from chainrule.nn.detection.errors import DetectionErrors, detection_errors
from chainrule.nn.detection.regions import roi_align, roi_max_pool, warp_regions
from chainrule.nn.detection.selective_search import propose_regions, selective_search
from chainrule.nn.detection.superpixels import graph_segments, slic
from chainrule.nn.detection.suppression import Kept, nms, soft_nms

__all__ = [
    "DetectionErrors",
    "Kept",
    "Ranking",
    "anchor_shapes",
    "anchors",
    "average_precision",
    "average_precisions",
    "box_area",
    "centers_of",
    "clip_boxes",
    "decode_boxes",
    "detection_errors",
    "detections",
    "diou",
    "encode_boxes",
    "from_centers",
    "from_sizes",
    "giou",
    "graph_segments",
    "grid_centers",
    "iou",
    "nms",
    "pairwise",
    "propose_regions",
    "rankings",
    "roi_align",
    "roi_max_pool",
    "selective_search",
    "sizes_of",
    "slic",
    "soft_nms",
    "warp_regions",
]
