"""Computations behind probes and experiments: functions of models and arrays, without settings or pictures."""
