"""Models whose only loss is the cost of moving their examples to those of the data."""
