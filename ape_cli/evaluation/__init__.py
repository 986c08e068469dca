"""Evaluation: metrics, greedy decoding, evaluation of a run, algebraic laws of schemes, and profiling."""
