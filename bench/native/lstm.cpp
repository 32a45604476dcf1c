// The gradient of bench/problems/lstm.py.
//
// Rows are padded to whole vectors. All four gates take one loop: tanh x is 2 / (1 + exp(-2x)) - 1.
#include "adjoint.h"

#include <algorithm>

namespace {

constexpr std::int64_t WIDTH = 8;

// Copy `rows` rows of `n` numbers to rows of `wide`, the rest filled.
void pad(const double *from, double *to, std::int64_t rows, std::int64_t n, std::int64_t wide, double rest) {
    for (std::int64_t r = 0; r < rows; r++) {
        std::copy(from + r * n, from + (r + 1) * n, to + r * wide);
        std::fill(to + r * wide + n, to + (r + 1) * wide, rest);
    }
}

void logistic(double *__restrict x, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i++) x[i] = 1.0 / (1.0 + std::exp(-x[i]));
}

}  // namespace

double gradient(const Call *call) {
    const std::int64_t layers = call->size[0], times = call->size[1] - 1, bits = call->size[2];
    const std::int64_t wide = (bits + WIDTH - 1) / WIDTH * WIDTH, four = 4 * wide;
    static thread_local std::vector<double> memory;
    double *at = room(memory, wide * (layers * (22 + 7 * times) + 2 * (times + 1) + 9));
    const auto take = [&](std::int64_t n) { return at += n * wide, at - n * wide; };
    double *main = take(8 * layers), *extra = take(3), *state = take(2 * layers), *sequence = take(times + 1);
    double *gates = take(4 * layers * times), *cells = take(layers * (times + 1)), *top = take(layers * times);
    double *hidden = take(layers * (times + 1)), *predicted = take(times), *row = take(4);
    double *dmain = take(8 * layers), *dextra = take(2), *dh = take(layers), *dc = take(layers);
    pad(call->array(0), main, 8 * layers, bits, wide, 0.0);
    pad(call->array(1), extra, 3, bits, wide, 0.0);
    std::fill(extra + 2 * wide + bits, extra + 3 * wide, -800.0);  // exp of it is 0: padding does not count in the sum
    pad(call->array(2), state, 2 * layers, bits, wide, 0.0);
    pad(call->array(3), sequence, times + 1, bits, wide, 0.0);
    for (std::int64_t l = 0; l < layers; l++) {
        std::copy(state + 2 * l * wide, state + (2 * l + 1) * wide, hidden + l * wide);
        std::copy(state + (2 * l + 1) * wide, state + (2 * l + 2) * wide, cells + l * wide);
    }

    double total = 0.0;
    for (std::int64_t t = 0; t < times; t++) {
        double *__restrict x = row;
        const double *__restrict letter = sequence + t * wide;
        for (std::int64_t i = 0; i < wide; i++) x[i] = letter[i] * extra[i];
        const double *below = row;
        for (std::int64_t l = 0; l < layers; l++) {
            const double *__restrict w = main + 2 * l * four, *__restrict b = w + four;
            const double *__restrict h = hidden + (t * layers + l) * wide,
                         *__restrict c = cells + (t * layers + l) * wide;
            double *__restrict g = gates + (t * layers + l) * four, *__restrict q = top + (t * layers + l) * wide;
            double *__restrict next = cells + ((t + 1) * layers + l) * wide;
            double *__restrict after = hidden + ((t + 1) * layers + l) * wide;
            for (std::int64_t i = 0; i < wide; i++) {
                g[i] = below[i] * w[i] + b[i];
                g[wide + i] = h[i] * w[wide + i] + b[wide + i];
                g[2 * wide + i] = below[i] * w[2 * wide + i] + b[2 * wide + i];
                g[3 * wide + i] = 2.0 * (h[i] * w[3 * wide + i] + b[3 * wide + i]);
            }
            logistic(g, four);
            for (std::int64_t i = 0; i < wide; i++) {
                g[3 * wide + i] = 2.0 * g[3 * wide + i] - 1.0;
                next[i] = c[i] * g[i] + g[wide + i] * g[3 * wide + i];
                q[i] = 2.0 * next[i];
            }
            logistic(q, wide);
            for (std::int64_t i = 0; i < wide; i++) {
                q[i] = 2.0 * q[i] - 1.0;
                after[i] = g[2 * wide + i] * q[i];
            }
            below = after;
        }
        const double *__restrict last = hidden + ((t + 1) * layers + layers - 1) * wide;
        const double *__restrict wanted = sequence + (t + 1) * wide;
        double *__restrict grown = predicted + t * wide;
        double sum = 2.0, count = 0.0, hit = 0.0;
        for (std::int64_t i = 0; i < wide; i++) {
            const double p = last[i] * extra[wide + i] + extra[2 * wide + i];
            hit += wanted[i] * p;
            count += wanted[i];
            grown[i] = std::exp(p);
            sum += grown[i];
        }
        total += hit - count * std::log(sum);
        for (std::int64_t i = 0; i < wide; i++) grown[i] = count / sum * grown[i] - wanted[i];  // cotangent / scale
    }

    const double scale = 1.0 / static_cast<double>(bits * times);
    std::fill(dmain, dmain + 8 * layers * wide, 0.0);
    std::fill(dextra, dextra + 2 * wide, 0.0);
    std::fill(dh, dh + layers * wide, 0.0);
    std::fill(dc, dc + layers * wide, 0.0);
    double *dfirst = call->out[1], *dweight = dfirst + bits, *dbias = dweight + bits;
    std::vector<double> dinput(wide, 0.0);
    for (std::int64_t t = times; t-- > 0;) {
        const double *__restrict last = hidden + ((t + 1) * layers + layers - 1) * wide;
        const double *__restrict dp = predicted + t * wide;
        double *__restrict above = row;
        for (std::int64_t i = 0; i < wide; i++) {
            const double d = scale * dp[i];
            dextra[i] += d * last[i];
            dextra[wide + i] += d;
            above[i] = d * extra[wide + i];
        }
        for (std::int64_t l = layers; l-- > 0;) {
            const double *__restrict w = main + 2 * l * four, *__restrict g = gates + (t * layers + l) * four;
            const double *__restrict q = top + (t * layers + l) * wide, *__restrict c = cells + (t * layers + l) * wide;
            const double *__restrict h = hidden + (t * layers + l) * wide;
            const double *__restrict low = hidden + ((t + 1) * layers + l - 1) * wide;  // below the first: the letter
            const double *__restrict letter = sequence + t * wide;
            double *__restrict dw = dmain + 2 * l * four, *__restrict db = dw + four;
            double *__restrict dhl = dh + l * wide, *__restrict dcl = dc + l * wide;
            for (std::int64_t i = 0; i < wide; i++) {
                const double f = g[i], a = g[wide + i], o = g[2 * wide + i], e = g[3 * wide + i];
                const double below = l > 0 ? low[i] : letter[i] * extra[i];
                const double dhidden = dhl[i] + above[i], dcell = dcl[i] + dhidden * o * (1.0 - q[i] * q[i]);
                const double df = dcell * c[i] * f * (1.0 - f), da = dcell * e * a * (1.0 - a);
                const double dout = dhidden * q[i] * o * (1.0 - o), de = dcell * a * (1.0 - e * e);
                dw[i] += df * below;
                dw[wide + i] += da * h[i];
                dw[2 * wide + i] += dout * below;
                dw[3 * wide + i] += de * h[i];
                db[i] += df;
                db[wide + i] += da;
                db[2 * wide + i] += dout;
                db[3 * wide + i] += de;
                dcl[i] = dcell * f;
                dhl[i] = da * w[wide + i] + de * w[3 * wide + i];
                above[i] = df * w[i] + dout * w[2 * wide + i];
            }
        }
        const double *__restrict letter = sequence + t * wide;
        for (std::int64_t i = 0; i < wide; i++) dinput[i] += above[i] * letter[i];
    }
    for (std::int64_t r = 0; r < 8 * layers; r++)
        std::copy(dmain + r * wide, dmain + r * wide + bits, call->out[0] + r * bits);
    std::copy(dinput.begin(), dinput.begin() + bits, dfirst);
    std::copy(dextra, dextra + bits, dweight);
    std::copy(dextra + wide, dextra + wide + bits, dbias);
    return -total * scale;
}
