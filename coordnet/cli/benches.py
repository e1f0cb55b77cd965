"""``coordnet bench``: the measurements; what they run is imported when they run."""

from pathlib import Path
from typing import Annotated

import typer

from coordnet.cli.common import Device, Quiet
from coordnet.cli.protocols import add_protocols

bench = typer.Typer(help="Measure coordnet against its peers.", rich_markup_mode=None)


@bench.command()
def speed(
    device: Device = "auto",
    only: Annotated[
        str | None,
        typer.Option(
            help="Some of grid, video, batch, precision, random, memory, separated by commas; all but memory if not "
            "given.",
            show_default=False,
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Samples a side of the pictures, such as 128,256; 128 to 4096 (rendered at 8192) if not given.",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The small sizes alone: minutes.")] = False,
    report: Annotated[
        bool, typer.Option("--report", help="Measure nothing: tell, draw and tabulate what is in the folder.")
    ] = False,
    readme: Annotated[
        Path | None, typer.Option(help="Put the table between the markers of this file.", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for DEVICE.json and speed.png.")] = Path("results/speed"),
    quiet: Quiet = False,
) -> None:
    """Time closed-form fits beside SciPy, PyTorch and bare matrix products, and say which targets hold."""
    from coordnet.bench import speed as experiment
    from coordnet.bench import speed_report as reports
    from coordnet.cli.specs import choose_device

    if not report:
        groups, lengths = experiment.parse_groups(only), experiment.parse_sizes(sizes, quick)
        settings = experiment.Settings(choose_device(device), groups, lengths, quick)
        rows: list[experiment.Row] = []

        def tell(row: experiment.Row) -> None:
            rows.append(row)
            experiment.write(rows, settings, out)  # a run that is stopped keeps what it has measured
            if not quiet:
                told = [row.as_json() for row in rows]
                print(experiment.line(told[-1], told), flush=True)

        experiment.run(settings, tell)
    records = reports.load(out)
    if readme is not None:
        reports.insert(readme, reports.table(records))
    reports.figure(records).savefig(out / "speed.png", dpi=110)
    if not quiet:
        print(f"{reports.targets(records)}\nwritten to {out}")


@bench.command()
def quality(
    data: Annotated[Path, typer.Option(help="Folder with kodak/, video/ and audio/.")],
    only: Annotated[
        str | None,
        typer.Option(
            help="Some of random, density, video, audio, entries, bayer, structured, noise, denoise, iterations, "
            "hindsight, memory, separated by commas; all but the last two, which are slow, if not given.",
            show_default=False,
        ),
    ] = None,
    images: Annotated[
        int | None, typer.Option(min=1, help="The first so many photographs alone.", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for NAME.json.")] = Path("results/quality"),
    quiet: Quiet = False,
) -> None:
    """Measure reconstructions against their signals, beside SciPy, scikit-image and demosaicing filters."""
    from coordnet.bench import quality as experiment
    from coordnet.bench import quality_report
    from coordnet.bench.cases import Settings

    settings = Settings(data, images)
    for name in experiment.parse_names(only):
        rows = experiment.run(name, settings, progress=not quiet)
        path = quality_report.write(name, rows, settings, out)
        if not quiet:
            print(f"{quality_report.report(rows)}\nwritten to {path}\n")


@bench.command()
def attention(
    seeds: Annotated[int, typer.Option(help="Trainings of each encoding.")] = 5,
    epochs: Annotated[int, typer.Option(help="Of each training.")] = 18,
    out: Annotated[Path, typer.Option(help="Folder for attention.json and attention.md.")] = Path("results/attention"),
    quiet: Quiet = False,
) -> None:
    """Compare encodings of position in a small Transformer on scikit-learn's digits."""
    from coordnet.bench import attention as experiment

    def tell(run: experiment.Run) -> None:
        test = "" if run.test is None else f"  test {100 * run.test:.2f} %"
        scores = f"validation {100 * run.validation:.2f} %{test}"
        chosen = f"rate {run.choices.rate:<7g}norm {run.choices.norm:<5g}γ {run.choices.gamma}  "
        print(f"{run.encoding:26}seed {run.seed:<5}{chosen}{scores}  {run.seconds:.1f} s", flush=True)

    runs = experiment.run(seeds, epochs, None if quiet else tell)
    folder = experiment.write(runs, epochs, out)
    print(f"{experiment.report(runs)}\nwritten to {folder}")


add_protocols(bench)
