"""The words and flags that several verbs share."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from typer import Context
else:
    Context = typer.Context.__base__  # Typer hands out its base class, which has no public name

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
WholeRunName = Annotated[
    str, typer.Argument(metavar="RUN", show_default=False, help="Whole name of a run, or its folder.")
]
Json = Annotated[bool, typer.Option("--json", help="JSON for machines instead of text for people.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", help="Print the folder of the run at the end and nothing else.")
]

__all__ = ["Context", "Json", "Quiet", "RunName", "Settings", "WholeRunName"]
