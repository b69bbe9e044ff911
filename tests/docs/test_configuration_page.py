"""The page about settings names every setting, with what it is and what holds otherwise, and no others."""

from __future__ import annotations

from pathlib import Path

from plait.config.keys import KEYS, OF_MODELS, OLDER, Key
from plait.engine import profile
from tests.docs.examples import REPOSITORY

PAGE = (REPOSITORY / "docs/configuration.md").read_text(encoding="utf-8")


def row_of(key: Key) -> str:
    """Return the line of the page about a setting."""
    older = [f"`{name}`" for name, now in OLDER.items() if now == key.name]
    names = f"`{key.name}`" + (f" ({', '.join(older)})" if older else "")
    words = f"{key.words}: {', '.join(f'`{choice}`' for choice in key.choices)}" if key.choices else key.words
    return f"| {names} | {words} | {key.default or '–'} |"


def test_every_setting_is_on_the_page_and_no_other() -> None:
    """The tables are those of the program, those that count for `build_runtime` alone in one of their own."""
    both, runtime = PAGE.split("### In the kernel face")
    for part, uses in ((both, ("run", "both")), (runtime, ("runtime",))):
        rows = [line for line in part.splitlines() if line.startswith("| `") and line.count("|") == 4]
        known = [row_of(key) for key in KEYS.values() if key.use in uses]
        assert known == [row for row in rows if row in known or row.split("`")[1] in KEYS]


def test_a_table_of_a_model_and_each_bundled_profile_are_on_the_page() -> None:
    """What may stand in `[models.NAME]`, and the profiles that come along."""
    part = PAGE[PAGE.index("A table may hold") : PAGE.index("### In the kernel face")]
    assert [] == [name for name in OF_MODELS if name not in OLDER and f"`{name}`" not in part]
    folder = Path(profile.__file__).with_name("profiles")
    names = sorted(path.stem for path in folder.glob("*.toml"))
    assert names == sorted(name for name in names if f"| `{name}` |" in PAGE)
