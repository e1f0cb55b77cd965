"""A comparison as one page of HTML that needs nothing beside it: a sortable table, and a slider for each method."""

import base64
import io
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np
from PIL import Image

from coordnet.plots.comparison import SAMPLES, TRUTH, Shown, page_pictures

TEMPLATE = "compare.html"
BY = {"held_out": "held-out PSNR", "fitted": "PSNR at the samples"}


def compose(record: dict[str, Any], shown: Shown) -> str:
    """The page of a comparison.

    Parameters
    ----------
    record : dict
        As ``coordnet compare`` writes it, its methods in order.
    shown : Shown
        The estimates that are drawn.

    Returns
    -------
    str
        HTML with its style, its script and every picture inside.
    """
    pictures = {name: _inlined(pixels) for name, pixels in page_pictures(shown).items()}
    methods = list(enumerate(record["methods"]))
    by = record["ranked_by"]
    shape = "×".join(str(n) for n in record["shape"])
    known = f"{100 * record['known']:.3g} % known"
    parts = {
        "title": f"{record['signal']}: methods compared",
        "about": f"{shape}, sampled {record['sample']} ({known}), seed {record['seed']}, {record['device']}",
        "measure": BY[by],
    }
    return Template(files("coordnet.cli").joinpath(TEMPLATE).read_text(encoding="utf-8")).substitute(
        {name: escape(text) for name, text in parts.items()},
        rows="\n".join(_row(i, method, by) for i, method in methods),
        cards="\n".join(_card(i, method, by, pictures) for i, method in methods),
        references="\n".join(
            f'<option value="{escape(name)}">{escape(name)}</option>' for name in [TRUTH, SAMPLES, *shown.estimates]
        ),
        hidden="\n".join(f'<img data-name="{name}" src="{pictures[name]}" alt="">' for name in (TRUTH, SAMPLES)),
        left_out="\n".join(f'<p class="left-out">{escape(text)}</p>' for text in left_out(record)),
    )


def left_out(record: dict[str, Any]) -> list[str]:
    """A line for each reason why combinations were left out of a comparison."""
    names: dict[str, list[str]] = {}
    for name, reason in record["left_out"].items():
        names.setdefault(reason, []).append(name)
    return [f"left out: {', '.join(these)} ({reason})" for reason, these in names.items()]


def _inlined(pixels: np.ndarray) -> str:
    """A picture as the address of its own WebP file, lossless."""
    image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    file = io.BytesIO()
    image.save(file, "WEBP", lossless=True)
    return "data:image/webp;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def _row(i: int, method: dict[str, Any], by: str) -> str:
    name = f'<th scope="row"><a href="#method-{i}">{escape(method["name"])}</a></th>'
    if method["status"] == "failed":
        return f'<tr data-failed>{name}<td colspan="5">failed: {escape(method["reason"])}</td></tr>'
    seconds = method["seconds"]
    cells = [
        _cell(method["psnr"][by], "{:.2f} dB", missing="exact"),
        _cell(method["ssim"], "{:.3f}"),
        _cell(seconds["fit"], "{:.4f} s"),
        _cell(seconds["render"], "{:.4f} s"),
        _cell(method["parameters"], "{:,}"),
    ]
    return f"<tr>{name}{''.join(cells)}</tr>"


def _cell(value: float | int | None, form: str, *, missing: str = "–") -> str:
    if value is None:
        return f'<td data-value="{"Infinity" if missing == "exact" else ""}">{missing}</td>'
    return f'<td data-value="{value!r}">{form.format(value)}</td>'


def _card(i: int, method: dict[str, Any], by: str, pictures: dict[str, str]) -> str:
    name = escape(method["name"])
    if method["status"] == "failed":
        inside = f'<p class="failed">failed: {escape(method["reason"])}</p>'
        return f'<article class="card" id="method-{i}"><h2>{name}</h2>{inside}</article>'
    value = method["psnr"][by]
    score = "exact" if value is None else f"{value:.2f} dB"
    warned = "".join(f'<p class="failed">{escape(text)}</p>' for text in method["warnings"])
    return f"""<article class="card" id="method-{i}">
<h2>{name}</h2><p>{score}</p>{warned}
<div class="slider">
<img class="after" data-name="{name}" src="{pictures[method["name"]]}" alt="reconstruction by {name}">
<img class="before" src="{pictures[TRUTH]}" alt="truth">
<span class="tag left">truth</span><span class="tag right">{name}</span><span class="divider"></span>
<input type="range" min="0" max="100" value="50" aria-label="Divider: truth on the left, {name} on the right">
</div>
</article>"""
