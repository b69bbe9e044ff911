"""What a tool is, and the table in which the loop looks tools up.

Floor: 1. Owns: `Tool`, argument checks, which calls may run side by side; never: running one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import field, replace
from functools import cached_property
from inspect import iscoroutinefunction
from typing import Any, Protocol, cast, get_args

from plait.core.cancel import Cancel
from plait.core.errors import ConfigError
from plait.core.exchange import ToolSchema
from plait.core.messages import Image, Message, ResultStatus, ToolCall, ToolResult
from plait.core.strict_json import JsonInvalid, dump, plain, text_of
from plait.core.values import dataclass
from plait.kernel.deferral import SEARCH_TOOL, Deferral, active, not_loaded

Check = Callable[[Mapping[str, object]], str | None]
"""Says in one sentence what is wrong with the arguments, or None."""


class Compile(Protocol):
    """Turns a JSON Schema into a check, once a tool; raises `ValueError` for a schema that is none."""

    def __call__(self, schema: Mapping[str, object], /) -> Check:
        """Compile the schema."""
        ...


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may know of the call it answers: a parameter annotated with this type is filled in by the host."""

    call_id: str
    idempotency_key: str
    """The same for every attempt at this call, in whatever process: conversation, run and call."""
    cancel: Cancel
    """Given when the call should stop."""
    session_id: str = ""
    intent: Mapping[str, object] | None = None
    """What `Recovery.intend` said of this call, as it was recorded before the call began."""
    history: Sequence[Message] = ()
    """The conversation, up to the answer that made the call; to be read while the call runs."""
    tools: Sequence[ToolSchema] = ()
    """The tools of the conversation, those among them that are not shown yet."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """How a tool finds out what became of a call whose end nobody saw. Both functions are sync and may block.

    Both are called with the arguments as keywords of `Tool.fn`, and what is known of the call.
    """

    intend: Callable[[Mapping[str, object], ToolContext], Mapping[str, object] | None]
    """Says before the call runs, and changing nothing, what will show whether it took effect: plain JSON, durable
    before the call begins. None: nothing will."""
    settle: Callable[[Mapping[str, object], ToolContext], Any]
    """Says what became of the call, in another process perhaps: returns whatever `Tool.fn` may return.

    Raises when it cannot be told. Cancel: what still runs is stopped first.
    """


@dataclass(frozen=True, eq=False)
class Tool:
    """Something a model may call.

    `fn` is sync or async and is called with the arguments as keywords; it returns text, `(text, data)`, an `Image`, a
    `ToolResult`, None for empty text, or any JSON value. Parameters come from its signature unless given.
    """

    name: str
    description: str
    fn: Callable[..., Any]
    parameters: Mapping[str, object] | None = None
    """JSON Schema of the arguments."""
    param_map: Mapping[str, str] | None = None
    """Model-facing argument name to keyword of `fn`, where they differ."""
    custom_format: Mapping[str, object] | None = None
    """Grammar of a tool that takes free text, delivered as the keyword `input`."""
    deferred: bool = False
    """Not shown to the model until a search reveals it."""
    mutates: bool = field(default=False, kw_only=True)
    """Changes something outside; durable start before it runs, approval where a policy wants it."""
    runs_code: bool = field(default=False, kw_only=True)
    requires_approval: bool = field(default=False, kw_only=True)
    parallel_safe: bool = field(default=False, kw_only=True)
    """May run beside other such calls of the same message."""
    idempotent: bool = field(default=False, kw_only=True)
    """Running it twice is as good as once, as when it only reads; it is run again when its end was not seen."""
    recovery: Recovery | None = field(default=None, kw_only=True)
    """Finds out whether a call took effect whose end was not seen; without it such a call is `unknown`."""
    ends_turn: bool = field(default=False, kw_only=True)
    """A call that succeeds is the model's answer: its arguments are the reply, and the model is not asked again."""
    timeout_s: float | None = field(default=None, kw_only=True)
    category: str = field(default="general", kw_only=True)
    sandbox: object | None = field(default=None, kw_only=True)
    """How a sandbox may run it; without it a sandbox refuses it."""
    alias_of: str | None = field(default=None, kw_only=True)
    """The tool that this is another name for: callable whenever that one is, and not shown to the model."""

    @property
    def gated(self) -> bool:
        """True when an approver is asked."""
        return self.mutates or self.runs_code or self.requires_approval

    @property
    def repeatable(self) -> bool:
        """True when a call whose end was not seen is simply run again, so that its start need not be durable first."""
        return self.idempotent

    @property
    def python_function_name(self) -> str:
        """Name of the function behind the tool."""
        return str(getattr(self.fn, "__name__", self.name))

    @property
    def resolved_parameters(self) -> dict[str, object]:
        """The JSON Schema: as given, or read off the function's signature."""
        if self.parameters is not None:
            return dict(self.parameters)
        from plait.kernel.schema import infer_parameters  # a model is asked without tools as well

        return infer_parameters(self.fn, skip=self.context_parameter)

    @property
    def resolved_param_map(self) -> dict[str, str]:
        """The argument names: as given, `input` for free text, else each parameter to itself."""
        if self.param_map is not None:
            return dict(self.param_map)
        if self.custom_format is not None:
            return {"input": "input"}
        properties = self.resolved_parameters.get("properties")
        return {name: name for name in properties} if isinstance(properties, Mapping) else {}

    @property
    def schema(self) -> ToolSchema:
        """The tool as a model sees it."""
        return ToolSchema(self.name, self.description, self.resolved_parameters, self.custom_format, self.deferred)

    @cached_property
    def is_async(self) -> bool:
        """True when calling the function gives something to await, as far as that shows before the call."""
        return iscoroutinefunction(self.fn)

    @cached_property
    def context_parameter(self) -> str | None:
        """Name of the function's parameter that wants a `ToolContext` (or one or None), if it has one."""
        from plait.kernel.schema import hints_of

        wanted = (ToolContext, ToolContext | None)
        return next((name for name, hint in hints_of(self.fn).items() if hint in wanted), None)

    def keywords(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments under the function's own names."""
        names = self.param_map
        if not names:
            return dict(arguments)
        return {names.get(name, name): value for name, value in arguments.items()}


def as_result(call_id: str, value: object) -> ToolResult:
    """Return what a tool gave back as the result of a call: see `Tool`. Never raises.

    What the result holds is what a log gives back: its data are plain JSON, whatever the tool put there.
    """
    if isinstance(value, ToolResult):
        return _own(call_id, value)
    if isinstance(value, str):
        return ToolResult(call_id, value)
    if value is None:
        return ToolResult(call_id)
    if isinstance(value, Image):
        return ToolResult(call_id, images=(value,))
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], Mapping):
        text, data = value
        result = as_result(call_id, text)
        return replace(result, is_error=result.is_error or data.get("ok") is False, data=_plain_data(data))
    try:
        return ToolResult(call_id, dump(value))
    except JsonInvalid:
        return ToolResult(call_id, text_of(value))


def _own(call_id: str, result: ToolResult) -> ToolResult:
    """A tool's own `ToolResult`, which nobody has checked yet, under the id of its call."""
    content = cast("object", result.content)
    status = result.status if result.status in get_args(ResultStatus) else "error"
    return ToolResult(
        call_id,
        content if isinstance(content, str) else text_of(content),
        result.is_error,
        _plain_data(result.data),
        status,
        tuple(result.images),
    )


def _plain_data(data: Mapping[str, object] | None) -> Mapping[str, object] | None:
    if data is None:
        return None
    known = plain(data)
    return known if isinstance(known, dict) else {"data": known}


def need_tool(value: object) -> None:
    """Raise `ConfigError` for anything but a `Tool`: a bare function says neither its name nor what it is for."""
    if not isinstance(value, Tool):
        raise ConfigError(
            f"a Tool is wanted, not {type(value).__name__!r}", hint='wrap it: Tool("name", "what it does", function)'
        )


class ToolTable:
    """The tools of one conversation, in registration order, checked once.

    `allowed` narrows what the model sees and may call to some names; the others stay known, so that a call to one
    is told to be not permitted. With `deferral` deferred tools may be called only once a search has loaded them.
    """

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        *,
        compile: Compile | None = None,
        allowed: Sequence[str] | None = None,
        deferral: Deferral | None = None,
    ) -> None:
        self.deferral = deferral
        self._tools: dict[str, Tool] = {}
        self._checks: dict[str, Check] = {}
        self._compile = compile
        self._allowed = None if allowed is None else frozenset(allowed)
        self._schemas: tuple[ToolSchema, ...] | None = None
        self.can_end_turn = False
        """Some tool's call is the answer."""
        for tool in tools:
            self.add(tool)

    def add(self, tool: Tool) -> None:
        """Take a tool in; raise `ValueError` for a taken name or a bad schema, `ConfigError` for what is no tool."""
        need_tool(tool)
        if tool.name in self._tools:
            raise ValueError(f"a tool named {tool.name!r} is already registered")
        if tool.parameters is not None:
            # A schema of plait's own making is valid; somebody else's is tried before the model ever sees it.
            self._checked(tool)
        self._tools[tool.name] = tool
        if tool.alias_of is not None and self._allowed is not None and tool.name in self._allowed:
            self._allowed |= {tool.alias_of}  # whoever names a tool by another of its names means it
        self.can_end_turn |= tool.ends_turn
        self._schemas = None

    def get(self, name: str) -> Tool | None:
        """Return the tool of this name."""
        return self._tools.get(name)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def schemas(self) -> tuple[ToolSchema, ...]:
        """What the model sees: the same object each time, so that a request's head stays the same bytes."""
        if self._schemas is None:
            shown = (tool for tool in self._tools.values() if tool.alias_of is None and self._is_allowed(tool))
            schemas = (tool.schema for tool in shown)
            if self.deferral is None:
                schemas = (replace(schema, deferred=False) if schema.deferred else schema for schema in schemas)
            self._schemas = tuple(schemas)
        return self._schemas

    def permits(self, tool: Tool) -> bool:
        """Say whether the model may call a tool."""
        return self._is_allowed(tool)

    def of(self, tools: Iterable[Tool]) -> ToolTable:
        """Return a table of other tools under the same terms; raise `ValueError` as `add` does."""
        return ToolTable(tools, compile=self._compile, allowed=self.allowed, deferral=self.deferral)

    @property
    def allowed(self) -> Sequence[str] | None:
        """The names of what may be called; None for all."""
        return None if self._allowed is None else sorted(self._allowed)

    def for_host(self) -> ToolTable:
        """Return the same tools for calls of a program's own: it knows them all, and searches for none first."""
        table = copy(self)
        table.deferral = table._schemas = None
        return table

    def check(self, call: ToolCall, history: Sequence[Message] = ()) -> ToolResult | None:
        """Return an error result for a call that cannot run as it stands, or None; `history` says what is loaded."""
        problem = self._problem(call)
        if problem is not None:
            return ToolResult(call.id, problem, is_error=True)
        tool = self._tools[call.name]
        own = self._tools[tool.alias_of or tool.name]
        if self.deferral is None or not own.deferred:
            return None
        loaded = active(self.deferral, self.schemas, history)
        return None if any(each.name == own.name for each in loaded) else not_loaded(call, self.deferral, history)

    def is_repeatable(self, call: ToolCall) -> bool:
        """Say whether the call may run without a durable start."""
        tool = self._tools.get(call.name)
        return tool is not None and tool.repeatable

    def recovery(self, call: ToolCall) -> Recovery | None:
        """Return how to find out whether the call took effect, where its tool knows a way."""
        tool = self._tools.get(call.name)
        return None if tool is None else tool.recovery

    def batches(self, calls: Sequence[ToolCall]) -> Iterator[tuple[ToolCall, ...]]:
        """Split calls into what may run side by side: runs of parallel-safe calls, every other call alone."""
        together: list[ToolCall] = []
        for call in calls:
            tool = self._tools.get(call.name)
            if tool is None or tool.parallel_safe:
                together.append(call)
                continue
            if together:
                yield tuple(together)
                together = []
            yield (call,)
        if together:
            yield tuple(together)

    def _is_allowed(self, tool: Tool) -> bool:
        name = tool.alias_of or tool.name
        is_search = self.deferral is not None and name == SEARCH_TOOL
        return self._allowed is None or is_search or name in self._allowed

    def _checked(self, tool: Tool) -> Check | None:
        """Return the check of a tool's arguments, compiled on first use."""
        if self._compile is None or tool.custom_format is not None:
            return None
        check = self._checks.get(tool.name)
        if check is None:
            try:
                check = self._compile(self._parameters(tool))
            except ValueError as error:
                raise ValueError(f"the tool {tool.name!r} has an invalid schema: {error}") from error
            self._checks[tool.name] = check
        return check

    def _parameters(self, tool: Tool) -> Mapping[str, object]:
        """Return what the model was shown, where it was shown something: a signature is not read twice."""
        shown = (schema.parameters for schema in self._schemas or () if schema.name == tool.name)
        return next(shown, None) or tool.resolved_parameters

    def _problem(self, call: ToolCall) -> str | None:
        tool = self._tools.get(call.name)
        if tool is None or (tool.alias_of or tool.name) not in self._tools:
            names = ", ".join(schema.name for schema in self.schemas) or "none"
            return f"Unknown tool {call.name!r}. The tools here are: {names}."
        if not self._is_allowed(tool):
            return f"The tool {call.name!r} is not permitted here."
        if call.custom != (tool.custom_format is not None) and tool.custom_format is None:
            return f"The tool {call.name!r} takes JSON arguments, not free text."
        try:
            arguments = call.arguments
        except JsonInvalid as error:
            return f"Invalid arguments for {call.name!r}: {error}. Send one JSON object."
        check = self._checked(tool)
        wrong = None if check is None else check(arguments)
        return None if wrong is None else f"Invalid arguments for {call.name!r}: {wrong}."
