"""Values as TOML.

Floor: 7. Owns: the way back from a setting to a line; never: reading one.
"""

from __future__ import annotations

import json


def toml_value(value: object) -> str:
    """Return a setting's value as it stands in a TOML file, in one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # TOML reads every escape that JSON writes, but for the halves of a pair.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {toml_value(each)}" for key, each in value.items()) + " }"
    return str(value)
