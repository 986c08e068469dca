"""Datasets: generation from a task, the manifest, verification, and the loader that yields padded batches."""

import pkgutil

__path__ = pkgutil.extend_path(__path__, __name__)  # so that plug-ins in another ape_cli/data are found
