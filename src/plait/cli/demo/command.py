"""`plait demo`: the agent mends a sample repository before your eyes.

Floor: 7. Owns: the options and which of the two demos runs; never: the agent.
"""

from __future__ import annotations

import click


@click.command(short_help="Watch the agent mend a sample repository; no key, no network.")
@click.option(
    "--model",
    type=click.Choice(["scripted", "local"]),
    default="scripted",
    show_default=True,
    help="Who answers: a script written in advance, or a small real model on this machine.",
)
@click.option("--keep", is_flag=True, help="Keep the folder, to look around in it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--fetch", is_flag=True, help="With --model local: fetch the model's weights first (93 MB).")
def demo(model: str, keep: bool, as_json: bool, fetch: bool) -> int:
    """Copy a small repository with a failing test to a temporary folder and let the agent mend it.

    The model is scripted: its answers were written in advance, and are served over loopback HTTP. Everything else is
    real: the agent, the requests, the tools, the edit, the tests. Exit code 0 only if the tests pass at the end.

    With --model local a small real model is asked for a tool call and an answer; it is too small to mend anything.
    """
    if model == "local":
        from plait.cli.demo.local_model import run_local_demo

        return run_local_demo(fetch=fetch, as_json=as_json)
    if fetch:
        raise click.UsageError("--fetch goes with --model local: the scripted model has no weights")
    from plait.cli.demo.scripted import run_scripted_demo

    return run_scripted_demo(keep=keep, as_json=as_json)
