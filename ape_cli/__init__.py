"""`ape`: structured datasets, one shared transformer, any positional encoding, one table.

The list of files is the pipeline, data flowing one way:
tasks -> gen -> dataset -> position, attention, model -> train -> registry -> evaluate -> trial -> report.
"""

__version__ = "0.1.0"
