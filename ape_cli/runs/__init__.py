"""Runs on disk: configurations and presets, the record of a run, and the registry of all runs."""
