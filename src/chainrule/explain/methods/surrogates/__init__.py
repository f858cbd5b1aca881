"""Local surrogates: a simple model fitted to a function around one input."""
