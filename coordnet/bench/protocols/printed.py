"""The source papers' settings and printed results, as their tables have them.

Zheng et al., "Trading Positional Complexity vs Deepness in Coordinate Networks" (ECCV 2022), tables 1 to 3: PSNR on
test points in dB, and seconds, on the authors' data and GPU.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """A scale (σ, half-width, or highest frequency), and what was printed for it."""

    scale: float
    psnr: str = ""
    seconds: str = ""


Column = dict[str, Setting]

TABLE_1: dict[str, Column] = {
    "simple": {
        "linf": Setting(2.0**5, "26.12 ± 3.99", "22.59"),
        "logf": Setting(2.0**5.5, "26.11 ± 4.04", "22.67"),
        "rff": Setting(14.0, "26.58 ± 4.18", "22.62"),
        "triangle": Setting(2.5 / 128, "25.96 ± 3.88", "22.98"),
        "gaussian": Setting(0.006, "26.17 ± 4.17", "23.12"),
    },
    "gradient": {
        "linf": Setting(2.0**4.5, "19.73 ± 2.49", "1.93"),
        "logf": Setting(2.0**6.5, "23.55 ± 2.99", "1.85"),
        "rff": Setting(42.0, "24.34 ± 3.24", "1.55"),
        "triangle": Setting(2 / 256, "26.65 ± 3.57", "1.48"),
        "gaussian": Setting(0.004, "26.69 ± 3.74", "2.01"),
    },
    "closed form": {
        "linf": Setting(2.0**6, "ill-conditioned"),
        "logf": Setting(2.0**6.5, "ill-conditioned"),
        "rff": Setting(42.0, "ill-conditioned"),
        "triangle": Setting(1 / 256, "26.36 ± 3.39", "0.03"),
        "gaussian": Setting(0.0025, "26.69 ± 3.76", "0.18"),
    },
}

TABLE_2: dict[str, Column] = {
    "simple": {
        "linf": Setting(2.0**4, "24.58 ± 3.74", "21.97"),
        "logf": Setting(2.0**4.5, "24.76 ± 3.82", "22.13"),
        "rff": Setting(8.0, "24.90 ± 3.78", "22.28"),
        "triangle": Setting(2.5 / 128, "24.24 ± 3.56", "22.50"),
        "gaussian": Setting(0.006, "24.63 ± 3.70", "22.86"),
    },
    "gradient": {
        "linf": Setting(2.0**4.5, "19.64 ± 2.04", "11.51"),
        "logf": Setting(2.0**6, "22.35 ± 2.82", "11.52"),
        "rff": Setting(30.0, "20.54 ± 2.61", "3.08"),
        "triangle": Setting(2.5 / 256, "23.21 ± 3.58", "1.90"),
        "gaussian": Setting(0.005, "23.97 ± 3.44", "2.51"),
    },
}

TABLE_3: dict[str, Column] = {
    "simple": {
        "linf": Setting(2.0**3, "21.49 ± 3.29", "77.06"),
        "logf": Setting(2.0**3, "21.46 ± 3.09", "77.86"),
        "rff": Setting(3.0, "21.06 ± 3.26", "77.86"),
        "triangle": Setting(3 / 64, "20.86 ± 3.09", "78.91"),
        "gaussian": Setting(0.015, "21.21 ± 3.26", "79.09"),
    },
    "gradient": {
        "linf": Setting(2.0**3, "9.76 ± 3.95", "0.69"),
        "logf": Setting(2.0**3, "9.98 ± 3.84", "0.68"),
        "rff": Setting(6.0, "20.33 ± 3.06", "0.69"),
        "triangle": Setting(2 / 64, "22.24 ± 2.89", "0.68"),
        "gaussian": Setting(0.015, "22.11 ± 3.14", "0.66"),
    },
    "closed form": {
        "linf": Setting(2.0**4),
        "logf": Setting(2.0**3),
        "rff": Setting(6.0, "18.05 ± 2.36", "0.01"),
        "triangle": Setting(3 / 64, "22.04 ± 2.95", "0.009"),
        "gaussian": Setting(0.009, "21.83 ± 3.33", "0.008"),
    },
}

SCATTERED_CLIP = {
    ("simple", "rff"): ("25.10 (one clip)", "279.6"),
    ("gradient", "gaussian"): ("23.41 (one clip)", "4.5"),
}


def unprinted(column: Column) -> Column:
    """The settings of a column, for a method that the paper does not have."""
    return {name: Setting(setting.scale) for name, setting in column.items()}
