// The gradient of bench/problems/rk4.py: the points where slopes were taken, visited in reverse.
#include "adjoint.h"

namespace {

struct Point {
    double x, y, z;
};

inline Point moved(Point p, double h, Point k) { return {p.x + h * k.x, p.y + h * k.y, p.z + h * k.z}; }

}  // namespace

double gradient(const Call *call) {
    Point p{call->number(0), call->number(1), call->number(2)};
    const double sigma = call->number(3), rho = call->number(4), beta = call->number(5), dt = call->number(6);
    const std::int64_t steps = call->size[0];
    static thread_local std::vector<Point> memory;
    if (memory.size() < static_cast<std::size_t>(4 * steps)) memory.resize(4 * steps);
    Point *points = memory.data();
    const double half = 0.5 * dt, sixth = dt / 6.0;
    const auto slope = [=](Point q) {
        return Point{sigma * (q.y - q.x), q.x * (rho - q.z) - q.y, q.x * q.y - beta * q.z};
    };

    for (std::int64_t t = 0; t < steps; t++) {
        Point *stage = points + 4 * t;
        stage[0] = p;
        const Point a = slope(p);
        stage[1] = moved(p, half, a);
        const Point b = slope(stage[1]);
        stage[2] = moved(p, half, b);
        const Point c = slope(stage[2]);
        stage[3] = moved(p, dt, c);
        const Point e = slope(stage[3]);
        const Point sum{a.x + 2.0 * (b.x + c.x) + e.x, a.y + 2.0 * (b.y + c.y) + e.y, a.z + 2.0 * (b.z + c.z) + e.z};
        p = moved(p, sixth, sum);
    }
    Point d{2.0 * p.x, 2.0 * p.y, 2.0 * p.z};
    double dsigma = 0.0, drho = 0.0, dbeta = 0.0;
    // The cotangent of a stage's point, from that of its slope.
    const auto back = [&](Point q, Point k) {
        dsigma += k.x * (q.y - q.x);
        drho += k.y * q.x;
        dbeta -= k.z * q.z;
        return Point{(rho - q.z) * k.y + q.y * k.z - sigma * k.x, sigma * k.x - k.y + q.x * k.z,
                     -q.x * k.y - beta * k.z};
    };
    for (std::int64_t t = steps; t-- > 0;) {
        const Point *stage = points + 4 * t;
        const Point u{sixth * d.x, sixth * d.y, sixth * d.z}, twice{2.0 * u.x, 2.0 * u.y, 2.0 * u.z};
        const Point e = back(stage[3], u);
        const Point c = back(stage[2], moved(twice, dt, e));
        const Point b = back(stage[1], moved(twice, half, c));
        const Point a = back(stage[0], moved(u, half, b));
        d = {d.x + a.x + b.x + c.x + e.x, d.y + a.y + b.y + c.y + e.y, d.z + a.z + b.z + c.z + e.z};
    }
    const double parts[] = {d.x, d.y, d.z, dsigma, drho, dbeta};
    for (int i = 0; i < 6; i++) call->out[i][0] = parts[i];
    return p.x * p.x + p.y * p.y + p.z * p.z;
}
