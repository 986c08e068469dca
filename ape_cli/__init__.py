"""`ape`: structured datasets, one shared transformer, any positional encoding, one table.

The list of files is the pipeline, data flowing one way:
tasks -> gen -> dataset -> position, attention, model -> train -> registry -> evaluate -> trial -> report.
"""

import pkgutil

__path__ = pkgutil.extend_path(__path__, __name__)  # an ape_cli folder elsewhere on the path adds to it

__version__ = "0.1.0"
