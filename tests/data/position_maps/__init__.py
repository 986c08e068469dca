"""Tests of maps of positions."""
