"""The name of a stage of long work, on the terminal while the stage lasts."""

from tqdm import tqdm


def stage(name: str, *, shown: bool) -> tqdm:
    """Return a context that shows the name of a stage, which counts no steps; beside a terminal it shows nothing."""
    return tqdm(desc=name, bar_format="{desc} …", leave=False, disable=None if shown else True)
