"""An agent in memory: a model, some tools, a question, an answer.

Floor: 4. Owns: `Agent`, the simplest face; never: a file, a terminal or a key.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, overload

from plait.core.cancel import Cancel
from plait.core.clock import Clock, SystemClock
from plait.core.errors import UnsupportedFeature
from plait.core.events import Event
from plait.core.ids import new_id
from plait.core.images import ImageSource, image_of
from plait.core.messages import Image, Message, user
from plait.engine.approval import Approver
from plait.engine.cache.proof import CacheTerms, ProofMode
from plait.engine.context_manager import ContextManager
from plait.engine.conversation import Conversation, Terms, Workbench, check_images
from plait.engine.hosts.stage import BoundaryHook, Policy
from plait.engine.limits import Limits, rules_under
from plait.engine.masking import finishing_of
from plait.engine.profile import Profile, as_profile
from plait.engine.result import RunResult, T, error_of, status_of, text_of
from plait.engine.room import with_counter
from plait.engine.threads import Threads
from plait.engine.validation import compile_schema
from plait.kernel.counting import TokenCounter
from plait.kernel.deferral import Deferral
from plait.kernel.effects import End
from plait.kernel.ports import Model, Options, Setup
from plait.kernel.rules import Rules
from plait.kernel.tools import Tool, ToolTable

if TYPE_CHECKING:
    from plait.engine.agent_options import AgentOptions, RunOptions
    from plait.engine.agent_servers import AgentServers
    from plait.engine.structured import OutputType
    from plait.tools.redaction import Redaction

U = TypeVar("U")


class Agent(Generic[T]):
    """Runs tasks with a model and tools, and keeps nothing but what it is told to.

    Each `run` is a conversation of its own unless `context` is given. May be used from any thread, from inside a
    running event loop, and from inside one of its own tools. Without an approver the caller vouches for the tools.
    """

    @overload
    def __init__(
        self,
        model: Model | str,
        tools: Iterable[Tool] = (),
        *,
        output_type: type[T] | None = None,
        **options: Unpack[AgentOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: Agent[Any],
        model: Model | str,
        tools: Iterable[Tool] = (),
        *,
        output_type: object,
        **options: Unpack[AgentOptions],
    ) -> None: ...

    def __init__(
        self,
        model: Model | str,
        tools: Iterable[Tool] = (),
        *,
        output_type: object = None,
        system: str | None = None,
        approver: Approver | None = None,
        limits: Limits | None = None,
        context: ContextManager | None = None,
        plan_mode: bool = False,
        redact: bool | Redaction = True,
        on_event: Callable[[Event], None] | None = None,
        options: Options | None = None,
        rules: Rules | None = None,
        token_counter: TokenCounter | str | None = None,
        on_boundary: BoundaryHook | None = None,
        strict_cache_proof: ProofMode = "auto",
        mcp_servers: object = None,
        clock: Clock | None = None,
        threads: Threads | None = None,
    ) -> None:
        """Put an agent together.

        Args:
            model: a model, or a name that `chat_model` finds.
            tools: what the model may call, in the order in which it sees them; or what a `DeferredCatalog` mounts for
                a run, of which it sees a few and finds the others.
            output_type: what answers have to be: text unless given; a dataclass, TypedDict or pydantic model, a type
                made of these and of scalars, or a JSON Schema as a dict.
            system: the system prompt.
            approver: judges calls of tools that change something, run code or ask for it.
            limits: ceilings of a run.
            context: the conversation to go on with.
            plan_mode: one approval for all calls of an answer, instead of one each.
            redact: take secrets out of tool results before the model sees them: the keys that this process holds, and
                what looks like one.
            on_event: sees every event of every run, in the thread that runs it.
            strict_cache_proof, token_counter: see `plait.init_session`.
            mcp_servers: MCP servers whose tools it has as well, see `plait.mcp_tools`; they end with the agent.

        Raises:
            ValueError: two tools have one name, or a tool has an invalid schema.
            ConfigError: the output type is none.
        """
        self.limits = limits or Limits()
        self._model = self._asked = _model(model)
        self._deferral: Deferral | None = getattr(tools, "deferral", None)
        self._tools = tuple(tools)
        self._system = system
        self._context = context
        self._options = options or Options(max_output_tokens=self.limits.max_output_tokens)
        # Agents that fail together must not ask again together.
        rules = with_counter(rules or Rules(), token_counter, self._model)
        self._rules = rules_under(self.limits, rules, int.from_bytes(os.urandom(4), "big"))
        self._on_event = on_event
        self._finishing = finishing_of(self.limits.max_tool_result_tokens, lambda: self._asked, redact)
        self._policy = Policy(approver, self.limits, self._finishing, plan_mode, on_boundary, shrinks=True)
        self._bench = Workbench(clock or SystemClock(), threads or Threads())
        self._cache = CacheTerms(strict_cache_proof)
        self._table = ToolTable(self._tools, compile=compile_schema, deferral=self._deferral)
        self._output, self._profile = _output_type(output_type), Profile()
        self._servers = _agent_servers(self, mcp_servers)

    @property
    def model(self) -> Model:
        """The model that runs ask, unless a profile names another."""
        return self._model

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools, in the order in which the model sees them."""
        return self._tools

    @overload
    def run(self, text: str, *, output_type: None = None, **options: Unpack[RunOptions]) -> RunResult[T]: ...

    @overload
    def run(self, text: str, *, output_type: type[U], **options: Unpack[RunOptions]) -> RunResult[U]: ...

    @overload
    def run(self, text: str, *, output_type: object, **options: Unpack[RunOptions]) -> RunResult[Any]: ...

    def run(
        self,
        text: str,
        *,
        output_type: object = None,
        profile: Profile | str | None = None,
        on_text: Callable[[str], None] | None = None,
        images: Iterable[ImageSource] = (),
        cancel: Cancel | None = None,
    ) -> RunResult[Any]:
        """Run a task in this thread and return its outcome.

        Args:
            text: what is asked.
            output_type: what the answer has to be, in place of the agent's own.
            profile: a way of working for this run, or its name.
            on_text: gets every fragment of the answer as it comes; none of an answer that is given by a tool call.
            images: pictures that belong to the question: `Image`s, paths, URLs or bytes.
            cancel: ends the run from another thread.

        Raises:
            UnsupportedFeature: pictures were given and the model takes none.
            RequestTooLarge: a picture is larger than the endpoint takes.
            ConfigError: a picture cannot be read or is none, or the output type is none.
        """
        pictures = tuple(map(image_of, images))
        if self._servers is not None:
            self._take(self._servers.tools(cancel))
        with self._conversation(profile, on_text, output_type) as conversation:
            question = self._question(conversation, text, pictures)
            try:
                end = conversation.turn((question,), cancel=cancel)
            finally:
                conversation.close()
            return self._result(conversation, end)

    @overload
    async def arun(self, text: str, *, output_type: None = None, **options: Unpack[RunOptions]) -> RunResult[T]: ...

    @overload
    async def arun(self, text: str, *, output_type: type[U], **options: Unpack[RunOptions]) -> RunResult[U]: ...

    @overload
    async def arun(self, text: str, *, output_type: object, **options: Unpack[RunOptions]) -> RunResult[Any]: ...

    async def arun(
        self,
        text: str,
        *,
        output_type: object = None,
        profile: Profile | str | None = None,
        on_text: Callable[[str], None] | None = None,
        images: Iterable[ImageSource] = (),
        cancel: Cancel | None = None,
    ) -> RunResult[Any]:
        """Run a task in this task; see `run`. A cancelled task closes the run and raises CancelledError."""
        pictures = tuple(map(image_of, images))
        if self._servers is not None:
            self._take(await self._servers.atools())
        with self._conversation(profile, on_text, output_type) as conversation:
            question = self._question(conversation, text, pictures)
            try:
                end = await conversation.aturn((question,), cancel=cancel)
            finally:
                await conversation.aclose()
            return self._result(conversation, end)

    @contextmanager
    def _conversation(
        self, profile: Profile | str | None, on_text: Callable[[str], None] | None, output_type: object
    ) -> Iterator[Conversation]:
        profile = as_profile(profile) or self._profile
        session_id = new_id("s")
        model = self._asked = same_endpoint(self._model, profile.model_override)
        terms = self._terms(profile, model, output_type, session_id)
        conversation = Conversation(model, terms, self._bench, id=session_id)
        if self._context is not None:
            conversation.rewrite(0, 0, tuple(self._context.window()), "context")
        if self._on_event is not None:
            conversation.observers.add(self._on_event)
        if on_text is not None:
            conversation.observers.add_text(on_text)
        if self._servers is not None:
            self._servers.tell(conversation.observers)
        yield conversation

    def _terms(self, profile: Profile, model: Model, output_type: object, session_id: str) -> Terms:
        table = self._table
        if profile.tool_filter is not None:
            allowed = profile.tool_filter
            table = ToolTable(self._tools, compile=compile_schema, allowed=allowed, deferral=self._deferral)
        options = self._options if profile.reasoning is None else replace(self._options, reasoning=profile.reasoning)
        output = self._output if output_type is None else _output_type(output_type)
        wanted = None
        if output is not None:
            from plait.engine.structured import Wanted

            # What all runs of one context begin with stays the same, so that a type of one run's own adds no tool.
            wanted = Wanted.of(output, model, table, may_add_tool=self._context is None or output is self._output)
            options = wanted.options(options, has_other_tools=bool(table.schemas))
            table = wanted.table(self._tools, profile.tool_filter, self._deferral) or table
        finishing = replace(self._policy.finishing, session_id=session_id)
        policy = replace(self._policy, finishing=finishing, wanted=wanted)
        system = "\n\n".join(part for part in (profile.system_prompt, self._system) if part)
        setup = Setup(system, table.schemas, options, self._deferral)
        return Terms(table, setup, policy, self._rules, cache=self._cache)

    def _take(self, tools: tuple[Tool, ...]) -> None:
        """Have other tools from now on, where MCP servers have brought some or lost some."""
        if tools is not self._tools:
            self._table = ToolTable(tools, compile=compile_schema, deferral=self._deferral)
            self._tools = tools

    def _question(self, conversation: Conversation, text: str, pictures: tuple[Image, ...]) -> Message:
        check_images(conversation.model, pictures)
        wanted = conversation.terms.policy.wanted
        return user(text if wanted is None else wanted.question(text), pictures)

    def _result(self, conversation: Conversation, end: End) -> RunResult[Any]:
        state, model = conversation.state, conversation.model
        if self._context is not None:
            self._context.replace(state.history)
        conversation.observers.raise_fault()
        wanted = conversation.terms.policy.wanted
        value: Any = end.reply
        if wanted is not None:
            from plait.engine.structured import settle

            end, value = settle(end, state, wanted)
        error = error_of(end, model=model.name, endpoint=str(getattr(model, "endpoint", "")))
        return RunResult(
            text_of(end, error),
            status_of(end.reason),
            end.reason,
            error,
            state.turn_usage,
            tuple(state.history),
            state.steps,
            value,
        )


def _model(model: Model | str) -> Model:
    if not isinstance(model, str):
        return model
    from plait.models.chat_model import chat_model

    return chat_model(model)


def _agent_servers(agent: Agent[Any], given: object) -> AgentServers | None:
    if given is None:
        return None
    from plait.engine.agent_servers import AgentServers  # most agents have none

    bench, limits = agent._bench, agent.limits
    found = AgentServers(given, agent._tools, bench.portal, limits.max_tool_result_tokens)
    weakref.finalize(agent, found.servers.close)
    agent._policy = replace(agent._policy, gates=found.gate(agent._policy))
    return found


def _output_type(given: object) -> OutputType | None:
    if given is None:
        return None
    from plait.engine.structured import output_type_of  # most answers are text

    return output_type_of(given)


def same_endpoint(model: Model, name: str | None) -> Model:
    """Return another model of the same endpoint, where a profile or a configuration asks for one."""
    if name is None or name == model.name:
        return model
    with_model = getattr(model, "with_model", None)
    if with_model is None:
        raise UnsupportedFeature(f"the model {model.name!r} cannot be exchanged for {name!r}")
    other: Model = with_model(name)
    return other
