"""Kills commands at random moments, repeats them, and compares what they leave with uninterrupted ones."""
