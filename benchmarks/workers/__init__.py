"""Scripts that run in the peers' environment; each takes orders through `protocol.serve`."""
