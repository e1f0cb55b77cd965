"""Pictures that come with scikit-image, read from its folder without any download."""

from typing import NamedTuple


class Sample(NamedTuple):
    """A built-in picture: its file inside scikit-image's wheel, and one line about it."""

    file: str
    description: str


SAMPLES: dict[str, Sample] = {
    "astronaut": Sample("astronaut.png", "portrait of Eileen Collins, 512×512 RGB"),
    "brick": Sample("brick.png", "brick wall, a regular texture, 512×512 gray"),
    "camera": Sample("camera.png", "man with a camera, 512×512 gray"),
    "cell": Sample("cell.png", "a cell under the microscope, 660×550 gray"),
    "chelsea": Sample("chelsea.png", "a cat's face with fine fur, 300×451 RGB"),
    "checkerboard": Sample("chessboard_GRAY.png", "checkerboard with sharp edges, 200×200 gray"),
    "clock": Sample("clock_motion.png", "clock blurred by motion, 300×400 gray"),
    "coffee": Sample("coffee.png", "cup of coffee on a table, 400×600 RGB"),
    "coins": Sample("coins.png", "Greek coins from Pompeii, 303×384 gray"),
    "colorwheel": Sample("color.png", "color wheel, 370×371 RGB"),
    "grass": Sample("grass.png", "grass, an irregular texture, 512×512 gray"),
    "gravel": Sample("gravel.png", "gravel, an irregular texture, 512×512 gray"),
    "horse": Sample("horse.png", "black silhouette of a horse, 328×400 RGBA"),
    "hubble_deep_field": Sample("hubble_deep_field.jpg", "galaxies on black, 872×1000 RGB"),
    "ihc": Sample("ihc.png", "immunohistochemical staining of colonic glands, 512×512 RGB"),
    "logo": Sample("logo.png", "scikit-image's logo, 500×500 RGBA"),
    "microaneurysms": Sample("microaneurysms.png", "detail of a retina, 102×102 gray"),
    "moon": Sample("moon.png", "surface of the moon, low contrast, 512×512 gray"),
    "motorcycle": Sample("motorcycle_left.png", "motorcycle in a workshop, 500×741 RGB"),
    "page": Sample("page.png", "scanned page of text, 191×384 gray"),
    "phantom": Sample("phantom.png", "Shepp-Logan phantom, piecewise constant, 400×400 RGB"),
    "retina": Sample("retina.jpg", "fundus of an eye, 1411×1411 RGB"),
    "rocket": Sample("rocket.jpg", "Falcon 9 on its launch pad, 427×640 RGB"),
    "text": Sample("text.png", "handwriting in uneven light, 172×448 gray"),
}
