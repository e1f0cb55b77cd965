"""What there is: built-in samples and encoders, as tables."""

from coordnet.encoders import ENCODERS
from coordnet.media import SAMPLES


def print_samples() -> None:
    """Print a line for each built-in sample image."""
    for name, sample in SAMPLES.items():
        print(f"{name:16}{sample.description}")


def print_encoders() -> None:
    """Print a line for each parameter of each encoder."""
    print(f"{'encoder':12}{'parameter':14}{'unit':12}{'default':12}meaning")
    for name, encoder in ENCODERS.items():
        for parameter in encoder.parameters:
            row = f"{name:12}{parameter.name:14}{parameter.unit:12}{parameter.default:12}{parameter.meaning}"
            print(row)
            name = ""
    print("\nlengths are in units of the unit interval or in sample spacings (0.64px); frequencies in cycles")
    print("over it or a spacing (0.25/px); every encoder also takes features=K and normalize")
