"""Encodings in attention that is not ours: that of torch, and that of models of `transformers`."""
