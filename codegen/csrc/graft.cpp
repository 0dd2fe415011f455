// Autograd's graph is made of edges from nodes to (node, number of its output); a graft lets some of them lead elsewhere.
// Of nodes that are ready its engine takes the youngest first.
#include "graft.h"

#include "compat.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_cpp_function.h>
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

Edge edge_of(const at::Tensor& tensor) { return torch::autograd::impl::gradient_edge(tensor); }

// The gradient edge of a tensor, or what (node, number, ...) says.
Edge edge_of(PyObject* item, const char* what) {
    if (THPVariable_Check(item)) return edge_of(THPVariable_Unpack(item));
    if (PyTuple_Check(item) && PyTuple_GET_SIZE(item) >= 2) {
        PyObject* node = PyTuple_GET_ITEM(item, 0);
        const long number = PyLong_AsLong(PyTuple_GET_ITEM(item, 1));
        if (number < 0 && PyErr_Occurred()) throw PythonError();
        if (THPFunction_Check(node)) return Edge(node_of((THPFunction*)node), number);
        if (torch::autograd::THPCppFunction_Check(node)) return Edge(((torch::autograd::THPCppFunction*)node)->cdata, number);
    }
    raise(PyExc_TypeError, "graft(): one of %s is a %s, no tensor and no edge", what, Py_TYPE(item)->tp_name);
}

void check_tuple(PyObject* tuple, const char* function, const char* what) {
    if (!PyTuple_Check(tuple)) raise(PyExc_TypeError, "%s(): %s must be a tuple, not %s", function, what, Py_TYPE(tuple)->tp_name);
}

std::vector<Edge> edges_of(PyObject* tuple, const char* what) {
    check_tuple(tuple, "graft", what);
    std::vector<Edge> edges;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) edges.push_back(edge_of(PyTuple_GET_ITEM(tuple, i), what));
    return edges;
}

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

PyObject* arrange(PyObject*, PyObject* tuple) {
    try {
        std::vector<Node*> nodes;
        std::unordered_set<Node*> seen;
        check_tuple(tuple, "arrange", "tensors");
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
            PyObject* item = PyTuple_GET_ITEM(tuple, i);
            if (!THPVariable_Check(item)) raise(PyExc_TypeError, "arrange() of a %s, no tensor", Py_TYPE(item)->tp_name);
            Node* node = THPVariable_Unpack(item).grad_fn().get();
            if (node && seen.insert(node).second) nodes.push_back(node);
        }
        std::vector<uint64_t> ages;
        for (const Node* node : nodes) ages.push_back(node->sequence_nr());
        std::sort(ages.begin(), ages.end());
        for (size_t i = 0; i < nodes.size(); ++i) nodes[i]->set_sequence_nr(ages[i]);
        Py_RETURN_NONE;
    } catch (const PythonError&) {
    } catch (...) {
        torch::translate_exception_to_python(std::current_exception());
    }
    return nullptr;
}

PyObject* keep_node(PyObject*, PyObject* object) {
    try {
        if (!THPVariable_Check(object)) raise(PyExc_TypeError, "keep_node() of a %s, no tensor", Py_TYPE(object)->tp_name);
        const at::Tensor& tensor = THPVariable_Unpack(object);
        auto* view = torch::autograd::impl::get_view_autograd_meta(tensor);
        if (view && view->has_bw_view() && view->grad_fn_) view->set_attr_version(tensor._version());
        Py_RETURN_NONE;
    } catch (const PythonError&) {
    } catch (...) {
        torch::translate_exception_to_python(std::current_exception());
    }
    return nullptr;
}

PyObject* graft(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
    try {
        if (count != 4) raise(PyExc_TypeError, "graft() takes 4 arguments, got %zd", count);
        const std::vector<Edge> edges = edges_of(arguments[0], "edges"), others = edges_of(arguments[1], "others");
        const std::vector<Edge> made = edges_of(arguments[2], "made"), ends = edges_of(arguments[3], "ends");
        if (edges.size() != others.size()) raise(PyExc_ValueError, "graft() of %zu edges onto %zu", edges.size(), others.size());

        std::unordered_map<Edge, Edge> grafts;
        for (size_t i = 0; i < edges.size(); ++i)
            if (edges[i].is_valid()) grafts.emplace(edges[i], others[i]);
        std::unordered_set<Node*> seen;
        for (const Edge& end : ends) seen.insert(end.function.get());
        for (const Edge& edge : made) replace_edges(edge.function.get(), grafts, seen);
        for (size_t i = 0; i < edges.size(); ++i) {
            PyObject* item = PyTuple_GET_ITEM(arguments[0], i);
            if (THPVariable_Check(item)) torch::autograd::impl::set_gradient_edge(THPVariable_Unpack(item), others[i]);
        }
        Py_RETURN_NONE;
    } catch (const PythonError&) {
    } catch (...) {
        torch::translate_exception_to_python(std::current_exception());
    }
    return nullptr;
}

}  // namespace codegen
