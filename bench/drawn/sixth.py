"""sixth: functions of packages drawn by a random number from the registry's list, and tutorials, before any was traced.

From the list of all packages, those whose one-line summary names a field (physics, chemistry, biology, astronomy,
finance, engineering, geoscience, hydrology, statistics, signals, optics, robotics, economics, epidemiology, seismology,
kinematics, ...) and speaks of models, functions, numbers or a library, and names no service, agent, image, database,
neural network or binding; none of the corpus or of an earlier list. Of these 5,932: the 66 among the 15,000 most
downloaded, and 760 others shuffled by `random.Random(6)`; from both, in this order, those whose summary says that
they compute, that install, run on this NumPy without Numba, and have a function from real numbers to a real number.
"""

from __future__ import annotations

import importlib
import pkgutil

import numpy as np

from bench.corpus.case import CASES, Built, Case, case, script
from bench.drawn.numbers import WAVE, total

SERIES = np.array([0.012, -0.004, 0.007, 0.021, -0.015, 0.003, 0.009, -0.008, 0.014, 0.001])
PRICES = 100 * np.exp(np.cumsum(SERIES))


@case("runstats")
def moments() -> Built:
    from runstats import Statistics

    def f(x: np.ndarray) -> float:
        s = Statistics(x)
        return s.stddev() + s.skewness() + s.kurtosis()
    return f, (np.array([1.2, 0.7, 3.1, 2.2, 0.3, 1.9]),)


@case("runstats")
def regression() -> Built:
    from runstats import Regression

    def f(x: list, y: list) -> float:
        r = Regression(zip(x, y))
        return r.slope() + r.intercept() + r.correlation()
    return f, ([0.1, 0.9, 2.2, 3.1], [1.2, 1.9, 3.4, 3.9])


@case("qutip")
def negativity() -> Built:
    from qutip.continuous_variables import logarithmic_negativity
    return lambda r: logarithmic_negativity(np.array(
        [[np.cosh(r), 0, np.sinh(r), 0], [0, np.cosh(r), 0, -np.sinh(r)],
         [np.sinh(r), 0, np.cosh(r), 0], [0, -np.sinh(r), 0, np.cosh(r)]]) / 2), (0.8,)


@case("qutip")
def rotated_state() -> Built:
    import qutip
    return lambda a: qutip.expect(qutip.sigmaz(), qutip.gates.rx(a) * qutip.basis(2, 0)), (0.7,)


@case("neurokit2")
def hjorth() -> Built:
    import neurokit2 as nk
    return lambda x: nk.complexity_hjorth(x)[0], (WAVE[:30],)


@case("neurokit2")
def sevcik() -> Built:
    import neurokit2 as nk
    return lambda x: nk.fractal_sevcik(x)[0], (WAVE[:30],)


@case("chemicals")
def heat_of_vaporisation() -> Built:
    import chemicals
    return lambda t, tc, w: chemicals.SMK(t, tc, w) / 1e4 + chemicals.Lastovka_solid(t, 0.2139), (553.15, 751.35, 0.302)


@case("chemicals")
def water() -> Built:
    from chemicals import iapws95_Psat, iapws97_rho
    return lambda t, p: iapws97_rho(t, p) / 100 + iapws95_Psat(t) / 1e6, (450.0, 3e6)


@case("ffn")
def sharpe_of_returns() -> Built:
    import ffn
    import pandas as pd
    return lambda x: ffn.core.calc_sharpe(pd.Series(x), nperiods=252), (SERIES,)


@case("arviz-stats")
def monte_carlo_error() -> Built:
    from arviz_stats.base import array_stats
    return lambda x: float(1) * array_stats.mcse(x.reshape(2, 16), chain_axis=0, draw_axis=1), (WAVE[:32],)


@case("biotite")
def dihedral() -> Built:
    import biotite.structure as struc
    return lambda x: struc.dihedral(x[0], x[1], x[2], x[3]) + struc.angle(x[0], x[1], x[2]), (
        np.array([[0.1, 1.0, 0.0], [0.0, 0.0, 0.1], [1.5, 0.1, 0.0], [2.0, 1.1, 0.9]]),)


@case("pingouin")
def circular_mean() -> Built:
    import pingouin as pg
    return lambda x: pg.circ_mean(x) + pg.circ_r(x), (np.array([0.6, 1.1, 0.2, 2.0, 1.6]),)


@case("pingouin")
def effect_size() -> Built:
    import pingouin as pg
    return lambda x, y: pg.compute_effsize(x, y, eftype="hedges"), (
        np.array([1.2, 2.3, 1.8, 2.9]), np.array([0.4, 1.1, 1.6, 0.2, 0.9]))


@case("pymunk")
def transform_of_body() -> Built:
    from pymunk import Transform, Vec2d
    return lambda a, x: (Transform.rotation(a).translated(x, 1.0).inverted() @ Vec2d(x, 0.3)).rotated(a).length, (
        0.4, 1.3)


@case("pymunk")
def shape_of_polygon() -> Built:
    from pymunk import util
    return lambda x, y: util.calc_area([(0, 0), (x, 0.1), (1.2, y), (0, 1)]) + util.calc_perimeter(
        [(0, 0), (x, 0.1), (1.2, y), (0, 1)]), (1.1, 0.9)


@case("patsy")
def spline_basis() -> Built:
    from patsy import bs, cr
    return lambda x: np.sum(cr(x, df=4) ** 2) + np.sum(bs(x, df=4, lower_bound=0.0, upper_bound=2.0)[:, 1]), (
        np.array([0.1, 0.4, 0.7, 1.1, 1.3, 1.8]),)


@case("bayesian-optimization")
def expected_improvement() -> Built:
    from bayes_opt.acquisition import ExpectedImprovement

    def f(mean: np.ndarray, std: np.ndarray) -> float:
        a = ExpectedImprovement(xi=0.01)
        a.y_max = 0.6
        return a.base_acq(mean, std).sum()
    return f, (np.array([0.4, 0.7]), np.array([0.2, 0.1]))


@case("scikit-optimize")
def hartmann() -> Built:
    from skopt.benchmarks import branin, hart6
    return lambda x: hart6(x) + branin(x[:2]) / 100, (np.array([0.2, 0.3, 0.5, 0.3, 0.4, 0.7]),)


@case("qst")
def superposition_of_fock_states() -> Built:
    from QST.QSim import generate_psi
    return lambda c, x: np.sum(np.abs(generate_psi(np.array([0, 2]), c, x)) ** 2), (
        np.array([0.8, 0.6]), np.array([-0.4, 0.3, 1.1]))


@case("pitchphys")
def flight_of_a_pitch() -> Built:
    from pitchphys import simulate
    from pitchphys.presets.pitches import curveball
    return lambda mph, rpm: simulate(curveball(speed_mph=mph, spin_rpm=rpm), _baselines=False).plate_z_ft, (
        78.0, 2500.0)


@case("pitchphys")
def drag_of_a_ball() -> Built:
    from pitchphys.aero.lift import NathanLiftModel
    from pitchphys.core.ball import Baseball
    from pitchphys.core.environment import Environment
    from pitchphys.core.forces import drag_force
    from pitchphys.presets.pitches import four_seam
    pitch = four_seam()
    return lambda state, omega: np.sum(drag_force(
        0.0, state, pitch, Environment(), NathanLiftModel(), Baseball(), omega)), (
        np.array([0.0, 1.0, 6.0, 1.0, -38.0, 2.0]), np.array([200.0, 30.0, 10.0]))


@case("petropt")
def compressibility_of_gas() -> Built:
    from petropt.correlations.pvt import dranchuk_z_factor
    return lambda p, t: dranchuk_z_factor(p, t), (2.5, 1.6)


@case("petropt")
def oil_and_water() -> Built:
    from petropt.correlations.pvt import standing_bo, standing_rs
    from petropt.petrophysics.saturation import archie_sw
    return lambda p, t, phi: standing_bo(standing_rs(p, t, 35.0, 0.8), t, 35.0, 0.8) + archie_sw(20.0, phi, 0.05), (
        2000.0, 180.0, 0.2)


@case("hydrogibs")
def rain_of_montana() -> Built:
    from hydrogibs.fluvial.profile import GMS
    from hydrogibs.utils.utils import montana
    return lambda a, b, k: np.sum(montana(np.array([0.5, 1.0, 3.0]), a, b)) + GMS(k, 1.2, 0.01), (30.0, 0.6, 33.0)


@case("bezier-interpolation")
def control_points() -> Built:
    from bezier_interpolation import cubic_interpolation
    return lambda p: np.sum(cubic_interpolation(p) ** 2), (np.array([[0.0, 0.1], [1.0, 0.8], [2.1, 0.3], [3.0, 1.2]]),)


@case("thresholds")
def running_coupling() -> Built:
    from gimodel.coupling import alpha_s_prime_r, alpha_s_r
    return lambda r: alpha_s_r(r) + alpha_s_prime_r(r), (1.3,)


@case("probstatipy")
def deviation() -> Built:
    from ProbStatipy.spread import stdeviation, variance
    return lambda x: stdeviation(x) + variance(x), ([1.2, 0.7, 3.1, 2.2],)


@case("mstatistics")
def bell() -> Built:
    from mstatistics.statistics import gaussian, mad
    return lambda x, mu, s: np.sum(gaussian(x, mu, s)) + mad(x), (np.array([0.1, 0.7, 1.5]), 0.4, 0.8)  # 1.3 was a kink


@case("zedstat")
def interval_of_rate() -> Built:
    from zedstat.calibration import logit_clip, wilson_interval
    return lambda k, p: total(list(wilson_interval(k, 40.0))) + np.sum(logit_clip(p)), (12.0, np.array([0.2, 0.7]))


@case("auttitude")
def rotation_of_line() -> Built:
    from auttitude.math import build_rotation_matrix
    return lambda a, p, r: np.sum(build_rotation_matrix(a, p, r) @ np.array([1.0, 2.0, 3.0])), (120.0, 30.0, 15.0)


@case("empyrical")
def ratios_of_strategy() -> Built:
    import empyrical
    return lambda x: empyrical.sharpe_ratio(x) + empyrical.annual_volatility(x) + empyrical.cagr(x), (SERIES,)


@case("empyrical")
def alpha_beta() -> Built:
    import empyrical
    other = SERIES[::-1].copy()
    return lambda x: total(list(empyrical.alpha_beta(x, other))), (SERIES,)


@case("physics-formulas-dominik")
def lens_and_doppler() -> Built:
    from physics.geometrical_optics import lens_focal_length
    from physics.waves_and_oscillations import refraction_angle
    return lambda n, r: lens_focal_length(n, 1.0, r, 0.4) + refraction_angle(1.0, n, 0.5), (1.5, 0.3)


@case("lmlib")
def shifted_polynomial() -> Built:
    from lmlib.polynomial.poly import Poly, poly_shift_coef, poly_square_expo
    assert poly_square_expo((0, 1, 2)) is not None
    return lambda c, g: np.sum(poly_shift_coef(Poly(c, (0, 1, 2)), g) ** 2) + Poly(c, (0, 1, 2)).eval(g), (
        np.array([0.4, -0.3, 0.8]), 0.7)


@case("qiu-classical-simulation")
def beam_behind_lens() -> Built:
    from qiu_classical_simulation.wave_optics.gaussian_beam import beam_after_thin_lens
    return lambda w, d, f: total(list(beam_after_thin_lens(w, d, f, 1.0, 1.0))) / 10, (4.0, 20.0, 50.0)


@case("marketpy")
def top_quantile() -> Built:
    from marketpy.metrics import quantile_score
    seen = np.array([0.3, 0.1, 0.4, 0.2, 0.6])
    return lambda y: quantile_score(y, seen, 60), (np.array([0.02, -0.01, 0.05, 0.03, 0.01]),)


@case("vectrade-finkit")
def downside() -> Built:
    import pandas as pd
    from finkit.risk import max_drawdown, sortino_ratio
    return lambda x: sortino_ratio(pd.Series(x)) + max_drawdown(pd.Series(x)), (SERIES,)


@case("pymp")
def euler_of_matrix() -> Built:
    from pymp.transforms import matrix_to_euler
    return lambda m: total(list(matrix_to_euler(m))), (
        np.array([[0.8, -0.5, 0.2], [0.4, 0.7, -0.5], [0.1, 0.5, 0.8]]),)


@case("simplestatistics")
def tails() -> Built:
    import simplestatistics as ss
    return lambda x: ss.coefficient_of_variation(x) + ss.harmonic_mean(x) + ss.root_mean_square(x), (
        [1.2, 0.7, 3.1, 2.2, 1.9],)


@case("iquant")
def averages_of_prices() -> Built:
    from iquant.ewma import ewma_numpy
    from iquant.log_daily_return import logarithmic_daily_return
    return lambda p: np.sum(ewma_numpy(p, 3)) / 100 + np.std(logarithmic_daily_return(p)) * 10, (PRICES,)


@case("regressionlib")
def determinant_by_elimination() -> Built:
    from regressionlib.experiments.matrix_utils.determinant import get_matrix_det
    return lambda a: get_matrix_det(a), ([[2.0, 0.3, 0.1], [0.4, 1.5, 0.2], [0.3, 0.1, 1.1]],)


@case("sfeatpy")
def cepstrum_of_speech() -> Built:
    from sfeatpy import mfcc
    return lambda x: np.sum(mfcc(x, 1000, 32, 16, 32, 20, 450, 8, 4) ** 2) / 100, (WAVE + 0.01,)


@case("qmri")
def labelled_blood() -> Built:
    from qmri.perfusion.gkm import signal_gkm
    return lambda flow, att: signal_gkm(flow, att, 1.0, label_duration=1.8, signal_time=3.6, label_efficiency=0.85,
                                        partition_coefficient=0.9, t1_blood=1.65, t1_tissue=1.3,
                                        label_type="pcasl").delta_m * 100, (60.0, 1.2)


@case("qmri")
def temperature_of_echoes() -> Built:
    from qmri.relaxometry.t1 import signal_ir_classical
    from qmri.thermometry.multiecho import thermometry_signal_model
    t = np.array([0.005, 0.01, 0.02])
    return lambda a, r, t1: np.sum(thermometry_signal_model(t, a, 0.6, r, 30.0, 40.0, 20.0)) + np.sum(
        signal_ir_classical(1.0, t1, t * 50, 1.9)), (1.2, 20.0, 0.9)


@case("ollin-py")
def simpson() -> Built:
    from ollin.numerical.integration import Simpson13

    def f(k: float, b: float) -> float:
        rule = Simpson13(lambda x: np.exp(-k * x) * np.sin(x))
        rule.set_limits(0.0, b, 0.1)
        return rule.solve()
    return f, (0.4, 2.0)


@case("ollin-py")
def force_of_molecule() -> Built:
    from ollin.systems.molecular.molecular_dynamics import LennardJones
    return lambda s, e, r: LennardJones(s, e).force(r) + LennardJones(s, e).r_min, (1.0, 0.8, 1.3)


@case("pyfinitdiff")
def derivative_by_differences() -> Built:
    from PyFinitDiff.finite_difference_1D import get_function_derivative
    return lambda x, k: get_function_derivative(lambda x, k: np.sin(k * x), x, 1, 0.01, {"k": k}), (0.6, 1.3)


@case("econometrics-olsandmore")
def diagnostics_of_fit() -> Built:
    from econometrics_olsandmore.diagnostics import durbin_watson
    from econometrics_olsandmore.regression import ols
    x = np.array([[0.1, 1.0], [0.4, 0.2], [0.9, 0.6], [1.3, 1.4], [2.0, 0.9]])

    def f(y: np.ndarray) -> float:
        fit = ols(x, y)
        return fit.r2 + np.sum(fit.beta) + durbin_watson(fit.residuals)
    return f, (np.array([1.0, 1.3, 2.4, 2.2, 3.9]),)


importlib.import_module("bench.drawn.sixth_more")
tutorials = importlib.import_module("bench.drawn.tutorials_sixth")
for module in sorted(pkgutil.iter_modules(tutorials.__path__), key=lambda module: module.name):
    CASES[f"tutorial/{module.name}"] = Case(f"tutorial/{module.name}", "script", lambda main=(  # type: ignore[misc]
        f"{tutorials.__name__}.{module.name}.main"): script(main))
