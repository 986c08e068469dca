"""Trained models in a folder of their own, which can be loaded in two lines of Python and uploaded to a hub."""
