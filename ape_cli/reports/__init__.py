"""Reports: tables and plots of the scores of registered runs over seeds."""

import pkgutil

__path__ = pkgutil.extend_path(__path__, __name__)  # so that views in another ape_cli/reports are found
