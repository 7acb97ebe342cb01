"""``zapomni reembed``: make the vectors of another model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zapomni.cli import EXIT_OK
from zapomni.cli.options import add_command
from zapomni.cli.session import add_data_flags, run_with_engine
from zapomni.cli.text import counted, printable

if TYPE_CHECKING:
    import argparse

    from zapomni.cli.output import Console
    from zapomni.engine import MemoryEngine


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "reembed",
        help="make new vectors after a change of the model",
        description=(
            "Make the vectors of a workspace with the embedder of the settings. Needed once after the embedder or its "
            "model was changed. Searching goes on with the old vectors until the last new one is made; interrupted, it "
            "goes on where it stopped."
        ),
        examples=("zapomni reembed", "zapomni reembed --all --embedder ollama --embedding-model bge-m3"),
    )
    parser.add_argument("--all", action="store_true", help="every workspace")
    add_data_flags(parser, more=("embedder", "embedding_model", "embedding_url"))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Embed again, one workspace after the other."""

    async def work(engine: MemoryEngine, console: Console) -> int:
        names = [info.name for info in await engine.list_workspaces()] if options.all else [engine.current_workspace]
        made = {}
        with console.progress() as line:

            async def report(done: float, total: float | None, message: str | None) -> None:
                line.show(f"{name}: {message}")

            for name in names:
                made[name] = await engine.reembed(workspace=name, progress=report)
        model = (await engine.get_stats(workspace=names[0])).embedding_model
        if console.json:
            console.data({"model": model, "passages_embedded": made})
        else:
            for name, count in made.items():
                console.line(f"{name}: {counted(count, 'passage')} embedded with {printable(model)}")
        return EXIT_OK

    return run_with_engine(options, work)
