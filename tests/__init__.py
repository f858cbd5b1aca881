"""Tests, in the tree of the package; a package of its own, so that no installed one of this name is taken for it."""
