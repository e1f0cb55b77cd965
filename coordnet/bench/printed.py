"""The settings and the printed results of the source papers.

Zheng et al., "Trading Positional Complexity vs Deepness in Coordinate Networks" (ECCV 2022), tables 1 to 3: the scale
of each encoder (σ, half-width, or highest frequency); PSNR on test points in dB, and seconds, on the authors' data.
"""

from typing import Any

from coordnet.encodings.encoders import Gaussian, LinearFourier, LogFourier, RandomFourier, Triangle

Setting = tuple[float, str, str]
Column = dict[Any, Setting]  # by the class of the encoder
ENCODERS = (LinearFourier, LogFourier, RandomFourier, Triangle, Gaussian)


def _column(*settings: tuple[float] | tuple[float, str] | Setting) -> Column:
    filled: list[Any] = [(*setting, "", "")[:3] for setting in settings]
    return dict(zip(ENCODERS, filled, strict=True))


TABLE_1 = {
    "simple": _column(
        (2.0**5, "26.12 ± 3.99", "22.59"),
        (2.0**5.5, "26.11 ± 4.04", "22.67"),
        (14.0, "26.58 ± 4.18", "22.62"),
        (2.5 / 128, "25.96 ± 3.88", "22.98"),
        (0.006, "26.17 ± 4.17", "23.12"),
    ),
    "gradient": _column(
        (2.0**4.5, "19.73 ± 2.49", "1.93"),
        (2.0**6.5, "23.55 ± 2.99", "1.85"),
        (42.0, "24.34 ± 3.24", "1.55"),
        (2 / 256, "26.65 ± 3.57", "1.48"),
        (0.004, "26.69 ± 3.74", "2.01"),
    ),
    "closed form": _column(
        (2.0**6, "ill-conditioned"),
        (2.0**6.5, "ill-conditioned"),
        (42.0, "ill-conditioned"),
        (1 / 256, "26.36 ± 3.39", "0.03"),
        (0.0025, "26.69 ± 3.76", "0.18"),
    ),
}
TABLE_2 = {
    "simple": _column(
        (2.0**4, "24.58 ± 3.74", "21.97"),
        (2.0**4.5, "24.76 ± 3.82", "22.13"),
        (8.0, "24.90 ± 3.78", "22.28"),
        (2.5 / 128, "24.24 ± 3.56", "22.50"),
        (0.006, "24.63 ± 3.70", "22.86"),
    ),
    "gradient": _column(
        (2.0**4.5, "19.64 ± 2.04", "11.51"),
        (2.0**6, "22.35 ± 2.82", "11.52"),
        (30.0, "20.54 ± 2.61", "3.08"),
        (2.5 / 256, "23.21 ± 3.58", "1.90"),
        (0.005, "23.97 ± 3.44", "2.51"),
    ),
}
TABLE_3 = {
    "simple": _column(
        (2.0**3, "21.49 ± 3.29", "77.06"),
        (2.0**3, "21.46 ± 3.09", "77.86"),
        (3.0, "21.06 ± 3.26", "77.86"),
        (3 / 64, "20.86 ± 3.09", "78.91"),
        (0.015, "21.21 ± 3.26", "79.09"),
    ),
    "gradient": _column(
        (2.0**3, "9.76 ± 3.95", "0.69"),
        (2.0**3, "9.98 ± 3.84", "0.68"),
        (6.0, "20.33 ± 3.06", "0.69"),
        (2 / 64, "22.24 ± 2.89", "0.68"),
        (0.015, "22.11 ± 3.14", "0.66"),
    ),
    "closed form": _column(
        (2.0**4,),
        (2.0**3,),
        (6.0, "18.05 ± 2.36", "0.01"),
        (3 / 64, "22.04 ± 2.95", "0.009"),
        (0.009, "21.83 ± 3.33", "0.008"),
    ),
}
SCATTERED_CLIP = {  # what the authors' notebook prints for one clip, by method
    "MLP, simple rff": ("25.10 (one clip)", "279.6"),
    "gradient, complex gaussian": ("23.41 (one clip)", "4.5"),
}
