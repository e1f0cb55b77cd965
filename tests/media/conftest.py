"""Faster tests of files: imageio collects garbage whenever FFmpeg closes one, and modules are no garbage."""

import gc

import pytest


@pytest.fixture(autouse=True)
def frozen_modules():
    gc.freeze()
    yield
    gc.unfreeze()
