// The gradient of bench/problems/recurrence.py: the orbit forward, then its slopes, vectorised, then the loop back.
#include "adjoint.h"

double gradient(const Call *call) {
    const double x = call->number(0);
    double r = call->number(1);
    const std::int64_t n = call->size[0];
    static thread_local std::vector<double> memory;
    double *orbit = room(memory, 2 * n), *slope = orbit + n;
    for (std::int64_t i = 0; i < n; i++) {
        orbit[i] = r;
        r = r * x - std::sin(r);
    }
    for (std::int64_t i = 0; i < n; i++) slope[i] = x - std::cos(orbit[i]);
    double dx = 0.0, dr = 1.0;
    for (std::int64_t i = n; i-- > 0;) {
        dx += dr * orbit[i];
        dr *= slope[i];
    }
    call->out[0][0] = dx;
    return r;
}
