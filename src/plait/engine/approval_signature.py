"""Approval requests that carry a signature, so that a yes is to one exact call and to nothing like it.

Floor: 4. Owns: what is signed, by which key, and when a signature counts; never: where a request is kept, or a key.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Final, Self

from plait.core.messages import ToolCall
from plait.core.values import dataclass

KEY_BYTES_MIN: Final = 16
_FORM: Final = "plait-approval-1"


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A question about one call, as it is kept until somebody answers it."""

    approval_id: str
    conversation_id: str
    run_id: str
    call_id: str
    tool: str
    input_sha256: str
    """Of the arguments as the model wrote them, or as a hook left them; see `input_digest`."""
    policy_version: str
    expires_at_ms: int | None = None
    """Milliseconds since 1970 from which on no answer counts; None is never."""
    signature: str = ""
    """HMAC-SHA256 in hexadecimal; empty before the request is signed."""

    def to_dict(self) -> dict[str, object]:
        """Return the request as plain JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, told: Mapping[str, object]) -> Self:
        """Read what `to_dict` returned. Raises `ValueError` for anything else."""
        names = {each.name for each in fields(cls)}
        expires = told.get("expires_at_ms")
        texts = {name: value for name in names - {"expires_at_ms"} if isinstance(value := told.get(name), str)}
        is_time = expires is None or (isinstance(expires, int) and not isinstance(expires, bool))
        if set(told) != names or len(texts) != len(names) - 1 or not is_time:
            raise ValueError("it is no approval request")
        assert expires is None or isinstance(expires, int)
        return cls(**texts, expires_at_ms=expires)


class KeyRing:
    """Secrets for signatures: the first one signs, each of them verifies, so that a key can be changed."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        """Take keys of at least 16 bytes; raise `ValueError` for none, or for a shorter one."""
        if not keys:
            raise ValueError("a key ring needs a key")
        if any(len(key) < KEY_BYTES_MIN for key in keys):
            raise ValueError(f"a key has at least {KEY_BYTES_MIN} bytes")
        self._keys = tuple(map(bytes, keys))

    def __repr__(self) -> str:
        return f"KeyRing({len(self._keys)} keys)"

    def signed(self, request: ApprovalRequest) -> ApprovalRequest:
        """Return the request with a signature by the first key."""
        return replace(request, signature=_signature(self._keys[0], request))

    def vouches_for(self, request: ApprovalRequest) -> bool:
        """Say whether one of the keys signed exactly this; takes as long whichever it was."""
        given = request.signature.encode("utf-8", "surrogatepass")
        # No early end: how long it takes tells nobody which key it was.
        said = [hmac.compare_digest(_signature(key, request).encode("ascii"), given) for key in self._keys]
        return any(said)


def input_digest(call: ToolCall) -> str:
    """Return the SHA-256 of a call's arguments, byte for byte as they will be read, in hexadecimal."""
    kind = b"text\0" if call.custom else b"json\0"
    return hashlib.sha256(kind + call.raw.encode("utf-8", "surrogatepass")).hexdigest()


def why_not(request: ApprovalRequest, call: ToolCall, ring: KeyRing, *, now_ms: int) -> str:
    """Return why a yes to a request does not let a call run; empty when it does."""
    if not ring.vouches_for(request):
        return "the approval request was not signed here, or was changed since"
    if (request.call_id, request.tool) != (call.id, call.name):
        return "the approval is of another call"
    if request.input_sha256 != input_digest(call):
        return "the call was changed after it was approved: the approval is stale"
    if request.expires_at_ms is not None and now_ms >= request.expires_at_ms:
        return "the approval came too late: the request has expired"
    return ""


def _signature(key: bytes, request: ApprovalRequest) -> str:
    """Sign every field in one unambiguous text: a JSON list, in ASCII, led by the form's name."""
    signed = [getattr(request, each.name) for each in fields(request) if each.name != "signature"]
    text = json.dumps([_FORM, *signed], ensure_ascii=True, separators=(",", ":"))
    return hmac.new(key, text.encode("ascii"), hashlib.sha256).hexdigest()
