// The interface of the gradients in C++: one function, called through ctypes by bench/peers/native.py.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

struct Call {
    const void *const *data;   // the arguments in order: arrays of double or int64, numbers as arrays of one
    const std::int64_t *size;  // what `size_of` of the problem returns
    double *const *out;        // the gradient by each argument of `wrt`

    const double *array(int i) const { return static_cast<const double *>(data[i]); }
    double number(int i) const { return *array(i); }
    const std::int64_t *index(int i) const { return static_cast<const std::int64_t *>(data[i]); }
};

// Memory of one call, kept for the next.
inline double *room(std::vector<double> &memory, std::size_t n) {
    if (memory.size() < n) memory.resize(n);
    return memory.data();
}

extern "C" double gradient(const Call *call);  // writes the gradient, returns the value
