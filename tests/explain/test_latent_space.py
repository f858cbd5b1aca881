import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import CapabilityError
from chainrule.data import load
from chainrule.explain.methods import code_space
from chainrule.explain.probes import latent_space
from chainrule.train import fit

DRAW = np.random.default_rng(0)
CODES = DRAW.normal(size=(200, 3))
LABELS = (CODES[:, 0] + 0.3 * DRAW.normal(size=200) > 0).astype(int)


def test_measures_of_codes_are_those_of_scikit_learn():
    discriminant = pytest.importorskip("sklearn.discriminant_analysis")
    metrics = pytest.importorskip("sklearn.metrics")
    neighbors = pytest.importorskip("sklearn.neighbors")
    assert code_space.silhouette(CODES, LABELS) == pytest.approx(
        metrics.silhouette_score(CODES, LABELS), abs=1e-10
    )
    train, held = slice(0, 150), slice(150, 200)
    theirs = discriminant.LinearDiscriminantAnalysis().fit(CODES[train], LABELS[train])
    ours, error = code_space.linear_probe(CODES[train], LABELS[train], CODES[held], LABELS[held])
    assert ours == theirs.score(CODES[held], LABELS[held])
    assert error == pytest.approx(np.sqrt(ours * (1 - ours) / 50))
    nearest = (
        neighbors.NearestNeighbors(n_neighbors=6).fit(CODES).kneighbors(CODES, return_distance=False)[:, 1:]
    )
    wrong = (LABELS[nearest].mean(axis=1) > 0.5) != LABELS
    assert code_space.neighbour_error(CODES, LABELS, 5) == wrong.mean()


def test_codes_of_the_prior_are_called_such_and_others_are_not():
    same, moved = code_space.spread(CODES), code_space.spread(2 * CODES + 1)
    assert same.discrepancy < 2 * same.discrepancy_floor < moved.discrepancy
    assert moved.mean_length == pytest.approx(np.linalg.norm((2 * CODES + 1).mean(axis=0)))
    np.testing.assert_allclose(
        moved.variances, np.linalg.eigvalsh(4 * np.cov(CODES.T, bias=True))[::-1], rtol=1e-10
    )


def test_cells_have_equal_probability_under_the_prior():
    cells = code_space.occupancy(DRAW.normal(size=(40_000, 2)), side=4)
    np.testing.assert_allclose(cells, 1 / 16, atol=0.01)
    empty, expected = code_space.empty_share(code_space.occupancy(np.zeros((10, 2)), side=2), 10)
    assert (empty, expected) == (0.75, 0.75**10)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    data = load("binary-digits")
    model = models.build("vae", data, latent=3, width=16)
    return fit(model, data, steps=20, run=tmp_path_factory.mktemp("runs") / "vae"), data


def test_the_space_of_a_small_vae_is_walked_and_measured(run):
    found = latent_space.examine(*run, latent_space.LatentSpaceSettings(n=80, axes=(3, 1)))
    names = {picture.name: picture for picture in found.pictures}
    assert set(names) == {"traversals", "interpolation", "neighbours", "attributes", "quantiles", "occupancy"}
    assert names["traversals"].images.shape == (2 * 9, 8, 8, 1)
    walk = names["interpolation"].images
    np.testing.assert_allclose(walk[0], walk[9], atol=1e-5)  # both ways begin and end at the same codes
    np.testing.assert_allclose(walk[8], walk[17], atol=1e-4)
    assert found.numbers["axes"] == [3, 1]
    assert 0 <= found.numbers["accuracy of a linear probe"] <= 1


def test_an_entry_that_is_not_there_is_named(run):
    with pytest.raises(CapabilityError, match=r"axes=7: a code of this model has 3 entries\n.*from 1 to 3"):
        latent_space.examine(*run, latent_space.LatentSpaceSettings(axes=(7,)))
