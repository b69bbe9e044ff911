"""The server of these tests: llama.cpp with a small model, in a process of its own, once for all of them."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from plait.cli.demo import weights
from plait.cli.demo.local_server import PACKAGE, LocalServer
from plait.core.errors import ConfigError
from plait.store.layout import state_home


@pytest.fixture(scope="session")
def weights_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the model's file: the one that `plait demo --model local --fetch` keeps, else a fetched one."""
    if importlib.util.find_spec(PACKAGE) is None:
        pytest.skip(f"the package {PACKAGE} is not installed (the extra `local`)")
    kept = weights.place(state_home(os.environ))
    if weights.are_right(kept):
        return kept
    fetched = tmp_path_factory.mktemp("weights") / weights.FILE_NAME
    try:
        weights.fetch(fetched, lambda _: None)
    except ConfigError as error:
        pytest.skip(f"there are no weights: {error}")
    return fetched


@pytest.fixture(scope="session")
def real_url(weights_file: Path) -> Iterator[str]:
    """Return the base URL of the server."""
    with LocalServer(weights_file) as server:
        yield server.url
