"""IPython magics: ``%load_ext magics``, or ``%load_ext sleeper_nb``, and their undoing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register ``%sleeper``, ``%%sleeper``, their settings and their completion; a second time changes nothing."""
    from magics.sleeper import SleeperMagics

    SleeperMagics.install(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take away all that `load_ipython_extension` registered, and close the warehouses that the magics opened."""
    from magics.sleeper import SleeperMagics

    SleeperMagics.uninstall(shell)
