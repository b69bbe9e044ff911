"""The flat configuration of the kernel face.

Floor: 4. Owns: its keys, their defaults, which of them are not available yet; never: reading a file
(`kernel_files`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from plait.core.errors import ConfigError
from plait.core.values import dataclass

_FIRST_NOT_YET: Final = "cron_path"


@dataclass(frozen=True)
class Config:
    """How `build_runtime` puts an agent together; raises `ConfigError` for what is not available yet."""

    provider: str = ""
    """A provider's name, such as `openai` or `local`; empty for the one whose key is in the environment."""
    model: str = ""
    """There is no default."""
    base_url: str | None = None
    """Where the API is, in place of the provider's usual address."""
    local_supports_images: bool = False
    max_output_tokens: int = 4_096
    max_iterations: int = 25
    keep_recent_turns: int = 6
    """Messages that a compaction leaves alone, a call and its results counting as one."""
    output_reserve: int = 8_192
    """Tokens of the model's window that history leaves for the answer, before it is summarised."""
    token_counter: str | None = None
    """Counts tokens exactly: `o200k`, `cl100k`, `auto` or the path of a `tokenizer.json`; None estimates."""
    summarizer_model: str | None = None
    """Another model of the same endpoint, which writes the summaries."""
    max_tool_result_tokens: int = 4_096
    tool_concurrency: int = 4
    stream: bool = True
    approval_policy: str = "always_ask"
    """`always_ask`, `auto_allow`, `deny_mutations`, or `smart`: a model judges, the rest is asked."""
    approval_judge_model: str | None = None
    """The model that judges for `smart`, at the same endpoint; None is `model` itself."""
    approval_allowlist: Sequence[str] = ()
    """Names of tools, and patterns of plain commands, that run without a question."""
    redact_tool_output: bool = True
    plan_mode: bool = False
    working_dir: str = "."
    log_dir: str | None = None
    """Where traces go; None keeps none."""
    mcp_log_dir: str | None = None
    """Where the logs of MCP servers go; None keeps none."""
    max_cost_usd: float | None = None
    max_input_tokens_per_run: int | None = None
    checkpoints: bool = False
    """Keep what files held before they were changed, and let the model roll the changes back."""
    enable_plugins: bool = False
    """Load the tools of the user's own plugins; see `plait.load_plugin_tools`."""
    plugins_dir: str | None = None
    """One more folder of plugins; inside of the repository it is skipped."""
    enable_todo: bool = False
    """Give the model a list of what is to be done."""
    enable_clarify: bool = False
    """Let the model ask the user about the task."""
    sandbox: str = "local"
    """Where `bash` runs: `local`, as the user, or `docker`, in a container (docker or podman)."""
    sandbox_image: str | None = None
    """The container's image; `python:3.12-slim` unless given."""
    sandbox_network: str | None = None
    """The container's network; `none` unless given."""

    profile: str | None = None
    """The way of working of runs that name none; see `plait.load_profile`."""
    profile_dir: str | None = None
    """One more folder of profiles, looked into first."""

    # From here on: not available yet; only the value that asks for nothing is taken.
    cron_path: str | None = None
    enable_kanban: bool = False
    kanban_path: str | None = None
    memory_store: str | None = None
    memory_dir: str | None = None
    enable_memory_tools: bool = False
    memory_notes_path: str | None = None
    memory_auto_context: bool = False
    memory_auto_context_limit: int = 3
    memory_store_budget: int | None = None
    memory_curator_model: str | None = None
    memory_scope: str | None = None
    memory_recency_weight: float = 0.0
    memory_importance_weight: float = 0.0
    memory_half_life_days: float = 30.0
    semantic_search: bool = False
    semantic_search_lsh_bits: int | None = None
    embedding_model: str | None = None
    embedding_dimensions: int | None = None
    embedding_base_url: str | None = None
    embedding_api_key_env: str | None = None
    skills_dir: str | None = None
    skills: Sequence[str] = ()
    enable_graph: bool = False
    graph_path: str | None = None
    improvements_dir: str | None = None
    enable_spawn: bool = False
    spawn_max_depth: int = 2
    judge_model: str | None = None
    eval_threshold: float = 0.6
    eval_rubric: str | None = None

    @classmethod
    def load(cls, file: str | os.PathLike[str], *, env: Mapping[str, str] | None = None, **overrides: Any) -> Config:
        """Return the configuration of one file: what it says, above that `PLAIT_…` variables, then `overrides`.

        Raises:
            ConfigError: it is missing, or says what means nothing; names file and line.
        """
        from plait.engine.kernel_files import load_config  # most are made by hand

        return load_config(file, env, overrides)

    def __post_init__(self) -> None:
        if self.sandbox not in ("local", "docker"):
            raise ConfigError(f"Config(sandbox={self.sandbox!r}) is no sandbox", hint="there are 'local' and 'docker'")
        known = fields(self)
        first = next(index for index, each in enumerate(known) if each.name == _FIRST_NOT_YET)
        for each in known[first:]:
            value = getattr(self, each.name)
            if value != each.default and value != []:
                raise ConfigError(f"Config({each.name}={value!r}) is not available yet", hint=f"leave {each.name} out")
