"""Reports: from registered runs to tables and plots of scores over seeds."""
