"""IPython magics."""
