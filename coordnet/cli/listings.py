"""What there is: built-in samples and encoders, as tables."""

from coordnet.encodings.encoders import JointEncoder
from coordnet.encodings.registry import ENCODERS
from coordnet.media import SAMPLES


def print_samples() -> None:
    """Print a line for each built-in sample image."""
    for name, sample in SAMPLES.items():
        print(f"{name:16}{sample.description}")


def print_encoders() -> None:
    """Print a line for each encoder, and below it one for each of its scale parameters and options."""
    print(f"{'encoder':20}{'parameter':14}{'unit':12}{'default':12}meaning")
    for name, encoder in ENCODERS.items():
        axes = "several axes jointly: " if issubclass(encoder, JointEncoder) else ""
        print(f"{name:58}{axes}{encoder.summary}")
        for parameter in encoder.scales:
            unit, default = parameter.unit, parameter.default
            print(f"{'':20}{parameter.name:14}{unit:12}{default!s:12}{parameter.meaning}")
        if encoder.options():
            print(f"{'':20}also {', '.join(encoder.options())}")
    print("\nlengths are in units of the unit interval or in sample spacings (0.64px); frequencies in cycles")
    print(
        "over it or a spacing (0.25/px); learnable trains them with the gradient solver; every encoder also"
    )
    print("takes features=K and normalize")
