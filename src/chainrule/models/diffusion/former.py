"""Names that settings and arrays of diffusion models had in earlier versions; see `Entry`."""

FORMER_SETTINGS = {"dropping": "condition_dropout"}

_LAYERS = ("entry", "embedding", "blocks", "norm", "modulation", "exit", "encoder", "decoder")
_HOLDERS = ("denoiser", "inner", "beside")
FORMER_ARRAYS = {
    "context.reader": "embedding.condition",
    "context.*": "embedding.*",
    "nobody": "null_embedding",
    "places": "positions",
    "attention.asking": "attention.query",
    # A denoiser was a network; now it holds one.
    **{f"{holder}.{layer}": f"{holder}.body.{layer}" for holder in _HOLDERS for layer in _LAYERS},
}

__all__ = ["FORMER_ARRAYS", "FORMER_SETTINGS"]
