"""Models of what is where in images."""
