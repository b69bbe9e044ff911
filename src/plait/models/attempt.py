"""One request on its way, without a socket: what it sends, and what its answer comes to.

Floor: 2. Owns: an attempt from its key to its answer, or to what its failure means; never: how bytes travel, and what
the next request is (`line`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from plait.core.events import Piece
from plait.core.exchange import ProviderFailed, Reply
from plait.core.usage import Usage
from plait.kernel.effects import Think
from plait.kernel.ports import Emit
from plait.models.line import Line
from plait.models.refusals import redirected, refused_generation
from plait.models.transport import HttpRequest


class Attempt:
    """One request on its way: what it sends, and what comes back."""

    def __init__(self, line: Line, ask: Think, emit: Emit | None) -> None:
        """Build the request.

        Args:
            emit: takes the pieces of the answer.

        Raises:
            ProviderFailed: class `auth`; there is no key.
        """
        self._key = line.backend.key()
        self._sent = line.next(ask)
        self._form = line.form
        self.request = HttpRequest("POST", line.url, line.backend.headers(self._key), self._sent.parts)
        self.content_type = ""
        """What the answer is sent as, by its header."""
        self._ask = ask
        self._line = line
        self._tried = [self._key]
        self._emit = emit
        self._was_heard = False
        self._last = b""
        self._decoder = line.new_decoder()

    def feed(self, data: bytes) -> bool:
        """Take bytes of the answer; say whether it is over."""
        self._last = data
        pieces = self._decoder.feed(data)
        if pieces and self._emit is not None:
            self._was_heard = True
            self._emit(pieces)
        return self._decoder.done

    def finish(self) -> Reply:
        """Return the answer.

        Raises:
            ProviderFailed: it is not whole, or none.
        """
        held: Sequence[Piece] = self._decoder.close()
        if held and self._emit is not None:
            self._emit(held)
        try:
            reply = self._decoder.finish()
        except ProviderFailed as failed:
            if failed.detail == "not_event_stream" and self.content_type:
                failed.message += f" (sent as {self.content_type})"
            raise self._told(failed) from None
        return self._line.answered(self._sent, self._form, reply)

    @property
    def spent(self) -> Usage | None:
        """What the endpoint has said so far that the request used; None where it has said nothing."""
        try:
            usage = self._decoder.answer().usage
        except Exception:  # boundary: Ctrl-C may have landed in the middle of the decoder
            return None
        return None if usage is None or usage == Usage.UNAVAILABLE else self._line.counted(usage)

    def settled(self, failure: ProviderFailed) -> Reply | None:
        """Return the answer where a connection broke only after all of it had come: it is paid for, and whole."""
        if failure.phase != "stream" or not self._decoder.is_settled:
            return None
        try:
            return self.finish()
        except ProviderFailed:
            return None

    def broken(self, failure: ProviderFailed) -> ProviderFailed:
        """Add to a failure of the connection what had arrived before it."""
        if failure.phase == "stream":
            answer = self._decoder.answer()
            try:
                failure.partial, failure.usage = self._decoder.finish().message, answer.usage
            except ProviderFailed as cut:
                failure.partial, failure.usage = cut.partial, cut.usage
            failure.partial = refused_generation(self._last) or failure.partial
        if failure.usage is not None:
            failure.usage = self._line.counted(failure.usage)
        return failure

    def refused(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderFailed:
        """Say what an answer means that is no success."""
        if 300 <= status < 400:
            return self._told(redirected(status, headers.get("location", "").partition("?")[0]))
        from plait.wire.errors.classify import classify  # the tables of what providers say are read when one says it

        failure = classify(status, headers, body, window=self._line.target.context_window, now_s=time.time())
        failed = failure.to_exception(status=status, phase="headers")
        if failed.kind == "invalid_tools" and (name := self._line.tool_named_in(failed.message)):
            failed.message += f" (the tool {name!r})"
        self._told(failed)
        failed.partial = refused_generation(body)
        return failed

    def another_key(self, failed: ProviderFailed) -> bool:
        """Make the request again with the next key, where the failure was about this one and there is another."""
        backend = self._line.backend
        change = backend.after(self._key, failed, self._tried)
        if change is None:
            return False
        self._line.tell("key_rested", change.told)
        if change.key is None:
            return False
        if self._was_heard:
            # Only the loop can withdraw what was heard; it asks again, and gets the other key.
            failed.retryable, failed.retry_after_s = True, 0.0
            return False
        self._key = change.key
        self._tried.append(change.key)
        self.request = replace(self.request, headers=backend.headers(change.key))
        self._decoder = self._line.new_decoder()
        return True

    def adjusted(self, failed: ProviderFailed) -> bool:
        """Make the request again without what the endpoint refused, where an answer can do without it."""
        sent = None if self._was_heard else self._line.adjusted(failed, self._ask)
        if sent is None:
            return False
        self._sent, self._form = sent, self._line.form
        self.request = replace(self.request, parts=sent.parts)
        self._decoder = self._line.new_decoder()
        return True

    def _told(self, failed: ProviderFailed) -> ProviderFailed:
        return self._line.backend.told(failed, self._key, self.request.url)
