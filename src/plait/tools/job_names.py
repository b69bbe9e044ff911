"""What fenced background jobs have made of names that programs outside the fence obey, told with their ends.

Floor: 3. Owns: the list of names before a job, beside its record; never: putting anything aside.

Nothing is put aside after a job: it may have run for hours, and what is there by then may be its user's own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from plait.core.errors import Refusal
from plait.core.strict_json import JsonInvalid, dump, parse_object

if TYPE_CHECKING:
    from plait.hands.fence.fence import Fence
    from plait.hands.fence.obeyed import Watch
    from plait.hands.jobs import Job

_FILE: Final = "names"
_BYTES_MAX: Final = 1 << 22
_NOTE: Final = "programs outside the sandbox obey what stands there, so the user should look at it"


class JobNames:
    """Looks before jobs and after them."""

    def __init__(self, fence: Callable[[], Fence | None]) -> None:
        """`fence` returns what stands around jobs that begin now."""
        self._fence = fence

    def before(self) -> Watch | None:
        """Look at what there is, for a job that is about to begin; None where it has no fence."""
        if (fence := self._fence()) is None:
            return None
        from plait.hands.fence.obeyed import Watch  # most sessions have no jobs

        return Watch(fence.policy, fence.repositories)

    def keep(self, job: Job, watch: Watch | None) -> None:
        """Keep what was there before a job with its record, for whoever tells of its end."""
        if watch is None:
            return
        with suppress(OSError, JsonInvalid):
            fd = os.open(job.entry.path(_FILE), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(fd, "wb") as file:
                file.write(dump(watch.to_dict()).encode())

    def told(self, job: Job) -> Mapping[str, object]:
        """Return what is told of a job that is over: `made` with the names, and what they mean; nothing for none."""
        if not os.path.exists(job.entry.path(_FILE)):
            return {}
        try:
            fence = self._fence()
        except Refusal:
            return {}
        if fence is None:
            return {}
        from plait.hands.fence.obeyed import Watch

        try:
            before = parse_object(job.entry.part(_FILE, 0, _BYTES_MAX))
        except JsonInvalid:
            return {}
        made = Watch(fence.policy, fence.repositories, before).made()
        return {"made": list(made.left), "made_note": _NOTE} if made.left else {}
