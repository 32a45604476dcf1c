"""Units, errors, colours, speech, images."""

from __future__ import annotations

import numpy as np

from bench.corpus.case import Built, case

RNG = np.random.default_rng(0)


@case("pint")
def quantities() -> Built:
    import pint
    unit = pint.UnitRegistry()

    def f(v, t):
        return ((v * unit.km / unit.hour) * (t * unit.minute)).to(unit.metre).magnitude
    return f, (50.0, 3.0)


@case("pint")
def arrays_with_units() -> Built:
    import pint
    unit = pint.UnitRegistry()

    def f(x):
        lengths = x * unit.cm
        return (np.sum(lengths ** 2).to("m^2").magnitude + np.sin((x * unit.degree).to("radian")).magnitude.sum()
                + np.mean(lengths + 2 * unit.mm).m)
    return f, (np.array([1.0, 2.0, 5.0]),)


@case("pint")
def temperatures() -> Built:
    import pint
    unit = pint.UnitRegistry()
    return lambda t: unit.Quantity(t, "degF").to("kelvin").magnitude, (70.0,)


@case("uncertainties")
def propagated_error() -> Built:
    from uncertainties import ufloat, umath

    def f(x, s):
        y = ufloat(x, s) ** 2 + umath.sin(ufloat(1.0, 0.2))
        return y.nominal_value + y.std_dev
    return f, (2.0, 0.1)


@case("uncertainties")
def nominal_values() -> Built:
    from uncertainties import correlated_values, ufloat

    def f(x, s):
        a, b = correlated_values([x, 2.0], np.array([[s, 0.1], [0.1, 1.0]]))
        return (a * b / ufloat(3.0, 0.2)).n + (a - b).n
    return f, (2.0, 0.5)


@case("colour-science")
def lab_colours() -> Built:
    import colour

    def f(XYZ):
        return (np.sum(colour.XYZ_to_Lab(XYZ)) / 100 + np.sum(colour.XYZ_to_sRGB(XYZ))
                + np.sum(colour.XYZ_to_Luv(XYZ)) / 100)
    return f, (np.array([0.20654008, 0.12197225, 0.05136952]),)


@case("colour-science")
def colour_difference() -> Built:
    import colour
    return (lambda a, b: colour.delta_E(a, b, method="CIE 2000") + colour.delta_E(a, b, method="CIE 1976"),
            (np.array([48.9, 37.1, 27.5]), np.array([50.6, 40.2, 14.8])))


@case("colour-science")
def correlated_temperature() -> Built:
    import colour
    return lambda xy: colour.temperature.xy_to_CCT_McCamy1992(xy) / 1000, (np.array([0.31, 0.33]),)


@case("colour-science")
def appearance_model() -> Built:
    import colour

    def f(XYZ):
        spec = colour.XYZ_to_CIECAM02(XYZ, np.array([95.05, 100.0, 108.88]), 318.31, 20.0)
        return spec.J + spec.C
    return f, (np.array([19.01, 20.00, 21.78]),)


@case("colour-science")
def adapted_white() -> Built:
    import colour

    def f(XYZ, w):
        return (np.sum(colour.adaptation.chromatic_adaptation_VonKries(XYZ, w, np.array([1.09, 1.0, 0.35])) ** 2)
                + np.sum(colour.cctf_encoding(XYZ)))
    return f, (np.array([0.2, 0.12, 0.05]), np.array([0.95, 1.0, 1.08]))


@case("colorspacious")
def uniform_colours() -> Built:
    from colorspacious import cspace_convert, deltaE

    def f(rgb):
        return np.sum(cspace_convert(rgb, "sRGB1", "CAM02-UCS")) + deltaE(rgb, np.array([0.5, 0.5, 0.2]),
                                                                          input_space="sRGB1")
    return f, (np.array([0.3, 0.6, 0.8]),)


@case("python_speech_features")
def cepstral_coefficients() -> Built:
    from python_speech_features import logfbank, mfcc

    def f(signal):
        return (np.sum(mfcc(signal, 8000, nfilt=12, numcep=6, nfft=256) ** 2) / 100
                + np.sum(logfbank(signal, 8000, nfilt=8, nfft=256)))
    return f, (RNG.normal(size=600),)


@case("scikit-image")
def image_metrics() -> Built:
    from skimage.metrics import mean_squared_error, peak_signal_noise_ratio, structural_similarity
    image = RNG.random((12, 12))

    def f(x):
        return (structural_similarity(image, x, data_range=1.0) + peak_signal_noise_ratio(image, x, data_range=1.0)
                + mean_squared_error(image, x))
    return f, (image + 0.1 * RNG.normal(size=(12, 12)),)


@case("scikit-image")
def image_colours() -> Built:
    from skimage.color import rgb2gray, rgb2hed, rgb2lab

    def f(x):
        return np.sum(rgb2gray(x)) + np.sum(rgb2lab(x)) / 100 + np.sum(rgb2hed(x))
    return f, (RNG.random((3, 4, 3)),)


@case("scikit-image")
def edge_filters() -> Built:
    from skimage.filters import gaussian, laplace, sobel

    def f(x):
        return np.sum(sobel(x) ** 2) + np.sum(gaussian(x, 1.0) ** 3) + np.sum(laplace(x) ** 2)
    return f, (RNG.random((8, 8)),)
