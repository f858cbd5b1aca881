"""Evaluation of agents: episodes apart from training, statistics over seeds, recordings, films, alarms."""
