"""The table of diffusion models: every target, weight, schedule and sampler, and how far samples are from the data."""
