"""The state that belongs to the process: the tool library, and what all sessions share.

Floor: 5. Owns: the only mutable module state of plait, behind locks; never: anything that belongs to one session.

What is set here is a default. A session has its own toolbox and takes from here what a program has registered.
"""

from __future__ import annotations

from plait.engine.conversation import Workbench
from plait.tools.library import Library

LIBRARY = Library()
TOOL_LIBRARY = LIBRARY.functions
"""Every function that an agent spec can name, by its name."""
BENCH = Workbench()
"""Threads for tools, and the event loop on which async tools run."""

register_tools_in_library = LIBRARY.register_tools_in_library
set_tool_output_stream = LIBRARY.set_tool_output_stream
get_tool_output_stream = LIBRARY.get_tool_output_stream
set_ask_user_handler = LIBRARY.set_ask_user_handler
set_wait_interrupt_hook = LIBRARY.set_wait_interrupt_hook
get_wait_interrupt_hook = LIBRARY.get_wait_interrupt_hook
dispatch = LIBRARY.dispatch
enable_rtk_rewrite = LIBRARY.enable_rtk_rewrite
