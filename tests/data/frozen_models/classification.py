"""Regularised classification of labels y = sign(z): by the logistic, the hinge or the square loss."""

from sympy import Eq, Heaviside, Max, exp, log, sign

from equations import Y, Z, convex_erm

LOSSES = {"logistic": log(1 + exp(-Y * Z)), "hinge": Max(0, 1 - Y * Z), "square": (Y - Z) ** 2 / 2}
OPTIONS = {"loss": tuple(LOSSES)}


def build(loss="logistic"):
    return convex_erm(
        LOSSES[loss],
        teacher=Eq(Y, sign(Z)),
        risk=Heaviside(-Y * Z),
        name="classification",
        title=f"Classification with the {loss} loss",
    )


def simulate(controls, D, generator):
    """The minimiser on one instance, by L-BFGS."""
    import numpy as np
    from scipy.optimize import minimize

    teacher = generator.normal(size=D)
    x = generator.normal(size=(round(controls["alpha"] * D), D)) / np.sqrt(D)
    y = np.sign(x @ teacher)

    def objective(w):
        margin = y * (x @ w)
        value = np.logaddexp(0, -margin).sum() + controls["lam"] * (w @ w) / 2
        return value, -(x.T @ (y / (1 + np.exp(margin)))) + controls["lam"] * w

    w = minimize(objective, np.zeros(D), jac=True, method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-8, "maxiter": 2000}).x
    norm = teacher @ teacher / D  # 1 at infinite D
    cosine = w @ teacher / np.sqrt((w @ w) * (teacher @ teacher))
    return {"m": w @ teacher / D / np.sqrt(norm), "q": w @ w / D, "risk": np.arccos(cosine) / np.pi}
