"""`torch.distributions`: arguments are checked inside the graph, and where a check fails eager code raises."""

import itertools

import pytest
import torch
import torch.distributions as D

from tests.differential import check

MAKE = {
    "normal": lambda x, p, m: D.Normal(x, p),
    "log_normal": lambda x, p, m: D.LogNormal(x, p),
    "beta": lambda x, p, m: D.Beta(p, p + 1),
    "gamma": lambda x, p, m: D.Gamma(p, p),
    "exponential": lambda x, p, m: D.Exponential(p),
    "laplace": lambda x, p, m: D.Laplace(x, p),
    "cauchy": lambda x, p, m: D.Cauchy(x, p),
    "half_normal": lambda x, p, m: D.HalfNormal(p),
    "uniform": lambda x, p, m: D.Uniform(x, x + p),
    "gumbel": lambda x, p, m: D.Gumbel(x, p),
    "student": lambda x, p, m: D.StudentT(p + 2, x, p),
    "pareto": lambda x, p, m: D.Pareto(p, p + 3),
    "weibull": lambda x, p, m: D.Weibull(p, p),
    "kumaraswamy": lambda x, p, m: D.Kumaraswamy(p, p),
    "bernoulli": lambda x, p, m: D.Bernoulli(logits=x),
    "binomial": lambda x, p, m: D.Binomial(10, logits=x),
    "categorical": lambda x, p, m: D.Categorical(logits=x),
    "geometric": lambda x, p, m: D.Geometric(logits=x),
    "poisson": lambda x, p, m: D.Poisson(p),
    "one_hot": lambda x, p, m: D.OneHotCategorical(logits=x),
    "relaxed": lambda x, p, m: D.RelaxedBernoulli(p[0] + 0.5, logits=x),
    "multinomial": lambda x, p, m: D.Multinomial(5, logits=x),
    "dirichlet": lambda x, p, m: D.Dirichlet(p),
    "of_covariance": lambda x, p, m: D.MultivariateNormal(x, m),
    "of_factor": lambda x, p, m: D.MultivariateNormal(x, scale_tril=torch.linalg.cholesky(m)),
    "of_precision": lambda x, p, m: D.MultivariateNormal(x, precision_matrix=m),
    "low_rank": lambda x, p, m: D.LowRankMultivariateNormal(x, m[:, :2], p),
    "mixture": lambda x, p, m: D.MixtureSameFamily(D.Categorical(logits=x), D.Normal(x, p)),
    "independent": lambda x, p, m: D.Independent(D.Normal(x, p), 1),
    "transformed": lambda x, p, m: D.TransformedDistribution(D.Normal(x, p), [D.TanhTransform(), D.AffineTransform(0.0, 2.0)]),
}
NO_ENTROPY = {"binomial", "poisson", "relaxed", "mixture", "transformed"}
NO_MEAN = {"relaxed", "transformed"}


def _world(seed, sign=1.0, skew=0.0):
    x = torch.randn(3, generator=torch.Generator().manual_seed(seed)).double()
    m = torch.eye(3).double() * 1.5 + 0.1
    m[0, 1] += skew
    return x.requires_grad_(), sign * (x.detach().abs() + 0.3), m


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MAKE)
def test_is_one_graph(name):
    make, asks_entropy, asks_mean = MAKE[name], name not in NO_ENTROPY, name not in NO_MEAN

    def program(x, p, m):
        made = make(x, p, m)
        drawn = made.rsample() if made.has_rsample else made.sample()
        entropy = made.entropy() if asks_entropy else None
        moments = (made.mean, made.variance) if asks_mean else None
        return drawn, made.sample((2,)), made.log_prob(drawn), entropy, moments

    worlds = [_world(0), _world(1), _world(2, sign=-1.0), _world(3, skew=0.5), _world(4, skew=float("nan"))]
    check(program, *worlds[0], changed=worlds[1:], graphs=1, traceback="other")


NORMALS = ("normal", "of_covariance", "of_factor", "of_precision", "low_rank")
PAIRS = [(p, q) for p, q in itertools.product(NORMALS, NORMALS) if (p == "normal") == (q == "normal")]


@pytest.mark.parametrize("pair", [*PAIRS, ("beta", "beta"), ("gamma", "exponential"), ("categorical", "categorical"), ("dirichlet", "dirichlet")])
def test_divergence(pair):
    one, other = (MAKE[name] for name in pair)

    def program(x, p, m):
        return D.kl_divergence(one(x, p, m), other(x + 1, p + 0.5, m * 2))

    worlds = [_world(0), _world(1)]
    check(program, *worlds[0], changed=worlds[1:], graphs=1, traceback="other")


def test_a_matrix_that_is_none():
    def program(x, p, m):
        return D.MultivariateNormal(x, m[:, :2]).log_prob(x)

    check(program, *_world(0), traceback="other", nodes=False)


def test_a_batch_of_matrices_of_which_one_is_not_positive():
    def program(x, m):
        return D.MultivariateNormal(x, m).log_prob(x), D.constraints.positive_definite.check(m)

    good = torch.stack([torch.eye(3), torch.eye(3) * 2])
    odd, negative = good.clone(), good.clone()
    odd[1, 0, 2], negative[0, 1, 1] = 1.0, -1.0
    x = torch.randn(2, 3)
    check(program, x, good, changed=[(x, odd), (x, negative)], graphs=1, traceback="other")
    check(lambda m: D.constraints.positive_definite.check(m), good, changed=[(odd,), (negative,)], graphs=1)
