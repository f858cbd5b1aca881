"""Pictures that models and probes share, from arrays: denoising, controls, patches, attention, components."""
