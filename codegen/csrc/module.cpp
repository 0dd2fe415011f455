// The extension module `codegen._C`.
#include "graft.h"
#include "node.h"
#include "plan.h"
#include "watch.h"

#include <torch/csrc/autograd/saved_variable.h>
#include <torch/version.h>

namespace codegen {
namespace {

PyMethodDef functions[] = {
    {"tie", (PyCFunction)(void (*)())tie, METH_FASTCALL,
     "tie(backward, inputs, outputs, saved, extra, history) -> None\n\nMakes `outputs` results of one autograd node, "
     "of which `backward` takes the gradients to `inputs`."},
    {"below", (PyCFunction)(void (*)())below, METH_FASTCALL,
     "below(function, *args) -> its result\n\nCalls `function` below autograd and autocast: nothing gets a history, nothing "
     "is a view, no write is counted, nothing is cast."},
    {"graft", (PyCFunction)(void (*)())graft, METH_FASTCALL,
     "graft(tensors, others, made, ends) -> None\n\nGives `tensors` the histories of `others`, also where `made` were made of "
     "them."},
    {"arrange", arrange, METH_O,
     "arrange(tensors) -> None\n\nLets the autograd nodes of these grow younger in this order."},
    {"keep_node", keep_node, METH_O,
     "keep_node(tensor) -> None\n\nA view that was written without history goes on with the autograd node that it has."},
    {"plan_counts", [](PyObject*, PyObject*) {
         return Py_BuildValue("{sLsLsL}", "plans", (long long)plan_counters.plans, "invocations",
                              (long long)plan_counters.invocations, "fallbacks", (long long)plan_counters.fallbacks);
     }, METH_NOARGS, "plan_counts() -> dict\n\nSince the process began: plans made, runs of them, runs of their fallbacks."},
    {"watch", watch, METH_O,
     "watch(function) -> the one before\n\nCalls function(about, nanoseconds, bytes, numbers) after each run of a plan from now "
     "on; None: nobody is called."},
    {"workspace_bytes", [](PyObject*, PyObject*) { return PyLong_FromSize_t(workspace_bytes()); }, METH_NOARGS,
     "workspace_bytes() -> int\n\nHow much memory this thread keeps for the blocks of plans."},
    {}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "codegen._C", "What a compiled graph runs through: its plan and its autograd node.", -1, functions};

}  // namespace
}  // namespace codegen

PyMODINIT_FUNC PyInit__C() {
    using namespace codegen;
    return guarded((PyObject*)nullptr, []() -> PyObject* {
        Ref module = checked(PyModule_Create(&definition));
        add_backward(module.get());
        add_plan(module.get());
        if (PyModule_AddStringConstant(module.get(), "backward_twice", torch::autograd::ERR_BACKWARD_TWICE) < 0 ||
            PyModule_AddStringConstant(module.get(), "torch_version", TORCH_VERSION) < 0 ||
            PyModule_AddStringConstant(module.get(), "python_version", PY_VERSION) < 0)
            throw PythonError();
        return module.release();
    });
}
