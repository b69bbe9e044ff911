"""A model that is a program: one process a completion, JSON in, JSON out (`run://PATH`).

Floor: 2. Owns: the program and its life; never: what it says.

The program gets one JSON object on its standard input, `{messages, temperature, …}`, and prints one chat completion.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from plait.core.cancel import Cancel
from plait.core.errors import ConfigError
from plait.core.exchange import ProviderFailed
from plait.core.strict_json import JsonInvalid, dump, parse_object
from plait.kernel.effects import Interrupted
from plait.models.completion import Completion, completion_of
from plait.models.errors import to_error
from plait.models.openai_client import BaseUrl
from plait.wire.chat.decode import ChatDecoder
from plait.wire.profile import WireProfile

SCHEME: Final = "run://"
_TIMEOUT_S: Final = 300.0
_EXCERPT_CHARS: Final = 2_000
_SECRET_CHARS_MIN: Final = 8
_OUTPUT_BYTES_MAX: Final = 64 * 1024 * 1024


def is_run_address(text: str) -> bool:
    """Say whether an endpoint or a model's name is a program."""
    return text.startswith(SCHEME)


class SubprocessOpenAI:
    """A client in OpenAI's shape over a program; safe in any thread.

    Args:
        binary_path: the program, with or without `run://`, or its argument vector.
        env: added to this process's environment.
        timeout: seconds that one completion may take; None is 300.
    """

    def __init__(
        self, binary_path: str | Sequence[str], *, env: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> None:
        self.base_url = BaseUrl("")
        self.command = _command_of(binary_path)
        self.chat = _Chat(self)
        self._env = dict(env or {})
        self._timeout_s = _TIMEOUT_S if timeout is None else timeout
        self._last_raw: dict[str, object] | None = None

    def __repr__(self) -> str:
        return f"SubprocessOpenAI({self.command[0]!r})"

    def close(self) -> None:
        """Do nothing: every completion's process has ended with it."""

    def __enter__(self) -> SubprocessOpenAI:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def last_raw(self) -> Mapping[str, object] | None:
        """The last document that the program printed."""
        return self._last_raw

    @property
    def backend(self) -> Mapping[str, object] | None:
        """What the program said about who really answered."""
        raw = self._last_raw or {}
        effort = raw.get("best_effort")
        if isinstance(effort, Mapping):
            return effort
        return {"model": raw["model"]} if raw.get("model") else None

    def complete(self, payload: Mapping[str, object], on_raw: Callable[..., None] | None, cancel: Cancel) -> Completion:
        """Run the program once.

        Raises:
            ModelError: it is not there, failed, took too long, or printed no completion.
            Interrupted: `cancel` was given.
        """
        try:
            output = self._run(dump(dict(payload)).encode(), on_raw, cancel)
            self._last_raw = self._document(output)
            decoder = ChatDecoder(WireProfile())
            decoder.feed(output)
            return completion_of(decoder.finish())
        except ProviderFailed as failed:
            raise to_error(failed, model=str(payload.get("model", "")), endpoint=self.command[0]) from failed

    def _run(self, stdin: bytes, on_raw: Callable[..., None] | None, cancel: Cancel) -> bytes:
        try:
            process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **self._env},
                start_new_session=True,
            )
        except OSError as error:
            raise ProviderFailed(
                "unavailable",
                f"the model program {self.command[0]!r} cannot be run: {error.strerror}",
                retryable=False,
                phase="connect",
                detail="subprocess",
                hint="check its path, and that it is executable",
            ) from error
        undo = cancel.on_cancel(lambda: _kill(process))
        try:
            output, errors = process.communicate(stdin, self._timeout_s)
        except BaseException as error:
            _kill(process)
            process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                raise self._late() from None
            raise
        finally:
            undo()
        if cancel.reason is not None:
            raise Interrupted(cancel.reason)
        said = errors.decode("utf-8", "replace")
        if on_raw is not None:
            on_raw({"kind": "subprocess", "stdout": output.decode("utf-8", "replace"), "stderr": said})
        if process.returncode != 0:
            raise self._failed(process.returncode, said)
        return output[:_OUTPUT_BYTES_MAX]

    def _document(self, output: bytes) -> dict[str, object]:
        try:
            return parse_object(output)
        except JsonInvalid as error:
            raise ProviderFailed(
                "protocol",
                f"the model program {self.command[0]!r} printed no completion: {error}",
                retryable=False,
                phase="decode",
                detail="not_event_stream",
                hint="it must print one chat completion as JSON, and everything else to standard error",
            ) from error

    def _failed(self, code: int, said: str) -> ProviderFailed:
        for value in self._env.values():
            # What its user handed it is nobody else's business, and programs print their environment when they fail.
            said = said.replace(value, "[REDACTED]") if len(value) >= _SECRET_CHARS_MIN else said
        words = f": {said.strip()[-_EXCERPT_CHARS:]}" if said.strip() else ""
        return ProviderFailed(
            "unavailable",
            f"the model program {self.command[0]!r} ended with exit code {code}{words}",
            retryable=False,
            phase="stream",
            detail="subprocess",
            hint="run it by hand with the same input",
        )

    def _late(self) -> ProviderFailed:
        return ProviderFailed(
            "timeout",
            f"the model program {self.command[0]!r} did not answer within {self._timeout_s:g} s",
            retryable=False,
            phase="stream",
            detail="total",
            hint="raise command_timeout",
        )


class _Chat:
    def __init__(self, client: SubprocessOpenAI) -> None:
        self.completions = _Completions(client)


class _Completions:
    def __init__(self, client: SubprocessOpenAI) -> None:
        self._client = client

    def create(
        self,
        *,
        model: str = "",
        messages: Sequence[Mapping[str, Any]],
        temperature: float | None = 0,
        extra_body: Mapping[str, Any] | None = None,
        on_raw_response: Callable[..., None] | None = None,
        on_request_attempt: Callable[..., None] | None = None,
        on_content_delta: Callable[[str], None] | None = None,
        on_reasoning_delta: Callable[[str], None] | None = None,
        on_rate_limit_wait: Callable[..., None] | None = None,
        cancel: Cancel | None = None,
        **parameters: Any,
    ) -> Completion:
        """Ask for one completion; there is no stream, so the callbacks for fragments get the whole words at once.

        Raises:
            ModelError: there is none. Interrupted: `cancel` was given.
        """
        members = {"model": "" if is_run_address(model) else model, "messages": list(messages)}
        payload = {**members, "temperature": temperature, **parameters, **(extra_body or {})}
        payload = {name: value for name, value in payload.items() if value not in (None, "")}
        if on_request_attempt is not None:
            on_request_attempt({"payload": payload})
        answer = self._client.complete(payload, on_raw_response, cancel or Cancel())
        message = answer.choices[0].message
        if on_reasoning_delta is not None and message.reasoning:
            on_reasoning_delta(message.reasoning)
        if on_content_delta is not None and message.content:
            on_content_delta(message.content)
        return answer


def _command_of(binary_path: str | Sequence[str]) -> list[str]:
    if not isinstance(binary_path, str):
        return [str(word) for word in binary_path]
    path = os.path.expanduser(binary_path.removeprefix(SCHEME))
    if not path.strip():
        raise ConfigError(f"{binary_path!r} names no program", hint="write run:// and the program's path")
    if os.path.exists(path) or not shlex.split(path):
        return [path]
    return shlex.split(path)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a program and what it started, also where the program itself is gone and a child of it holds the pipe."""
    with suppress(OSError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
