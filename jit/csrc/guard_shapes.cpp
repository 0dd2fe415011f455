// Postfix lists become three-address code when they are read, so that an evaluation has no stack.
#include "guard_shapes.h"

#include <algorithm>
#include <cstring>

namespace jit {

struct ShapeConditions::Row {
    const char* name;
    Op op;
};

const ShapeConditions::Row ShapeConditions::rows[] = {
    {"+", Op::add},      {"-", Op::subtract},     {"*", Op::multiply}, {"//", Op::floor_divide},
    {"%", Op::modulo},   {"min", Op::minimum},    {"max", Op::maximum}, {"==", Op::equal},
    {"!=", Op::differ},  {"<", Op::less},         {"<=", Op::less_equal}, {">", Op::greater},
    {">=", Op::greater_equal}, {"and", Op::both}, {"or", Op::either},  {"not", Op::negate},
};

namespace {

struct ExtentName {
    const char* name;
    Extent kind;
};

constexpr ExtentName extent_names[] = {
    {"size", Extent::size}, {"stride", Extent::stride}, {"offset", Extent::offset}, {"value", Extent::value}};

template <class Rows>
auto find(const Rows& rows, const char* name) {
    auto found = std::find_if(std::begin(rows), std::end(rows), [&](auto& row) { return std::strcmp(row.name, name) == 0; });
    return found == std::end(rows) ? nullptr : found;
}

int64_t as_number(PyObject* object) {
    int64_t value = PyLong_AsLongLong(object);
    if (value == -1 && PyErr_Occurred()) throw PythonError();
    return value;
}

}  // namespace

uint32_t ShapeConditions::new_slot(int64_t value) {
    slots_.push_back(value);
    return slots_.size() - 1;
}

uint32_t ShapeConditions::read(Extent kind, uint32_t node, int64_t dimension) {
    if (dimension < 0 || dimension > 255) raise(PyExc_ValueError, "a condition on dimension %lld", (long long)dimension);
    for (const ExtentRead& known : reads_)
        if (known.kind == kind && known.node == node && known.dimension == dimension) return known.slot;
    const uint32_t slot = new_slot();
    reads_.push_back({node, slot, kind, (uint8_t)dimension});
    return slot;
}

void ShapeConditions::add(PyObject* instructions, uint32_t given_index, const NodeIndex& node_index) {
    Ref items = checked(PySequence_Fast(instructions, "a condition on sizes must be a list of instructions"));
    Condition condition{given_index, 0, 0, {}};
    std::vector<uint32_t> stack;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
        PyObject* item = PySequence_Fast_GET_ITEM(items.get(), i);
        PyObject *first, *second;
        const char* name;
        if (!PyTuple_Check(item)) raise(PyExc_TypeError, "an instruction must be a tuple, got %R", item);
        if (!PyArg_ParseTuple(item, "sO!O!", &name, &PyLong_Type, &first, &PyLong_Type, &second)) throw PythonError();
        if (const auto* extent = find(extent_names, name)) {
            stack.push_back(read(extent->kind, node_index(first), as_number(second)));
            condition.numbers.push_back(stack.back());
        } else if (std::strcmp(name, "const") == 0) {
            stack.push_back(new_slot(as_number(first)));
        } else if (const Row* row = find(rows, name)) {
            const size_t takes = row->op == Op::negate ? 1 : 2;
            if (stack.size() < takes) raise(PyExc_ValueError, "instruction %zd, '%s', lacks operands", i, name);
            const uint32_t b = stack.back(), a = stack[stack.size() - takes];
            stack.resize(stack.size() - takes);
            stack.push_back(new_slot());
            instructions_.push_back({row->op, a, b, stack.back()});
        } else {
            raise(PyExc_ValueError, "unknown instruction '%s'", name);
        }
    }
    if (stack.size() != 1) raise(PyExc_ValueError, "a condition leaves %zu values", stack.size());
    condition.result = stack.back();
    condition.end = instructions_.size();
    conditions_.push_back(std::move(condition));
}

void ShapeConditions::renumber(const std::function<uint32_t(uint32_t)>& placed) {
    for (ExtentRead& read : reads_) read.node = placed(read.node);
    std::stable_sort(reads_.begin(), reads_.end(), [](auto& a, auto& b) { return a.node < b.node; });
}

inline bool ShapeConditions::run(const Instruction& instruction, int64_t* slots) {
    const int64_t a = slots[instruction.a], b = slots[instruction.b];
    int64_t& to = slots[instruction.to];
    switch (instruction.op) {
        case Op::add: return !__builtin_add_overflow(a, b, &to);
        case Op::subtract: return !__builtin_sub_overflow(a, b, &to);
        case Op::multiply: return !__builtin_mul_overflow(a, b, &to);
        // As in Python, rounded down; -1 is apart because of the one quotient that does not fit.
        case Op::floor_divide:
            if (b == 0) return false;
            if (b == -1) return !__builtin_sub_overflow((int64_t)0, a, &to);
            to = a / b - (a % b != 0 && (a < 0) != (b < 0));
            return true;
        case Op::modulo:
            if (b == 0) return false;
            to = b == -1 ? 0 : a % b;
            if (to != 0 && (to < 0) != (b < 0)) to += b;
            return true;
        case Op::minimum: to = std::min(a, b); return true;
        case Op::maximum: to = std::max(a, b); return true;
        case Op::equal: to = a == b; return true;
        case Op::differ: to = a != b; return true;
        case Op::less: to = a < b; return true;
        case Op::less_equal: to = a <= b; return true;
        case Op::greater: to = a > b; return true;
        case Op::greater_equal: to = a >= b; return true;
        case Op::both: to = a && b; return true;
        case Op::either: to = a || b; return true;
        case Op::negate: to = !b; return true;
    }
    return false;
}

bool ShapeConditions::hold(PyObject* const* objects) {
    int64_t* slots = slots_.data();
    failed_ = 0;
    if (!read_extents(reads_.data(), reads_.size(), objects, slots)) return false;
    const Instruction* instruction = instructions_.data();
    for (size_t i = 0; i < conditions_.size(); ++i) {
        const Condition& condition = conditions_[i];
        const Instruction* end = instructions_.data() + condition.end;
        bool defined = true;
        for (; instruction < end; ++instruction) defined &= run(*instruction, slots);
        if (defined && slots[condition.result]) continue;
        failed_ = i;
        return false;
    }
    return true;
}

Ref ShapeConditions::failed_numbers() const {
    const auto& numbers = conditions_[failed_].numbers;
    Ref tuple = checked(PyTuple_New(numbers.size()));
    for (size_t i = 0; i < numbers.size(); ++i)
        PyTuple_SET_ITEM(tuple.get(), i, checked(PyLong_FromLongLong(slots_[numbers[i]])).release());
    return tuple;
}

}  // namespace jit
