from .methods import EncoderChoice as EncoderChoice
from .plan import ConjugateGradients as ConjugateGradients
from .tuning import tune_scale as tune_scale
from .tuning import tune_smoothness as tune_smoothness
