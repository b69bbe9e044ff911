"""The settings that `plait.toml` and the environment may hold, by their names.

Floor: 2. Owns: names, kinds, and who uses each; never: a file, or which of several values counts (`layers`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal

from plait.core.values import dataclass

Kind = Literal["text", "variable", "yes_no", "count", "whole", "number", "seconds", "texts", "proof"]
Use = Literal["both", "run", "runtime", "later"]
"""Who goes by a setting: `plait run` and its like, `build_runtime`, both of them, or nobody in this version."""

PREFIX: Final = "PLAIT_"
"""What the variable of a setting begins with; its name in capitals follows."""
TABLES: Final = ("permissions", "sandbox", "hooks", "models", "mcp_servers")
"""Tables of `plait.toml` beside the settings."""


@dataclass(frozen=True, slots=True)
class Key:
    """One setting."""

    name: str
    kind: Kind
    use: Use
    words: str
    default: str = ""
    """What holds where nobody says, in words."""
    choices: tuple[str, ...] = ()
    """What it may be; empty for anything of its kind."""

    def wrong(self, value: object) -> str:
        """Return what it has to be, where a value is not that; empty where it is."""
        if self.name == "awareness":
            return "" if value == "off" or not wrong(self.kind, value) else "'off', or a list of senses"
        if self.choices:
            beside = "; where `plait run` runs commands says a table [sandbox]" if self.name == "sandbox" else ""
            return "" if value in self.choices else f"one of {', '.join(self.choices)}{beside}"
        return wrong(self.kind, value)

    @property
    def variable(self) -> str:
        """The environment variable that holds it."""
        return PREFIX + self.name.upper()


_WHEN: Final = ("threshold", "every_turn", "never")
_LOADING: Final = ("eager", "none", "kimi", "system-message-tools", "glm", "defer-loading-tool-reference", "grow")
_POLICIES: Final = ("always_ask", "auto_allow", "deny_mutations", "smart")


def _keys() -> Mapping[str, Key]:
    known = (
        Key("model", "text", "both", "the model to ask, or the name of a table [models.NAME]"),
        Key("endpoint", "text", "run", "where it is: a base URL, a provider's name, or run://PATH"),
        Key("key_env", "variable", "run", "the environment variable that holds the endpoint's key"),
        Key("inference_db", "text", "run", "an endpoint of your own list, in place of `endpoint`"),
        Key("max_output_tokens", "count", "both", "tokens of one answer"),
        Key("context_window", "count", "run", "tokens that the model's window holds, where plait does not know it"),
        Key("token_counter", "text", "both", "counts tokens exactly: o200k, cl100k, auto, or a tokenizer.json"),
        Key("profile", "text", "both", "the profile to work by"),
        Key("profile_dir", "text", "both", "one more folder of profiles, looked into first"),
        Key("system_prompt_supplement", "text", "run", "stands in the system prompt, after plait's own sentences"),
        Key("max_steps", "count", "both", "answers of the model in a turn", "200"),
        Key("max_cost_usd", "number", "both", "US dollars of a turn"),
        Key("max_tokens", "count", "run", "tokens of a turn that no cache held", "3000000"),
        Key("max_input_tokens", "count", "both", "tokens of all requests of a turn"),
        Key("max_tool_calls", "count", "run", "tool calls of a turn"),
        Key("max_wall_seconds", "seconds", "run", "seconds of a turn, looked at between steps"),
        Key("timeout", "seconds", "run", "seconds after which a run is stopped"),
        Key("session_max_steps", "count", "run", "answers of all turns of a session"),
        Key("session_max_cost_usd", "number", "run", "US dollars of all turns"),
        Key("session_max_input_tokens", "count", "run", "tokens of all requests of all turns"),
        Key("session_max_wall_seconds", "seconds", "run", "seconds of all turns"),
        Key("retries", "whole", "run", "requests that are made again when an endpoint fails in passing", "5"),
        Key("max_tool_result_tokens", "whole", "both", "tokens of one tool result; 0 is no cap", "8000"),
        Key("max_turn_result_tokens", "count", "run", "tokens of all tool results of a turn"),
        Key("dedupe_reads", "yes_no", "run", "a look that brings nothing new says only that", "false"),
        Key("tool_concurrency", "count", "both", "calls that run at the same time where they may", "32"),
        Key("compaction_enabled", "yes_no", "run", "history is summarised where it has to be", "true"),
        Key("compaction_trigger_tokens", "count", "run", "size of a request from which it is", "100000"),
        Key("compaction_target_tokens", "count", "run", "tokens that a summary may have", "20000"),
        Key("compaction_keep_last_turns", "whole", "both", "turns that stay word for word", "2"),
        Key("compaction_policy", "text", "run", "when it is", "threshold", _WHEN),
        Key("compaction_min_chars", "whole", "run", "less text than this is not summarised", "0"),
        Key("strict_cache_proof", "proof", "run", "true, false, every or auto", "auto"),
        Key("min_cacheable_tokens", "whole", "run", "shorter prompts are never cached", "0"),
        Key("cache_ttl_seconds", "seconds", "run", "how long an endpoint's cache holds a prompt", "3600"),
        Key("awareness", "texts", "run", "the senses that are on; off for none", "all"),
        Key("time_awareness_tool_timestamps", "yes_no", "run", "results say when their call ran", "true"),
        Key("token_awareness_budget_tokens", "count", "run", "the budget that the model is told of"),
        Key("token_awareness_reminder_tokens", "whole", "run", "with fewer left the model is reminded", "6144"),
        Key("token_awareness_update_every", "count", "run", "answers for each count of tokens", "1"),
        Key("tool_loading", "text", "run", "how tools that are not shown at once are loaded", "eager", _LOADING),
        Key("durable", "yes_no", "run", "keep a journal", "true"),
        Key("nohup", "yes_no", "run", "the model may start background jobs", "false"),
        Key("enable_plugins", "yes_no", "both", "load your own plugins", "true"),
        Key("plugins_dir", "text", "runtime", "one more folder of plugins"),
        Key("local_supports_images", "yes_no", "runtime", "a local model sees pictures", "false"),
        Key("stream", "yes_no", "runtime", "answers come as they are written", "true"),
        Key("output_reserve", "whole", "runtime", "tokens of the window that are kept for an answer", "8192"),
        Key("summarizer_model", "text", "runtime", "another model that writes summaries"),
        Key("approval_policy", "text", "runtime", "who is asked before gated calls", "always_ask", _POLICIES),
        Key("approval_judge_model", "text", "runtime", "the model that judges for smart"),
        Key("approval_allowlist", "texts", "runtime", "tools and plain commands that run without a question"),
        Key("redact_tool_output", "yes_no", "runtime", "take secrets out of results", "true"),
        Key("plan_mode", "yes_no", "runtime", "one approval for all calls of an answer", "false"),
        Key("checkpoints", "yes_no", "runtime", "keep what files held before they were changed", "false"),
        Key("enable_todo", "yes_no", "runtime", "give the model a list of what is to be done", "false"),
        Key("enable_clarify", "yes_no", "runtime", "let the model ask about the task", "false"),
        Key("sandbox", "text", "runtime", "where bash runs", "local", ("local", "docker")),
        Key("sandbox_image", "text", "runtime", "the container's image"),
        Key("sandbox_network", "text", "runtime", "the container's network"),
        Key("working_dir", "text", "runtime", "where the tools work", "."),
        Key("log_dir", "text", "runtime", "where traces go"),
        Key("mcp_log_dir", "text", "runtime", "where the logs of MCP servers go"),
        *(Key(name, "text", "later", "") for name in _LATER),
    )
    return MappingProxyType({key.name: key for key in known})


_LATER: Final = (
    "cron_path enable_kanban kanban_path memory_store memory_dir enable_memory_tools memory_notes_path "
    "memory_auto_context memory_auto_context_limit memory_store_budget memory_curator_model memory_scope "
    "memory_recency_weight memory_importance_weight memory_half_life_days semantic_search semantic_search_lsh_bits "
    "embedding_model embedding_dimensions embedding_base_url embedding_api_key_env skills_dir skills enable_graph "
    "graph_path improvements_dir enable_spawn spawn_max_depth judge_model eval_threshold eval_rubric"
).split()
KEYS: Final = _keys()

OLDER: Final[Mapping[str, str]] = MappingProxyType(
    {
        "max_iterations": "max_steps",
        "max_input_tokens_per_run": "max_input_tokens",
        "keep_recent_turns": "compaction_keep_last_turns",
        "provider": "endpoint",
        "base_url": "endpoint",
    }
)
"""Other names that are understood, and what they are called here."""

OF_MODELS: Final = (
    *("model", "endpoint", "provider", "base_url", "key_env", "inference_db", "max_output_tokens", "context_window"),
    *("token_counter", "min_cacheable_tokens", "cache_ttl_seconds", "compaction_trigger_tokens"),
)
"""What a table `[models.NAME]` may hold."""

_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def nearest(
    name: str, known: Iterable[str] = (), *, otherwise: str = "`plait config show --all` lists the settings"
) -> str:
    """Return what is said to somebody who misspelt a name; `otherwise` where none is near."""
    import difflib  # most names are right

    names = tuple(known) or (*KEYS, *OLDER, *TABLES)
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else otherwise


def key_of(name: str) -> Key | None:
    """Return the setting of a name, or of an older one; None for no setting."""
    return KEYS.get(OLDER.get(name, name))


def wrong(kind: Kind, value: object) -> str:
    """Return what a setting of a kind has to be, where a value is not that; empty where it is."""
    fits, words = _CHECKS[kind]
    return "" if fits(value) else words


def read_text(kind: Kind, text: str) -> object:
    """Return the value that a text of the environment stands for; the text itself where it stands for none."""
    text = text.strip()
    if kind == "texts":
        return [part.strip() for part in text.split(",") if part.strip()]
    if kind in ("yes_no", "proof") and text.lower() in _TRUE | _FALSE:
        return text.lower() in _TRUE
    if kind in ("count", "whole", "number", "seconds"):
        for reading in (int, float):
            try:
                return reading(text)
            except ValueError:
                continue
    return text


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


_CHECKS: Final[Mapping[Kind, tuple[Callable[[object], bool], str]]] = MappingProxyType(
    {
        "text": (lambda value: isinstance(value, str), "text"),
        "variable": (
            lambda value: isinstance(value, str) and bool(_VARIABLE.fullmatch(value)),
            "the name of an environment variable, never a key",
        ),
        "yes_no": (lambda value: isinstance(value, bool), "true or false"),
        "count": (lambda value: _is_whole(value, 1), "a whole number from 1"),
        "whole": (lambda value: _is_whole(value, 0), "a whole number from 0"),
        "number": (lambda value: _is_number(value) and value >= 0, "a number from 0"),  # type: ignore[operator]
        "seconds": (
            lambda value: _is_number(value) and value > 0,  # type: ignore[operator]
            "a number of seconds above 0",
        ),
        "texts": (
            lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
            "a list of texts",
        ),
        "proof": (
            lambda value: isinstance(value, bool) or value in ("every", "auto"),
            "true, false, 'every' or 'auto'",
        ),
    }
)
