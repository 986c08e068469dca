"""Runs on disk: configurations and presets, the record of a run, one run's folder, and the registry of all runs."""
