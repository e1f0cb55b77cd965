"""The figure of a comparison, and the pictures of its page: the signal's own range, one scale for all errors."""

import numpy as np
import pytest
import torch

from coordnet.plots.comparison import Shown, comparison_figure, page_pictures
from coordnet.plots.panels import most
from coordnet.sampling.patterns import sample
from tests.helpers import synthetic_photograph


def shown(truth, **estimates):
    return Shown(truth, sample(truth, "every:2"), estimates)


def test_the_detail_is_where_the_estimates_differ():
    """A blot in one of two good estimates is found; one in the worst is not looked for."""
    truth = synthetic_photograph(80, 60)
    blotted, worst = truth.clone(), truth.clone()
    blotted[50:58, 12:20] = 1
    worst[:30, 30:] = 1
    shown = Shown(truth, sample(truth, "every:2"), {"good": truth, "blotted": blotted, "worst": worst})
    rows, columns = shown.place
    assert rows.start <= 50 and rows.stop >= 58 and columns.start <= 12 and columns.stop >= 20
    assert (rows.stop - rows.start, columns.stop - columns.start) == (16, 16)
    clip = truth.expand(5, -1, -1, -1).contiguous()
    late = clip.clone()
    late[3] = blotted
    shown = Shown(clip, sample(clip, "every:2"), {"good": clip, "late": late, "w": late, "x": late})
    assert (shown.frame, shown.place) == ((3,), (rows, columns))
    row = torch.zeros(1000)
    row[700] = 1
    (part,) = most(row)
    assert part.start <= 700 < part.stop and part.stop - part.start == 200


def test_errors_in_the_figure_are_the_estimates_own():
    truth = synthetic_photograph(30, 40)
    estimates = {"a": (truth + 0.1).clamp(0, 1), "b": truth + 3}
    shown = Shown(truth, sample(truth, "every:2"), estimates)
    figure = comparison_figure(shown, titles={"a": "20 dB", "b": "0 dB"}, name="picture")
    maps = {ax.get_images()[0].get_array().data.tobytes() for ax in figure.axes if ax.get_images()}
    for name, estimate in estimates.items():
        error = (estimate.clamp(0, 1) - truth).abs().mean(-1)
        assert torch.equal(shown.errors[name], error)
        assert error.numpy().tobytes() in maps


def test_a_sound_has_an_axis_in_seconds():
    truth = torch.sin(torch.arange(400.0)).unsqueeze(-1)
    for rate, label, end in ((None, "sample", 399), (100, "seconds", 3.99)):
        shown = Shown(truth, sample(truth, "every:2"), {"a": truth * 0.9}, rate)
        near, whole = comparison_figure(shown, titles={"a": "20 dB"}, name="sound").axes
        assert (near.get_xlabel(), whole.get_xlabel()) == (label, label)
        assert whole.lines[0].get_xdata()[-1] == pytest.approx(end)
        assert near.lines[1].get_xdata()[0] == pytest.approx(shown.place[0].start * end / 399)


def test_pictures_of_the_page_are_the_pixels_of_the_estimates():
    truth = synthetic_photograph(12, 18)
    shown = Shown(truth, sample(truth, "every:2"), {"dark": truth - 2, "half": torch.full_like(truth, 0.5)})
    pictures = page_pictures(shown)
    assert list(pictures) == ["truth", "samples", "dark", "half"]
    assert np.array_equal(pictures["truth"], (truth.numpy() * 255).round().astype(np.uint8))
    assert not pictures["dark"].any()
    clip = truth.expand(6, -1, -1, -1) * torch.linspace(0, 1, 6).reshape(6, 1, 1, 1)
    dark = torch.cat([clip[:5], clip[5:] - 2])
    frames = page_pictures(Shown(clip, sample(clip, "every:2"), {"dark": dark}))
    assert np.array_equal(frames["truth"], pictures["truth"])  # the last frame, where the estimate is wrong
    assert not frames["dark"].any()


@pytest.mark.parametrize("low", [-1.0, -20.0, 0.5])
def test_a_signal_beyond_zero_to_one_is_drawn_from_its_least_to_its_largest_value(low):
    """Another unit of measurement changes the errors' unit, and no pixel."""
    truth = synthetic_photograph(24, 30)
    truth = (truth - truth.min()) / (truth.max() - truth.min())
    estimate = truth + 0.1 * torch.sin(torch.arange(30.0)).reshape(1, -1, 1)
    unit, other = shown(truth, a=estimate.clamp(0, 1)), shown(600 * truth + low, a=600 * estimate + low)
    for name, picture in page_pictures(unit).items():
        assert np.abs(picture.astype(int) - page_pictures(other)[name]).max() <= 1, name
    assert other.errors["a"].max() == pytest.approx(60, rel=0.01)  # beyond the range too
    both = shown(other.truth, a=other.estimates["a"], b=other.truth)
    figure = comparison_figure(both, titles={"a": "20 dB", "b": "exact"}, name="picture")
    maps = [ax.images[0] for ax in figure.axes if ax.images and ax.images[0].get_cmap().name == "magma"]
    assert [image.get_clim() for image in maps] == [(0, both.top)] * 2  # the exact one's too
    assert "absolute error" in [ax.get_ylabel() for ax in figure.axes]  # the bar


def test_what_is_unknown_of_the_signal_has_no_error_and_is_gray():
    truth = synthetic_photograph(20, 20)
    estimate = truth + 0.01
    truth[4:9, 5:12] = torch.nan
    drawn = shown(truth, a=estimate)
    assert not drawn.errors["a"][4:9, 5:12].any()
    assert drawn.errors["a"][0, 0] == pytest.approx(0.01, abs=1e-4)
    assert (page_pictures(drawn)["truth"][4:9, 5:12] == 128).all()


@pytest.mark.parametrize("channels", [1, 2, 6])
def test_every_number_of_channels_becomes_a_picture(channels):
    truth = synthetic_photograph(16, 12, 3)[..., :1].expand(-1, -1, channels)
    pictures = page_pictures(shown(truth, a=truth))
    assert {picture.shape for picture in pictures.values()} == {(16, 12, 4 if channels == 2 else 3)}
