"""How many examples Hypothesis tries where a test needs more, or fewer, than others."""

from __future__ import annotations

from typing import Final

from hypothesis import settings

USUAL: Final = 25
"""How many examples a test has in the profile ``long``, unless it says another number."""


def examples(count: int) -> settings:
    """Return settings for as many examples as this in the profile ``long``, and in proportion in each other profile."""
    return settings(max_examples=max(2, count * settings.default.max_examples // USUAL))
