"""Commands for the first minutes: init, examples and schema."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.display.console import results_console, say
from emulator.display.tables import names, new_table, words
from emulator.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="New or existing directory.", show_default=False)],
) -> None:
    """Make a directory with a first experiment, a campaign of it, and an example of your own policy.

    \b
    Examples:
      natjam init mine
      cd mine; natjam run experiment.yaml
    """
    from importlib import resources

    from emulator.files.whole_files import NAME_ANOTHER, replaced_whole, writing

    files = {file.name: file for file in (resources.files("workloads") / "starter").iterdir()}
    contents = {name: files[name].read_bytes() for name in sorted(files) if name.endswith((".yaml", ".py"))}
    if there := [name for name in contents if (directory / name).exists()]:
        raise ConfigError(f"{directory / there[0]}: exists already; name another directory")
    with writing(directory, ConfigError, NAME_ANOTHER):
        directory.mkdir(parents=True, exist_ok=True)
        for name, data in contents.items():
            with replaced_whole(directory / name, keep=False) as file:
                file.write_bytes(data)
    for name in contents:
        say(str(directory / name))
    say(f"\nNext: cd {shlex.quote(str(directory))} && natjam run experiment.yaml")


def examples() -> None:
    """List the experiments that come with natjam; each runs as catalog:NAME.

    \b
    Examples:
      natjam examples
      natjam run catalog:natjam-fig4
      natjam run catalog:facebook-50 --engine sim
    """
    results_console().print(_examples_table())


def _examples_table() -> Table:
    from emulator.experiment.catalog import examples as found

    table = new_table(None, [*names("name"), *words("what it is")])
    for example in found():
        table.add_row(example.name, example.summary)
    return table


def schema(
    kind: Annotated[str, typer.Argument(metavar="[KIND]", help="experiment or campaign.")] = "experiment",
    out: Annotated[Path | None, typer.Option(help="Write to this file instead of printing it.")] = None,
) -> None:
    """Print the JSON schema of experiment or campaign files, for editors.

    An editor with a YAML language server then completes keys, says what they mean and marks typos. It finds the schema
    by a first line in the file: # yaml-language-server: $schema=natjam.schema.json

    \b
    Examples:
      natjam schema --out natjam.schema.json
      natjam schema campaign --out campaign.schema.json
    """
    import json

    from emulator.campaign.definition import CampaignFile
    from emulator.experiment.editor_schema import editor_schema, experiment_schema
    from emulator.files.whole_files import write_json

    if kind not in ("experiment", "campaign"):
        raise ConfigError(f"{kind}: must be experiment or campaign")
    found = experiment_schema() if kind == "experiment" else editor_schema(CampaignFile)
    if out is None:
        typer.echo(json.dumps(found, indent=1))
    else:
        write_json(out, found)
        typer.echo(f"{out}: begin a file with '# yaml-language-server: $schema={out.name}', in the same directory")
