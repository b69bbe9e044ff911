"""The client in the shape of OpenAI's, under the name that programs import it by.

Floor: 6. Owns: nothing; never: logic.
"""

from __future__ import annotations

from plait.models.limiter import RateLimiter
from plait.models.openai_client import OpenAI
from plait.models.subprocess_client import SubprocessOpenAI

__all__ = ["OpenAI", "RateLimiter", "SubprocessOpenAI"]
