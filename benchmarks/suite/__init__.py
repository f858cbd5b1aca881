"""One module per benchmark: the first line of its docstring describes it, `run(options)` gives its report."""
