"""Rank-one estimation of a +-1 signal from a noisy tensor with p indices: q_hat = snr q^(p-1)."""

from replica import Model, conjugate, quantity, sign_term

OPTIONS = {"p": ("3", "4")}
snr, q = quantity("snr"), quantity("q")
q_hat = conjugate(q)


def build(p="3"):
    power = int(p)
    return Model(
        name="spiked-tensor",
        title=f"Rank-one estimation from a tensor with {p} indices, +-1 signal",
        setting="Y = sqrt(snr) x^(p) + Gaussian noise (scaled); Bayes-optimal estimate of x",
        overlaps=(q,),
        conjugates=(q_hat,),
        controls=(snr,),
        prior=sign_term(q_hat.symbol),
        coupling=-q.symbol * q_hat.symbol / 2,
        channel=snr.symbol * q.symbol**power / (2 * power),
        observables={"mse": 1 - q.symbol**power},
        starts={"uninformed": {"q": 0.0}, "informed": {"q": 1.0}},
        sources=("Lesieur, Miolane, Lelarge, Krzakala, Zdeborova, ISIT (2017)",),
    )
