// Autograd's graph is made of edges from nodes to (node, number of its output); a graft lets some of them lead elsewhere.
#include "graft.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace codegen {
namespace {

using torch::autograd::Edge;
using torch::autograd::Node;

// The engine leaves out nodes whose number is below that of all its inputs: a node's number is above its children's.
struct Numbered : Node {
    static void renumber(Node& node) {
        uint64_t& number = node.*(&Numbered::topological_nr_);
        for (const Edge& edge : node.next_edges())
            if (edge.is_valid()) number = std::max(number, edge.function->topological_nr() + 1);
    }
};

std::vector<at::Tensor> tensors_of(PyObject* tuple, const char* what) {
    if (!PyTuple_Check(tuple)) raise(PyExc_TypeError, "graft(): %s must be a tuple, not %s", what, Py_TYPE(tuple)->tp_name);
    std::vector<at::Tensor> tensors;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
        PyObject* item = PyTuple_GET_ITEM(tuple, i);
        if (!THPVariable_Check(item))
            raise(PyExc_TypeError, "graft(): %s[%zd] is a %s, not a tensor", what, i, Py_TYPE(item)->tp_name);
        tensors.push_back(THPVariable_Unpack(item));
    }
    return tensors;
}

Edge edge_of(const at::Tensor& tensor) { return torch::autograd::impl::gradient_edge(tensor); }

// Changes the edges in `grafts` wherever they are found from `node`, children before parents.
void replace_edges(Node* start, const std::unordered_map<Edge, Edge>& grafts, std::unordered_set<Node*>& seen) {
    std::vector<std::pair<Node*, size_t>> path;  // with the number of the edge to follow next
    auto enter = [&](Node* node) {
        if (node && seen.insert(node).second) path.emplace_back(node, 0);
    };
    enter(start);
    while (!path.empty()) {
        Node* node = path.back().first;
        if (path.back().second == node->next_edges().size()) {
            Numbered::renumber(*node);
            path.pop_back();
            continue;
        }
        Edge& edge = node->next_edges()[path.back().second++];
        if (auto found = grafts.find(edge); found != grafts.end()) edge = found->second;
        else enter(edge.function.get());
    }
}

}  // namespace

PyObject* graft(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
    try {
        if (count != 2 && count != 4) raise(PyExc_TypeError, "graft() takes 2 or 4 arguments, got %zd", count);
        std::vector<at::Tensor> tensors = tensors_of(arguments[0], "tensors"), others = tensors_of(arguments[1], "others");
        std::vector<at::Tensor> made, ends;
        if (count == 4) made = tensors_of(arguments[2], "made"), ends = tensors_of(arguments[3], "ends");
        if (tensors.size() != others.size())
            raise(PyExc_ValueError, "graft() of %zu tensors onto %zu", tensors.size(), others.size());

        std::unordered_map<Edge, Edge> grafts;
        for (size_t i = 0; i < tensors.size(); ++i)
            if (Edge edge = edge_of(tensors[i]); edge.is_valid()) grafts.emplace(edge, edge_of(others[i]));
        // The new edges' nodes need no visit; what they replace may be gone after it.
        std::unordered_set<Node*> seen;
        for (const at::Tensor& end : ends) seen.insert(edge_of(end).function.get());
        std::vector<Edge> starts;
        for (const at::Tensor& tensor : made) starts.push_back(edge_of(tensor));
        for (const Edge& edge : starts) replace_edges(edge.function.get(), grafts, seen);
        for (size_t i = 0; i < tensors.size(); ++i) torch::autograd::impl::set_gradient_edge(tensors[i], edge_of(others[i]));
        Py_RETURN_NONE;
    } catch (const PythonError&) {
    } catch (...) {
        torch::translate_exception_to_python(std::current_exception());
    }
    return nullptr;
}

}  // namespace codegen
