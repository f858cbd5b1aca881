"""Games on small grids of pixels."""
