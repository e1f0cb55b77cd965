"""What a prior is: parameters, when it suits which samples and what it costs, its plan, and its words."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import Encoding
from coordnet.networks.fit_reports import FitReport
from coordnet.networks.heads import labelled
from coordnet.plans.plan import Plan
from coordnet.sampling.axes import MAX_AXES, ByAxes
from coordnet.sampling.samples import Geometry

Sampled = Literal["lattice", "gaps", "measurements"]  # kinds of samples; see ``Setting.sampled``
Cleaning = Literal["plan", "patches", "windows", "network", "sum"]
Learned = tuple[FitReport, Mapping[str, Tensor]]  # the report of a fit, and the tensors that it learned

REQUIRED = "auto, or a prior such as cn.Adaptive()"  # the words for a missing prior
FEW_SAMPLES = range(5, 1001)  # numbers of samples of a row that tell a covariance and keep dense systems fast
FEWEST_KRIGED = 5  # points that tell a covariance
# Points that are kriged at most, by the number of axes, which takes a minute in the plane. On five clouds of 50,000
# there it gains 0.1 to 1.1 dB over plates alone, and loses 1.1 dB on a smooth one with noise; on a noisy row of as
# many it loses 1.8 dB.
MOST_KRIGED = ByAxes({1: 2**15, 2: 2**18, 3: 2**15})
LONGEST_AXIS = 8192  # samples along an axis up to which its design matrix is factorized by default


@dataclass(frozen=True)
class Setting:
    """The samples that a prior may suit: where they are, how many channels they have, and how they will be fitted."""

    geometry: Geometry  # where the samples are
    channels: int = 3  # the number of channels
    device: torch.device | str = "cpu"  # the device of the samples
    fourier: bool = True  # whether the encoding may be Fourier's, which some plans need
    robust: bool = False  # whether outliers are expected
    nugget: float = 0.0  # the standard deviation of the white noise that the samples seem to have; see ``plans.nugget``
    # The weights of frequencies along each axis for plates of some orders; see ``anisotropies``.
    anisotropies: Mapping[int, tuple[float, ...]] = field(default_factory=dict)

    @property
    def is_long(self) -> bool:
        """Whether an axis is too long for its design matrix to be factorized."""
        return max(axis.count for axis in self.geometry.axes) > LONGEST_AXIS

    @property
    def sampled(self) -> Sampled:
        """The kind of samples: a whole lattice, which may skip nodes; other nodes, cells or points; measurements."""
        kind: Sampled = "lattice" if self.geometry.filled_axes else "gaps"
        return "measurements" if self.geometry.operator else kind

    @property
    def is_short_row(self) -> bool:
        """Whether samples are some nodes of a row, the same for all channels, and as many as ``FEW_SAMPLES`` says."""
        return self._axes <= 1 and self._known_nodes in FEW_SAMPLES

    @property
    def has_plain_gaps(self) -> bool:
        """Whether samples are some nodes of two or three axes, the same for all channels, at most ``MOST_KRIGED``."""
        is_plain = self._axes in (2, 3) and self.geometry.is_binary
        return is_plain and FEWEST_KRIGED <= self._known_nodes <= MOST_KRIGED[self._axes]

    @property
    def _axes(self) -> int:
        """The number of axes of more than one node."""
        return sum(n > 1 for n in self.geometry.grid)

    @property
    def _known_nodes(self) -> int:
        """The number of known nodes of a lattice with gaps that are the same for all channels; 0 for other samples."""
        geometry = self.geometry
        has_gaps = geometry.is_nodal and not geometry.is_laid and geometry.hides_alike and geometry.density < 1
        return round(geometry.density * math.prod(geometry.grid)) if has_gaps and self.has_one_mask else 0

    @property
    def has_plain_points(self) -> bool:
        """Whether samples are points, neither few nor more than ``MOST_KRIGED``, the same for all channels.

        They have no drift, and no axis wraps around.
        """
        geometry = self.geometry
        are_points = geometry.closed_form_blend is not None and self.has_one_mask
        is_plain = geometry.drift is None and not any(axis.periodic for axis in geometry.axes)
        dims, count = len(geometry.grid), geometry.shape[0]
        return are_points and is_plain and dims <= 3 and FEWEST_KRIGED <= count <= MOST_KRIGED[dims]

    @property
    def has_one_mask(self) -> bool:
        """Whether the samples of all channels have the same weights."""
        return self.geometry.weights is None or self.geometry.weights.shape[-1] == 1


class Prior(ABC):
    """The assumption about a signal beside its samples: a frozen dataclass, whose fields are its parameters.

    A prior has a ``name`` and a ``plan``; all else has a default. ``PRIORS`` in ``coordnet.priors.registry`` lists
    the priors.

    Attributes
    ----------
    name : str
        The name on the command line, in reports and in comparisons.
    usage : str
        The text after the name in the help of ``--prior``: ``[:PARAMETER=VALUE,…]``, and a note in parentheses.
    learns : bool
        Whether the samples change it.
    axes, samples : range, tuple of str
        The numbers of axes of the signals, and the kinds of samples, for which it is weighed unasked; all by default.
    on_cpu : bool
        Whether its plan works on the CPU, wherever the samples are.
    follows_scales : bool
        Whether gradients flow to learnable scales of the encoding.
    cleans_by : str
        How it removes noise from all values of a signal: by the ``plan`` for that noise (see ``with_noise``), or by
        ``patches``, ``windows``, a ``network`` or as a ``sum``, without a plan; see ``restore.cleaners``.
    noise : float
        The standard deviation of the noise on samples; with 0, known samples of a picture are not changed.
    """

    name: ClassVar[str]
    usage: ClassVar[str] = ""
    learns: ClassVar[bool] = False
    axes: ClassVar[range] = range(1, MAX_AXES + 1)
    samples: ClassVar[tuple[Sampled, ...]] = ("lattice", "gaps", "measurements")
    on_cpu: ClassVar[bool] = False
    follows_scales: ClassVar[bool] = False
    cleans_by: ClassVar[Cleaning] = "plan"
    noise = 0.0

    @abstractmethod
    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> Plan:
        """Factorize the fit of an encoding on a geometry; the options are those of ``Plan``.

        Raises
        ------
        ValueError
            If the prior does not suit the encoding or the geometry.
        """

    @classmethod
    def candidates(cls, setting: Setting) -> "tuple[Prior, ...]":
        """Return the priors of this kind that suit a setting and are weighed unasked; none by default.

        They are asked for signals with as many ``axes`` and such ``samples`` alone, and not for samples with outliers.
        """
        return ()

    def among(self, others: "Callable[[], Prior | None]", geometry: Geometry) -> "Prior":
        """Return the prior of a fit that names this one; by default itself, which does not ask which others suit."""
        return self

    def seconds(self, setting: Setting) -> float:
        """Estimate the seconds of a fit on one core, or on a graphics processor; 0 where they hardly count."""
        return 0.0

    def seeded(self, seed: int) -> "Prior":
        """Return the prior with another seed of the samples that it hides, if it hides some."""
        return replace(self, seed=seed) if hasattr(self, "seed") else self  # type: ignore[type-var]

    def in_time(self, times: tuple[float, ...]) -> "Prior":
        """Return the prior for frames at some times along the first axis; itself by default."""
        return self

    def settled(self, report: FitReport) -> "Prior":
        """Return the prior with the numbers that a fit chose, for fits to parts of its samples; itself by default."""
        return self

    def weighed_as(self, report: FitReport) -> "Prior":
        """Return the prior with the weights of the candidates in a fit; itself by default, as it has none."""
        return self

    def taught(self, fits: Sequence[Learned]) -> "Prior":
        """Return the prior with what fits to some blocks of a signal learned, for its other blocks of the same lengths.

        By default it is the prior itself, which learns from each block.
        """
        return self

    def robust(self) -> "Prior":
        """Return the prior for samples with outliers; a ``ValueError`` is raised if there is none."""
        raise _checks.wrong("robust", "a smoothness prior", self.name)

    def with_noise(self, sigma: float) -> "Prior":
        """Return the prior for noise of a standard deviation; a ``ValueError`` is raised if it takes none."""
        expected = "auto, or cn.Local() (--prior local), because the samples have noise"
        raise _checks.wrong("prior", expected, f"cn.{type(self).__name__}")

    @property
    def takes_noise(self) -> bool:
        """Whether there is a prior of this kind for samples with noise; see ``with_noise``."""
        return type(self).with_noise is not Prior.with_noise

    @property
    def keeps_samples(self) -> bool:
        """Whether known samples stay as they are, or nearly so, with their noise."""
        return not self.noise

    @property
    def searches(self) -> bool:
        """Whether a fit tries many numbers of the prior, so that it is tried after all other candidates."""
        return False

    @property
    def start(self) -> "Prior":
        """The prior of the estimate that this one refines where it improves on it; by default the prior itself."""
        return self

    @property
    def stationary(self) -> "Prior":
        """The prior from whose posterior is drawn: by default the prior itself."""
        return self

    @property
    def words(self) -> str:
        """The text for it in reports of noise that was removed: by default its name."""
        return self.name

    @property
    def text(self) -> str:
        """The prior as the command line reads it, with the parameters that are not the default ones."""
        return self._text(*(f.name for f in fields(self) if getattr(self, f.name) != _default(f)))  # type: ignore[arg-type]

    def _text(self, *names: str) -> str:
        values = {name: getattr(self, name) for name in names}
        return labelled(self.name, {name: value for name, value in values.items() if _is_plain(value)})


@dataclass(frozen=True)
class Timed(Prior):
    """A prior of frames in time.

    Attributes
    ----------
    times : tuple of float
        The times of the frames, in any unit; equally far apart if not given. A ``ValueError`` is raised if they do not
        increase.
    """

    times: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for time in self.times:
            _checks.finite("times", time)
        if any(later <= earlier for earlier, later in zip(self.times, self.times[1:], strict=False)):
            raise _checks.wrong("times", "increasing numbers, each once", self.times)

    def in_frames(self, count: int) -> Float[np.ndarray, " frames"]:
        """Return the times of frames in units of their median distance, from 0 on.

        A ``ValueError`` is raised if there are times of another number of frames.
        """
        if not self.times:
            return np.arange(float(count))
        if len(self.times) != count:
            raise _checks.wrong("times", f"{count} numbers, one for each frame", len(self.times))
        times = np.array(self.times)
        return (times - times[0]) / np.median(np.diff(times)) if count > 1 else np.zeros(1)

    def in_time(self, times: tuple[float, ...]) -> "Timed":
        """Return the prior with the times of the frames, unless it has some."""
        return self if self.times else replace(self, times=times)

    @property
    def text(self) -> str:
        """The prior as the command line reads it, without the times of the frames."""
        return replace(self, times=()).text if self.times else super().text


def as_prior(prior: Any, expected: str = "'auto', None, or a prior such as cn.Smoothness()") -> Prior:
    """Return a prior as it is; a ``ValueError`` that says what is ``expected`` is raised for anything else."""
    if not isinstance(prior, Prior):
        raise _checks.wrong("prior", expected, repr(prior))
    return prior


def _default(parameter: Any) -> Any:
    return parameter.default if parameter.default_factory is MISSING else parameter.default_factory()


def _is_plain(value: Any) -> bool:
    """Whether the command line can name a value: a number, a text, or several of them."""
    return all(isinstance(part, int | float | str) for part in (value if isinstance(value, tuple) else (value,)))
