"""The hooks of one session: at every moment of it, what they are told and what follows from what they say.

Floor: 5. Owns: moments, payloads, and what a no, a change or a context comes to; never: running a hook (`hooks`).

What hooks change becomes part of the conversation and stands in its facts: changed arguments in the start of a call, a
no and a context in its result, a prompt's context in the prompt, a put-off end in a message. So a resume or a replay
has it without asking a hook again.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from plait.core.cancel import Cancel
from plait.core.errors import PolicyError
from plait.core.events import Committed, Event, Notice
from plait.core.ids import new_id
from plait.core.messages import ToolCall, ToolResult, user
from plait.core.strict_json import dump
from plait.engine.called import called_of
from plait.engine.gates import Gate
from plait.engine.result import status_of
from plait.hooks.asking import HookSet
from plait.hooks.decision import HookDecision
from plait.hooks.names import Called
from plait.kernel.effects import NOTHING, Allow, Deny, End, Interrupted, Plan, Stop, Think
from plait.kernel.loop import reply_of
from plait.session.hooks.hooked import CONTEXT
from plait.session.hooks.news import Contexts, News
from plait.session.hooks.scratch import Scratch
from plait.session.hooks.terms import (
    DENIED,
    REJECTED,
    USER_DENIED,
    confirmed,
    is_compaction,
    is_question,
    long_wait,
    with_context,
)

if TYPE_CHECKING:
    from plait.kernel.tools import Tool
    from plait.session.live import Live
    from plait.session.session import Session


class SessionHooks:
    """Asks a session's hooks; its gates in the engine's sense (`engine.gates.Gates`)."""

    def __init__(self, session: Session, hooks: HookSet) -> None:
        self.hooks = hooks
        self.end_reason = "other"
        """Why the session ends, for its hooks."""
        self.transcript: str | None = None
        """Where the journal is, or will be."""
        self.recorded: Mapping[str, object] = {}
        """What the session has to say of its hooks when it begins."""
        self._session = weakref.ref(session)
        self._live: Live = session._live
        sensing = self._live.sensing
        self._scratch = Scratch() if sensing is None else sensing.scratch
        self._news = News(self._live.conversation.observers.publish)
        self._contexts = Contexts()
        self._prompt_id = ""
        self._stop: Stop | None = None
        self._refusal = ""
        self._has_put_off = False
        self._trigger = "auto"
        self._is_cleared = False
        """Hooks have agreed to the compaction that comes next."""
        self._has_compacted = False
        self._has_started = False
        self._live.conversation.observers.add(self._hear, Committed, Notice)

    # What a session does.

    def started(self, source: str) -> str:
        """Tell that the session begins; return what is to stand in its system prompt."""
        self._has_started = True
        said = self._ask("SessionStart", {"source": source}, [source], self._live.settings.opening_cancel)
        if said.is_stop:
            self._refusal = said.why
        self.tell()
        context = "\n\n".join(said.context)
        if source == "startup" and context:
            self.recorded = {CONTEXT: context}
        return context

    def ended(self, reason: str) -> None:
        """Tell that the conversation is over."""
        self._news.here()
        self._ask("SessionEnd", {"reason": reason}, [reason])
        self.tell()

    def close(self) -> None:
        """Tell that the session is over, and end what hooks have left running; may be called twice."""
        if self._has_started:
            self._has_started = False
            self.ended(self.end_reason)
        self.hooks.close()
        self._scratch.close()

    def queue(self, context: str) -> None:
        """Have a text go with the next prompt or result."""
        self._contexts.queue([context] if context else [])

    # What a turn does.

    def begin(self) -> None:
        """Begin a turn."""
        self._news.here()
        self._contexts.settle()
        self._prompt_id, self._stop, self._has_put_off = new_id("p"), None, False

    def submit(self, prompt: str, sender: Mapping[str, object] | None, cancel: Cancel) -> str:
        """Put a prompt before the hooks and return what goes with it.

        Raises:
            PolicyError: they reject it.
        """
        refusal, self._refusal = self._refusal, ""
        if not refusal:
            extra = {"prompt": prompt, "sender": dict(sender) if sender else {"kind": "human"}}
            said = self._ask("UserPromptSubmit", extra, cancel=cancel)
            refusal = said.why if said.says_no else ""
            self._contexts.queue(() if refusal else said.context)
        self.tell()
        if refusal:
            raise PolicyError(
                REJECTED.format(reason=refusal), hint="put the task differently, or run without hooks (--no-hooks)"
            )
        return "\n\n".join(self._contexts.take())

    def finish(self, end: End | None) -> None:
        """Take the end of a turn; None where it was cut short."""
        if end is None or status_of(end.reason) == "interrupted":
            self._ask("Interrupt", {"turn_id": self._prompt_id})
        self._contexts.settle()
        self.tell()

    def may_compact(self, trigger: str, cancel: Cancel | None = None) -> str:
        """Ask before a summary takes the place of history; return why it may not, empty for leave."""
        said = self._ask("PreCompact", {"trigger": trigger, "custom_instructions": ""}, [trigger], cancel)
        self._contexts.queue(said.context)
        self._trigger, self._is_cleared = trigger, not said.says_no
        self.tell()
        return said.why if said.says_no else ""

    def after_compaction(self, cancel: Cancel | None = None) -> None:
        """Tell of a compaction that was made since the last time."""
        if self._has_compacted:
            self._has_compacted = False
            said = self._ask("PostCompact", {"trigger": self._trigger}, [self._trigger], cancel)
            self._contexts.queue(said.context)
            self.tell()
        self._trigger, self._is_cleared = "auto", False

    def notify(self, kind: str, message: str) -> None:
        """Tell that somebody should look: nobody waits for these hooks."""
        if self.hooks.has("Notification"):
            extra = {"message": message, "notification_type": kind}
            self.hooks.tell("Notification", {**self._common(), **extra}, [kind])

    # The gates of a turn.

    def before(self, call: ToolCall, tool: Tool, cancel: Cancel) -> Gate:
        """Have hooks judge a call, and change it."""
        if is_question(tool):
            self.notify("elicitation_dialog", str(call.arguments.get("question", "")))
        if not self.hooks.has("PreToolUse"):
            return Gate(call)
        called = called_of(call, tool)
        said = self._ask("PreToolUse", called.payload(call.id), called.names, cancel)
        if said.decision == "deny":
            return Gate(call, "deny", with_context(DENIED.format(reason=said.why), said.context))
        self._contexts.keep(call.id, said.context)
        if said.updated_input is not None:
            call = _changed(call, called, said.updated_input)
        if said.decision == "ask" and self._live.settings.approver is None:
            return self._confirm(call, said)
        return Gate(call, said.decision, said.reason)

    def permission(self, call: ToolCall, tool: Tool, cancel: Cancel) -> Allow | Deny | None:
        """Have hooks answer before somebody is asked; where they do not, tell of the question."""
        if self.hooks.has("PermissionRequest"):
            called = called_of(call, tool)
            said = self._ask("PermissionRequest", called.payload(call.id), called.names, cancel)
            if said.says_no:
                return Deny(DENIED.format(reason=said.why))
            if said.decision == "allow":
                return Allow(call)
        session = self._session()
        if session is not None and not session["non_interactive"]:
            self.notify("permission_prompt", f"a call of {call.name!r} waits for your approval")
        return None

    def after(self, call: ToolCall, tool: Tool, result: ToolResult, cancel: Cancel) -> ToolResult:
        """Have hooks look at a result, change it, and add to it."""
        said = HookDecision()
        if self.hooks.has("PostToolUse"):
            called = called_of(call, tool)
            extra = {**called.payload(call.id), "tool_response": result.content}
            said = self._ask("PostToolUse", extra, called.names, cancel)
        if said.is_stop:
            self._stop = Stop("stopped", f"stopped by a PostToolUse hook: {said.why}")
        if said.decision == "deny":
            text = f"ERROR: PostToolUse hook rejected this tool result: {said.reason}"
            result = replace(result, content=text, is_error=True, status="error", images=())
        elif said.updated_output is not None:
            policy = self._live.policy
            result = replace(result, content=said.updated_output)
            result = result if policy is None else policy.finishing.apply(result)
        self._contexts.keep(call.id, said.context)
        contexts = self._contexts.take(call.id)
        return replace(result, content=with_context(result.content, contexts)) if contexts else result

    def before_think(self, ask: Think, cancel: Cancel) -> None:
        """Put a compaction that the loop makes of itself before the hooks; tell of one that was made."""
        if ask.purpose != "compaction":
            self.after_compaction(cancel)
            return
        why = "" if self._is_cleared else self.may_compact("auto", cancel)
        if why:
            self._news.say("compaction_skipped", reason=why)
            cause = PolicyError(
                f"the conversation does not fit the model, and a PreCompact hook keeps it from being shortened: {why}",
                hint="let the hook allow it, or choose a model with a larger window",
            )
            raise Interrupted("error") from cause

    def at_end(self, cancel: Cancel) -> Plan:
        """Have hooks put off the end of the turn, once."""
        if not self.hooks.has("Stop"):
            return NOTHING
        self._live.conversation.show()  # hooks read the transcript, which has to hold the answer
        extra = {
            "stop_hook_active": self._has_put_off,
            "last_assistant_message": reply_of(self._live.conversation.state),
        }
        said = self._ask("Stop", extra, cancel=cancel)
        self._contexts.queue(said.context)
        if said.is_stop or said.decision != "deny" or self._has_put_off:
            return NOTHING
        self._has_put_off = True
        return Plan(inject=(user(with_context(said.why, self._contexts.take())),))

    def stop(self) -> Stop | None:
        """Return the end of the turn that a hook wants."""
        return self._stop

    def tell(self) -> None:
        """Tell the observers what there is to tell, in the turn's thread."""
        for entry, said in self.hooks.take_later():
            self._news.note(entry, said)
            self._contexts.queue(said.context)
        self._news.tell()

    def _ask(
        self, event: str, extra: Mapping[str, Any], values: Iterable[str] = (), cancel: Cancel | None = None
    ) -> HookDecision:
        if not self.hooks.has(event):
            return HookDecision()
        answer = self.hooks.ask(event, {**self._common(), **extra}, values, cancel, self._news.begins)
        for entry, said in answer.parts:
            self._news.note(entry, said)
        return answer.decision

    def _confirm(self, call: ToolCall, said: HookDecision) -> Gate:
        """Ask the user where there is no approver but somebody who answers questions."""
        live, session = self._live, self._session()
        if session is None or session["non_interactive"] or live.toolbox.options.ask_user is None:
            return Gate(call, "ask", said.reason)
        is_yes = confirmed(live.toolbox.options.ask_user, call, said.reason)
        return Gate(call, "allow") if is_yes else Gate(call, "deny", USER_DENIED)

    def _common(self) -> dict[str, Any]:
        session, live = self._session(), self._live
        values: Mapping[str, Any] = {} if session is None else session
        journal = live.log.journal
        return {
            "session_id": live.conversation.id,
            "transcript_path": self.transcript if journal is None else str(journal.path),
            "cwd": live.standing.cwd,
            "model": values.get("model", ""),
            "permission_mode": "dontAsk" if values.get("non_interactive") else "default",
            "scratchpad_dir": self._scratch.folder(),
            "prompt_id": self._prompt_id,
            "turn_id": self._prompt_id,
        }

    def _hear(self, event: Event) -> None:
        """Notice a compaction, and a wait that somebody should know of."""
        if is_compaction(event):
            self._has_compacted = True
        elif words := long_wait(event):
            self.notify("long_wait", words)


def _changed(call: ToolCall, called: Called, updated: Mapping[str, object]) -> ToolCall:
    """Return a call with the arguments that a hook gave it."""
    arguments = called.merged(updated)
    if call.custom:
        return replace(call, raw=str(arguments.get("input", "")))
    return call if arguments == call.arguments else replace(call, raw=dump(arguments))
