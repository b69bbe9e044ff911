"""The kernel face: an agent from a flat configuration, a registry of tools, an approver that prompts.

Floor: 4. Owns: the names and signatures of that face, as thin constructors over the engine; never: a second loop.
"""

from __future__ import annotations

import difflib
import inspect
import os
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from plait.core.cancel import Cancel
from plait.core.errors import ConfigError
from plait.core.messages import ToolCall, ToolResult
from plait.engine.agent import Agent, same_endpoint
from plait.engine.approval import Approver
from plait.engine.calls import CHARS_PER_TOKEN, Finishing, failure_of, keywords, result_of
from plait.engine.cli_approver import CliApprover
from plait.engine.context_manager import ContextManager
from plait.engine.kernel_config import Config
from plait.engine.kernel_sandbox import closed_with, fenced_options, in_sandbox, sandbox_of
from plait.engine.limits import Limits
from plait.engine.masking import keys_of
from plait.engine.profile_files import profile_of
from plait.engine.telemetry import JsonlTelemetry, NullTelemetry
from plait.engine.validation import compile_schema
from plait.kernel.ports import Model
from plait.kernel.rules import Rules, Shrinking
from plait.kernel.threshold import TRIGGER_TOKENS
from plait.kernel.tools import Tool, ToolTable
from plait.models.chat_model import ChatModel, chat_model
from plait.models.endpoint import default_endpoint, endpoint_of
from plait.models.profile_table import LOCAL, PROFILES
from plait.tools.aliases import clarify_tool, default_tools, kernel_options, rollback_tool, todo_tool
from plait.tools.dispatch import finished
from plait.tools.redaction import Redaction
from plait.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from plait.engine.purse import Purse
    from plait.tools.mcp.face import RunningServer


def build_runtime(
    config: Config,
    *,
    verbose: bool = False,
    session_id: str | None = None,
    approver: Approver | None = None,
    model: Model | None = None,
    mcp_servers: object = None,
    budget: Purse | None = None,
    memory: object | None = None,
    sandbox: object | None = None,
) -> tuple[Agent, NullTelemetry, tuple[object, ...]]:
    """Return `(agent, telemetry, mcp_clients)`: the kernel's tools over the working directory, one conversation.

    The agent's runs go on with each other. The caller closes the telemetry; what the tools hold goes with the agent.

    Args:
        verbose: traces hold arguments in full, but for their secrets.
        session_id: names the trace.
        approver: judges gated calls in place of a `CliApprover` with the configured policy.
        model: asked in place of the configured one.
        mcp_servers: MCP servers, see `plait.register_mcp_servers`; all of them begin, or none and an error is raised.
        sandbox: a `SandboxPolicy`, behind whose fence all tools are; or what `make_sandbox` returns, which runs `bash`
            and is closed by the caller.
        budget: a `BudgetGuard` of each run, or a `Budget` shared with others, beside what the configuration limits.

    Raises:
        ConfigError: no model is named, or something was asked for that is not available yet.
        MCPError: an MCP server cannot be started.
    """
    if memory:
        raise ConfigError("build_runtime(memory=…) is not available yet", hint="leave memory out")
    runner = sandbox_of(config, sandbox)
    asked = model or make_model(config)
    masks = Redaction(held=lambda: keys_of(asked))
    redaction = masks if config.redact_tool_output else None
    telemetry = NullTelemetry(session_id)
    if config.log_dir is not None:
        telemetry = JsonlTelemetry(config.log_dir, asked.name, session_id=session_id, verbose=verbose, redact=masks)
    options = replace(kernel_options(config.max_tool_result_tokens), redaction=redaction)
    options = fenced_options(options, sandbox, config)
    toolbox = Toolbox(config.working_dir, options)
    registry = ToolRegistry()
    for tool in (*in_sandbox(default_tools(toolbox), runner, options), *_wanted_tools(config, toolbox)):
        registry.register(tool)
    _with_plugins(registry, config, toolbox)
    clients = _with_servers(registry, mcp_servers, config, toolbox)
    agent = Agent(
        _summarized(asked, config.summarizer_model),
        registry,
        approver=approver or _approver(config, asked),
        limits=replace(limits_of(config), budget=budget),
        context=ContextManager(keep_recent_turns=config.keep_recent_turns),
        plan_mode=config.plan_mode,
        redact=redaction or False,
        on_event=telemetry.handle,
        rules=Rules(shrinking=_shrinking(config, asked)),
        token_counter=config.token_counter,
    )
    if config.profile is not None:
        folders = () if config.profile_dir is None else (config.profile_dir,)
        agent._profile = profile_of(config.profile, config.working_dir, more=folders)
    weakref.finalize(agent, toolbox.close)
    closed_with(agent, runner, sandbox)
    return agent, telemetry, clients


def _approver(config: Config, asked: Model) -> CliApprover:
    """Return the approver of a configuration; one with a judge where its policy has one."""
    judge = None
    if config.approval_policy == "smart":
        from plait.engine.risk_judge import RiskJudge  # most agents have none

        own = config.approval_judge_model
        judge = RiskJudge(asked if own is None else make_model(replace(config, model=own)))
    return CliApprover(config.approval_policy, allowlist=config.approval_allowlist, risk_judge=judge)


def _shrinking(config: Config, model: Model) -> Shrinking:
    """Return when and how history is summarised: what is left of the window when an answer has its room."""
    window = model.context_window
    trigger = None
    if window is not None:
        # A window of which the reserve would leave next to nothing is a small one: half of it is history's.
        left = window - config.output_reserve
        trigger = min(TRIGGER_TOKENS, left if left >= window // 8 else window // 2)
    # A summary that kept nothing would take the last step from a turn that is in the middle of it.
    return Shrinking(keep_last_units=max(1, config.keep_recent_turns), trigger_tokens=trigger)


def _summarized(model: Model, name: str | None) -> Model:
    if name is None or name == model.name:
        return model
    from plait.engine.summarizer import Summarized  # most agents write their own summaries

    return Summarized(model, same_endpoint(model, name))


def _with_servers(
    registry: ToolRegistry, servers: object, config: Config, toolbox: Toolbox
) -> tuple[RunningServer, ...]:
    """Begin MCP servers and put their tools into the registry, each under its own name where nobody else has it."""
    if not servers:
        return ()
    from plait.tools.mcp.answers import Bounds  # most agents have no servers
    from plait.tools.mcp.face import registered, started_servers
    from plait.tools.mcp.servers import ServersOptions

    options = ServersOptions(
        log_dir=config.mcp_log_dir,
        bounds=Bounds(toolbox.options.result_tokens_max * CHARS_PER_TOKEN, toolbox.spill),
        has_bare_names=True,
        check=compile_schema,
    )
    try:
        started = started_servers(servers, options)
        return registered(registry, started)
    except BaseException:
        toolbox.close()
        raise


def _wanted_tools(config: Config, toolbox: Toolbox) -> list[Tool]:
    """Return the tools that are there only where the configuration asks for them, in registration order."""
    wanted: list[Tool] = []
    if config.checkpoints:
        toolbox.keep_checkpoints()
        wanted.append(rollback_tool(toolbox))
    if config.enable_todo:
        wanted.append(todo_tool(toolbox))
    if config.enable_clarify:
        wanted.append(clarify_tool(toolbox))
    return wanted


def _with_plugins(registry: ToolRegistry, config: Config, toolbox: Toolbox) -> None:
    """Put the tools of plugins into the registry; what is left out is warned of."""
    if not config.enable_plugins:
        return
    from plait.engine.trusting import vouched  # most agents have no plugins
    from plait.tools.plugins import load_plugins

    more = () if config.plugins_dir is None else (config.plugins_dir,)
    taken = [tool.name for tool in registry]
    is_trusted = vouched(toolbox.root, None).is_trusted
    found = load_plugins(os.environ, toolbox.root, taken=taken, more=more, is_trusted=is_trusted)
    for notice in found.notices:
        warnings.warn(notice, stacklevel=3)
    for tool in found.tools:
        try:
            registry.register(tool)
        except ValueError as error:
            warnings.warn(f"a tool of a plugin is skipped: {error}", stacklevel=3)


def make_model(config: Config) -> ChatModel:
    """Return the configured model; no request is made and no key is needed yet.

    Raises:
        ConfigError: no model is named, or the provider is unknown.
    """
    if not config.model:
        raise ConfigError("no model is configured", hint="set Config(provider=…, model=…)")
    names = [profile.name for profile in (*PROFILES, LOCAL)]
    if config.provider and config.provider not in names:
        near = difflib.get_close_matches(config.provider, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the providers are {', '.join(names)}"
        raise ConfigError(f"no provider is called {config.provider!r}", hint=hint)
    at = endpoint_of(config.base_url or config.provider or default_endpoint(os.environ))
    streams = config.stream and at.profile.streams
    images = config.local_supports_images if config.provider == LOCAL.name else None
    return chat_model(config.model, at.with_profile(replace(at.profile, streams=streams)), supports_images=images)


def limits_of(config: Config) -> Limits:
    """Return a run's ceilings as configured."""
    return Limits(
        max_steps=config.max_iterations,
        max_output_tokens=config.max_output_tokens,
        max_tool_result_tokens=config.max_tool_result_tokens,
        tool_concurrency=config.tool_concurrency,
        max_cost=None if config.max_cost_usd is None else Decimal(str(config.max_cost_usd)),
        max_input_tokens=config.max_input_tokens_per_run,
        currency="USD",
    )


def ToolSpec(  # noqa: N802 -- a class where programs know it from
    name: str,
    description: str,
    parameters: Mapping[str, object],
    handler: Callable[[dict[str, Any]], Any],
    *,
    requires_approval: bool = False,
    mutates: bool = False,
    runs_code: bool = False,
    category: str = "general",
    **more: Any,
) -> Tool:
    """Return a tool whose `handler` gets its arguments as one dict; `more` are further fields of `Tool`."""

    def call(**arguments: Any) -> Any:
        return handler(arguments)

    async def acall(**arguments: Any) -> Any:
        return await handler(arguments)

    fn = acall if inspect.iscoroutinefunction(handler) else call
    return Tool(
        name,
        description,
        fn,
        parameters,
        mutates=mutates,
        runs_code=runs_code,
        requires_approval=requires_approval,
        category=category,
        **more,
    )


class ToolRegistry:
    """Tools by name, in registration order; what an `Agent` takes as its tools."""

    def __init__(self) -> None:
        self._table = ToolTable(compile=compile_schema)

    def register(self, tool: Tool) -> None:
        """Take a tool in; raise `ValueError` for a name that is taken or a schema that is none."""
        self._table.add(tool)

    def spec(self, name: str) -> Tool | None:
        """Return the tool of this name."""
        return self._table.get(name)

    def specs(self) -> list[Tool]:
        """Return all tools."""
        return list(self._table)

    def validate(self, call: ToolCall) -> str | None:
        """Return why a call cannot run, or None."""
        problem = self._table.check(call)
        return None if problem is None else problem.content

    def execute(self, call: ToolCall) -> ToolResult:
        """Run a call in this thread, unasked, and return its result; what goes wrong is the result."""
        problem = self._table.check(call)
        tool = self._table.get(call.name)
        if problem is not None or tool is None:
            assert problem is not None
            return problem
        whole = Finishing(result_tokens_max=0)
        try:
            value = tool.fn(**keywords(tool, call, whole, Cancel()))
            return result_of(call, finished(value) if inspect.isawaitable(value) else value, whole)
        except Exception as error:  # boundary: a tool's failure is its result
            return failure_of(call, error, whole)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)
