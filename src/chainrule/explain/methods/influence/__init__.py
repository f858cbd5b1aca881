"""Which training rows a prediction rests on: influence functions, gradients over checkpoints, data Shapley values."""
