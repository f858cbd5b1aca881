"""Adversarial models: a generator and the network that tells its examples from the data learn against each other."""
