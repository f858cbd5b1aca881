"""The convergence board: what it says of a sequence and of a source that breaks both limit theorems."""

from chainrule.explain import experiments


def test_sliding_indicators_and_a_cauchy_source_are_told_apart_from_what_converges() -> None:
    found = experiments.run("convergence", steps=500, paths=300)
    assert found.numbers["falls"] == {
        "almost surely": False,
        "in L^p": True,
        "in probability": True,
        "in distribution": True,
    }
    no_mean, no_variance = found.numbers["broken"]
    assert "no mean" in no_mean
    assert "no finite variance" in no_variance
    assert found.numbers["distance"]["256"] > 0.3
    assert len({picture.name for picture in (*found.pictures, found.table)}) == 5


def test_a_source_with_a_variance_breaks_nothing() -> None:
    found = experiments.run("convergence", sequence="mirrored", source="uniform", steps=200, paths=1000)
    assert found.numbers["broken"] == []
    assert found.numbers["distance"]["256"] < 0.06
    assert found.findings[0].endswith("in distribution, and not almost surely, in L^p, in probability.")
