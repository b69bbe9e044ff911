"""What a session may be opened with: one list of keywords for every function that opens one.

Floor: 5. Owns: the keywords, their defaults, which of them are not available yet; never: what one of them does.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal, ParamSpec, TypedDict, TypeVar

from plait.context.senses import check_sense_options
from plait.core.cancel import Cancel
from plait.core.errors import ConfigError
from plait.engine.approval import Approver
from plait.engine.limits import Limits
from plait.engine.profile import Profile
from plait.events.named import EventCallback
from plait.kernel.counting import TokenCounter
from plait.kernel.rules import Retry
from plait.kernel.tools import Tool
from plait.session.cache_terms import check_cache_options
from plait.session.cancelling import CancelToken
from plait.session.confining import Confinement
from plait.session.history.reducing import StepReducer
from plait.session.kept.session_log import DurableSink
from plait.session.summaries.terms import CompactionPolicy, check_compaction_options
from plait.tools.deferred.search import Selector
from plait.tools.executor import ToolExecutor
from plait.tools.places import Outside, PolicyName

Proof = bool | Literal["every", "auto"]
DEFAULT_MAX_TOKENS: Final = 3_000_000
"""Tokens that one turn may use: prompt tokens that no cache held, and completion tokens."""

SIDE_BY_SIDE: Final = 32
"""Calls of one answer that only look run all at once, up to so many, unless limits say otherwise."""

P = ParamSpec("P")
T = TypeVar("T")


class AgentOptions(TypedDict, total=False):
    """Keywords of every function that opens a session. None is: as the agent spec says."""

    non_interactive: bool
    """Nobody can be asked: tools that ask the user are not shown, and say so when they are called."""
    system_prompt_supplement: str
    """Stands in the system prompt, after plait's own sentence."""
    profile: Profile | str | None
    """A way of working, or its name: it stands in the system prompt, and what it does not permit the session's model
    cannot call, whenever the session goes on. It is chosen when a session begins."""
    bare: bool
    """The system prompt is the supplement alone."""
    cache_key: str | None
    """Sent where an endpoint routes by it; the session's id unless given."""
    max_output_tokens: int | None
    """Tokens of one answer."""
    strict_cache_proof: Proof
    """True: the first answer has to say what the endpoint's cache held, or the turn ends; later misses are told.
    "every": so has every later one. "auto": like True where the endpoint is known to report it. False: no proof."""
    min_cacheable_tokens: int | None
    """Shorter prompts are never cached; 0 is: as is known of the endpoint."""
    cache_ttl_seconds: float | None
    """After so long a pause a cold cache is nobody's fault; an hour unless given."""
    on_event: EventCallback | None
    """Gets every event, after the handlers of its name."""
    approver: Approver | None
    """Judges calls that change something, run code or ask for it; without one every call may run."""
    limits: Limits | None
    """Ceilings of a turn and of the session; as the spec says unless given, and no limit of steps in neither."""
    max_turn_tokens: int | None
    """Tokens that one turn may use, as `DEFAULT_MAX_TOKENS` counts them; None is no limit."""
    retry: Retry | None
    """When a failed request is made again."""
    workspace: str | os.PathLike[str] | None
    """Directory in which the tools work; the working directory of the process unless given."""
    outside: PolicyName | Outside
    """What file tools may do beyond the workspace; places of keys and passwords are refused in any case."""
    durable: bool | None
    """Keep a journal, so that the session survives any crash and can go on in another process; on unless False."""
    session_id: str | None
    """The session of this name goes on, or begins."""
    resumed_from: str | None
    """The session that goes on: a name, the beginning of one, a folder, or the older program's journal or snapshot."""
    session_dir: str | os.PathLike[str] | None
    """Folder of the session, in place of one in the state folder."""
    durable_sink: DurableSink | None
    """Gets every record after the journal has it, and before its consequence."""
    step_reducer: StepReducer | None
    """Called after each step that called tools; what it returns takes the step's place, recorded before the next
    request. See `plait.StepReducer`."""
    tool_loading: str | None
    """How tools with `deferred=True` are loaded: `eager` shows all at once, `kimi`, `glm` and `grow` once a search has
    found them. As the spec says, or the user's list of endpoints, unless given."""
    tool_search: Selector | None
    """Searches them in the place of the built-in order: gets the query and their schemas, returns names."""
    mcp_servers: object
    """MCP servers whose tools the model has beside the others: a path of a `.mcp.json`, its content, or a list of
    tables with `name` and `command` or `url`. They come on top of those of the spec."""
    trust: bool | None
    """Whether the repository's own MCP servers (`.mcp.json`) are started and its own hooks (`.plait/hooks.json`,
    `.plait/hooks/`) run: True vouches for them; None skips them and says so; False skips them."""
    hooks: object | None
    """Hooks: a file or a folder of them, a dict as in `hooks.json`, or a list of these. They come on top of those of
    the spec and of the user's own files."""
    hooks_enabled: bool | None
    """False: no hook runs, wherever it stands. As the spec says unless given."""
    hooks_compat: Iterable[str] | None
    """Programs whose hook files count as well: `claude`, `codex`, `agentknit`."""
    compaction_enabled: bool | None
    """False: history is never made shorter; a conversation that does not fit its model any more ends with an error."""
    compaction_trigger_tokens: int | None
    """Tokens of a request from which history is summarised first; 100,000 unless given, or what the model's window
    leaves beside an answer where that is less."""
    compaction_target_tokens: int | None
    """Tokens that a summary may have; fewer turns are kept where these have more. 20,000 unless given."""
    compaction_keep_last_turns: int | None
    """Turns that stay word for word, and steps inside a single long turn; 2 unless given."""
    compaction_policy: str | CompactionPolicy | None
    """`threshold`; `every_turn` does it at the end of each turn as well; `never` only where a request does not fit; or
    a function of session, usage and phase, which decides."""
    compaction_min_chars: int | None
    """Less text than this is not summarised."""
    token_counter: TokenCounter | str | None
    """Counts the tokens of a text exactly: a function, `o200k`, `cl100k`, `auto` or the path of a `tokenizer.json`. As
    the spec says unless given; without one sizes are estimated from what the endpoint reports."""
    opening_cancel: CancelToken | Cancel | None
    """Ends what opening waits for: hooks that are told of the start."""
    permissions: Mapping[str, Iterable[str]] | None
    """Rules for calls: lists named `allow`, `ask` and `deny`, beside those of the spec, of the user's and the project's
    `plait.toml`. Deny beats ask beats allow, wherever a rule stands."""
    redact: bool | None
    """Take secrets out of what tools bring before the model, a screen or a file of kept output gets it: the keys that
    this process holds, and what looks like one. Unless False."""
    tool_executor: ToolExecutor | None
    """Runs the calls in the place of plait's own way. With a `BubblewrapToolExecutor` the built-in tools, hooks and
    the programs of MCP servers are behind its fence, and other tools run there as their `sandbox` says."""
    sandbox: Confinement | None
    """In its place: which calls have a fence around them, as the command line's `--sandbox` says."""
    user_awareness_enabled: bool | None
    """The model is told who it works for, and what the user's own instructions files say. Each sense is on unless the
    caller, the spec, or `PLAIT_AWARENESS` says otherwise; `bare` has none."""
    system_awareness_enabled: bool | None
    """… on which machine, in which folder, and what time it is."""
    git_awareness_enabled: bool | None
    """… on which branch, after which commits, and which files are changed."""
    time_awareness_enabled: bool | None
    """… with each question, how much time has passed."""
    time_awareness_tool_timestamps: bool | None
    """… and with each result, when its call ran; on unless False, where the sense of time is."""
    token_awareness_enabled: bool | None
    """… with results, how many tokens of its budget the endpoint has counted."""
    token_awareness_budget_tokens: int | None
    """That budget; the spec's `context_window` unless given, else what a compaction begins at."""
    token_awareness_reminder_tokens: int | None
    """When fewer are left, the model is asked once to write down where it stands; 6,144 unless given."""
    token_awareness_update_every: int | None
    """Of so many answers, one is followed by a count; each unless given."""
    change_awareness_enabled: bool | None
    """… with a question, what others have changed since its last turn."""
    # From here on: not available yet, see NOT_YET.
    tool_ttl_seconds: float | None
    control_socket: bool


class SessionOptions(AgentOptions, total=False):
    """Keywords of the functions that open a session for an agent spec."""

    tools: Iterable[Tool]
    """Tools beside those of the spec; one with a name of the spec's takes that one's place."""


DEFAULTS: Final[Mapping[str, object]] = MappingProxyType(
    {
        **dict.fromkeys(SessionOptions.__annotations__),
        "non_interactive": False,
        "system_prompt_supplement": "",
        "bare": False,
        "strict_cache_proof": True,
        "max_turn_tokens": DEFAULT_MAX_TOKENS,
        "tools": (),
        "redact": True,
        "outside": "read_outside",
        "control_socket": False,
    }
)
"""What each keyword is when it is not given."""

NOT_YET: Final[Mapping[str, tuple[object, ...]]] = MappingProxyType(
    {
        **dict.fromkeys("tool_ttl_seconds".split(), ()),
        "control_socket": (False,),
    }
)
"""Keywords of features that are not there yet, each with the values that ask for nothing; None always does."""


def check_options(options: Mapping[str, object]) -> None:
    """Refuse what would be ignored.

    Raises:
        TypeError: a keyword is unknown.
        ConfigError: a keyword belongs to a feature that is not available yet, or has a value that means nothing.
    """
    for name, value in options.items():
        if name not in DEFAULTS:
            raise TypeError(f"got an unexpected keyword argument {name!r}")
        if name in NOT_YET and value is not None and value not in NOT_YET[name]:
            raise ConfigError(f"{name}={value!r} is not available yet", hint=f"leave {name} out")
    reducer = options.get("step_reducer")
    if reducer is not None and not callable(reducer):
        raise ConfigError(f"step_reducer={reducer!r} cannot be called", hint="see plait.StepReducer for what it takes")
    search = options.get("tool_search")
    if search is not None and not callable(search):
        raise ConfigError(f"tool_search={search!r} cannot be called", hint="it gets a query and schemas")
    check_cache_options(options)
    check_compaction_options(options)
    check_sense_options(options)


def with_session_options(function: Callable[P, T]) -> Callable[P, T]:
    """Show the keywords of `SessionOptions` as parameters of a function that takes them as `**options`."""
    signature = inspect.signature(function)
    own = [parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=DEFAULTS[name], annotation=annotation)
        for name, annotation in SessionOptions.__annotations__.items()
        if name not in signature.parameters
    ]
    function.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
    return function
