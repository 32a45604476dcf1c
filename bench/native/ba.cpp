// The gradient of bench/problems/ba.py, for blocks of observations with an array for each coordinate.
//
// As the objective does, it computes each observation's rotation from its camera's vector. Sine and cosine have loops
// of their own: in one loop GCC makes a call of sincos of them, which it cannot vectorise.
#include "adjoint.h"

#include <algorithm>

double gradient(const Call *call) {
    constexpr std::int64_t BLOCK = 128;
    const std::int64_t n = call->size[0], m = call->size[1], p = call->size[2];
    const double *cameras = call->array(0), *points = call->array(1), *weights = call->array(2);
    const double *features = call->array(5);
    const std::int64_t *camera = call->index(3), *point = call->index(4);
    double *dcameras = call->out[0], *dpoints = call->out[1], *dweights = call->out[2];
    std::fill(dcameras, dcameras + 11 * n, 0.0);
    std::fill(dpoints, dpoints + 3 * m, 0.0);
    static thread_local double c[11][BLOCK], x[3][BLOCK], goal[2][BLOCK], w[BLOCK], dw[BLOCK];
    static thread_local double angle[BLOCK], sine[BLOCK], cosine[BLOCK];
    double total = 0.0;
    for (std::int64_t start = 0; start < p; start += BLOCK) {
        const std::int64_t real = std::min(BLOCK, p - start);
        for (std::int64_t b = 0; b < BLOCK; b++) {  // a short block repeats its last observation
            const std::int64_t o = start + std::min(b, real - 1);
            const double *from = cameras + 11 * camera[o], *place = points + 3 * point[o];
            for (int i = 0; i < 11; i++) c[i][b] = from[i];
            for (int i = 0; i < 3; i++) x[i][b] = place[i] - from[3 + i];
            for (int i = 0; i < 2; i++) goal[i][b] = features[2 * o + i];
            w[b] = weights[o];
        }
        for (std::int64_t b = 0; b < BLOCK; b++)
            angle[b] = std::sqrt(c[0][b] * c[0][b] + c[1][b] * c[1][b] + c[2][b] * c[2][b]);
        for (std::int64_t b = 0; b < BLOCK; b++) sine[b] = std::sin(angle[b]);
        for (std::int64_t b = 0; b < BLOCK; b++) cosine[b] = std::cos(angle[b]);
        double sum = 0.0;
#pragma GCC ivdep
        for (std::int64_t b = 0; b < BLOCK; b++) {  // cotangents take the places of c and x
            const double co = cosine[b], si = sine[b], versine = 1.0 - co, inverse = 1.0 / angle[b];
            const double a0 = c[0][b] * inverse, a1 = c[1][b] * inverse, a2 = c[2][b] * inverse;
            const double x0 = x[0][b], x1 = x[1][b], x2 = x[2][b];
            const double along = a0 * x0 + a1 * x1 + a2 * x2, turned = along * versine;
            const double k0 = a1 * x2 - a2 * x1, k1 = a2 * x0 - a0 * x2, k2 = a0 * x1 - a1 * x0;
            const double i0 = x0 * co + k0 * si + a0 * turned, i1 = x1 * co + k1 * si + a1 * turned;
            const double depth = 1.0 / (x2 * co + k2 * si + a2 * turned);
            const double f0 = i0 * depth, f1 = i1 * depth, square = f0 * f0 + f1 * f1;
            const double focal = c[6][b], r1 = c[9][b], r2 = c[10][b];
            const double distortion = 1.0 + square * (r1 + r2 * square);
            const double raw0 = f0 * distortion * focal + c[7][b] - goal[0][b];
            const double raw1 = f1 * distortion * focal + c[8][b] - goal[1][b];
            const double e0 = w[b] * raw0, e1 = w[b] * raw1, slack = 1.0 - w[b] * w[b];
            sum += b < real ? e0 * e0 + e1 * e1 + slack * slack : 0.0;

            dw[b] = e0 * raw0 + e1 * raw1 - 2.0 * w[b] * slack;
            const double g0 = w[b] * e0, g1 = w[b] * e1, across = f0 * g0 + f1 * g1, ddistortion = focal * across;
            c[6][b] = distortion * across;
            c[7][b] = g0;
            c[8][b] = g1;
            c[9][b] = ddistortion * square;
            c[10][b] = ddistortion * square * square;
            const double radial = 2.0 * ddistortion * (r1 + 2.0 * r2 * square), stretch = distortion * focal;
            const double d0 = (stretch * g0 + f0 * radial) * depth, d1 = (stretch * g1 + f1 * radial) * depth;
            const double d2 = -f0 * d0 - f1 * d1;
            const double dalong = a0 * d0 + a1 * d1 + a2 * d2, back = versine * dalong;
            const double m0 = d1 * a2 - d2 * a1, m1 = d2 * a0 - d0 * a2, m2 = d0 * a1 - d1 * a0;
            const double y0 = co * d0 + si * m0 + a0 * back, y1 = co * d1 + si * m1 + a1 * back;
            const double y2 = co * d2 + si * m2 + a2 * back;
            const double s0 = si * (x1 * d2 - x2 * d1) + turned * d0 + x0 * back;
            const double s1 = si * (x2 * d0 - x0 * d2) + turned * d1 + x1 * back;
            const double s2 = si * (x0 * d1 - x1 * d0) + turned * d2 + x2 * back;
            const double straight = x0 * d0 + x1 * d1 + x2 * d2 - along * dalong;
            const double dangle = co * (k0 * d0 + k1 * d1 + k2 * d2) - si * straight;
            const double radially = a0 * s0 + a1 * s1 + a2 * s2;
            c[0][b] = (s0 - a0 * radially) * inverse + a0 * dangle;
            c[1][b] = (s1 - a1 * radially) * inverse + a1 * dangle;
            c[2][b] = (s2 - a2 * radially) * inverse + a2 * dangle;
            c[3][b] = -(x[0][b] = y0);
            c[4][b] = -(x[1][b] = y1);
            c[5][b] = -(x[2][b] = y2);
        }
        total += sum;
        for (std::int64_t b = 0; b < real; b++) {
            const std::int64_t o = start + b;
            double *to = dcameras + 11 * camera[o], *place = dpoints + 3 * point[o];
            for (int i = 0; i < 11; i++) to[i] += c[i][b];
            for (int i = 0; i < 3; i++) place[i] += x[i][b];
            dweights[o] = dw[b];
        }
    }
    return 0.5 * total;
}
