"""With which provider a router's requests stay: the one that answered first, whose cache knows the conversation.

Floor: 2. Owns: when that is, and what says it in a request; never: recording it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping


def provider_to_keep(details: Mapping[str, object] | None, asked: Container[str]) -> str:
    """Return the provider that answered, nothing where that is not known, or the request `asked` for some itself."""
    provider = (details or {}).get("provider")
    return provider if isinstance(provider, str) and "provider" not in asked else ""


def pin_of(provider: str) -> dict[str, object]:
    """Return the body member that keeps a router's requests with one provider."""
    return {"order": [provider], "allow_fallbacks": False}
