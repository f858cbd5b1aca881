"""Models as compressors: what they compress comes back, at the rate of their bound, or is refused."""

import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import chainrule as cr
from chainrule import information as I  # as in the guide
from chainrule import models
from chainrule.core.errors import (
    ArgumentError,
    CapabilityError,
    ChainruleError,
    ChainruleWarning,
    DataError,
    RunError,
)
from chainrule.data import Schema
from chainrule.information.compression.arranging import pieces_of, text_material
from chainrule.information.compression.compressing import code_of, write
from chainrule.train import resume
from chainrule.train.compression import compress_file, decompress_file, league, reading

pytest.importorskip("constriction", reason="`pip install 'chainrule[compress]'` brings the coders")

BINARY = Schema("image", (4, 4, 1), levels=2)
GREY = Schema("image", (3, 4, 1), levels=17)
LABELLED = Schema("image", (4, 4, 1), "class", classes=("a", "b"), levels=2)
COLOUR = Schema("image", (3, 3, 3), levels=6)
LETTERS = Schema("text", (9,), tokens=tuple("\nabcdefg "))


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation() -> Iterator[None]:
    """Programs here run a few times on few numbers: compiling them is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def moved(model: Any, far: float = 0.3) -> Any:
    """The model away from where training begins, so that no probability is what it would be by chance."""
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    leaves, tree = jax.tree.flatten(arrays)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    noisy = [leaf + far * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
    return eqx.combine(jax.tree.unflatten(tree, noisy), rest)


def pictures(schema: Schema, count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, schema.levels, (count, *schema.shape)).astype(np.uint8)


IMAGES = [
    ("vae", BINARY, {"latent": 3, "width": 8, "depth": 1}),
    *(
        ("vae", GREY, {"latent": 2, "width": 8, "depth": 1, "likelihood": name})
        for name in ("categorical", "beta_binomial", "discretized_logistic", "logistic_mixture")
    ),
    ("vae", BINARY, {"latent": 3, "width": 8, "depth": 1, "prior": "mixture", "prior_components": 5}),
    ("vae", BINARY, {"latent": 3, "width": 8, "depth": 1, "prior": "vamp", "prior_components": 4}),
    ("vae", BINARY, {"latent": 3, "width": 8, "depth": 1, "prior": "mixture", "prior_components": 1}),
    ("cvae", LABELLED, {"latent": 3, "width": 8, "depth": 1}),
    ("iwae", BINARY, {"latent": 3, "width": 8, "depth": 1}),
    ("markovian-hvae", BINARY, {"latents": (4, 3, 2), "width": 8, "depth": 1}),
    ("hvae", BINARY, models.entry("hvae").toy),
    ("vq-vae", BINARY, {"codes": 4, "code_size": 2, "channels": (4, 4), "prior_width": 8, "prior_layers": 1}),
    ("made", BINARY, {"width": 16, "depth": 1, "order": "random"}),
    ("made", GREY, {"width": 16, "depth": 2}),
    ("nade", BINARY, {"width": 8}),
    ("fvsbn", BINARY, {}),
    ("pixel-cnn", GREY, {"width": 4, "blocks": 1, "first_kernel": 3}),
    ("pixel-cnn", COLOUR, {"width": 6, "blocks": 1, "first_kernel": 3, "variant": "plain"}),
    ("pixel-rnn", BINARY, models.entry("pixel-rnn").toy),
]


@pytest.mark.parametrize(("name", "schema", "settings"), IMAGES)
def test_images_come_back_to_the_last_bit(name: str, schema: Schema, settings: dict[str, Any]) -> None:
    model = moved(models.build(name, schema, **settings))
    x = pictures(schema, 11)
    blob = I.compress(model, x, lanes=2, rows=4)
    found = I.decompress(model, blob)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, x)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("vae", {"prior": "mixture", "prior_components": 5}),
        ("vae", {"prior": "vamp", "prior_components": 4}),
        ("cvae", {}),
    ],
)
def test_components_cost_nothing_and_conditions_are_left_out(name: str, settings: dict[str, Any]) -> None:
    """The ledger of codes, components and examples sums to the bound without a condition."""
    from chainrule.train.compression.bound import bound_bits

    model = moved(models.build(name, LABELLED, latent=3, width=8, depth=1, **settings), 0.1)
    symbols = pictures(BINARY, 4096).reshape(4096, -1).astype(np.int32)
    parts = model.code().fitted(symbols).by_example(symbols)
    bound = bound_bits(model, LABELLED, symbols)
    assert bound is not None
    assert sum(part.sum() for part in parts.values()) == pytest.approx(bound, rel=0.02)
    if settings:
        assert (parts["prior"].shape[1], parts["returned"].shape[1]) == (4, 4)
        with pytest.raises(ArgumentError, match="is not the standard normal one"):
            model.code().fitted(symbols, cells="equal-mass")


@pytest.mark.parametrize("name", ["gpt", "char-rnn", "ngram"])
def test_texts_come_back_letter_by_letter_past_the_context(name: str) -> None:
    settings = models.entry(name).toy
    model = moved(models.build(name, LETTERS, **settings)) if name != "ngram" else models.build(name, LETTERS)
    text = "".join(np.random.default_rng(0).choice(list("\nabcdefg "), 41))
    for lanes in (1, 3):
        assert I.decompress(model, I.compress(model, text, lanes=lanes, rows=2)) == text
    assert I.decompress(model, I.compress(model, "")) == ""


def test_a_text_passes_in_pieces_whose_tokens_are_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = models.build("ngram", LETTERS)
    text = "bad cab\nfed a decade\nagedfacade beef"
    made = text_material(LETTERS, lambda: pieces_of([text[:20], text[20:]], 12))
    assert [len(part) for part in made.segments()] == [8, 6, 7, 11, 4]
    file = io.BytesIO()
    report = write(file, code_of(model), made)
    assert (report.raw_bytes, report.examples) == (36, 36)
    assert I.decompress(model, file.getvalue()) == text
    monkeypatch.setattr(reading, "_READ", 2)
    (tmp_path / "long.txt").write_bytes("añ€😀b".encode())
    assert "".join(reading._letters(tmp_path / "long.txt")) == "añ€😀b"
    for raw, at in ((b"abc\xffd", 3), ("a€".encode()[:3], 1)):
        (tmp_path / "bad.txt").write_bytes(raw)
        with pytest.raises(DataError, match=f"byte {at} is no UTF-8"):
            list(reading._letters(tmp_path / "bad.txt"))
    looks = iter([["abc"], ["abc"], ["ab"]])
    with pytest.raises(DataError, match="the data changed while they were compressed: 3 became 2"):
        write(io.BytesIO(), code_of(model), text_material(LETTERS, lambda: iter(next(looks))))


def test_excerpts_of_music_come_back_at_what_their_events_cost() -> None:
    schema = Schema("music", (12,), tokens=tuple("abcdefg"))
    model = moved(models.build("music", schema, width=8, depth=1))
    x = np.random.default_rng(0).integers(0, 7, (9, 12)).astype(np.uint16)
    for some in (x, x[:0]):
        found = I.decompress(model, I.compress(model, some, lanes=2, rows=4))
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, some)
    nats = float(model.event_nats(jnp.asarray(x, jnp.int32)).sum())
    bits = code_of(model).with_rows(4).by_example(x.astype(np.int32))["likelihood"].sum()
    assert bits == pytest.approx(nats / np.log(2), rel=1e-4)
    for bad, why in ((x[:, :5], "knows excerpts of 12 events"), (x + 1, "numbered from 0 to 6")):
        with pytest.raises(DataError, match=why):
            I.compress(model, bad)


def test_fractions_zeros_and_255_and_single_channels_keep_their_form() -> None:
    model = models.build("made", BINARY, width=8, depth=1)
    bits = pictures(BINARY, 3)
    for x in (bits, 255 * bits, bits.astype(bool), bits.astype(np.float32), bits[..., 0].astype(np.int64)):
        found = I.decompress(model, I.compress(model, x))
        assert (found.dtype, found.shape) == (x.dtype, x.shape)
        np.testing.assert_array_equal(found, x)
    grey = models.build("made", GREY, width=8, depth=1)
    fractions = (pictures(GREY, 2) / 16).astype(np.float32)
    np.testing.assert_array_equal(I.decompress(grey, I.compress(grey, fractions)), fractions)


@pytest.mark.parametrize(
    ("name", "schema", "settings", "data", "error", "message"),
    [
        (
            "made",
            BINARY,
            {},
            np.full((1, 4, 4, 1), 7, np.uint8),
            DataError,
            "the value 7 is none of the 2 levels",
        ),
        ("made", GREY, {}, np.full((1, 3, 4, 1), 0.3), DataError, "the value 0.3 is none of the 17 levels"),
        ("made", BINARY, {}, np.zeros((1, 5, 4, 1), np.uint8), DataError, "knows examples of 4×4×1"),
        ("gpt", LETTERS, models.entry("gpt").toy, "abz", ChainruleError, "z"),
        ("gpt", LETTERS, models.entry("gpt").toy, 3.0, ArgumentError, "float is no text"),
        (
            "vae",
            GREY,
            {"likelihood": "gaussian"},
            None,
            CapabilityError,
            'likelihood="gaussian" has no pixel prob',
        ),
        ("vae", Schema("points", (2,)), {}, None, CapabilityError, "continuous numbers"),
        ("vae", BINARY, {"posterior": "full"}, None, CapabilityError, "posterior=full"),
        ("made", BINARY, {"ensemble": 2}, None, CapabilityError, "ensemble=2"),
        (
            "glow",
            BINARY,
            {**models.entry("glow").toy, "dequantization": "variational"},
            None,
            CapabilityError,
            "train with dequantization=uniform",
        ),
        ("made", BINARY, {}, "black", DataError, "knows examples of 4×4×1"),
    ],
)
def test_what_cannot_be_compressed_is_refused(
    name: str, schema: Schema, settings: dict[str, Any], data: Any, error: type[Exception], message: str
) -> None:
    model = models.build(name, schema, **settings)
    with pytest.raises(error) as found:
        I.compress(model, pictures(schema, 1) if data is None and schema.levels else data)
    assert message in str(found.value)


def test_other_weights_another_arithmetic_and_no_model_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = models.build("vae", BINARY, latent=2, width=8, depth=1)
    blob = I.compress(model, pictures(BINARY, 3))
    other = eqx.tree_at(lambda m: m.networks.decoder.network.layers[-1].bias, model, jnp.ones(16))
    with pytest.raises(DataError, match="the weights of this model are not those of the file"):
        I.decompress(other, blob)
    with pytest.raises(ArgumentError, match="bytes that compress returned are wanted, not a str"):
        I.decompress(model, "text")
    with pytest.raises(DataError, match="the checksum of its header is another"):
        I.decompress(model, blob[:40] + bytes([blob[40] ^ 1]) + blob[41:])
    monkeypatch.setattr(
        "chainrule.information.compression.codes.Code.fingerprint", lambda self: "another machine's"
    )
    with pytest.raises(
        DataError, match=r"computes different probabilities \(cpu.* vs cpu.*\): decode on the rec"
    ):
        I.decompress(model, blob)
    with pytest.raises(CapabilityError, match="MLP gives no symbol"):
        I.compress(models.build("mlp", Schema("points", (2,), "class", classes=("a", "b"))), np.zeros((1, 2)))


# ---------------------------------------------------------------------- runs and files


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> cr.Run:
    data = cr.data.load("binary-digits")
    model = models.build("vae", data, latent=4, width=32, depth=1)
    return cr.fit(model, data, steps=200, seed=0, run=tmp_path_factory.mktemp("runs") / "digits")


def test_a_trained_run_compresses_at_its_bound(run: cr.Run) -> None:
    from chainrule.train.compression.bound import bound_bits

    x = run.data.test.x
    blob = I.compress(run, x)
    np.testing.assert_array_equal(I.decompress(run, blob), x)
    symbols = np.rint(np.asarray(x)).astype(np.int32).reshape(len(x), -1)
    bound = bound_bits(run.model, run.schema, symbols)
    assert bound is not None
    net = sum(run.code().fitted(symbols).encode(symbols, (0,), lambda done: None).ledger.values())
    assert net == pytest.approx(bound, rel=0.03)
    assert 8 * len(blob) < 8 * min(rival.bytes for rival in league(run.schema, symbols)) + 16_000


def test_a_zstd_that_fails_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "zstd"
    program.write_text("#!/bin/sh\necho no dictionary here >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    symbols = np.zeros((5, 16), np.int32)
    with pytest.warns(ChainruleWarning, match="zstd is left out of the comparison: no dictionary here"):
        found = league(BINARY, symbols)
    assert {rival.name for rival in found} >= {"gzip -9", "bz2 -9", "xz -9e", "PNG"}
    assert "zstd -19" not in {rival.name for rival in found}
    program.write_text("#!/no/such/shell\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.warns(ChainruleWarning, match="zstd is left out of the comparison: .*No such file"):
        league(BINARY, symbols)


def test_folders_of_images_come_back_as_png_with_the_same_pixels(run: cr.Run, tmp_path: Path) -> None:
    pixels = 255 * np.rint(np.asarray(run.data.test.x[:9])).astype(np.uint8)
    folder = tmp_path / "photos"
    (folder / "inner").mkdir(parents=True)
    for number, image in enumerate(pixels[..., 0]):
        Image.fromarray(image).save(folder / ("inner" if number % 2 else ".") / f"{number}.png")
    report = compress_file(run, folder, tmp_path / "photos.crz")
    assert (report.examples, report.entries) == (9, 9 * 64)
    target = decompress_file(tmp_path / "photos.crz", tmp_path / "again", where=run.path.parent)
    for number, image in enumerate(pixels[..., 0]):
        name = Path("inner" if number % 2 else ".") / f"{number}.png"
        np.testing.assert_array_equal(np.asarray(Image.open(target / name)), image)
    assert not list(tmp_path.glob(".*"))
    found = I.decompress(run, (tmp_path / "photos.crz").read_bytes())
    np.testing.assert_array_equal(found, pixels[[0, 2, 4, 6, 8, 1, 3, 5, 7]])
    compress_file(run, folder / "0.png", tmp_path / "one.crz")
    np.testing.assert_array_equal(I.decompress(run, (tmp_path / "one.crz").read_bytes()), pixels[:1])
    Image.new("L", (9, 8)).save(folder / "wide.png")
    with pytest.raises(DataError, match=r"wide.png: 8×9×1 pixels of mode L; the run knows 8×8×1"):
        compress_file(run, folder, tmp_path / "more.crz")
    Image.new("L", (8, 8), 128).save(folder / "wide.png")
    with pytest.raises(DataError, match=r"wide.png: the value 128 is none of the 2 levels"):
        compress_file(run, folder, tmp_path / "more.crz")
    assert not (tmp_path / "more.crz").exists()


def test_the_run_of_a_file_is_found_by_its_weights_under_another_name(run: cr.Run, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.rint(np.asarray(run.data.test.x[:5])).astype(np.uint8))
    compress_file(run, tmp_path / "x.npy", tmp_path / "x.crz")
    renamed = tmp_path / "runs" / "another"
    renamed.parent.mkdir()
    shutil.copytree(run.path, renamed)
    out = decompress_file(tmp_path / "x.crz", tmp_path / "y.npy", where=renamed.parent)
    assert out.read_bytes() == (tmp_path / "x.npy").read_bytes()
    with pytest.raises(ArgumentError, match="is there already"):
        decompress_file(tmp_path / "x.crz", tmp_path / "y.npy", where=renamed.parent)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match="no run here has its weights"):
        decompress_file(tmp_path / "x.crz", tmp_path / "z.npy", where=tmp_path / "empty")


def test_a_run_that_trained_on_decodes_by_the_checkpoint_that_compressed_as_long_as_it_is_there(
    tmp_path: Path,
) -> None:
    data = cr.data.load("binary-digits")
    model = models.build("made", data, width=8, depth=1)
    short = cr.fit(model, data, steps=2, seed=0, run=tmp_path / "runs" / "toy", keep=3)
    np.save(tmp_path / "x.npy", np.rint(np.asarray(data.test.x[:3])).astype(np.uint8))
    compress_file(short, tmp_path / "x.npy", tmp_path / "x.crz")
    longer = resume(short.path, steps=4)
    assert longer.step == 4
    for number, given in enumerate([None, cr.Run.open(short.path)]):
        out = decompress_file(tmp_path / "x.crz", tmp_path / f"{number}.npy", given, short.path.parent)
        assert out.read_bytes() == (tmp_path / "x.npy").read_bytes()
    shutil.rmtree(short.path / "checkpoints" / "step-00000002")
    with pytest.raises(RunError, match=r"'toy' at step 2, and no run .* toy has the checkpoints of steps 4"):
        decompress_file(tmp_path / "x.crz", tmp_path / "z.npy", where=short.path.parent)
    with pytest.raises(DataError, match="the run that compressed it: toy, as it was at step 2"):
        decompress_file(tmp_path / "x.crz", tmp_path / "z.npy", cr.Run.open(short.path))


def test_the_probe_says_where_the_bits_of_each_image_go(run: cr.Run) -> None:
    from chainrule.explain import probes

    found = probes.examine("code-lengths", run, n=40)
    numbers = found.numbers
    assert numbers["bits_per_dimension"] == pytest.approx(numbers["bound_bits_per_dimension"], rel=0.1)
    assert sum(numbers["bits"].values()) == pytest.approx(numbers["bits_per_example"])
    assert numbers["bits"]["returned"] < 0
    assert [picture.name for picture in found.pictures] == [
        "bits-ledger",
        "running-rate",
        "bits-by-pixel",
        "shortest-longest",
    ]
    assert not probes.get("code-lengths").applies(
        models.build("vae", Schema("points", (2,))), Schema("points", (2,))
    )
