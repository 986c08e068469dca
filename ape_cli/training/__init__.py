"""Training: the loop, the learning-rate schedule, progress, process groups, and whole trials."""
