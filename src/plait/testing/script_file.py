"""Reads a script from a JSON or YAML file.

Floor: testing. Owns: the file format and its errors; never: playing the script.

The file is a list of steps, or an object with `steps` and options of the server:

    usage: openai            # how token counts are reported: openai, plain, anthropic, read_write, deepseek, kimi, none
    models: [any]            # what GET /v1/models lists
    repeat: true             # begin again when the steps are used up
    allow_unused: true       # do not complain about steps that nobody asked for
    steps:
      - Done.                                        # text is an answer
      - say: I will look at the tests first.         # text, reasoning and calls together
        reasoning: The failing test names the module.
        calls:
          - {name: read_file, arguments: {path: tests/test_add.py}}
        delay_s: 0.2                                 # before the first byte; gap_s is between events
      - call: {name: exec_shell, arguments: {command: pytest -q}}
      - calls: [{name: a, arguments: {}}, {name: b, arguments: '{"broken": '}]   # text is sent as it is
      - raw: "data: [DONE]\\n\\n"                      # or raw_base64
        headers: {Content-Type: text/event-stream}
        status: 200
      - fault: reset                                 # any name in plait.testing.faults.FAULTS, with its own options
        at: mid_event
        answer: {say: Half of this arrives.}
      - when: {contains: title}                      # a rule beside the ordered steps: contains, last, model
        times: 1
        then: {say: A fine title}

Every unknown name is an error that tells the known ones.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from plait.testing.errors import InvalidScript
from plait.testing.faults import FAULTS, Fault, Step
from plait.testing.player import When
from plait.testing.steps import Answer, Call, Raw, Say
from plait.testing.usage_shapes import SHAPES

_Entry: TypeAlias = Step | When[Step]
_SAY_OPTIONS: Final = ("reasoning", "calls", "finish_reason", "usage", "delay_s", "gap_s")
_RAW_OPTIONS: Final = ("headers", "status", "framed", "delay_s")
_CALL_OPTIONS: Final = ("name", "arguments", "id")


@dataclass(frozen=True, slots=True)
class ScriptFile:
    """What a script file holds; the options are those of `ScriptServer`."""

    steps: tuple[_Entry, ...]
    usage: str = "openai"
    models: tuple[str, ...] = ("scripted",)
    repeat: bool = False
    allow_unused: bool = False


def read_script(path: str | Path) -> ScriptFile:
    """Read a script file; `.json` is JSON, everything else YAML.

    Raises:
        InvalidScript: the file cannot be read, or says something that no script can.
    """
    place = Path(path)
    try:
        return parse_script(_load(place))
    except (OSError, ValueError, TypeError) as wrong:
        raise InvalidScript(
            f"the script file {str(place)!r} cannot be used: {wrong}",
            hint="the format is described in the module plait.testing.script_file",
        ) from wrong


def parse_script(document: object) -> ScriptFile:
    """Make a script of a parsed document.

    Raises:
        ValueError: it says something that no script can; the message names the step.
    """
    if isinstance(document, list):
        return ScriptFile(tuple(_entries(document)))
    options = dict(_object(document, "a script"))
    _known("the script", options, [field.name for field in dataclasses.fields(ScriptFile)])
    if options.get("usage", "openai") not in SHAPES:
        raise ValueError(f"no usage shape is called {options['usage']!r}; known: {', '.join(SHAPES)}")
    models = tuple(str(model) for model in options.pop("models", ("scripted",)))
    return ScriptFile(steps=tuple(_entries(options.pop("steps", []))), models=models, **options)


def _load(path: Path) -> object:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return json.loads(text)
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as wrong:
        raise ValueError(str(wrong)) from wrong


def _entries(items: Iterable[object]) -> Iterable[_Entry]:
    for number, item in enumerate(items, 1):
        try:
            yield _entry(item)
        except (ValueError, TypeError) as wrong:
            raise ValueError(f"step {number}: {wrong}") from wrong


def _entry(item: object) -> _Entry:
    if not isinstance(item, Mapping) or "when" not in item:
        return _step(item)
    _known("a rule", item, ("when", "then", "times"))
    conditions = _object(item["when"], "the condition of a rule")
    _known("a condition", conditions, ("contains", "last", "model"))
    return When(then=_step(item.get("then")), times=item.get("times"), **conditions)


def _step(item: object) -> Step:
    if isinstance(item, str):
        return item
    step = _object(item, "a step")
    for kind, make in _KINDS.items():
        if kind in step:
            return make(step)
    raise ValueError(f"a step needs one of {', '.join([*_KINDS, 'when'])}; this one has {', '.join(step) or 'nothing'}")


def _fault(step: Mapping[str, Any]) -> Fault:
    name = step["fault"]
    if name not in FAULTS:
        raise ValueError(f"no fault is called {name!r}; known: {', '.join(FAULTS)}")
    options = {key: value for key, value in step.items() if key != "fault"}
    _known(f"the fault {name!r}", options, [field.name for field in dataclasses.fields(FAULTS[name]) if field.init])
    if "answer" in options:
        options["answer"] = _step(options["answer"])
    return FAULTS[name](**options)


def _raw(step: Mapping[str, Any]) -> Raw:
    _known("a raw step", step, ("raw", "raw_base64", *_RAW_OPTIONS))
    options = {key: step[key] for key in _RAW_OPTIONS if key in step}
    if "raw" in step:
        return Raw(str(step["raw"]).encode(), **options)
    try:
        return Raw(base64.b64decode(step["raw_base64"], validate=True), **options)
    except binascii.Error as wrong:
        raise ValueError(f"raw_base64: {wrong}") from wrong


def _say(step: Mapping[str, Any]) -> Answer:
    _known("an answer", step, ("say", "call", *_SAY_OPTIONS))
    calls = [*step.get("calls", ()), *([step["call"]] if "call" in step else ())]
    options = {key: step[key] for key in _SAY_OPTIONS if key in step and key != "calls"}
    return Say(_text(step.get("say", "")), calls=tuple(_call(call) for call in calls), **options)


def _text(value: object) -> str | tuple[str, ...]:
    return tuple(str(delta) for delta in value) if isinstance(value, list) else str(value)


def _call(item: object) -> Call:
    call = _object(item, "a call")
    _known("a call", call, _CALL_OPTIONS)
    if "name" not in call:
        raise ValueError("a call needs a name")
    return Call(**call)


_KINDS: Final[Mapping[str, Callable[[Mapping[str, Any]], Step]]] = MappingProxyType(
    {"fault": _fault, "raw": _raw, "raw_base64": _raw, "say": _say, "call": _say, "calls": _say}
)


def _object(item: object, what: str) -> Mapping[str, Any]:
    if not isinstance(item, Mapping):
        raise TypeError(f"{what} is an object, not {item!r}")
    return item


def _known(what: str, options: Iterable[str], known: Iterable[str]) -> None:
    names = tuple(known)
    for option in options:
        if option not in names:
            raise ValueError(f"{what} has no option {option!r}; known: {', '.join(names)}")
