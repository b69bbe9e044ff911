"""The six senses of an agent: which are on, and what a model is told of them once and for all.

Floor: 3. Owns: names, defaults, the standing explanations, the lines that go with results and tasks; never: a reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from plait.context.durations import duration, iso
from plait.context.sections import Section
from plait.core.asides import SESSION_TIME
from plait.core.errors import ConfigError
from plait.core.values import dataclass

NAMES: Final = ("user", "system", "git", "time", "token", "change")
VARIABLE: Final = "PLAIT_AWARENESS"
"""Says which senses are on where neither the caller nor the spec does."""
DEFAULT_REMINDER_TOKENS: Final = 6_144
DEFAULT_BUDGET_TOKENS: Final = 100_000
"""Where neither a budget nor a window is known: what a compaction would begin at."""
_OF_TOKENS: Final = ("budget_tokens", "reminder_tokens", "update_every")

_TIME: Final = (
    "You are told of time. A line <session_time> under a message says how long the session has lasted, how long the "
    "last tool took and how long ago the message before was sent. <tool_time> under a tool's result says when the tool "
    "began and ended. Both are written by the program that runs you, not by the user."
)
_TOKENS: Final = (
    "<budget:token_budget>{budget}</budget:token_budget>\n"
    "That many tokens of conversation fit. <system_warning> lines under tool results say how many are used. Do not "
    "stop early because of them: when room runs out, older messages are replaced by a summary and you go on."
)
_REMINDER: Final = (
    "<context_window_reminder>Little room is left ({remaining} tokens). Write down now, in your next answer or in a "
    "file, what is done, what you found out and what comes next, so that the work survives a summary."
    "</context_window_reminder>"
)
_CHANGES: Final = (
    "When files or the git branch were changed by somebody else since your last turn, a <ground_moved> note under the "
    "next message says so. Read such a file again before you change it. Your own changes are not noted, but for those "
    "of background jobs."
)
_RESULT_TIME: Final = '<tool_time start="{start}" end="{end}" duration="{took}" />'


@dataclass(frozen=True, slots=True)
class Senses:
    """What a session's model is told beside its task."""

    user: bool = False
    system: bool = False
    git: bool = False
    time: bool = False
    token: bool = False
    change: bool = False
    tool_timestamps: bool = True
    """Results are stamped; only where `time` is on."""
    budget_tokens: int = DEFAULT_BUDGET_TOKENS
    reminder_tokens: int = DEFAULT_REMINDER_TOKENS
    update_every: int = 1
    """Of so many answers one is followed by a count of the tokens."""

    @classmethod
    def of(cls, given: Mapping[str, Any], schema: Mapping[str, Any], *, bare: bool) -> Senses:
        """Return the senses that a caller wants, else the spec, else all of them; `bare` has none."""

        def asked(name: str, default: Any) -> Any:
            value = given.get(name)
            value = schema.get(name) if value is None else value
            return default if value is None else value

        window = schema.get("context_window")
        budget = window or asked("compaction_trigger_tokens", None) or DEFAULT_BUDGET_TOKENS
        return cls(
            **{name: not bare and bool(asked(f"{name}_awareness_enabled", True)) for name in NAMES},
            tool_timestamps=bool(asked("time_awareness_tool_timestamps", True)),
            budget_tokens=int(asked("token_awareness_budget_tokens", budget)),
            reminder_tokens=int(asked("token_awareness_reminder_tokens", DEFAULT_REMINDER_TOKENS)),
            update_every=max(1, int(asked("token_awareness_update_every", 1))),
        )

    @classmethod
    def told(cls, recorded: object) -> Senses:
        """Return the senses that a session recorded; none where it recorded none."""
        known = recorded if isinstance(recorded, Mapping) else {}
        fits: dict[str, Any] = {
            name: known[name]
            for name, kind in cls.__annotations__.items()
            if type(known.get(name)).__name__ == kind  # a bool is no count
        }
        return cls(**fits)

    def to_dict(self) -> dict[str, object]:
        """Return what is recorded of them."""
        return {name: getattr(self, name) for name in self.__annotations__}

    @property
    def keywords(self) -> dict[str, object]:
        """Return them by the keywords of `init_session`."""
        own = {f"{name}_awareness_enabled": getattr(self, name) for name in NAMES}
        tokens = {f"token_awareness_{name}": getattr(self, name) for name in _OF_TOKENS}
        return {**own, **tokens, "time_awareness_tool_timestamps": self.tool_timestamps}

    @property
    def status(self) -> dict[str, bool]:
        """Which are on, in the order of the checklist."""
        return {name: bool(getattr(self, name)) for name in NAMES}

    @property
    def stamps_results(self) -> bool:
        """True where results say when their call ran."""
        return self.time and self.tool_timestamps


def check_sense_options(options: Mapping[str, object]) -> None:
    """Raise `ConfigError` for a keyword of a sense whose value means nothing."""
    for name in Senses().keywords:
        value = options.get(name)
        if value is None:
            continue
        least = 0 if name == "token_awareness_reminder_tokens" else 1
        is_count = isinstance(value, int) and not isinstance(value, bool) and value >= least
        if name.startswith("token_awareness_") and not name.endswith("_enabled"):
            if not is_count:
                raise ConfigError(f"{name}={value!r} means nothing", hint=f"it is a whole number from {least}")
        elif not isinstance(value, bool):
            raise ConfigError(f"{name}={value!r} means nothing", hint="it is True or False")


def senses_wanted(environ: Mapping[str, str]) -> dict[str, object]:
    """Return what `PLAIT_AWARENESS` says, by the keywords of `init_session`: `off`, or the senses that are on.

    Raises:
        ConfigError: it names what is no sense.
    """
    text = environ.get(VARIABLE, "").strip()
    if not text:
        return {}
    wanted = [] if text.lower() == "off" else [word.strip().lower() for word in text.split(",") if word.strip()]
    if unknown := next((word for word in wanted if word not in NAMES), None):
        raise ConfigError(
            f"{VARIABLE}={text!r} names {unknown!r}, which is no sense", hint=f"off, or some of: {', '.join(NAMES)}"
        )
    return {f"{name}_awareness_enabled": name in wanted for name in NAMES}


def standing_sections(senses: Senses) -> tuple[Section, ...]:
    """Return what the prompt says of the senses: the same bytes for every session with the same ones."""
    texts = {
        "token": _TOKENS.format(budget=senses.budget_tokens) if senses.token else "",
        "time": _TIME if senses.time else "",
        "change": _CHANGES if senses.change else "",
    }
    return tuple(Section(f"{name} awareness", "stable", text) for name, text in texts.items() if text)


def attribution(model: str) -> str:
    """Return how work of the agent is signed where it leaves the machine."""
    return (
        "# Attribution\n\n"
        f"When you make a git commit, end its message with the line `Co-Authored-By: plait+{model} "
        "<noreply@plait.invalid>`. When you open a pull request, end its text with `Made with plait`. "
        "Leave either out where the user or the repository wants it so."
    )


def session_time(elapsed_s: float, last_tool_s: float | None, since_previous_s: float | None) -> str:
    """Return the line about time under a task."""
    since = duration(since_previous_s)
    return (
        f"{SESSION_TIME}session elapsed: {duration(elapsed_s)} · last tool: {duration(last_tool_s)} · "
        f"wall since your previous message: {since}</session_time>"
    )


def tool_time(start_ms: int, end_ms: int) -> str:
    """Return the line about time under a result."""
    return _RESULT_TIME.format(start=iso(start_ms), end=iso(end_ms), took=duration((end_ms - start_ms) / 1000))


def token_usage(used: int, budget: int) -> str:
    """Return the count of tokens under a result."""
    return f"<system_warning>Token usage: {used}/{budget}; {budget - used} remaining</system_warning>"


def reminder(remaining: int) -> str:
    """Return what asks for notes when little room is left."""
    return _REMINDER.format(remaining=max(0, remaining))
