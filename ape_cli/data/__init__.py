"""Datasets: generation from a task, the manifest, verification, and the loader that yields padded batches."""
