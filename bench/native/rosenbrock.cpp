// The gradient of bench/problems/rosenbrock.py: each element gathers from its two terms, so that one loop vectorises.
#include "adjoint.h"

double gradient(const Call *call) {
    const double *__restrict x = call->array(0);
    double *__restrict dx = call->out[0];
    const std::int64_t last = call->size[0] - 1;
    if (last < 1) {
        for (std::int64_t i = 0; i <= last; i++) dx[i] = 0.0;
        return 0.0;
    }
    double total = 0.0, a = x[1] - x[0] * x[0], b = 1.0 - x[0];
    total += 100.0 * a * a + b * b;
    dx[0] = -400.0 * x[0] * a - 2.0 * b;
    for (std::int64_t i = 1; i < last; i++) {
        const double before = x[i] - x[i - 1] * x[i - 1], after = x[i + 1] - x[i] * x[i], rest = 1.0 - x[i];
        total += 100.0 * after * after + rest * rest;
        dx[i] = 200.0 * before - 400.0 * x[i] * after - 2.0 * rest;
    }
    dx[last] = 200.0 * (x[last] - x[last - 1] * x[last - 1]);
    return total;
}
