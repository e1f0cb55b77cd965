"""Pictures that come with scikit-image, read from its folder without any download."""

# The file of each picture inside scikit-image's wheel, and one line about it.
SAMPLES = {
    "astronaut": ("astronaut.png", "portrait of Eileen Collins, 512×512 RGB"),
    "brick": ("brick.png", "brick wall, a regular texture, 512×512 gray"),
    "camera": ("camera.png", "man with a camera, 512×512 gray"),
    "cell": ("cell.png", "a cell under the microscope, 660×550 gray"),
    "chelsea": ("chelsea.png", "a cat's face with fine fur, 300×451 RGB"),
    "checkerboard": ("chessboard_GRAY.png", "checkerboard with sharp edges, 200×200 gray"),
    "clock": ("clock_motion.png", "clock blurred by motion, 300×400 gray"),
    "coffee": ("coffee.png", "cup of coffee on a table, 400×600 RGB"),
    "coins": ("coins.png", "Greek coins from Pompeii, 303×384 gray"),
    "colorwheel": ("color.png", "color wheel, 370×371 RGB"),
    "grass": ("grass.png", "grass, an irregular texture, 512×512 gray"),
    "gravel": ("gravel.png", "gravel, an irregular texture, 512×512 gray"),
    "horse": ("horse.png", "black silhouette of a horse, 328×400 RGBA"),
    "hubble_deep_field": ("hubble_deep_field.jpg", "galaxies on black, 872×1000 RGB"),
    "ihc": ("ihc.png", "immunohistochemical staining of colonic glands, 512×512 RGB"),
    "logo": ("logo.png", "scikit-image's logo, 500×500 RGBA"),
    "microaneurysms": ("microaneurysms.png", "detail of a retina, 102×102 gray"),
    "moon": ("moon.png", "surface of the moon, low contrast, 512×512 gray"),
    "motorcycle": ("motorcycle_left.png", "motorcycle in a workshop, 500×741 RGB"),
    "page": ("page.png", "scanned page of text, 191×384 gray"),
    "phantom": ("phantom.png", "Shepp-Logan phantom, piecewise constant, 400×400 RGB"),
    "retina": ("retina.jpg", "fundus of an eye, 1411×1411 RGB"),
    "rocket": ("rocket.jpg", "Falcon 9 on its launch pad, 427×640 RGB"),
    "text": ("text.png", "handwriting in uneven light, 172×448 gray"),
}
