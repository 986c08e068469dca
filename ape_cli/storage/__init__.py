"""Storage: paths and object stores, atomic writes, locks, rows of Parquet files, and sources of images and trees."""

import pkgutil

__path__ = pkgutil.extend_path(__path__, __name__)  # so that plug-ins in another ape_cli/storage are found
