"""A symmetric door: whether |z| exceeds K, of a signal +-1 with a slight bias."""

from sympy import Abs, DiracDelta, Eq, Rational, sign

from replica import Quantity, X, Y, Z, bayes_glm

K = Quantity("K", "K", 0, open_low=True)
SHARE = Rational(51, 100)


def build():
    return bayes_glm(
        prior=SHARE * DiracDelta(X - 1) + (1 - SHARE) * DiracDelta(X + 1),
        channel=Eq(Y, sign(Abs(Z) - K.symbol)),
        controls=(K,),
        name="symmetric-door",
    )
