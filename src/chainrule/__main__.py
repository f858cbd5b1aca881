"""`python -m chainrule` is `chainrule`."""

from chainrule.cli import main

if __name__ == "__main__":
    main()
