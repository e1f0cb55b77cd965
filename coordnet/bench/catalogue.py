"""The names and titles of the experiments, which commands and reports take from here.

``papers`` and ``quality`` declare what each experiment runs. This file imports nothing, so that ``coordnet bench
--help`` does not wait for PyTorch.
"""

PAPERS = {  # commands of their own
    "table1": "Pictures, every second pixel of every second row known (Zheng et al. 2022, table 1)",
    "table2": "Pictures, a random quarter of the pixels known (Zheng et al. 2022, table 2)",
    "table3": "Video cubes of 128³ (Zheng et al. 2022, table 3)",
    "figure7": (
        "Rows and columns of pictures: rank of the encoding against depth (Zheng et al. 2022, figure 7; rate 0.005)"
    ),
    "features": (
        "Rows and columns of pictures: rank and PSNR against the dimension K of encodings of equal "
        "stable rank by theory, that of a Gaussian of σ = 0.01 (Zheng et al. 2021 and 2022)"
    ),
    "epochs": (
        "Pictures of 128², every second pixel of every second row known: PSNR against the epochs (Zheng et al. 2022)"
    ),
    "rethinking": (
        "Rows and columns of pictures: Gaussian and random Fourier features, of equal stable rank "
        "by theory (Zheng et al. 2021)"
    ),
    "encoders": (
        "Pictures, every second pixel of every second row known: every encoder, simple and complex, linear and MLP"
    ),
    "noise": "Pictures known everywhere, with white Gaussian noise",
    "sampling": "Pictures, PSNR against the fraction of pixels known",
}

QUALITY = {  # parts of ``coordnet bench quality``
    "random": "A random quarter of the pixels",
    "density": "Fewer and more random samples of two photographs",
    "video": "A random eighth of the cubes of two clips",
    "audio": "A random quarter of a recording, and every second sample",
    "entries": "30 % of the entries of a photograph, with another mask for each channel",
    "bayer": "The RGGB mosaic, without its border",
    "structured": "Holes, scratches and text, drawn anew for each photograph",
    "every": "Every second pixel",
    "noise": "Every second pixel, with noise",
    "denoise": "Every pixel, with noise; clipped values are rounded to 8 bits",
    "noises": "Every pixel, with noise as cameras, scanners and JPEG make it, which is not given",
    "upscale": "Pictures reduced by averaging, and enlarged again",
    "iterations": "Steps of conjugate gradients to a relative residual of 0.0001, by size",
    "fields": "Smooth fields in two dimensions",
    "volume": "A smooth field in three dimensions",
    "tone": "Every second sample of a decaying tone",
    "rectilinear": "Smooth fields at 64×64 unequal coordinates, scored in the middle of every two",
    "measurements": (
        "Linear measurements: a blur and a quarter of Fourier space with noise of σ = 0.01, and 30 "
        "projections with σ = 0.1; the peers' free numbers are chosen with hindsight"
    ),
    "trained": (
        "What networks add that were trained on other photographs: FFDNet, weighed beside the default, and alone with "
        "the true noise; demosaicnet"
    ),
    "trained-measurements": (
        "The same for measurements, beside total variation (scikit-image) with the best weight by hindsight"
    ),
    "intervals": "Intervals of 90 % at unknown pixels",
    "intervals-clips": "Intervals of 90 % at unknown pixels of video cubes",
    "intervals-damage": "Intervals of 90 % in holes, scratches and text",
    "intervals-lattices": "Intervals of 90 % between every second or third pixel of every second or third row",
    "hindsight": ("A random quarter of the pixels, with a slow peer and with choices that only the true signal allows"),
}

LARGE = {  # parts of ``coordnet bench large``
    "large-pictures": "Five photographs beside each other, 800×1600",
    "large-clips": "A view that moves over these photographs, 64 frames of 144×176",
    "large-fields": "A random field, 1100×1100",
}
