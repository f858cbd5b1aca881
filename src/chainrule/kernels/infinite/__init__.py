"""Networks of infinite width: their kernels before and during training, and finite ones to compare with."""

from chainrule.kernels.infinite.architectures import Convolutional, Dense
from chainrule.kernels.infinite.attention import Attend, AttendLinearly, AttendTied
from chainrule.kernels.infinite.branches import Add, Concatenate, Identity
from chainrule.kernels.infinite.closed_forms import (
    Bell,
    ErrorFunction,
    ExponentialActivation,
    Gelu,
    PolynomialActivation,
    Rectifier,
    Sine,
    StepActivation,
)
from chainrule.kernels.infinite.dual import DualActivation
from chainrule.kernels.infinite.estimates import EstimatedKernels, monte_carlo_kernel
from chainrule.kernels.infinite.flows import GatheredSlopes, cross_entropy, train_by_loss
from chainrule.kernels.infinite.grams import kernel_matrices
from chainrule.kernels.infinite.layer import FixedLayer, HasKernels, InfiniteLayer
from chainrule.kernels.infinite.network import FiniteNetwork, InfiniteNetwork, Kernels, Serial
from chainrule.kernels.infinite.network_kernels import NNGP, NTK
from chainrule.kernels.infinite.numerical import MonteCarlo, Quadrature
from chainrule.kernels.infinite.pooling import AveragePool, Flatten, GlobalAveragePool, MaxPool
from chainrule.kernels.infinite.spectrum import Descent, max_learning_rate
from chainrule.kernels.infinite.training import TrainedEnsemble, TrainedPrediction, gradient_descent
from chainrule.kernels.infinite.units import Activate, DropUnits, FunctionLayer, NormalizeChannels
from chainrule.kernels.infinite.weights import Affine, Convolve

__all__ = [
    "NNGP",
    "NTK",
    "Activate",
    "Add",
    "Affine",
    "Attend",
    "AttendLinearly",
    "AttendTied",
    "AveragePool",
    "Bell",
    "Concatenate",
    "Convolutional",
    "Convolve",
    "Dense",
    "Descent",
    "DropUnits",
    "DualActivation",
    "ErrorFunction",
    "EstimatedKernels",
    "ExponentialActivation",
    "FiniteNetwork",
    "FixedLayer",
    "Flatten",
    "FunctionLayer",
    "GatheredSlopes",
    "Gelu",
    "GlobalAveragePool",
    "HasKernels",
    "Identity",
    "InfiniteLayer",
    "InfiniteNetwork",
    "Kernels",
    "MaxPool",
    "MonteCarlo",
    "NormalizeChannels",
    "PolynomialActivation",
    "Quadrature",
    "Rectifier",
    "Serial",
    "Sine",
    "StepActivation",
    "TrainedEnsemble",
    "TrainedPrediction",
    "cross_entropy",
    "gradient_descent",
    "kernel_matrices",
    "max_learning_rate",
    "monte_carlo_kernel",
    "train_by_loss",
]
