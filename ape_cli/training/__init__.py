"""Training: the loop, the learning-rate schedule, metric loggers, process groups, and whole trials."""

import pkgutil

__path__ = pkgutil.extend_path(__path__, __name__)  # so that plug-ins in another ape_cli/training are found
