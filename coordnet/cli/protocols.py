"""``coordnet bench table1 …``: the papers' experiments, one command each with the same options."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from coordnet.cli.common import Device, Quiet

HELP = {
    "table1": "Pictures on every second pixel: Zheng et al. (2022), table 1.",
    "table2": "Pictures on a random quarter of the pixels: Zheng et al. (2022), table 2.",
    "table3": "Video cubes, separable and scattered: Zheng et al. (2022), table 3.",
    "figure7": "Rows of pictures, rank against depth: Zheng et al. (2022), figure 7.",
    "rethinking": "Gaussian against random Fourier features of equal stable rank: Zheng et al. (2021).",
    "encoders": "Every encoder, simple and complex, linear and MLP, at one setting.",
    "noise": "PSNR against the noise on pictures.",
    "sampling": "PSNR against the fraction of pixels known.",
}

Data = Annotated[
    Path | None, typer.Option(help="Folder with kodak/ (or images/, or pictures) and video/.", show_default=False)
]
Quick = Annotated[bool, typer.Option("--quick", help="One small signal, few epochs.")]
Images = Annotated[int | None, typer.Option(min=1, help="The first so many files alone.", show_default=False)]
Epochs = Annotated[
    int | None, typer.Option(min=1, help="Of gradient fits; the paper's if not given.", show_default=False)
]
Seeds = Annotated[int | None, typer.Option(min=1, help="Of whatever draws: 0 … SEEDS - 1.", show_default=False)]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        help="baseline, 'closed form', gradient, or a name with * and ?; may be given again.", show_default=False
    ),
]
Workers = Annotated[int, typer.Option(min=1, help="Local processes that share the processor's threads.")]
Dask = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler whose workers run the cells.", show_default=False)
]
Retry = Annotated[bool, typer.Option("--retry", help="Run cells again that are recorded as failed.")]
Folder = Annotated[
    Path | None, typer.Option(help="Folder of the records; results/NAME if not given.", show_default=False)
]
Report = Annotated[
    bool, typer.Option("--report", help="Only write the tables and figures of the records that are there.")
]


def add_protocols(bench: typer.Typer) -> None:
    """Add a command for each experiment."""
    for name, text in HELP.items():
        bench.command(name, help=text)(_command(name))


def _command(name: str) -> Callable[..., None]:
    def command(
        data: Data = None,
        quick: Quick = False,
        images: Images = None,
        epochs: Epochs = None,
        seeds: Seeds = None,
        methods: Methods = None,
        device: Device = "auto",
        workers: Workers = 1,
        dask: Dask = None,
        retry: Retry = False,
        out: Folder = None,
        report: Report = False,
        quiet: Quiet = False,
    ) -> None:
        from coordnet import _checks
        from coordnet.bench.protocols import report as reports
        from coordnet.bench.protocols import run as experiments
        from coordnet.cli.specs import choose_device

        folder = out or Path("results") / name
        if not report:
            if data is None:
                raise _checks.wrong("data", "a folder with pictures and clips (--data DIR)", "none")
            chosen = choose_device(device).type
            options = experiments.Options(
                data, quick, images, epochs, seeds, tuple(methods or ()), chosen, workers, dask, retry
            )
            count, failed = experiments.run(name, options, folder, progress=not quiet)
            if not quiet:
                print(f"{count} cells, {failed} of them failed, in {folder / 'records.jsonl'}")
            return
        written = reports.write(name, folder)
        if not quiet:
            print(reports.text(name, folder))
            print("written to " + ", ".join(str(path) for path in written))

    return command
