// A gradient as a function of Python, with the duties of a compiled function: it checks its arguments, and each call
// returns new arrays, as (value, (dx, ...)).
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#include "adjoint.h"

namespace {

std::vector<PyArrayObject *> kept;  // the data of the problem, whose shapes the arguments must have
std::vector<const void *> data;
std::vector<std::int64_t> size;
std::vector<Py_ssize_t> at;  // the places of the arguments among the data
std::vector<double> numbers;
std::vector<double *> out;

bool fits(PyObject *x, PyArrayObject *like) {
    if (!PyArray_CheckExact(x)) return false;
    const auto array = reinterpret_cast<PyArrayObject *>(x);
    return PyArray_TYPE(array) == NPY_DOUBLE && PyArray_ISCARRAY_RO(array) && PyArray_SAMESHAPE(array, like);
}

PyObject *called(PyObject *, PyObject *const *args, Py_ssize_t count) {
    if (count != static_cast<Py_ssize_t>(at.size())) return PyErr_SetString(PyExc_TypeError, "count"), nullptr;
    PyObject *parts = PyTuple_New(count);
    if (parts == nullptr) return nullptr;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyArrayObject *like = kept[at[i]];
        if (PyArray_NDIM(like) == 0) {
            numbers[i] = PyFloat_AsDouble(args[i]);
            if (numbers[i] == -1.0 && PyErr_Occurred() != nullptr) return Py_DECREF(parts), nullptr;
            data[at[i]] = &numbers[i];
            continue;
        }
        PyObject *dx = fits(args[i], like) ? PyArray_SimpleNew(PyArray_NDIM(like), PyArray_DIMS(like), NPY_DOUBLE) : nullptr;
        if (dx == nullptr) {
            Py_DECREF(parts);
            return PyErr_Occurred() ? nullptr : (PyErr_SetString(PyExc_TypeError, "an array of another kind"), nullptr);
        }
        data[at[i]] = PyArray_DATA(reinterpret_cast<PyArrayObject *>(args[i]));
        out[i] = static_cast<double *>(PyArray_DATA(reinterpret_cast<PyArrayObject *>(dx)));
        PyTuple_SET_ITEM(parts, i, dx);
    }
    std::vector<double> slopes(static_cast<std::size_t>(count));
    for (Py_ssize_t i = 0; i < count; i++)
        if (PyArray_NDIM(kept[at[i]]) == 0) out[i] = &slopes[i];
    const Call call{data.data(), size.data(), out.data()};
    PyObject *value = PyFloat_FromDouble(gradient(&call));
    for (Py_ssize_t i = 0; i < count; i++)
        if (PyArray_NDIM(kept[at[i]]) == 0) PyTuple_SET_ITEM(parts, i, PyFloat_FromDouble(slopes[i]));
    PyObject *both = PyTuple_New(2);
    PyTuple_SET_ITEM(both, 0, value);
    PyTuple_SET_ITEM(both, 1, parts);
    return both;
}

// prepare(data as a list of arrays, size, places of the arguments)
PyObject *prepare(PyObject *, PyObject *args) {
    PyObject *arrays, *sizes, *places;
    if (!PyArg_ParseTuple(args, "O!O!O!", &PyList_Type, &arrays, &PyList_Type, &sizes, &PyList_Type, &places))
        return nullptr;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(arrays); i++) {
        kept.push_back(reinterpret_cast<PyArrayObject *>(Py_NewRef(PyList_GET_ITEM(arrays, i))));
        data.push_back(PyArray_DATA(kept.back()));
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(sizes); i++) size.push_back(PyLong_AsLongLong(PyList_GET_ITEM(sizes, i)));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(places); i++) at.push_back(PyLong_AsSsize_t(PyList_GET_ITEM(places, i)));
    numbers.resize(at.size());
    out.resize(at.size());
    return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
}

PyMethodDef methods[] = {
    {"gradient", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(called)), METH_FASTCALL, nullptr},
    {"prepare", prepare, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "gradient", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_gradient() {
    import_array();
    return PyModule_Create(&definition);
}
