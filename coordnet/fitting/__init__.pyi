from .closed_form import ConjugateGradients as ConjugateGradients
from .fit import EncoderChoice as EncoderChoice
from .tuning import tune_scale as tune_scale
from .tuning import tune_smoothness as tune_smoothness
