"""Training of agents: the run folder, from an algorithm and an environment to a report."""
