"""Files: folders and object stores, atomic writes, locks, the rows of Parquet files, and sources of images."""
