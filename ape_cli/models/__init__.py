"""Models: the shared transformer, the image classifier, the factory that builds them, and checkpoints."""
