"""What cannot be fed to training is refused before anything is compiled."""

import pytest

from chainrule import data
from chainrule.core.errors import ArgumentError
from chainrule.train.config import TrainConfig
from chainrule.train.feeding import check_feeding


def test_coins_that_are_thrown_anew_need_their_grey_on_the_device() -> None:
    split = data.load("digits", binarize="dynamic").train
    check_feeding(split, TrainConfig(), kept=True)
    with pytest.raises(ArgumentError, match="too large to be kept on the device") as found:
        check_feeding(split, TrainConfig(), kept=False)
    assert "data.binarize=stochastic" in str(found.value)
    check_feeding(data.load("digits").train, TrainConfig(), kept=False)
