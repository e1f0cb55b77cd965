"""Motion: missing frames of a clip from those before and after them, moved along the optical flow between these."""

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.ndimage import gaussian_filter, map_coordinates
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import Encoding, FourierEncoding
from coordnet.linalg.borders import make_periodic
from coordnet.networks.fit_reports import FitReport
from coordnet.plans.hold_out import HeldOut
from coordnet.plans.plan import Begun, Fitted, Judged, Plan
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.adaptive.plan import AdaptivePlan
from coordnet.priors.base import Sampled, Setting, Timed
from coordnet.sampling.axes import Axis
from coordnet.sampling.samples import Geometry, Samples

FEWEST_SEEN = 3  # frames with samples: two are left where one is hidden
FLOW = "optical flow of Lucas and Kanade"
NEARBY = 2.0  # standard deviation, in nodes, of the window in which frames are compared
SECONDS_BY_NODES = 5e-6  # time of one core for each node
ALONE_ERROR = 4.0  # squared error of one moved frame alone, relative to the squared difference of two nearby
# Squared difference of moved frames, relative to that of still ones, below which they follow what moves.
FOLLOWED = 0.25
OUT_OF_VIEW = 1e-4  # weight of what is out of view beside what is in view

Frame = Float[np.ndarray, "channels height width"]
Flow = Float[np.ndarray, "2 height width"]


@dataclass(frozen=True)
class Motion(Timed):
    """Frames without samples are those before and after them, moved along the optical flow between these.

    A frame at the share w of the time between two others, f and g, is (1 - w) f(x - w u(x)) + w g(x + (1 - w) u(x)),
    with the flow u from f to g. Where one of these places is out of view, the other frame counts alone. The flow is the
    mean of that from f to g and minus that from g to f, by how well each predicts the other frame. Where the two moved
    frames differ, as at what is covered and where scenes are cut, f and g themselves count: each pair has a weight
    inverse to its mean squared difference nearby. The motion before the first and after the last of the frames with
    samples is that between the two nearest, for as long. Gaps within such frames are those of the adaptive fit.

    Notes
    -----
    Le Besnerais and Champagnat, "Dense optical flow by iterative local window registration" (2005), has the flow, which
    is scikit-image's.
    """

    name: ClassVar[str] = "motion"
    usage: ClassVar[str] = " (missing frames of a clip)"
    learns: ClassVar[bool] = True
    samples: ClassVar[tuple[Sampled, ...]] = ("lattice", "gaps")
    axes: ClassVar[range] = range(3, 4)
    on_cpu: ClassVar[bool] = True

    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> Plan:
        return MotionPlan(encoding, geometry, self, **options)

    @classmethod
    def candidates(cls, setting: Setting) -> "tuple[Motion, ...]":
        """Return it for lattices of three axes, some of whose frames have no samples."""
        return (cls(),) if setting.fourier and lacks_frames(setting.geometry, FEWEST_SEEN) else ()

    def seconds(self, setting: Setting) -> float:
        return SECONDS_BY_NODES * math.prod(setting.geometry.grid)


class MotionPlan(Plan):
    """Fill frames without samples by ``Motion``, and all others by the adaptive fit, which hides samples.

    Where a lattice skips frames, every k-th of its own is hidden, as those between are missing. The parameters are
    those of ``plan``; flows are found on the CPU. A ``ValueError`` is raised if the encoding is not Fourier's, or the
    samples are not those of a lattice of three axes with two frames that have some.
    """

    holds_out = stands_apart = True

    def __init__(self, encoding: Encoding, geometry: Geometry, prior: Motion, **options: Any) -> None:
        if not isinstance(encoding, FourierEncoding):
            raise _checks.wrong("encoding", "a FourierEncoding for frames in time", type(encoding).__name__)
        if not _has_frames(geometry):
            raise _checks.wrong("geometry", "frames of two axes in time, some of them unknown", repr(geometry))
        if geometry.is_strided:
            encoding = FourierEncoding.on(tuple(Axis(n) for n in geometry.grid))
        super().__init__(encoding, geometry, **options)
        self.pilot = None if geometry.is_strided else AdaptivePlan(encoding, geometry, Adaptive(), **options)
        self.known = geometry.with_gaps.full_weights.movedim(-1, 0) > 0
        self.times = prior.in_frames(geometry.grid[0])
        if int(_seen(self.known).sum()) < 2:
            raise _checks.wrong("geometry", "two frames with samples at least", repr(geometry))

    def solve_and_hold_out(self, values: Float[Tensor, "1 channels *samples"], begun: Begun | None = None) -> Judged:
        if self.pilot is None:
            return self._skipped(values)
        fitted, held_out = (begun or {}).get(Adaptive()) or self.pilot.solve_and_hold_out(values)
        f = torch.where(self.known.to(values.device), values[0], fitted.signal(self.geometry.grid)[0])
        f, difference = moved(f, _seen(self.known), self.times)
        report = FitReport(method=f"{FLOW}, after {fitted.report.method}", device="cpu")
        fitted = replace(fitted, coefficients=make_periodic(f.unsqueeze(0), self.encoding.shape), report=report)
        if held_out is None or int(_seen(held_out.shown).sum()) < 2:
            return fitted, None
        f = torch.where(held_out.shown, held_out.values, held_out.estimate)
        return fitted, _judged(held_out, f, self.times[held_out.part[0]], difference)

    def _skipped(self, values: Float[Tensor, "1 channels *samples"]) -> Judged:
        """Return the frames that a lattice skips from its own, and the hidden ones of these from the others."""
        samples = Samples(self.geometry, values[0].movedim(0, -1))
        f = values.new_zeros(values.shape[1], *self.geometry.grid)
        f[(..., *self.geometry.slices)] = values[0]
        f, difference = moved(f, _seen(self.known), self.times)
        fitted = Fitted(make_periodic(f.unsqueeze(0), self.encoding.shape), FitReport(method=FLOW, device="cpu"))
        held_out = HeldOut.draw(samples, 0.0, 0)
        if held_out is None:
            return fitted, None
        return fitted, _judged(held_out, held_out.values, self.times[self.geometry.slices[0]], difference)


def _judged(
    held_out: HeldOut, f: Float[Tensor, "channels *lattice"], times: Float[np.ndarray, " frames"], difference: float
) -> HeldOut:
    """Return hidden samples with the estimate of them that follows from the frames of a clip that were shown.

    Hidden frames are farther from the others than missing ones. Where these follow what moves fast, but the former less
    so, errors of hidden frames are reduced as the differences of moved frames are, relative to those of still ones.
    """
    seen = _seen(held_out.shown)
    estimate, farther = moved(f, seen, times)
    if difference < min(FOLLOWED, farther):
        hidden = ~torch.from_numpy(seen)[:, None, None].to(estimate.device)
        reduced = held_out.values + math.sqrt(difference / farther) * (estimate - held_out.values)
        estimate = torch.where(hidden, reduced, estimate)
    return replace(held_out, estimate=estimate)


def _has_frames(geometry: Geometry) -> bool:
    """Whether samples are of a lattice of three axes: some of its nodes, or all of every k-th frame."""
    if len(geometry.grid) != 3 or not geometry.is_nodal:
        return False
    return geometry.shape == geometry.grid or (geometry.is_strided and geometry.shape[1:] == geometry.grid[1:])


def lacks_frames(geometry: Geometry, fewest: int = 0) -> bool:
    """Return whether some frames of a clip have no samples, and at least ``fewest`` have some."""
    if not _has_frames(geometry):
        return False
    seen = _seen(geometry.with_gaps.full_weights.movedim(-1, 0) > 0)
    return fewest <= int(seen.sum()) < len(seen)


def _seen(known: Bool[Tensor, "channels frames *space"]) -> Bool[np.ndarray, " frames"]:
    """Return which frames have samples."""
    return known.movedim(1, 0).flatten(1).any(1).cpu().numpy()


def moved(
    f: Float[Tensor, "channels frames height width"],
    seen: Bool[np.ndarray, " frames"],
    times: Float[np.ndarray, " frames"],
) -> tuple[Float[Tensor, "channels frames height width"], float]:
    """Return a clip whose unseen frames follow from the seen ones, at least two, as ``Motion`` says.

    The number is the mean squared difference of pairs of moved frames relative to that of the pairs as they are; 0 if
    there are none.
    """
    frames, made, differences = f.detach().cpu().double().numpy(), f.clone(), np.zeros(2)
    guides = frames.mean(0)
    guides = guides / (float(np.abs(guides[seen]).max()) or 1.0)
    flow, at = cache(lambda a, b: _flow(guides[a], guides[b])), np.flatnonzero(seen).tolist()
    for t in np.flatnonzero(~seen).tolist():
        after = bisect_left(at, t)
        a, b = at[after - 1 : after + 1] if 0 < after < len(at) else at[:2] if after == 0 else at[:-3:-1]
        share = float((times[t] - times[a]) / (times[b] - times[a]))
        if share > 0:
            frame, pair = _between(frames[:, a], frames[:, b], flow(a, b), share)
            differences += pair
        else:
            frame = _shifted(frames[:, a], max(share, -1.0) * flow(a, b))
        made[:, t] = torch.from_numpy(frame).to(f)
    return made, float(differences[0] / differences[1]) if differences[1] > 0 else 0.0


def _between(f: Frame, g: Frame, u: Flow, share: float) -> tuple[Frame, tuple[float, float]]:
    """Return the frame at a share of the time between two, with the flow u from f to g, as ``Motion`` says.

    The numbers are the mean squared differences of what it is the mean of, and of the two frames.
    """
    moved_f, moved_g = _shifted(f, share * u), _shifted(g, (share - 1) * u)
    in_f, in_g = _in_view(share * u), _in_view((share - 1) * u)
    w = np.where(in_f == in_g, share, in_g)
    error = _nearby(np.square(moved_f - moved_g).mean(0), in_f & in_g) * np.where(in_f & in_g, 1.0, ALONE_ERROR)
    other = gaussian_filter(np.square(f - g).mean(0), NEARBY)
    moving = other / np.maximum(error + other, np.finfo(other.dtype).tiny)
    frame = moving * ((1 - w) * moved_f + w * moved_g) + (1 - moving) * ((1 - share) * f + share * g)
    difference = moving * np.where(in_f & in_g, moved_f - moved_g, 0.0) + (1 - moving) * (f - g)
    return frame, (float(np.square(difference).mean()), float(np.square(f - g).mean()))


def _shifted(f: Float[np.ndarray, "channels _ _"], by: Flow) -> Float[np.ndarray, "channels _ _"]:
    """Return f(x - u(x)) for displacements u, with the nearest value beyond the borders."""
    places = np.indices(f.shape[1:]) - by
    return np.stack([map_coordinates(channel, places, order=5, mode="nearest") for channel in f])


def _in_view(by: Flow) -> Bool[np.ndarray, "height width"]:
    """Return where x - u(x) is a place within the frame, for displacements u."""
    last = np.array(by.shape[1:]).reshape(2, 1, 1) - 0.5
    places = np.indices(by.shape[1:]) - by
    return np.all((places >= -0.5) & (places <= last), axis=0)


def _nearby(
    squared: Float[np.ndarray, "height width"], inside: Bool[np.ndarray, "height width"]
) -> Float[np.ndarray, "height width"]:
    """Return the mean of squared differences in a window around each node, over the nodes inside if it has some."""
    weights = np.maximum(inside, OUT_OF_VIEW)
    return gaussian_filter(weights * squared, NEARBY) / gaussian_filter(weights, NEARBY)


def _flow(f: Float[np.ndarray, "height width"], g: Float[np.ndarray, "height width"]) -> Flow:
    """Return the displacements u with f(x) = g(x + u(x)), the weighted mean of those found there and minus those back.

    Each has the weight of the other's mean squared difference nearby between a frame and the other one, moved.
    """
    from skimage.registration import optical_flow_ilk  # no time for it where no frame is missing

    there, back = optical_flow_ilk(f, g), optical_flow_ilk(g, f)
    error, other = (
        _nearby(np.square(a - _shifted(b[None], -u)[0]), _in_view(-u)) + OUT_OF_VIEW**2
        for a, b, u in ((f, g, there), (g, f, back))
    )
    return (other * there - error * back) / (error + other)
