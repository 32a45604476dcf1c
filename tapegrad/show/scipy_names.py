"""Measured kinds of SciPy's public names that no registry has. Each differentiable name has a program in the tests,
which is compared with central differences.
"""

from __future__ import annotations

# registered under their own names, behind the backends' dispatch
COMPOSITE = {
    "scipy.fft": """
        dct dctn dst dstn fft fft2 fftfreq fftn fftshift fht fhtoffset hfft hfft2 hfftn idct idctn idst idstn ifft
        ifft2 ifftn ifftshift ifht ihfft ihfft2 ihfftn irfft irfft2 irfftn rfft rfft2 rfftfreq rfftn""",
}

TRACED = {
    "scipy.integrate": """
        BDF DOP853 OdeSolution RK23 RK45 Radau cubature cumulative_simpson fixed_quad romb tanhsinh""",
    "scipy.interpolate": """
        Akima1DInterpolator BPoly BSpline BarycentricInterpolator BivariateSpline CubicHermiteSpline CubicSpline
        FloaterHormannInterpolator InterpolatedUnivariateSpline KroghInterpolator LSQBivariateSpline
        LSQSphereBivariateSpline LSQUnivariateSpline NdBSpline NdPPoly PPoly PchipInterpolator RBFInterpolator Rbf
        RectBivariateSpline RegularGridInterpolator UnivariateSpline approximate_taylor_polynomial
        barycentric_interpolate insert interp1d krogh_interpolate lagrange make_splprep make_splrep pade
        pchip_interpolate spalde splantider splder""",
    "scipy.signal": """
        CZT ShortTimeFFT StateSpace TransferFunction ZerosPolesGain ZoomFFT abcd_normalize band_stop_obj bessel
        bilinear bilinear_zpk bode butter buttord cheb1ap cheb1ord cheb2ap cheb2ord cheby1 cheby2 chirp coherence
        cont2discrete csd cspline1d cspline1d_eval cspline2d czt czt_points dbode decimate deconvolve detrend
        dfreqresp dimpulse dlsim dlti dstep ellip ellipord envelope firls firwin2 firwin_2d freqresp freqs freqs_zpk
        freqz freqz_sos freqz_zpk gauss_spline gausspulse get_window group_delay hilbert hilbert2 iirdesign iirfilter
        iirnotch iirpeak impulse invres invresz istft kaiser_atten kaiser_beta kaiserord lfiltic lombscargle lsim lti
        medfilt minimum_phase normalize order_filter periodogram place_poles qspline1d qspline1d_eval qspline2d
        resample resample_poly residue residuez savgol_coeffs savgol_filter sawtooth sos2tf sos2zpk sosfreqz
        spectrogram ss2tf ss2zpk step stft sweep_poly tf2sos tf2ss tf2zpk vectorstrength welch wiener zoom_fft zpk2sos
        zpk2ss zpk2tf""",
    "scipy.ndimage": """
        black_tophat center_of_mass extrema generic_gradient_magnitude generic_laplace grey_closing grey_dilation
        grey_erosion grey_opening labeled_comprehension maximum maximum_filter mean median median_filter minimum
        minimum_filter morphological_gradient morphological_laplace percentile_filter rank_filter rotate spline_filter
        standard_deviation sum sum_labels variance vectorized_filter white_tophat""",
    "scipy.optimize": """
        approx_fprime fmin_bfgs fmin_cg line_search lsq_linear rosen rosen_der rosen_hess rosen_hess_prod""",
    "scipy.stats": """
        Binomial Covariance Logistic Mixture Normal Uniform abs alexandergovern alpha anderson anglit arcsine argus
        bartlett bayes_mvs bernoulli beta betabinom betanbinom betaprime binned_statistic binned_statistic_2d
        binned_statistic_dd binom boltzmann bootstrap boxcox boxcox_llf boxcox_normmax boxcox_normplot bradford burr
        burr12 cauchy chi chi2 chi2_contingency chisquare circmean circstd circvar combine_pvalues cosine
        cramervonmises crystalball describe dgamma differential_entropy directional_stats dirichlet
        dirichlet_multinomial dlaplace dpareto_lognorm dweibull ecdf energy_distance entropy epps_singleton_2samp
        erlang exp expectile expon exponnorm exponpow exponweib f f_oneway false_discovery_control fatiguelife fisk
        foldcauchy foldnorm gamma genexpon genextreme gengamma genhalflogistic genlogistic gennorm genpareto geom
        gibrat gmean gompertz goodness_of_fit gstd gumbel_l gumbel_r gzscore halfcauchy halfgennorm halflogistic
        halfnorm hmean hypsecant invgamma invgauss invweibull iqr irwinhall jarque_bera jf_skew_t johnsonsb johnsonsu
        kappa3 kappa4 kstat kstatvar kurtosis kurtosistest laplace laplace_asymmetric levene levy levy_l linregress
        lmoment log loggamma logistic loglaplace lognorm logser loguniform lomax make_distribution matrix_normal
        matrix_t maxwell median_abs_deviation mielke mode moment monte_carlo_test moyal multinomial
        multivariate_normal multivariate_t mvsdist nakagami nbinom ncx2 norm normal_inverse_gamma normaltest
        norminvgauss obrientransform order_statistic pareto pearson3 pearsonr permutation_test planck pmean
        pointbiserialr poisson poisson_means_test power_divergence powerlaw powerlognorm powernorm ppcc_max ppcc_plot
        probplot quantile rayleigh rdist recipinvgauss reciprocal rel_breitwigner rice scoreatpercentile sem
        semicircular sigmaclip skew
        skellam skewcauchy skewnorm skewtest t theilslopes tmax tmean tmin trapezoid triang trim1 trim_mean trimboth
        truncexpon truncnorm truncpareto truncweibull_min tsem tstd ttest_1samp ttest_ind ttest_ind_from_stats
        ttest_rel tukeylambda tvar uniform variation vonmises vonmises_line wald wasserstein_distance weibull_max
        weibull_min wishart wrapcauchy yeojohnson yeojohnson_llf yeojohnson_normmax yeojohnson_normplot yulesimon zmap
        zscore""",
    "scipy.spatial": """
        KDTree Rectangle distance_matrix geometric_slerp minkowski_distance minkowski_distance_p procrustes""",
    "scipy.spatial.distance": """
        dice directed_hausdorff hamming rogerstanimoto russellrao sokalsneath yule""",
    "scipy.spatial.transform": """
        RigidTransform Rotation RotationSpline Slerp""",
}

REFUSED = {
    "scipy.special": {
        "returns several values at once; no derivative is implemented":
            """
            assoc_legendre_p assoc_legendre_p_all legendre_p legendre_p_all sph_harm_y sph_harm_y_all
            sph_legendre_p sph_legendre_p_all""",
    },
    "scipy.integrate": {
        "compiled code computes its steps: use solve_ivp or odeint": "LSODA complex_ode ode",
        "terms are summed until they are small: sum a fixed number of terms": "nsum",
        "compiled code chooses its points: use quad or nquad": "qmc_quad",
    },
    "scipy.interpolate": {
        "FITPACK chooses the knots by values: use RBFInterpolator, LSQBivariateSpline":
            """
            RectSphereBivariateSpline SmoothBivariateSpline SmoothSphereBivariateSpline bisplrep splprep""",
        "compiled code: use griddata differentiated by its values, or RegularGridInterpolator":
            """
            CloughTocher2DInterpolator LinearNDInterpolator NearestNDInterpolator""",
        "generalized eigenvalues": "AAA",
        "compiled code computes it": "sproot",
    },
    "scipy.signal": {
        "compiled code chooses its result by values": "peak_prominences peak_widths remez",
        "compiled code: use scipy.ndimage.convolve1d": "sepfir2d",
    },
    "scipy.optimize": {
        "compiled code chooses its result by values":
            """
            isotonic_regression linear_sum_assignment milp quadratic_assignment""",
    },
    "scipy.spatial": {
        "compiled code: the distances of KDTree.query are differentiable":
            """
            ConvexHull Delaunay HalfspaceIntersection SphericalVoronoi Voronoi cKDTree""",
    },
    "scipy.spatial.distance": {
        "it needs plain numbers": "jaccard",
    },
    "scipy.stats": {
        "its density is compiled code, or has no derivative by a parameter":
            """
            gausshyper genhyperbolic geninvgauss invwishart ksone kstwo kstwobign landau levy_stable ncf
            nchypergeom_fisher nchypergeom_wallenius nct poisson_binom studentized_range truncate
            vonmises_fisher zipf zipfian""",
        "compiled code":
            """
            dunnett fit gaussian_kde ks_1samp kstest shapiro siegelslopes sobol_indices tukey_hsd
            wasserstein_distance_nd""",
    },
}

CONSTANT = {
    "scipy.ndimage": {
        "labels, places, counts, true or false":
            """
            binary_closing binary_dilation binary_erosion binary_fill_holes binary_hit_or_miss binary_opening
            binary_propagation find_objects generate_binary_structure histogram iterate_structure label
            maximum_position minimum_position value_indices watershed_ift""",
        "distances between pixels": "distance_transform_bf distance_transform_cdt distance_transform_edt",
    },
    "scipy.signal": {
        "places, counts, true or false":
            """
            argrelextrema argrelmax argrelmin check_COLA check_NOLA choose_conv_method correlation_lags
            find_peaks find_peaks_cwt findfreqs max_len_seq square unique_roots unit_impulse""",
        "takes counts alone": "besselap buttap closest_STFT_dual_window",
        "a warning": "BadCoefficients",
    },
    "scipy.fft": {
        "takes counts alone": "next_fast_len prev_fast_len",
        "settings": "set_backend skip_backend set_global_backend register_backend get_workers set_workers",
    },
    "scipy.integrate": {
        "base classes": "DenseOutput OdeSolver",
        "warnings": "IntegrationWarning ODEintWarning",
        "takes counts alone": "lebedev_rule newton_cotes",
    },
    "scipy.interpolate": {
        "chooses knots by values": "generate_knots",
        "removed from SciPy": "interp2d",
    },
    "scipy.optimize": {
        "options and results of solvers":
            """
            BFGS Bounds BroydenFirst HessianUpdateStrategy InverseJacobian KrylovJacobian LbfgsInvHessProduct
            LinearConstraint NonlinearConstraint OptimizeResult RootResults SR1 bracket check_grad
            linprog_verbose_callback show_options""",
        "errors and warnings": "NoConvergence OptimizeWarning",
    },
    "scipy.stats": {
        "ranks, counts and their statistics":
            """
            ansari anderson_ksamp barnard_exact binomtest boschloo_exact brunnermunzel bws_test chatterjeexi
            cramervonmises_2samp cumfreq fisher_exact fligner friedmanchisquare kendalltau kruskal ks_2samp
            logrank mannwhitneyu median_test mood multiscale_graphcorr page_trend_test percentileofscore
            quantile_test rankdata ranksums relfreq somersd spearmanr spearmanrho tiecorrect weightedtau
            wilcoxon""",
        "takes counts alone": "multivariate_hypergeom nhypergeom hypergeom randint",
        "random numbers":
            """
            ortho_group random_correlation random_table special_ortho_group uniform_direction unitary_group""",
        "classes and settings":
            """
            BootstrapMethod CensoredData MonteCarloMethod PermutationMethod power rv_continuous rv_discrete
            rv_histogram""",
        "errors and warnings":
            """
            ConstantInputWarning DegenerateDataWarning FitError NearConstantInputWarning""",
    },
    "scipy.spatial": {
        "pictures": "convex_hull_plot_2d delaunay_plot_2d voronoi_plot_2d",
        "indices": "tsearch",
        "an error": "QhullError",
    },
    "scipy.spatial.distance": {
        "counts, true or false": "is_valid_dm is_valid_y num_obs_dm num_obs_y",
    },
}


def _measured() -> dict[tuple[str, str], tuple[str, str]]:
    """Return the kind of each name of a space, and a note."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for kind, table in (("composite", COMPOSITE), ("traced", TRACED)):
        found |= {(space, name): (kind, "") for space, names in table.items() for name in names.split()}
    for kind, noted in (("refused", REFUSED), ("non-differentiable", CONSTANT)):
        found |= {(space, name): (kind, note) for space, notes in noted.items() for note, names in notes.items()
                  for name in names.split()}
    return found


MEASURED = _measured()
