"""Code that every other package uses: errors, process settings, random streams, plug-in discovery and executors."""
