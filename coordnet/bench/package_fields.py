"""Fields that packages ship, in one, two and three dimensions, each with what it is and under which licence."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

Load = Callable[[], np.ndarray]
MATPLOTLIB = "PSF-based, matplotlib's own; the file has none of its own"
OGL = "Open Government Licence (British Crown)"
BSD = "BSD-3-Clause, scikit-image's own"
NIBABEL = "MIT, nibabel's own"
PYDICOM = "MIT, pydicom's own; NEMA's test images"


@dataclass(frozen=True)
class Field:
    """A field: the module that ships it, its number of axes, a function that reads it, its content and licence."""

    package: str
    dimensions: int
    load: Load
    content: str
    licence: str
    reader: str | None = None  # another module that reads the file

    @property
    def is_installed(self) -> bool:
        """Whether the field can be read here."""
        return all(find_spec(name) is not None for name in (self.package, self.reader) if name)

    def middle(self, side: int) -> np.ndarray:
        """Return the middle of the field, at most ``side`` nodes along each axis, in float64."""
        values = np.asarray(self.load(), np.float64)
        return values[tuple(slice(max(0, n - side) // 2, (n + min(n, side)) // 2) for n in values.shape)].copy()


def _matplotlib(name: str, key: str | None = None, kind: Any = None) -> np.ndarray:
    from matplotlib.cbook import get_sample_data

    opened: Any = get_sample_data(name)
    with opened as file:
        return file[key] if key else np.frombuffer(file.read(), kind)


def _skimage(name: str, channel: int | None = None, key: str | None = None) -> np.ndarray:
    import imageio.v3 as iio

    path = Path(str(files("skimage"))) / "data" / name
    if key:
        return np.load(path)[key]
    pixels = iio.imread(path)
    return pixels if channel is None else pixels[..., channel]


def netcdf(name: str, variable: str) -> np.ndarray:
    """Return a variable of a file of iris-sample-data by its stem, NaN where it is masked."""
    import iris_sample_data  # pyright: ignore[reportMissingImports]
    import netCDF4  # pyright: ignore[reportMissingImports]

    with netCDF4.Dataset(Path(iris_sample_data.path) / f"{name}.nc") as file:
        return np.ma.filled(file[variable][:].astype(float), np.nan)


def _dicom(name: str) -> np.ndarray:
    from pydicom import dcmread  # pyright: ignore[reportMissingImports]
    from pydicom.data import get_testdata_file  # pyright: ignore[reportMissingImports]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dcmread(str(get_testdata_file(name, download=False))).pixel_array


def _nifti(name: str) -> np.ndarray:
    import nibabel  # pyright: ignore[reportMissingImports]

    return np.asarray(nibabel.load(files("nibabel") / "tests" / "data" / name).dataobj)  # type: ignore[attr-defined]


def _statsmodels(name: str, column: str) -> np.ndarray:
    from statsmodels import datasets  # pyright: ignore[reportMissingImports]

    return getattr(datasets, name).load_pandas().data[column].to_numpy()


def _wavelets(name: str) -> np.ndarray:
    from pywt import data

    return data.nino()[1] if name == "nino" else getattr(data, name)()


def _scalogram() -> np.ndarray:
    """Return the wavelet transform of the heartbeat by a Mexican hat, at 160 scales from 2 to 64 samples."""
    import pywt

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pywt.cwt(_wavelets("ecg"), np.geomspace(2, 64, 160), "mexh")[0]


def _matplotlib_field(dimensions: int, load: Load, content: str) -> Field:
    return Field("matplotlib", dimensions, load, content, MATPLOTLIB)


def _terrain(content: str, part: Any = ...) -> Field:
    return _matplotlib_field(2, lambda: _matplotlib("jacksboro_fault_dem.npz", "elevation")[part], content)


def _skimage_field(name: str, content: str, licence: str, cut: tuple[int, int] | None = None, **options: Any) -> Field:
    top, left = cut or (0, 0)
    part = np.s_[top : top + 160, left : left + 160] if cut else ...
    return Field("skimage", 2, lambda: _skimage(name, **options)[part], content, licence)


def _climate(dimensions: int, file: str, variable: str, content: str, part: Any = ...) -> Field:
    return Field("iris_sample_data", dimensions, lambda: netcdf(file, variable)[part], content, OGL, "netCDF4")


WHOLE_TERRAIN = _terrain("terrain, 30 m")
FIELDS: dict[str, Field] = {
    "co2": Field("statsmodels", 1, lambda: _statsmodels("co2", "co2")[1428:], "weekly CO₂, Mauna Loa", "public domain"),
    "sunspots": Field(
        "statsmodels", 1, lambda: _statsmodels("sunspots", "SUNACTIVITY"), "yearly sunspots", "public domain"
    ),
    "ecg": Field("pywt", 1, lambda: _wavelets("ecg"), "a heartbeat", "MIT, PyWavelets' own"),
    "nino": Field("pywt", 1, lambda: _wavelets("nino"), "sea surface temperature, Niño 3", "public domain (NOAA)"),
    "soi": _climate(1, "SOI_Darwin", "SOI_Darwin", "southern oscillation by month", np.s_[:1764]),
    "eeg": _matplotlib_field(1, lambda: _matplotlib("eeg.dat", kind=float).reshape(-1, 4)[:, 0], "brain waves"),
    "membrane": _matplotlib_field(1, lambda: _matplotlib("membrane.dat", kind=np.float32), "a membrane's current"),
    "dem": _terrain("terrain, 30 m", np.s_[60:220, 60:220]),
    "dem-coarse": _terrain("the same terrain, 60 m", np.s_[::2, ::2]),
    "topobathy": _matplotlib_field(2, lambda: _matplotlib("topobathy.npz", "topo"), "terrain and sea floor"),
    "mri": _matplotlib_field(
        2, lambda: _matplotlib("s1045.ima.gz", kind=np.uint16).reshape(256, 256), "a head, magnetic resonance"
    ),
    "mr": Field("pydicom", 2, lambda: _dicom("MR_small.dcm"), "magnetic resonance, 64²", PYDICOM),
    "ct": Field("pydicom", 2, lambda: _dicom("CT_small.dcm"), "computed tomography", PYDICOM),
    "retina": _skimage_field("retina.jpg", "a retina's vessels", "CC0", (500, 600), channel=1),
    "cell": _skimage_field("cell.png", "a cell, quantitative phase", "CC0"),
    "ihc": _skimage_field("ihc.png", "stained tissue", "no known copyright restrictions", channel=1),
    "hubble": _skimage_field("hubble_deep_field.jpg", "galaxies", "public domain (NASA)", (300, 300), channel=0),
    "moon": _skimage_field("moon.png", "the moon's surface", BSD),
    "page": _skimage_field("page.png", "a scanned page", BSD, (10, 80)),
    "text": _skimage_field("text.png", "hand-written text", "public domain", (5, 100)),
    "horse": _skimage_field("horse.png", "a silhouette", "CC0", (80, 120), channel=0),
    "phantom": Field("skimage", 2, lambda: _skimage("phantom.png", 0)[::2, ::2], "Shepp-Logan's phantom", BSD),
    "brick": _skimage_field("brick.png", "bricks", "CC0", (100, 100)),
    "grass": _skimage_field("grass.png", "grass", "CC0", (100, 100)),
    "gravel": _skimage_field("gravel.png", "gravel", "CC0", (100, 100)),
    "coins": _skimage_field("coins.png", "coins, a photograph", "no known copyright restrictions"),
    "camera": _skimage_field("camera.png", "a photograph", "CC0", (100, 150)),
    "disparity": Field(
        "skimage",
        2,
        lambda: np.nan_to_num(_skimage("motorcycle_disp.npz", key="arr_0"), posinf=0)[::2, ::2],
        "disparity of a stereo pair",
        "Middlebury 2014, shipped by scikit-image",
    ),
    "scalogram": Field("pywt", 2, _scalogram, "wavelet transform of the heartbeat", "MIT, PyWavelets' own"),
    "air": _climate(2, "A1B_north_america", "air_temperature", "air temperature, a year's mean", 7),
    "air-time": _climate(
        2, "A1B_north_america", "air_temperature", "air temperature, years by longitude", np.s_[:, 18]
    ),
    "hills": _climate(2, "hybrid_height", "surface_altitude", "terrain of a weather model"),
    "clouds": _climate(2, "toa_brightness_stereographic", "data", "brightness seen from a satellite", np.s_[:, 90:250]),
    "sea": _climate(2, "ostia_monthly", "surface_temperature", "sea temperature, time by place", np.s_[:, 9, 53:107]),
    "climate": _climate(3, "A1B_north_america", "air_temperature", "air temperature, years by place"),
    "atmosphere": _climate(3, "hybrid_height", "air_potential_temperature", "potential temperature by height"),
    "ionosphere": _climate(3, "space_weather", "Ne", "electron density"),
    "anatomy": Field("nibabel", 3, lambda: _nifti("anatomical.nii"), "a head, magnetic resonance", NIBABEL),
    "brain": Field("nibabel", 3, lambda: _nifti("example4d.nii.gz")[..., 0], "a brain's slices", NIBABEL),
    "bold": Field("nibabel", 3, lambda: _nifti("functional.nii")[:, :, 1], "a brain's slice by time", NIBABEL),
}
