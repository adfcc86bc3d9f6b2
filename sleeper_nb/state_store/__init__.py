"""Load and commit the state of a table; the rules stay in the model."""

from __future__ import annotations
