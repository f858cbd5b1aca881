"""The protocol every model follows, one module per theme.

A model is a PyTree of arrays with a differentiable `loss`. Whatever else it can do is a capability: a small abstract
class with one or two methods. Training, scoring, sampling, reports and comparisons ask `isinstance(model, CanSample)`
and never what a model is called. All methods take a leading batch axis; data come scaled, in the units of the data
source, which knows the way back.
"""

from chainrule.models.protocol.criteria import Criterion, LossSettings
from chainrule.models.protocol.denoising import (
    CanInvert,
    FlowLikelihood,
    HasControl,
    HasDenoiser,
    HasFlowLikelihood,
    HasSamplers,
    HasTokenAttention,
    HasViews,
    Trajectory,
)
from chainrule.models.protocol.encoding import CanDecode, CanEncode, HasEmbedding, HasJointSpace
from chainrule.models.protocol.filling import CanFill
from chainrule.models.protocol.forecasting import CanForecast
from chainrule.models.protocol.judging import needs_targets
from chainrule.models.protocol.latents import HasLatents, HasRateWeight, LatentUse
from chainrule.models.protocol.likelihood import (
    Bounded,
    HasBound,
    HasBoundParts,
    HasDensity,
    HasLogProb,
    HasScores,
    Scored,
)
from chainrule.models.protocol.mechanisms import (
    HasAlignment,
    HasAttention,
    HasLens,
    HasPictures,
    HasRecurrence,
    HasResidualStream,
)
from chainrule.models.protocol.model import Metrics, Model
from chainrule.models.protocol.options import (
    OptionGroup,
    SampleOptions,
    check_options,
    option_fields,
    read_options,
)
from chainrule.models.protocol.prediction import (
    CanPredict,
    HasLogits,
    HasOutputs,
    as_prediction,
    output_count,
    supervised_loss,
    weighted_mean,
)
from chainrule.models.protocol.registration import Config, Entry, Recipe
from chainrule.models.protocol.sampling import CanSample, HasSampleCaption, HasSampleControls
from chainrule.models.protocol.text import (
    CanContinue,
    CanPack,
    CanPad,
    CanSearch,
    CanTranslate,
    DecodingState,
    HasSurprisal,
    Hypothesis,
    StreamedToken,
)
from chainrule.models.protocol.training import (
    HasAnnealedLoss,
    HasOwnTraining,
    HasParts,
    HasState,
    NeedsSchema,
    Part,
    parameter_count,
    parts_of,
)
from chainrule.models.protocol.weights import (
    FileFormat,
    Flattened,
    HuggingFace,
    InOut,
    Joined,
    Name,
    NameTable,
    Patches,
    Spelled,
    matrix_shape,
    numbered,
)

__all__ = [
    "Bounded",
    "CanContinue",
    "CanDecode",
    "CanEncode",
    "CanFill",
    "CanForecast",
    "CanInvert",
    "CanPack",
    "CanPad",
    "CanPredict",
    "CanSample",
    "CanSearch",
    "CanTranslate",
    "Config",
    "Criterion",
    "DecodingState",
    "Entry",
    "FileFormat",
    "Flattened",
    "FlowLikelihood",
    "HasAlignment",
    "HasAnnealedLoss",
    "HasAttention",
    "HasBound",
    "HasBoundParts",
    "HasControl",
    "HasDenoiser",
    "HasDensity",
    "HasEmbedding",
    "HasFlowLikelihood",
    "HasJointSpace",
    "HasLatents",
    "HasLens",
    "HasLogProb",
    "HasLogits",
    "HasOutputs",
    "HasOwnTraining",
    "HasParts",
    "HasPictures",
    "HasRateWeight",
    "HasRecurrence",
    "HasResidualStream",
    "HasSampleCaption",
    "HasSampleControls",
    "HasSamplers",
    "HasScores",
    "HasState",
    "HasSurprisal",
    "HasTokenAttention",
    "HasViews",
    "HuggingFace",
    "Hypothesis",
    "InOut",
    "Joined",
    "LatentUse",
    "LossSettings",
    "Metrics",
    "Model",
    "Name",
    "NameTable",
    "NeedsSchema",
    "OptionGroup",
    "Part",
    "Patches",
    "Recipe",
    "SampleOptions",
    "Scored",
    "Spelled",
    "StreamedToken",
    "Trajectory",
    "as_prediction",
    "check_options",
    "matrix_shape",
    "needs_targets",
    "numbered",
    "option_fields",
    "output_count",
    "parameter_count",
    "parts_of",
    "read_options",
    "supervised_loss",
    "weighted_mean",
]
