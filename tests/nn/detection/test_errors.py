"""Every wrong detection has one reason."""

import numpy as np

from chainrule.networks.pictures import detections
from chainrule.nn.detection.errors import REASONS, detection_errors

OBJECTS = np.array([[[0.0, 0, 10, 10, 0], [20, 20, 40, 40, 1], [50, 50, 60, 60, 0]]])
DETECTED = np.array(
    [
        [
            [0.0, 0, 10, 9, 0.9, 0],  # found
            [0, 0, 10, 10, 0.8, 0],  # the same again
            [20, 20, 40, 39, 0.7, 0],  # the other class
            [26, 26, 46, 46, 0.6, 1],  # beside it
            [70, 70, 80, 80, 0.5, 1],  # nothing there
            [50, 50, 60, 60, 0.1, 0],  # too low a score
            [0, 0, 0, 0, 0, -1],
        ]
    ]
)


def test_every_reason_is_found() -> None:
    found = detection_errors(DETECTED, OBJECTS)
    assert [REASONS[n] if n >= 0 else "" for n in found.reasons[0]] == [
        *REASONS[:1],
        "duplicate",
        "class",
        "position",
        "background",
        "",
        "",
    ]
    assert found.missed.tolist() == [[False, True, True]]
    assert found.counts() == {
        "found": 1,
        "class": 1,
        "position": 1,
        "duplicate": 1,
        "background": 1,
        "missed": 2,
    }


def test_a_lower_score_lets_more_be_found() -> None:
    assert detection_errors(DETECTED, OBJECTS, least=0.05).counts()["missed"] == 1


def test_pictures_hold_the_boxes_curves_and_counts() -> None:
    images = np.zeros((1, 96, 96, 3))
    sheet = detections.beside_truth(images, DETECTED, OBJECTS, ["cat", "dog"])
    assert sum(mark.dashed for mark in sheet.marks[0]) == 3
    assert [mark.label for mark in sheet.marks[0] if not mark.dashed][:2] == ["cat 0.90", "cat 0.80"]
    curves = detections.precision_recall(DETECTED, OBJECTS, ["cat", "dog", "cow"])
    assert [name.split()[0] for name in curves.series] == ["cat", "dog"]
    assert detections.error_bars(DETECTED, OBJECTS).series["errors"].tolist() == [1, 1, 1, 1, 2]
    recall = detections.proposal_recall(DETECTED, OBJECTS).series["IoU 0.5"][1]
    assert recall[-1] == 1
    assert np.isclose(recall[0], 1 / 3)
    assert detections.worst(images, DETECTED, OBJECTS, np.ones(1), ["cat", "dog"]).labels == ["loss 1.00"]
