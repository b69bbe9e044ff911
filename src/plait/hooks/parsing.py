"""The shape of hooks in a file or a dict: events, groups with a matcher, hooks in them.

Floor: 3. Owns: reading that shape of either dialect, and what is wrong with it to the place; never: a file.

    {"hooks": {EVENT: [{"matcher": "Bash|Edit", "hooks": [{"type": "command", "command": "guard.sh", "timeout": 30}]}]}}

What cannot be meant is an error: a file of hooks that is half understood would be a guard that nobody knows to be gone.
What belongs to other programs (their events, their kinds of hooks) is left out with a warning.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn

from plait.core.errors import ConfigError
from plait.core.strict_json import json_type
from plait.hooks.entry import HookEntry
from plait.hooks.events import EVENTS
from plait.hooks.matching import fault_of

_OTHER_KINDS: Final = ("prompt", "agent", "mcp_tool", "http")
_ASYNC_KEYS: Final = ("async", "asyncTimeout", "asyncRewake")
_TIMEOUTS: Final = ("timeout", "timeoutSec", "timeout_s")
_OF_GROUPS: Final = ("matcher", "hooks", "description")
_KNOWN: Final = frozenset(
    {
        *("type", "command", "args", "statusMessage", "additionalContextLimit", "commandWindows", "command_windows"),
        *("onError", "fn", *_ASYNC_KEYS, *_TIMEOUTS),
    }
)


class Parsing:
    """Reads hooks from data of one source; `warnings` fills up on the way."""

    def __init__(self, source: str, warnings: list[str]) -> None:
        self._source = source
        self._warnings = warnings

    def entries(self, data: object, *, is_settings: bool = False) -> list[HookEntry]:
        """Return the hooks of a source, in its order.

        Args:
            is_settings: the hooks are one key of many; without it there are none.

        Raises:
            ConfigError: the shape is wrong; names the place.
        """
        if not isinstance(data, Mapping):
            self._refuse("", f"is {json_type(data)}", "it is an object of events")
        if is_settings and data.get("disableAllHooks") is True:
            self._warn("disableAllHooks", "all hooks of this file are off")
            return []
        if "hooks" in data:
            return list(self._events(data["hooks"], "hooks"))
        return [] if is_settings else list(self._events(data, ""))

    def _events(self, events: object, at: str) -> Iterator[HookEntry]:
        if not isinstance(events, Mapping):
            self._refuse(at, f"is {json_type(events)}", "it is an object of events")
        for event, groups in events.items():
            place = f"{at}.{event}" if at else str(event)
            if groups is not None and not isinstance(groups, (list, tuple)):
                self._refuse(place, f"is {json_type(groups)}", "it is a list of groups, each with its hooks")
            if event not in EVENTS:
                near = difflib.get_close_matches(str(event), EVENTS, n=1)
                advice = f"; did you mean {near[0]!r}?" if near else ""
                if _has_gate(groups):
                    self._refuse(place, f"is no event{advice}", "a hook that has to agree needs one")
                self._warn(place, f"no event is called {event!r} here, so its hooks are left out{advice}")
                continue
            for index, group in enumerate(groups or ()):
                yield from self._group(event, group, f"{place}[{index}]")

    def _group(self, event: str, group: object, at: str) -> Iterator[HookEntry]:
        if not isinstance(group, Mapping):
            self._refuse(at, f"is {_kind(group)}", "it is an object with 'hooks', and 'matcher' where it has one")
        for name in group:
            if name not in _OF_GROUPS:
                self._warn(at, f"{name!r} means nothing here{_nearest(str(name), _OF_GROUPS)}")
        matcher = group.get("matcher")
        if matcher is not None and not isinstance(matcher, str):
            self._refuse(f"{at}.matcher", f"is {json_type(matcher)}", "it is a text")
        hooks = group.get("hooks")
        if not isinstance(hooks, (list, tuple)):
            self._refuse(f"{at}.hooks", f"is {_kind(hooks)}", "it is a list of hooks")
        fault = fault_of(matcher or "")
        if fault is not None:
            self._warn(f"{at}.matcher", f"{matcher!r} is no regular expression ({fault}), so it matches nothing")
        for index, hook in enumerate(hooks):
            entry = self._hook(event, matcher or "", hook, f"{at}.hooks[{index}]")
            if entry is None:
                continue
            if fault is not None and entry.on_error == "deny":
                self._refuse(
                    f"{at}.matcher", "is no regular expression", f"a hook that has to agree needs one: {fault}"
                )
            yield entry

    def _hook(self, event: str, matcher: str, hook: object, at: str) -> HookEntry | None:
        where = f"{self._source}: {at}" if self._source else at
        if callable(hook):
            return HookEntry(event, matcher, fn=hook, source=where)
        if not isinstance(hook, Mapping):
            self._refuse(at, f"is {json_type(hook)}", "it is an object with a 'command'")
        on_error = self._choice(hook, "onError", ("deny", "ignore"), at)
        kind = self._text(hook, "type", at) or "command"
        if kind in _OTHER_KINDS:
            if on_error == "deny":
                self._refuse(f"{at}.type", f"is {kind!r}", "a hook that has to agree must be a command")
            self._warn(at, f"hooks of the type {kind!r} are left out")
            return None
        if kind != "command":
            self._refuse(f"{at}.type", f"is {kind!r}", "it is 'command'")
        for name in hook:
            if name not in _KNOWN:
                self._warn(at, f"{name!r} means nothing here{_nearest(str(name), _KNOWN)}")
        is_async = self._flag(hook, "async", at)
        if is_async and on_error == "deny":
            self._refuse(f"{at}.onError", "is 'deny'", "nobody waits for an async hook, so it cannot have to agree")
        fn = hook.get("fn")
        if fn is not None and not callable(fn):
            self._refuse(f"{at}.fn", "cannot be called", "it is a function")
        command = self._command(hook, at)
        if (fn is None) == (command is None):
            self._refuse(at, "has no command" if fn is None else "has a command and a function", "it has one of them")
        return HookEntry(
            event,
            matcher,
            command,
            self._args(hook, at),
            fn,
            self._seconds(hook, at),
            is_async,
            self._text(hook, "statusMessage", at) or "",
            self._count(hook, "additionalContextLimit", at),
            "deny" if on_error == "deny" else "ignore",
            where,
        )

    def _command(self, hook: Mapping[str, Any], at: str) -> str | None:
        names = ("commandWindows", "command_windows", "command") if os.name == "nt" else ("command",)
        command = next((text for name in names if (text := self._text(hook, name, at)) is not None), None)
        if command is not None and not command.strip():
            self._refuse(f"{at}.command", "is empty", "name a program")
        if command is not None and "\0" in command:
            self._refuse(f"{at}.command", "has a NUL character", "leave it out")
        return command

    def _args(self, hook: Mapping[str, Any], at: str) -> tuple[str, ...] | None:
        args = hook.get("args")
        if args is None:
            return None
        if not isinstance(args, (list, tuple)) or not all(isinstance(arg, str) and "\0" not in arg for arg in args):
            self._refuse(f"{at}.args", f"is {json_type(args)}", "it is a list of texts")
        return tuple(args)

    def _seconds(self, hook: Mapping[str, Any], at: str) -> float | None:
        for name in _TIMEOUTS:
            value = hook.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
                self._refuse(f"{at}.{name}", f"is {value!r}", "it is a number of seconds; 0 is as long as any may take")
            return float(value)
        return None

    def _count(self, hook: Mapping[str, Any], name: str, at: str) -> int | None:
        value = hook.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            self._refuse(f"{at}.{name}", f"is {value!r}", "it is a number of characters")
        return value

    def _flag(self, hook: Mapping[str, Any], name: str, at: str) -> bool:
        value = hook.get(name)
        if value is not None and not isinstance(value, bool):
            self._refuse(f"{at}.{name}", f"is {json_type(value)}", "it is true or false")
        return value is True

    def _text(self, hook: Mapping[str, Any], name: str, at: str) -> str | None:
        value = hook.get(name)
        if value is not None and not isinstance(value, str):
            self._refuse(f"{at}.{name}", f"is {json_type(value)}", "it is a text")
        return value

    def _choice(self, hook: Mapping[str, Any], name: str, among: tuple[str, ...], at: str) -> str | None:
        value = self._text(hook, name, at)
        if value is not None and value not in among:
            self._refuse(f"{at}.{name}", f"is {value!r}", f"it is {' or '.join(map(repr, among))}")
        return value

    def _warn(self, at: str, text: str) -> None:
        self._warnings.append(f"{self._source}: {at}: {text}" if self._source else f"{at}: {text}")

    def _refuse(self, at: str, what: str, hint: str) -> NoReturn:
        place = f"{self._source}: {at}" if self._source and at else self._source or at or "hooks"
        raise ConfigError(f"the hooks cannot be used: {place} {what}", hint=hint)


def _kind(value: object) -> str:
    return "missing" if value is None else json_type(value)


def _has_gate(groups: object) -> bool:
    """Say whether a hook among these has to agree, in groups that are otherwise not looked at."""
    among = [group.get("hooks") for group in groups if isinstance(group, Mapping)] if isinstance(groups, list) else []
    hooks = [hook for each in among if isinstance(each, list) for hook in each]
    return any(isinstance(hook, Mapping) and hook.get("onError") == "deny" for hook in hooks)


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
