"""The tool library under the name that programs import it by.

Floor: 6. Owns: nothing; never: logic.
"""

from __future__ import annotations

from plait.session.defaults import LIBRARY, TOOL_LIBRARY, dispatch, register_tools_in_library
from plait.tools.definitions import CANONICAL_TOOLS, SUPERSEDED_TOOLS

t_read = LIBRARY.own.t_read
t_write = LIBRARY.own.t_write
t_update = LIBRARY.own.t_update
t_run = LIBRARY.own.t_run
t_list_dir = LIBRARY.own.t_list_dir
t_glob = LIBRARY.own.t_glob
t_search = LIBRARY.own.t_search
t_ask_user = LIBRARY.own.t_ask_user
t_ask_user_question = LIBRARY.own.t_ask_user_question
t_edit_file = LIBRARY.own.t_edit_file
t_execute_async = LIBRARY.own.t_execute_async
t_query_exec = LIBRARY.own.t_query_exec
t_nohup = LIBRARY.own.t_nohup
t_nohup_wait = LIBRARY.own.t_nohup_wait
t_apply_patch = LIBRARY.own.t_apply_patch
t_todo = LIBRARY.own.t_todo
t_clarify = LIBRARY.own.t_clarify
t_file_info = LIBRARY.own.t_file_info
t_rollback = LIBRARY.own.t_rollback
t_update_file = LIBRARY.own.t_update_file
t_list_directory = LIBRARY.own.t_list_directory
t_search_files = LIBRARY.own.t_search_files
t_find_files = LIBRARY.own.t_find_files

__all__ = [
    "CANONICAL_TOOLS",
    "SUPERSEDED_TOOLS",
    "TOOL_LIBRARY",
    "dispatch",
    "register_tools_in_library",
    "t_apply_patch",
    "t_ask_user",
    "t_ask_user_question",
    "t_clarify",
    "t_edit_file",
    "t_execute_async",
    "t_file_info",
    "t_find_files",
    "t_glob",
    "t_list_dir",
    "t_list_directory",
    "t_nohup",
    "t_nohup_wait",
    "t_query_exec",
    "t_read",
    "t_rollback",
    "t_run",
    "t_search",
    "t_search_files",
    "t_todo",
    "t_update",
    "t_update_file",
    "t_write",
]
