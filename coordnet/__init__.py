"""Reconstruct signals from samples with coordinate networks, in closed form where that is possible.

A signal is sampled (``sample``, ``Samples``, ``Measurements``), fitted (``fit``, or ``plan`` for many signals), and is
then a ``Reconstruction``: a function of position. ``inpaint``, ``upscale``, ``denoise`` and ``demosaic`` do this for
arrays, and ``compare`` for several methods beside SciPy's interpolations. All encoders are in ``encodings.encoders``
(``cn.encoders``), heads in ``networks.heads`` (``cn.heads``), SciPy's interpolations and the scores in ``metrics``,
measures of encoders in ``analysis``, figures in ``plots``, what is needed less often in ``encodings`` and ``fitting``.

Notes
-----
These conventions hold everywhere:

- Signals are ``(*grid, channels)``, with axes in array order: ``(height, width)`` for images.
- Coordinates are in [0, 1): sample i of N is at i/N. A render of another size is "pixel" aligned, so that an enlarged
  image is not shifted (``Axis.render``).
- Scale parameters of encoders are in units of the unit interval, or texts in sample spacings: ``sigma="0.64px"``.
- A fit is evaluated from half a spacing before 0 to as much beyond 1; ``fit(points, outside="clamp")`` or
  ``"extrapolate"`` goes further. Nothing is promised beyond the outermost samples.
- A fit of scattered points in closed form, or with a named ``blending``, is evaluated as it was fitted: between the
  nodes of its lattice it is their blend. ``fit(points, exact=True)`` evaluates the encoding at the points themselves.
- ``psnr`` takes pictures, in [0, 1] or of integers, and clips the estimate as a display does; other signals need
  ``data_range``. The command and ``compare`` score and draw signals beyond [0, 1] on their own range.
- Device and dtype follow the tensors. Randomness comes from a ``generator``, by default that of ``torch.manual_seed``,
  or from a ``seed``; the command has seed 0 by default.
- The same signal and seed give the same bits in Python and by the command, but for what ``coordnet upscale`` reads in
  blocks of rows.
- PyTorch's own settings choose the precision of products in direct fits, renders and training
  (``torch.set_float32_matmul_precision``). Fits that iterate, draws and ``denoise`` round as float32 does, whatever
  they say.
- A seed gives the same bits on a CPU. On a GPU sums of scattered parts (``index_add_``) come in another order, unless
  ``torch.use_deterministic_algorithms(True)`` is set, and iterations look at their residuals less often.
- PyTorch's threads spin while they wait, so that beside other work on the same cores a fit can take twenty times as
  long. The command bounds that, and so does ``import coordnet`` before ``import torch``; where torch comes first, set
  ``GOMP_SPINCOUNT=10000`` in the environment.
"""

import lazy_loader

from coordnet.linalg.waiting import bound_spinning

__docformat__ = "numpy"  # for pdoc, which reads it in each public module
bound_spinning()  # before anything imports torch
# The public names are listed in __init__.pyi and imported when first used: `coordnet --help` does not wait for torch.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
