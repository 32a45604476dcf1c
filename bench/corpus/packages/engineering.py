"""Fluids, heat, chemistry and steam: fluids, thermo, ht, chempy, iapws."""

from __future__ import annotations

import numpy as np

from bench.corpus.case import Built, case


@case("fluids")
def friction_factor() -> Built:
    import fluids

    def f(Re, eD):
        return (fluids.friction_factor(Re=Re, eD=eD) + fluids.friction.Haaland(Re, eD)
                + fluids.friction.Colebrook(Re, eD))
    return f, (1e5, 1e-4)


@case("fluids")
def two_phase_drop() -> Built:
    import fluids.two_phase

    def f(m, x, rhog):
        return fluids.two_phase.Friedel(m=m, x=x, rhol=950.0, rhog=rhog, mul=3e-4, mug=1e-5, sigma=0.07, D=0.05, L=1.0)
    return f, (0.6, 0.1, 9.1)


@case("fluids")
def packed_bed() -> Built:
    from fluids.packed_bed import dP_packed_bed

    def f(dp, voidage, vs):
        return dP_packed_bed(dp=dp, voidage=voidage, vs=vs, rho=1e3, mu=1e-3, L=2.0)
    return f, (8e-4, 0.4, 1e-3)


@case("fluids")
def valve_size() -> Built:
    from fluids.control_valve import size_control_valve_l

    def f(P1, Q):
        return size_control_valve_l(rho=965.4, Psat=70.1e3, Pc=22120e3, mu=3.1472e-4, P1=P1, P2=220e3, Q=Q)
    return f, (680e3, 0.1)


@case("fluids")
def orifice_flow() -> Built:
    from fluids.flow_meter import differential_pressure_meter_solver

    def f(P1, D2):
        return differential_pressure_meter_solver(D=0.07366, D2=D2, P1=P1, P2=183000.0, rho=999.1, mu=0.0011, k=1.33,
                                                  meter_type="ISO 5167 orifice")
    return f, (200000.0, 0.05)


@case("fluids")
def atmosphere() -> Built:
    from fluids.atmosphere import ATMOSPHERE_1976

    def f(z):
        air = ATMOSPHERE_1976(z)
        return air.P * 1e-5 + air.rho + air.T / 100
    return f, (5000.0,)


@case("fluids")
def terminal_velocity() -> Built:
    from fluids.drag import v_terminal

    def f(D, rhop):
        return v_terminal(D=D, rhop=rhop, rho=1.2, mu=1.78e-5)
    return f, (7e-5, 2600.0)


@case("fluids")
def tank_volume() -> Built:
    from fluids.geometry import TANK

    def f(D, h):
        return TANK(D=D, L=4.0, horizontal=True, sideA="torispherical", sideB="torispherical").V_from_h(h)
    return f, (1.5, 0.6)


@case("ht")
def internal_convection() -> Built:
    from ht.conv_internal import Nu_conv_internal

    def f(Re, Pr):
        return Nu_conv_internal(Re=Re, Pr=Pr, Di=0.1, x=4.0)
    return f, (1e5, 0.7)


@case("ht")
def exchanger_effectiveness() -> Built:
    from ht.hx import effectiveness_from_NTU

    def f(NTU, Cr):
        return (effectiveness_from_NTU(NTU, Cr, subtype="counterflow")
                + effectiveness_from_NTU(NTU, Cr, subtype="crossflow approximate"))
    return f, (5.0, 0.7)


@case("ht")
def mean_temperature_difference() -> Built:
    from ht import LMTD

    def f(a, b):
        return LMTD(a, 60.0, b, 40.2)
    return f, (100.0, 20.0)


@case("ht")
def boiling() -> Built:
    from ht.boiling_nucleic import Rohsenow

    def f(Te, sigma):
        return Rohsenow(rhol=957.854, rhog=0.595593, mul=2.79e-4, kl=0.680, Cpl=4217.0, Hvap=2.257e6, sigma=sigma,
                        Te=Te, Csf=0.011, n=1.26)
    return f, (4.9, 0.0589)


@case("thermo")
def peng_robinson() -> Built:
    from thermo.eos import PR

    def f(T, P):
        eos = PR(T=T, P=P, Tc=507.6, Pc=3025000.0, omega=0.2975)
        return eos.V_g * 1e3 + eos.H_dep_g * 1e-4
    return f, (400.0, 1e5)


@case("thermo")
def mixture_fugacity() -> Built:
    from thermo.eos_mix import PRMIX

    def f(T, z):
        eos = PRMIX(T=T, P=1e6, Tcs=[126.1, 190.6], Pcs=[33.94e5, 46.04e5], omegas=[0.04, 0.011], zs=[z, 1 - z],
                    kijs=[[0.0, 0.0289], [0.0289, 0.0]])
        return eos.fugacities_g[0] * 1e-5 + eos.V_g * 1e3
    return f, (250.0, 0.5)


@case("thermo")
def activity_coefficients() -> Built:
    from thermo.nrtl import NRTL_gammas

    def f(x, tau):
        return sum(NRTL_gammas([x, 1 - x], [[0.0, tau], [1.7, 0.0]], [[0.0, 0.3], [0.3, 0.0]]))
    return f, (0.25, -0.2)


@case("thermo")
def rachford_rice() -> Built:
    from thermo import flash_inner_loop

    def f(K):
        V_over_F, xs, ys = flash_inner_loop(zs=[0.5, 0.3, 0.2], Ks=list(K))
        return V_over_F + xs[0] * ys[1]
    return f, (np.array([1.685, 0.742, 0.532]),)


@case("chempy")
def ionic_activity() -> Built:
    from chempy.electrolytes import davies_log_gamma, ionic_strength

    def f(a, b):
        return davies_log_gamma(ionic_strength([a, b], [2, -1]), 2, 0.509)
    return f, (0.02, 0.04)


@case("chempy")
def water_density() -> Built:
    from chempy.properties.water_density_tanaka_2001 import water_density
    from chempy.properties.water_viscosity_korson_1969 import water_viscosity

    def f(T):
        return water_density(T) / 1000 + water_viscosity(T)
    return f, (303.0,)


@case("chempy")
def arrhenius_kinetics() -> Built:
    from chempy.kinetics.arrhenius import arrhenius_equation
    from chempy.kinetics.eyring import eyring_equation

    def f(Ea, T):
        return arrhenius_equation(1e10, Ea, T) + eyring_equation(4e4, 10.0, T) * 1e-6
    return f, (42e3, 310.0)


@case("iapws")
def steam_region_1() -> Built:
    from iapws.iapws97 import _Region1, _Region2

    def f(T, P):
        return _Region1(T, P)["h"] + _Region2(T + 200.0, 0.5)["v"]
    return f, (400.0, 3.0)


@case("iapws")
def saturation_pressure() -> Built:
    from iapws.iapws97 import _PSat_T, _TSat_P

    def f(T):
        return _TSat_P(_PSat_T(T) * 1.1)
    return f, (400.0,)


@case("fluids")
def compressible_pipe() -> Built:
    from fluids.compressible import isothermal_gas

    def f(P1, D):
        return isothermal_gas(rho=11.3, fd=0.00185, P1=P1, P2=9e5, L=1000.0, D=D)
    return f, (1e6, 0.5)
