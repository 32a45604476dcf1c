"""Options and interest: py_vollib, numpy-financial."""

from __future__ import annotations

import numpy as np

from bench.corpus.case import Built, case


@case("py_vollib")
def black_scholes_price() -> Built:
    from py_vollib.ref_python.black_scholes import black_scholes

    def f(S, K, t, r, sigma):
        return black_scholes("c", S, K, t, r, sigma) + black_scholes("p", S, K, t, r, sigma)
    return f, (100.0, 90.0, 0.5, 0.01, 0.2)


@case("py_vollib")
def black_scholes_greeks() -> Built:
    from py_vollib.ref_python.black_scholes.greeks.analytical import delta, gamma, theta, vega

    def f(S, t, sigma):
        return sum(greek("c", S, 90.0, t, 0.01, sigma) for greek in (delta, gamma, theta, vega))
    return f, (100.0, 0.5, 0.2)


@case("py_vollib")
def black_76() -> Built:
    from py_vollib.ref_python.black import black

    def f(F, sigma):
        return black("p", F, 100.0, sigma, 0.02, 0.5)
    return f, (101.0, 0.3)


@case("py_vollib")
def merton_dividends() -> Built:
    from py_vollib.ref_python.black_scholes_merton import black_scholes_merton

    def f(S, sigma, q):
        return black_scholes_merton("p", S, 95.0, 0.5, 0.1, sigma, q)
    return f, (100.0, 0.2, 0.03)


@case("py_vollib")
def implied_volatility() -> Built:
    from py_vollib.ref_python.black_scholes.implied_volatility import implied_volatility

    def f(price):
        return implied_volatility(price, 100.0, 90.0, 0.5, 0.01, "c")
    return f, (12.111581435,)


@case("numpy-financial")
def payments() -> Built:
    import numpy_financial as npf

    def f(rate, nper, pv):
        return (npf.pmt(rate, nper, pv) + npf.fv(rate, nper, -100.0, pv) + npf.pv(rate, nper, -50.0, 10.0)
                + npf.nper(rate, -2000.0, pv))
    return f, (0.07 / 12, 120.0, 8000.0)


@case("numpy-financial")
def net_present_value() -> Built:
    import numpy_financial as npf
    return lambda rate, values: npf.npv(rate, values), (0.08, np.array([-4e4, 5e3, 8e3, 1.2e4, 3e4]))


@case("numpy-financial")
def internal_rate() -> Built:
    import numpy_financial as npf
    return lambda values: npf.irr(values), (np.array([-100.0, 39.0, 59.0, 55.0, 20.0]),)


@case("numpy-financial")
def modified_rate() -> Built:
    import numpy_financial as npf
    return lambda values, finance: npf.mirr(values, finance, 0.12), (np.array([-100.0, 39.0, 59.0, 55.0, 20.0]), 0.1)


@case("numpy-financial")
def rate_of_interest() -> Built:
    import numpy_financial as npf
    return lambda pmt, pv: npf.rate(10, pmt, pv, 10000.0), (-10.0, -3500.0)
