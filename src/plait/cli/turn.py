"""The one turn of a run, through the session face.

Floor: 7. Owns: the session that a run opens; never: how it is shown.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING, Any

from plait.cli.approving import RunApprover
from plait.cli.awareness_flags import senses_given
from plait.cli.configured import with_fields
from plait.cli.folder import nothing_begun
from plait.cli.limit_flags import limits_given
from plait.cli.mcp_config import servers_for_run
from plait.cli.outcome import Outcome
from plait.cli.permission_flags import given_rules
from plait.cli.run_options import DEFAULT_RETRIES
from plait.cli.sandboxing import confinement_for, hearing, missing_words, outcome_of
from plait.cli.specs import built_in_spec
from plait.cli.terminal import Terminal
from plait.core.errors import ConfigError, JournalError, SessionBusy, UnsupportedFeature
from plait.core.messages import Image
from plait.core.values import dataclass
from plait.engine.agent_spec import AgentSpec, model_of
from plait.engine.spec import load_specification
from plait.engine.spec_entry import apply_entry
from plait.kernel.rules import Retry
from plait.models.endpoint import shown_address
from plait.models.openai_client import OpenAI
from plait.models.profile_table import LOCAL
from plait.session.clients import create_client
from plait.session.opening import init_session
from plait.session.result import SessionResult
from plait.session.spec_terms import has_limits
from plait.session.turns import run_turn
from plait.tools.background_specs import enable_nohup

if TYPE_CHECKING:
    from plait.cli.choosing import Choice
    from plait.cli.continuing import Going
    from plait.cli.run_options import RunOptions
    from plait.cli.screen import Screen
    from plait.core.cancel import Cancel
    from plait.events.named import EventCallback, NamedEvent
    from plait.kernel.ports import Model
    from plait.models.subprocess_client import SubprocessOpenAI
    from plait.session.session import Session
    from plait.tools.plugins import Plugins


@dataclass(frozen=True, slots=True)
class Work:
    """A run that may begin."""

    options: RunOptions
    choice: Choice
    images: Sequence[Image]
    cancel: Cancel
    screen: Screen
    begun: Event
    """Set once there is something that a stop has to close."""
    going: Going | None = None
    """The kept session that goes on."""
    schema: Mapping[str, object] | None = None
    """What the answer has to be, where that is more than text."""


def carry_out(work: Work) -> Outcome:
    """Open a session, run the task as its one turn, close it.

    Raises:
        PlaitError: the spec, the endpoint or a picture cannot be used.
    """
    spec, options = spec_of(work.options, work.choice), work.options
    bound, resumed_from = _place(work, spec)
    plugins = _plugins(options, bound)
    servers = () if options.is_show else servers_for_run(options.mcp_files, os.environ)
    hooks = _hooks(options.hooks)
    person = Terminal() if Terminal.is_there() and not work.options.yes else None

    def unfenced(reason: str) -> None:
        assert confinement.late is not None, "it was asked for a fence"
        words = missing_words(confinement.late, reason, says_yes=options.yes, is_asked=person is not None)
        work.screen.warn(words)

    confinement = confinement_for(options, unfenced, work.screen.warn)
    work.begun.set()
    approver = RunApprover(
        cancel=work.cancel,
        ground=lambda: session,
        person=person,
        says_yes=work.options.yes,
        before_asking=work.screen.settle,
        tell=work.screen.add,
    )
    with (
        create_client(bound) as client,
        init_session(
            spec,
            # A session that goes on begins its requests as it did: a type of this turn's own brings no tool.
            output_type=work.schema if work.going is None else None,
            approver=approver,
            on_event=hearing(confinement, approver.denials, _shown_by(work.screen)),
            **limits_given(options, spec),
            strict_cache_proof="auto" if options.strict_cache_proof is None else options.strict_cache_proof,
            min_cacheable_tokens=options.min_cacheable_tokens,
            cache_ttl_seconds=options.cache_ttl_s,
            retry=Retry(attempts_max=(DEFAULT_RETRIES if options.retries is None else options.retries) + 1),
            outside="read_outside" if work.options.yes else "cli",
            non_interactive=person is None,
            durable=options.durable,
            session_id=options.session if resumed_from is None else None,
            resumed_from=resumed_from,
            mcp_servers=servers,
            tools=() if plugins is None else plugins.tools,
            hooks=hooks,
            opening_cancel=work.cancel,
            hooks_enabled=False if options.no_hooks or options.is_show else None,
            trust=False if options.is_show else None,
            sandbox=confinement,
            permissions=given_rules(options.allow, options.ask, options.deny),
            profile=options.profile,
            system_prompt_supplement=options.supplement,
            **senses_given(options.bare, options.without),
        ) as session,
    ):
        price = _price(bound, client)
        # Only now: what follows is no complaint about the options.
        work.screen.add(work.options.introduction + _opening(work, session))
        told = (*options.notices, *(() if price is None else (price,)), *(() if plugins is None else plugins.notices))
        for notice in told:
            work.screen.add(notice)
        if confinement.late is not None and (rule := session.rule_about_files):
            work.screen.add(f"plait: commands are asked for in the sandbox too: one could get around {rule}")
        outcome = _turn(work, session, client, approver)
        return replace(outcome, sandbox=outcome_of(confinement))


def _place(work: Work, spec: AgentSpec) -> tuple[Mapping[str, Any], str | None]:
    """Return the spec on the terms of the session that goes on, and where that session is."""
    if work.going is None:
        return spec, None
    from plait.cli.continuing import bound_to  # most runs begin anew

    return bound_to(work.options, work.going, spec)


def _hooks(paths: Sequence[str]) -> list[str]:
    """Return the sources of hooks that the command line names."""
    if not paths:
        return []
    from plait.cli.hooks_command import named_hooks  # most runs name none

    return named_hooks(paths)


def _plugins(options: RunOptions, spec: Mapping[str, Any]) -> Plugins | None:
    if not options.has_plugins or options.is_show:
        return None
    from plait.cli.plugins import plugins_for_run  # only where they are wanted

    return plugins_for_run(spec)


def _price(spec: Mapping[str, Any], client: OpenAI | SubprocessOpenAI) -> str | None:
    """Return what the model costs, where the spec limits that; raise `PricingLimitExceededError` for too much."""
    if not has_limits(spec):
        return None
    from plait.session.pricing import check_price  # most specs set no limit

    return str(check_price(spec, client))


def _opening(work: Work, session: Session) -> str:
    """Return what is about to be asked, as one line."""
    options, reason = work.options, work.choice.reason
    what = " at ".join(filter(None, (session["model"], shown_address(session["endpoint"]))))
    entry = f"{options.inference_db} of your endpoints" if options.inference_db else ""
    spec = f"the spec {options.spec}" if options.spec else ""
    return f"plait: {', '.join(filter(None, (what, entry, spec)))}{f' ({reason})' if reason else ''}"


def _turn(work: Work, session: Session, client: OpenAI | SubprocessOpenAI, approver: RunApprover) -> Outcome:
    asked: object = client
    task = work.options.task
    if task is None and not session.is_unfinished:
        raise ConfigError(
            f"the last turn of {session['session_id']!r} has ended: nothing is left to finish",
            hint=f'say what to do next: plait resume {session["session_id"]} "..."',
        )
    if work.images:
        asked, task = _seeing(client, session) if isinstance(client, OpenAI) else client, task or ""
    output_type = None if work.going is None else work.schema
    try:
        result: SessionResult[Any] = run_turn(
            asked, session["model"], session, task, output_type=output_type, images=work.images, cancel=work.cancel
        )
    except JournalError as error:
        if session.kept_in is not None:
            error.hint = f"{error.hint}; then: {_again(session)}"
        elif not isinstance(error, SessionBusy):
            error.hint = f"{error.hint}; --no-durable does without a journal"
            with nothing_begun():
                raise
        raise
    return Outcome(
        result.status,
        # A prompt that hooks rejected has their words in the place of an answer, and an error that says so.
        result.final_reply if result.status == "completed" else None,
        result.error,
        result.session_id,
        result.steps,
        result.turn_usage,
        denials=approver.denials,
        structured=None if work.schema is None or result.status != "completed" else result.output,
        again=_again(session),
    )


def _again(session: Session) -> str:
    """Return the command that goes on with the session; nothing where nothing is kept."""
    if session.kept_in is None:
        return ""
    from plait.cli.continuing import hint_for

    return hint_for(session.kept_in)


def spec_of(options: RunOptions, choice: Choice) -> AgentSpec:
    """Return the spec of the run: the file that was named, else all built-in tools with the chosen model."""
    entry = options.inference_db
    if options.spec:
        spec = load_specification(choice.model, choice.endpoint, options.spec)
        spec.update(_given(model=choice.model, endpoint=choice.endpoint))
        model_of(spec)
    else:
        spec = built_in_spec(choice.model, choice.endpoint)
    with_fields(spec, options.fields)
    if options.nohup:
        enable_nohup(spec)
    if choice.key_env:
        _replace(spec, ("auth", "keyring_service", "keyring_username"), key_env=choice.key_env)
    if entry or choice.endpoint:
        _replace(spec, ("inference_db", "command", "command_env", "command_timeout"))
    return apply_entry(spec, entry) if entry else spec


def _replace(spec: AgentSpec, names: Iterable[str], **fields: object) -> None:
    """Let a flag take the place of what the spec says by other fields."""
    for name in names:
        spec.pop(name, None)
    spec.update(fields)


def _given(**fields: str | None) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value}


def _shown_by(screen: Screen) -> EventCallback:
    def show(_name: str, event: NamedEvent) -> None:
        screen.view.show(event)

    return show


def _seeing(client: OpenAI, session: Session) -> Model:
    """Return the model as one that is shown pictures.

    A server of the user's own, of which nothing is known, is believed to see what its user shows it.
    """
    model = client.as_model(session["model"])
    if not model.supports_images and model.profile.name not in ("", LOCAL.name):
        raise UnsupportedFeature(
            f"the model {model.name!r} takes no images", hint="leave --image out, or choose a model with vision"
        )
    return client.as_model(model.name, context_window=model.context_window, supports_images=True)
