"""Reports: from registered runs to tables and plots of scores over seeds."""

import pkgutil

__path__ = pkgutil.extend_path(__path__, __name__)  # an ape_cli/reports folder elsewhere on the path adds to it
