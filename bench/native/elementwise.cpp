// The gradient of bench/problems/elementwise.py, in blocks that stay in the first cache.
//
// Sine and cosine have loops of their own: in one loop GCC makes a call of sincos of them, which it cannot vectorise.
#include "adjoint.h"

#include <algorithm>

double gradient(const Call *call) {
    constexpr std::int64_t BLOCK = 512;
    const std::int64_t n = call->size[0];
    double total = 0.0, sine[BLOCK], cosine[BLOCK];
    for (std::int64_t start = 0; start < n; start += BLOCK) {
        const std::int64_t m = std::min(BLOCK, n - start);
        const double *__restrict x = call->array(0) + start;
        double *__restrict dx = call->out[0] + start;
        double sum = 0.0;
        for (std::int64_t i = 0; i < m; i++) sine[i] = std::sin(x[i]);
        for (std::int64_t i = 0; i < m; i++) cosine[i] = std::cos(x[i]);
        for (std::int64_t i = 0; i < m; i++) {
            const double inverse = 1.0 / (1.0 + x[i] * x[i]), y = std::exp(-x[i] * sine[i]) * inverse;
            sum += y;
            dx[i] = -y * (sine[i] + x[i] * cosine[i] + 2.0 * x[i] * inverse);
        }
        total += sum;
    }
    return total;
}
