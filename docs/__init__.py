"""The site of documentation: ``python -m docs`` makes its pages from the repository and builds it."""
