"""Chainrule against the best peers, as ratios measured in one run: `python -m benchmarks NAME [--peer P ...]`."""
