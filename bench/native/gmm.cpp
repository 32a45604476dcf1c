// The gradient of bench/problems/gmm.py, for blocks of points: a component's centred points and their images stay in
// the caches from the value to the gradient.
#include "adjoint.h"

#include <algorithm>

namespace {

constexpr std::int64_t BLOCK = 64;

// Replace n numbers by softmax of them; return log(sum(exp)).
double softmax(double *x, std::int64_t n) {
    double top = x[0], sum = 0.0;
    for (std::int64_t k = 1; k < n; k++) top = std::max(top, x[k]);
    for (std::int64_t k = 0; k < n; k++) sum += x[k] = std::exp(x[k] - top);
    for (std::int64_t k = 0; k < n; k++) x[k] /= sum;
    return top + std::log(sum);
}

double wishart_constant(std::int64_t d, double gamma, std::int64_t m) {
    const double degrees = static_cast<double>(d + m + 1), pi = 3.14159265358979323846;
    double log_gamma = 0.25 * d * (d - 1) * std::log(pi);
    for (std::int64_t j = 0; j < d; j++) log_gamma += std::lgamma(0.5 * degrees - 0.5 * j);
    return degrees * d * (std::log(gamma) - 0.5 * std::log(2.0)) - log_gamma;
}

}  // namespace

double gradient(const Call *call) {
    const std::int64_t d = call->size[0], K = call->size[1], n = call->size[2], width = d * (d + 1) / 2;
    const double *alphas = call->array(0), *means = call->array(1), *icf = call->array(2), *x = call->array(3);
    const double gamma = call->number(4);
    const std::int64_t m = *call->index(5);
    double *dalphas = call->out[0], *dmeans = call->out[1], *dicf = call->out[2];
    static thread_local std::vector<double> memory;
    double *at = room(memory, K * (2 * d * d + d + 4) + BLOCK * (d + K * d + K + 3));
    const auto take = [&](std::int64_t size) { return at += size, at - size; };
    double *Q = take(K * d * d), *dQ = take(K * d * d), *dy = take(K * d);
    double *bias = take(K), *weight = take(K), *share = take(K);
    double *points = take(d * BLOCK), *images = take(K * d * BLOCK), *scores = take(K * BLOCK);
    double *top = take(BLOCK), *sum = take(BLOCK);
    std::fill(dQ, dQ + K * d * d, 0.0);
    std::fill(dy, dy + K * d, 0.0);
    std::fill(weight, weight + K, 0.0);

    double squares = 0.0, sum_qs = 0.0;
    for (std::int64_t k = 0; k < K; k++) {
        const double *row = icf + k * width, *below = row + d;
        bias[k] = 0.0;
        for (std::int64_t j = 0; j < d; j++) {
            bias[k] += row[j];
            Q[(k * d + j) * d + j] = std::exp(row[j]);
            squares += std::exp(2.0 * row[j]);
            for (std::int64_t i = j + 1; i < d; i++, below++) {
                Q[(k * d + i) * d + j] = *below;
                squares += *below * *below;
            }
        }
        sum_qs += bias[k];
        bias[k] += alphas[k];
    }

    double value = 0.0;
    for (std::int64_t start = 0; start < n; start += BLOCK) {
        const std::int64_t real = std::min(BLOCK, n - start);
        for (std::int64_t b = 0; b < BLOCK; b++)  // a short block repeats its last point, whose weight is set to 0
            for (std::int64_t j = 0; j < d; j++) points[j * BLOCK + b] = x[(start + std::min(b, real - 1)) * d + j];
        for (std::int64_t k = 0; k < K; k++) {
            double distance[BLOCK] = {};
            for (std::int64_t i = 0; i < d; i++) {
                double y[BLOCK] = {};
                for (std::int64_t j = 0; j <= i; j++) {
                    const double q = Q[(k * d + i) * d + j], mean = means[k * d + j];
                    const double *__restrict p = points + j * BLOCK;
                    for (std::int64_t b = 0; b < BLOCK; b++) y[b] += q * (p[b] - mean);
                }
                double *__restrict image = images + (k * d + i) * BLOCK;
                for (std::int64_t b = 0; b < BLOCK; b++) {
                    image[b] = y[b];
                    distance[b] += y[b] * y[b];
                }
            }
            double *__restrict score = scores + k * BLOCK;
            for (std::int64_t b = 0; b < BLOCK; b++) score[b] = bias[k] - 0.5 * distance[b];
        }
        for (std::int64_t b = 0; b < BLOCK; b++) top[b] = scores[b], sum[b] = 0.0;
        for (std::int64_t k = 1; k < K; k++)
            for (std::int64_t b = 0; b < BLOCK; b++) top[b] = std::max(top[b], scores[k * BLOCK + b]);
        for (std::int64_t k = 0; k < K; k++) {
            double *__restrict score = scores + k * BLOCK;
            for (std::int64_t b = 0; b < BLOCK; b++) {
                score[b] = std::exp(score[b] - top[b]);
                sum[b] += score[b];
            }
        }
        for (std::int64_t b = 0; b < real; b++) value += top[b] + std::log(sum[b]);
        for (std::int64_t b = 0; b < BLOCK; b++) sum[b] = b < real ? 1.0 / sum[b] : 0.0;
        for (std::int64_t k = 0; k < K; k++) {
            double *__restrict score = scores + k * BLOCK;
            double total = 0.0;
            for (std::int64_t b = 0; b < BLOCK; b++) total += score[b] *= sum[b];
            weight[k] += total;
            for (std::int64_t i = 0; i < d; i++) {
                double *__restrict y = images + (k * d + i) * BLOCK;
                double moved = 0.0;
                for (std::int64_t b = 0; b < BLOCK; b++) moved += y[b] *= score[b];
                dy[k * d + i] += moved;
                for (std::int64_t j = 0; j <= i; j++) {
                    const double *__restrict p = points + j * BLOCK;
                    double product = 0.0;
                    for (std::int64_t b = 0; b < BLOCK; b++) product += y[b] * p[b];
                    dQ[(k * d + i) * d + j] += product - moved * means[k * d + j];
                }
            }
        }
    }

    std::copy(alphas, alphas + K, share);
    value -= n * softmax(share, K);
    for (std::int64_t k = 0; k < K; k++) {
        dalphas[k] = weight[k] - n * share[k];
        for (std::int64_t j = 0; j < d; j++) {
            double total = 0.0;
            for (std::int64_t i = j; i < d; i++) total += dy[k * d + i] * Q[(k * d + i) * d + j];
            dmeans[k * d + j] = total;
        }
        const double *below = icf + k * width + d;
        double *drow = dicf + k * width, *dbelow = drow + d;
        for (std::int64_t j = 0; j < d; j++) {
            const double diagonal = Q[(k * d + j) * d + j];
            drow[j] = (gamma * gamma * diagonal - dQ[(k * d + j) * d + j]) * diagonal + weight[k] - m;
            for (std::int64_t i = j + 1; i < d; i++) *dbelow++ = gamma * gamma * *below++ - dQ[(k * d + i) * d + j];
        }
    }
    return value - n * d * 0.5 * std::log(2.0 * 3.14159265358979323846) + 0.5 * gamma * gamma * squares - m * sum_qs
           - K * wishart_constant(d, gamma, m);
}
