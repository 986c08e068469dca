"""The base of every other package: errors, process settings, random streams, plug-in discovery, executors."""
