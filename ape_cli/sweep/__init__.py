"""Sweeps: the specification of many trials, the plan of what is left to do, and the workers that do it."""
