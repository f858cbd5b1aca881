"""Heads of one-stage detectors: what a network says at each cell, what it should say, and which boxes that means."""

from chainrule.models.vision.detector.heads.anchor_free import AnchorFree
from chainrule.models.vision.detector.heads.base import CellHead
from chainrule.models.vision.detector.heads.yolo import Yolo

__all__ = ["AnchorFree", "CellHead", "Yolo"]
