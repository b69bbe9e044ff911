"""The session itself: a dict of what a host may know, and behind it what is alive (`live`).

Floor: 5. Owns: the public keys, and what a host may ask of a session that is open; never: opening one (`opening`), a
turn (`turns`), or keeping the keys up to date (`following`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, overload

from plait.core.messages import ToolCall
from plait.events.named import EventCallback
from plait.hands.reach import Place
from plait.kernel.tools import Tool
from plait.session.live import Live
from plait.tools.looks import Look

if TYPE_CHECKING:
    from plait.session.kept.remembering import Answer
    from plait.session.mcp_servers import Attached

T = TypeVar("T")


class Key(Generic[T]):
    """A public key of a session, as an attribute."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, session: None, owner: type) -> Self: ...

    @overload
    def __get__(self, session: Session, owner: type) -> T: ...

    def __get__(self, session: Session | None, owner: type) -> T | Self:
        if session is None:
            return self
        try:
            value: T = session[self._name]
        except KeyError:
            raise AttributeError(f"the session has no {self._name!r}") from None
        return value

    def __set__(self, session: Session, value: T) -> None:
        session[self._name] = value


class Session(dict[str, Any]):
    """A conversation with a model, as `init_session` returns it.

    A dict of its public keys, which are JSON; each is an attribute too. `messages` may be edited at any time: the
    change is recorded before the next request. The other keys tell; only `max_output_tokens`, `cache_key` and those
    about cache proof and compaction are read again at each turn. One turn at a time, from any thread.

    `close`, or leaving a `with` block, ends what its tools left running and lets its journal go, so that the session
    can be opened again; so does dropping the last reference.
    """

    session_id = Key[str]()
    model = Key[str]()
    endpoint = Key[str]()
    messages = Key[list[dict[str, Any]]]()
    """The conversation as chat-completions messages, the system prompt first."""
    tools = Key[list[dict[str, Any]]]()
    """What the model is shown."""
    tool_dispatch = Key[dict[str, Any]]()
    """Tool name to `{python_function, param_map}`, functions by their names."""
    structured = Key[bool]()
    """Tools are sent as data; False: the model writes its calls into its text."""
    streaming = Key[bool]()
    non_interactive = Key[bool]()
    cache_key = Key[str | None]()
    max_output_tokens = Key[int | None]()
    provider = Key[dict[str, Any] | None]()
    """What a router is asked with: the spec's, else the provider that answered first."""
    auth = Key[dict[str, str]]()
    """Where the key is, as the spec names it; never a key."""
    reports_prompt_tokens = Key[bool]()
    options = Key[list[str]]()
    strict_cache_proof = Key[bool | str]()
    min_cacheable_tokens = Key[int]()
    cache_ttl_seconds = Key[float]()
    compaction_enabled = Key[bool]()
    """False: history is never made shorter, not even where it does not fit the model."""
    compaction_trigger_tokens = Key[int | None]()
    """Size of a request from which history is summarised first; None: as the model's window says."""
    compaction_target_tokens = Key[int]()
    compaction_keep_last_turns = Key[int]()
    compaction_policy = Key[str]()
    """`threshold`, `every_turn`, `never`, or `host` where a function of the host's decides."""
    compaction_min_chars = Key[int]()
    compaction_last_prompt_tokens = Key[int]()
    """Size of the request, in tokens, before which history was last made shorter, or could not be; 0: not yet, or
    because one did not fit. A size to look at: the threshold does not go by it."""
    parallel_tool_dispatch = Key[bool]()
    usage_totals = Key[dict[str, int]]()
    """`{prompt, completion, total, cached, cache_write}` of the whole session."""
    llm_call_count = Key[int]()
    """Answers of the model."""
    session_start_ts = Key[float]()
    """Seconds since 1970."""

    def __init__(self, values: Mapping[str, Any], live: Live) -> None:
        super().__init__(values)
        self._live = live
        # The toolbox alone: whatever knows a handler may know the session, and would keep it from ever being dropped.
        self._close_tools = weakref.finalize(self, live.toolbox.close)
        self._close_servers: Callable[[], object] | None = None
        self._close_log = weakref.finalize(self, live.standing.close, is_orderly=False)

    def __setitem__(self, key: str, value: Any) -> None:
        if key == "on_event":
            # Where older programs put it; as a key it would be heard by nobody, and be no JSON.
            self.on_event = value
        else:
            super().__setitem__(key, value)

    @property
    def on_event(self) -> EventCallback | None:
        """The handler for every event."""
        return self._live.hub.on_event

    @on_event.setter
    def on_event(self, handler: EventCallback | None) -> None:
        self._live.hub.hear_all(handler)

    @property
    def wait_interrupt_hook(self) -> Callable[[], bool] | None:
        """Asked while a call waits for a background job: True ends the wait, and the job runs on.

        None leaves it to the process's default, `plait.set_wait_interrupt_hook`.
        """
        return self._live.toolbox.background.board.interrupt

    @wait_interrupt_hook.setter
    def wait_interrupt_hook(self, hook: Callable[[], bool] | None) -> None:
        self._live.toolbox.background.board.interrupt = hook

    @property
    def _cache_status(self) -> str | None:
        """`ok`, `missing` or `unmeasurable`; None while nothing was proved or missed."""
        return self._live.conversation.cache.proof.status

    @property
    def _cache_last_proof_ts(self) -> float | None:
        """When tokens were last read from the endpoint's cache or written to it; seconds since 1970."""
        proved_ms = self._live.conversation.cache.proof.proved_ms
        return None if proved_ms is None else proved_ms / 1_000

    @property
    def is_busy(self) -> bool:
        """True while a turn runs."""
        return self._live.running.locked()

    @property
    def is_unfinished(self) -> bool:
        """True while the last turn has not ended, because the process ended first: the next turn goes on with it."""
        state = self._live.conversation.state
        return state.in_turn and not state.lacks_question

    @property
    def kept_in(self) -> Path | None:
        """The folder in which the session is kept; None for one that is not, and before its first turn."""
        journal = self._live.log.journal
        return None if journal is None else journal.path.parent

    def leads(self, call: ToolCall, tool: Tool | None = None) -> Place:
        """Say where the path of a file tool's call leads: for an approver that asks only about what is outside.

        With `tool` also where a spec calls the tool and its arguments something else.
        """
        return self._live.toolbox.leads(call, tool)

    def look(self, call: ToolCall, tool: Tool | None = None) -> Look:
        """Find where the paths of a file tool's call lead, and hold on to it: what a person is shown and says yes to.

        `allow_outside` takes the result over; otherwise the caller closes it.
        """
        return self._live.toolbox.look(call, tool)

    def allow_outside(self, call: ToolCall, look: Look) -> None:
        """Let one call write beyond the workspace where it led at the look; refused as stale when it does not then."""
        self._live.toolbox.allow_outside(call.id, look)

    def is_fenced(self, tool: Tool) -> bool:
        """Say whether a call of this tool runs behind a fence that keeps what its rules want kept.

        Where a fence comes late, it is made and tried now.
        """
        return not (tool.runs_code and self.rule_about_files) and self._live.settings.seat.is_fenced(tool)

    @property
    def rule_about_files(self) -> str:
        """The rule that a command behind a fence could get around, by reading or changing a file; empty for none."""
        rules = self._live.settings.permissions
        return "" if rules is None else rules.about_files()

    def knows(self, answer: Answer) -> bool:
        """Say whether a call was answered with a yes that holds for the whole session."""
        return self._live.answers is not None and answer in self._live.answers

    def remember(self, answer: Answer) -> None:
        """Let a yes hold for the rest of the session, also after a resume."""
        if self._live.answers is not None:
            self._live.answers.add(answer)

    def close(self, *, keep_jobs: bool = False) -> None:
        """End what tools left running, remove output that was kept for the session, and let its journal go.

        Durability: every fact is in the journal, as it was when the last turn returned. May be called twice.

        Args:
            keep_jobs: background jobs go on, each to its own time limit; whoever opens the session again has them.
        """
        live = self._live
        if live.hooks is not None:
            live.hooks.close()
        live.conversation.close()
        if live.sensing is not None:
            live.sensing.scratch.close()
        if self._close_servers is not None:
            self._close_servers()
        if self._close_tools.detach() is not None:
            live.toolbox.close(keep_jobs=keep_jobs)
        if self._close_log.detach() is not None:
            live.standing.snapshot.keep(self, live.log.journal, is_last=True)
            live.standing.close(is_orderly=True)

    def attach(self, servers: Attached | None) -> None:
        """Take MCP servers over, which end with the session."""
        if servers is not None:
            self._live.mcp = servers
            self._close_servers = weakref.finalize(self, servers.servers.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[type, tuple[dict[str, Any]]]:
        """Copy and pickle as the plain dict of the keys, which `init_session(schema, session=…)` restores."""
        return dict, (dict(self),)


REQUIRED: Final = ("session_id", "model", "endpoint", "messages", "usage_totals", "llm_call_count", "session_start_ts")
"""Keys without which a session cannot be restored."""
