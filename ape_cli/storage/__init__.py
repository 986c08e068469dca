"""Storage: paths and object stores, atomic file writes, locks, the rows of Parquet files, and sources of images."""
