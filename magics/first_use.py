"""``%sleeper`` that loads its extension when it is first typed: what the startup file of `autoload` calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.completer import CompletionContext
    from IPython.core.interactiveshell import InteractiveShell

EXTENSION = "sleeper_nb"


def load_at_first_use(shell: InteractiveShell) -> None:
    """Register ``%sleeper`` and ``%%sleeper`` without importing what runs them, which Tab after them does too."""
    if EXTENSION in shell.extension_manager.loaded:
        return
    shell.magics_manager.register_lazy("sleeper", EXTENSION)
    shell.Completer.custom_matchers.append(_loading_matcher(shell))


def _loading_matcher(shell: InteractiveShell) -> Any:
    """Return a function that IPython asks for completions until the extension is loaded, which has its own."""
    from IPython.core.completer import context_matcher

    @context_matcher(identifier="sleeper_first_use")  # type: ignore[untyped-decorator]
    def matcher(request: CompletionContext) -> Any:
        is_loaded = EXTENSION in shell.extension_manager.loaded
        if not is_loaded and "%sleeper" not in request.full_text:
            return {"completions": [], "suppress": False}
        matchers = shell.Completer.custom_matchers
        matchers[:] = [each for each in matchers if each is not matcher]
        if is_loaded:  # its own matcher is asked anyway
            return {"completions": [], "suppress": False}
        shell.run_line_magic("load_ext", EXTENSION)
        return matchers[-1](request)

    return matcher
