"""Tensor splines through the samples of a lattice, the plain interpolation that others have to be better than."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import Encoding, FourierEncoding
from coordnet.encodings.encoders import UnevenSpline
from coordnet.linalg.borders import make_periodic
from coordnet.linalg.kronecker import Kronecker
from coordnet.networks.fit_reports import FitReport
from coordnet.plans.plan import CenteredValues, Fitted, Plan
from coordnet.priors.base import Prior, Sampled, Setting
from coordnet.sampling.axes import Axis
from coordnet.sampling.samples import Geometry, Samples

SPLINE_DEGREES = (1, 3, 5)
LONGEST = 2048  # knots of an axis up to which splines are taken unasked: their matrices are dense


@dataclass(frozen=True)
class Spline(Prior):
    """The tensor spline of a degree through all samples of a lattice that skips samples.

    Its knots are the samples, without those next to the ends for higher degrees ("not a knot", as SciPy has it).
    Beyond the outermost samples of an axis the last step is repeated, times the correlation of neighboring steps along
    that axis: a trend is continued, and where steps do not correlate the last value is kept. A ``ValueError`` is raised
    if the degree is not odd or not in [1, 7].

    Notes
    -----
    de Boor, "A Practical Guide to Splines" (1978), chapter 13. The correlation is Burg's: "Maximum entropy spectral
    analysis" (1975).
    """

    name: ClassVar[str] = "spline"
    usage: ClassVar[str] = "[:degree=3]"
    learns: ClassVar[bool] = True
    samples: ClassVar[tuple[Sampled, ...]] = ("lattice",)
    degree: int = 3

    def __post_init__(self) -> None:
        if _checks.integer("degree", self.degree, 1) not in (1, 3, 5, 7):
            raise _checks.wrong("degree", "1, 3, 5 or 7", self.degree)

    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> Plan:
        return SplinePlan(encoding, geometry, self.degree, **options)

    @classmethod
    def candidates(cls, setting: Setting) -> tuple["Spline", ...]:
        """Return those of degree 1, 3 and 5 for equally spaced lattices that skip samples."""
        geometry = setting.geometry
        fits = geometry.is_strided and geometry.is_nodal and max(geometry.shape) <= LONGEST
        return tuple(cls(degree) for degree in SPLINE_DEGREES) if fits and setting.fourier else ()


class SplinePlan(Plan):
    """Interpolate a lattice along one axis after another; the Fourier encoding holds the result.

    The parameters are those of ``plan``; the encoding is replaced by that of the signal's grid. A ``ValueError`` is
    raised if the encoding is not Fourier's, or not every node of the lattice has a sample.
    """

    has_gradient = True

    def __init__(self, encoding: Encoding, geometry: Geometry, degree: int, **options: Any) -> None:
        if encoding.axis_encoders:
            raise _checks.wrong("encoding", "a FourierEncoding for splines", type(encoding).__name__)
        geometry.check_filled("prior", "cn.ThinPlate() or cn.Adaptive() where samples are missing", "cn.Spline")
        super().__init__(FourierEncoding.on(tuple(Axis(n) for n in geometry.grid)), geometry, **options)
        self.degree = degree

    def solve(self, values: CenteredValues) -> Fitted:
        f = _onto_grid(values.subtracted().double(), self.geometry, self.degree)
        report = FitReport(method=f"tensor spline of degree {self.degree}")
        return Fitted(make_periodic(f, self.encoding.shape).to(self.dtype), report)


def interpolated(samples: Samples, degree: int) -> Float[Tensor, "channels *grid"]:
    """Return the tensor spline through all samples of a lattice on its signal's grid, continued as ``Spline`` says."""
    values = samples.values.movedim(-1, 0)
    return _onto_grid(values.double(), samples.geometry, degree).to(values)


def _onto_grid(
    values: Float[Tensor, "*channels_and_samples"], geometry: Geometry, degree: int
) -> Float[Tensor, "*channels_and_grid"]:
    onto, dims = map(Axis, geometry.grid), len(geometry.grid)
    pairs = enumerate(zip(geometry.axes, onto, strict=True))
    matrices = [_spline_matrix(*axes, degree, _step_correlation(values, j - dims)) for j, axes in pairs]
    return Kronecker(matrices)(values)


def _step_correlation(values: Float[Tensor, "*_"], axis: int) -> Float[Tensor, ""]:
    """Return the correlation 2 Σ dᵢdᵢ₊₁ / Σ (dᵢ² + dᵢ₊₁²) of neighboring steps d along an axis; 0 if it is negative."""
    steps = values.diff(dim=axis).movedim(axis, 0).double()  # squares of float32 may be beyond its range
    before, after = steps[:-1], steps[1:]
    energy = (before.square() + after.square()).sum()
    return (2 * (before * after).sum() / energy.clamp(min=torch.finfo(energy.dtype).tiny)).clamp(min=0)


def _spline_matrix(
    knots: Axis, onto: Axis, degree: int, correlation: Float[Tensor, ""]
) -> Float[Tensor, "positions knots"]:
    """Return the matrix, in float64, from values at the knots of a spline to its values at other positions.

    Beyond the knots, n knot distances off, these are the last value plus n ``correlation`` times the last step.
    """
    encoder = UnevenSpline.for_axes((knots,), None, degree=degree)
    x, at = (axis.points(device=correlation.device) for axis in (knots, onto))
    inside = at.clamp(x[0], x[-1])
    matrix = torch.linalg.solve(encoder(x), encoder(inside), left=False)
    if len(x) < 2:
        return matrix
    beyond, unit = correlation * (at - inside) / (x[1] - x[0]), torch.eye(len(x)).to(matrix)
    before, after = beyond.clamp(max=0).unsqueeze(1), beyond.clamp(min=0).unsqueeze(1)
    return matrix + before * (unit[1] - unit[0]) + after * (unit[-1] - unit[-2])
