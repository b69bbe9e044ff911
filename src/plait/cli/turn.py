"""The one turn of a run, through the session face.

Floor: 7. Owns: the session that a run opens; never: how it is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plait.cli.approving import RunApprover
from plait.cli.outcome import Outcome
from plait.cli.terminal import Terminal
from plait.core.errors import UnsupportedFeature
from plait.core.messages import Image
from plait.engine.limits import Limits
from plait.engine.spec import AgentSpec, load_specification, model_of
from plait.engine.spec_entry import apply_entry
from plait.kernel.rules import Retry
from plait.models.endpoint import shown_address
from plait.models.openai_client import OpenAI
from plait.models.profile_table import LOCAL
from plait.session.clients import create_client
from plait.session.opening import init_session
from plait.session.pricing import check_price, has_limits
from plait.session.turns import run_turn
from plait.tools import definitions
from plait.tools.spec import schema_entry

if TYPE_CHECKING:
    from plait.cli.choosing import Choice
    from plait.cli.running import RunOptions
    from plait.cli.screen import Screen
    from plait.core.cancel import Cancel
    from plait.events.named import EventCallback, NamedEvent
    from plait.kernel.ports import Model
    from plait.models.subprocess_client import SubprocessOpenAI
    from plait.session.session import Session


@dataclass(frozen=True, slots=True)
class Work:
    """A run that may begin."""

    options: RunOptions
    choice: Choice
    images: Sequence[Image]
    cancel: Cancel
    screen: Screen


def carry_out(work: Work) -> Outcome:
    """Open a session, run the task as its one turn, close it.

    Raises:
        PlaitError: the spec, the endpoint or a picture cannot be used.
    """
    spec = _spec(work)
    person = Terminal() if Terminal.is_there() and not work.options.yes else None
    approver = RunApprover(
        cancel=work.cancel,
        leads=lambda call: session.leads(call),
        person=person,
        says_yes=work.options.yes,
        before_asking=work.screen.settle,
    )
    with (
        create_client(spec) as client,
        init_session(
            spec,
            approver=approver,
            on_event=_shown_by(work.screen),
            limits=Limits(max_steps=work.options.max_steps),
            retry=Retry(attempts_max=work.options.retries + 1),
            outside="read_outside" if work.options.yes or person else "cli",
            non_interactive=person is None,
        ) as session,
    ):
        price = check_price(spec, client) if has_limits(spec) else None
        # Only now: what follows is no complaint about the options.
        work.screen.add(work.options.introduction + _opening(work, session))
        if price is not None:
            work.screen.add(str(price))
        return _turn(work, session, client, approver)


def _opening(work: Work, session: Session) -> str:
    """Return what is about to be asked, as one line."""
    options, reason = work.options, work.choice.reason
    what = " at ".join(filter(None, (session["model"], shown_address(session["endpoint"]))))
    entry = f"{options.inference_db} of your endpoints" if options.inference_db else ""
    spec = f"the spec {options.spec}" if options.spec else ""
    return f"plait: {', '.join(filter(None, (what, entry, spec)))}{f' ({reason})' if reason else ''}"


def _turn(work: Work, session: Session, client: OpenAI | SubprocessOpenAI, approver: RunApprover) -> Outcome:
    asked: object = client
    task: str | None = work.options.task
    if work.images:
        asked = _seeing(client, session) if isinstance(client, OpenAI) else client
        session["messages"].append({"role": "user", "content": _with_images(task or "", work.images)})
        task = None
    result = run_turn(asked, session["model"], session, task, cancel=work.cancel)
    return Outcome(
        result.status,
        result.final_reply,
        result.error,
        result.session_id,
        result.steps,
        result.turn_usage,
        denials=approver.denials,
    )


def _spec(work: Work) -> AgentSpec:
    """Return the spec of the run: the file that was named, else all built-in tools with the chosen model."""
    choice, entry = work.choice, work.options.inference_db
    if work.options.spec:
        spec = load_specification(choice.model, choice.endpoint, work.options.spec)
        spec.update(_given(model=choice.model, endpoint=choice.endpoint))
        model_of(spec)
    else:
        # Never a file that happens to lie in the folder: a repository does not choose where its reader's key goes.
        shown = [schema_entry(known.tool(_nothing)) for known in definitions.BUILT_IN]
        spec = AgentSpec({"model": choice.model, "endpoint": choice.endpoint, "tool_specs": shown})
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


def _nothing() -> None:
    """Stand for the function of a tool of which only the description is wanted."""


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


def _with_images(task: str, images: Sequence[Image]) -> list[dict[str, object]]:
    pictures: list[dict[str, object]] = [
        {"type": "image_url", "image_url": {"url": image.as_data_uri()}} for image in images
    ]
    return [{"type": "text", "text": task}, *pictures]
