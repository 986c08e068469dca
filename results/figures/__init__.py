"""The figures of the findings in results/README.md."""
