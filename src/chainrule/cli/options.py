"""What several verbs share: the words and flags they take, and groups of commands."""

from typing import Annotated

import typer

Settings = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE", show_default=False, help="Settings, nested with dots: optimizer.lr=3e-4"
    ),
]
RunName = Annotated[
    str,
    typer.Argument(
        metavar="RUN", show_default=False, help="Name of a run, the beginning of it, or its folder."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="JSON for machines instead of text for people.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", help="Print the folder of the run at the end and nothing else.")
]


def group(summary: str) -> typer.Typer:
    """A verb with commands of its own; alone it lists them."""
    made = typer.Typer(help=summary)

    @made.callback(invoke_without_command=True)
    def alone(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            print(context.get_help())

    return made


__all__ = ["Json", "Quiet", "RunName", "Settings", "group"]
