"""The guide to kernels runs, and finds what it says."""

from pathlib import Path

import numpy as np
import pytest

from tests.explain.test_guide import followed


@pytest.mark.slow
def test_the_guide_to_kernels_runs_and_finds_what_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = followed("kernels.md", tmp_path, capsys)
    assert made["K"].check(made["k"], made["x"])
    assert made["words"].cosine("cat dog", "dog tax tax") == pytest.approx(0.051434, abs=1e-6)
    assert len(made["machine"].support) < 200
    assert made["reader"].predict(gram=made["spectrum"].gram(made["new"], made["known"])).tolist() == [
        "a",
        "b",
    ]
    assert 3e-3 < made["search"].best[0]["lr"] < 3e-2
    assert np.asarray(made["mean"]).shape[0] == 1
