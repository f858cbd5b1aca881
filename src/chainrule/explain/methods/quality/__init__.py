"""Quality of explanations: whether they find what matters, depend on what was learned, keep still, and agree."""
