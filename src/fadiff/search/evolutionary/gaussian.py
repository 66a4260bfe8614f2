"""A Gaussian process over points of a unit cube, and its log expected improvement, by BoTorch."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, cast

import torch
from botorch.acquisition.analytic import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll  # pyright: ignore[reportUnknownVariableType]
from botorch.models import SingleTaskGP
from botorch.models.transforms import Standardize
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from botorch.posteriors import GPyTorchPosterior
from botorch.utils.sampling import manual_seed
from gpytorch.distributions import MultivariateNormal
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.utils.warnings import NumericalWarning
from threadpoolctl import threadpool_limits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    FloatArray = NDArray[np.float64]

POINTS_AT_ONCE = 256
"""Points predicted together; the time grows with their square."""


class Surrogate:
    """A process fitted to scores of points; smaller scores are better.

    A Matern 5/2 kernel with one length scale for each dim, BoTorch's priors on them, and inferred noise. The parameters
    go on from those of the model `before`, if there is one, by at most `iterations` steps of L-BFGS.
    """

    def __init__(
        self, points: FloatArray, scores: FloatArray, iterations: int, seed: int, before: Surrogate | None = None
    ) -> None:
        kernel = get_covar_module_with_dim_scaled_prior(points.shape[1], use_rbf_kernel=False)
        worth = torch.from_numpy(-scores[:, None])
        self.process = _Process(torch.from_numpy(points), worth, covar_module=kernel, outcome_transform=Standardize(1))
        if before is not None:
            self.process.covar_module.load_state_dict(before.process.covar_module.state_dict())
            self.process.likelihood.load_state_dict(before.process.likelihood.state_dict())
        likelihood = ExactMarginalLogLikelihood(self.process.likelihood, self.process)
        # Threads would only wait for each other on matrices of this size; a fit that fails draws new parameters.
        with threadpool_limits(limits=1), manual_seed(seed):
            fit_gpytorch_mll(likelihood, optimizer_kwargs={"options": {"maxiter": iterations}})

    def log_expected_improvement(self, points: FloatArray, least: float) -> FloatArray:
        """``[points]`` log of the expected decrease of the score below `least`."""
        acquisition = LogExpectedImprovement(self.process, best_f=-least)
        with threadpool_limits(limits=1), torch.no_grad(), warnings.catch_warnings():
            # Next to a point of the data the variance may come out as a negative zero.
            warnings.filterwarnings("ignore", "Negative variance values detected", NumericalWarning)
            parts = torch.split(torch.from_numpy(points)[:, None], POINTS_AT_ONCE)
            return torch.cat([acquisition(part) for part in parts]).numpy()


class _Process(SingleTaskGP):
    """A process that predicts many points one by one, as acquisition functions ask it to, in one go."""

    def posterior(self, X: Tensor, *args: Any, **kwargs: Any) -> GPyTorchPosterior:  # noqa: ANN401  (BoTorch's own)
        """Marginals at ``[points, 1, dims]``; as a batch, each point would come with its own copy of the data."""
        joint = cast("GPyTorchPosterior", super().posterior(X.squeeze(-2), *args, **kwargs))
        return GPyTorchPosterior(MultivariateNormal(joint.mean, torch.diag_embed(joint.variance)))
