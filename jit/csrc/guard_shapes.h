// Conditions on the sizes of tensors: `x.size()[0] % 2 == 0`, evaluated on 64-bit integers without Python.
#pragma once

#include "refs.h"
#include "tensors.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace jit {

class ShapeConditions {
public:
    using NodeIndex = std::function<uint32_t(PyObject*)>;

    // A condition, as the list of its instructions in postfix order, each (name, int, int); `node_index` checks and
    // notes the number of a node. Throws PythonError.
    void add(PyObject* instructions, uint32_t given_index, const NodeIndex& node_index);
    void renumber(const std::function<uint32_t(uint32_t)>& placed);

    // False if one does not hold of the tensors among `objects`; an overflow or a division by zero holds of nothing.
    bool hold(PyObject* const* objects);
    // After that: the one that failed, by its position in the list the caller gave, and the numbers that it read.
    uint32_t failed_index() const { return conditions_[failed_].given_index; }
    Ref failed_numbers() const;

private:
    enum class Op : uint8_t {
        add, subtract, multiply, floor_divide, modulo, minimum, maximum,
        equal, differ, less, less_equal, greater, greater_equal, both, either, negate,
    };
    struct Row;
    static const Row rows[];
    // slots[to] = op(slots[a], slots[b])
    struct Instruction {
        Op op;
        uint32_t a, b, to;
    };
    struct Condition {
        uint32_t given_index;
        uint32_t end;     // of its instructions, which begin where those of the one before end
        uint32_t result;  // slot
        std::vector<uint32_t> numbers;  // slots of what it reads
    };
    uint32_t read(Extent kind, uint32_t node, int64_t dimension);
    uint32_t new_slot(int64_t value = 0);
    static bool run(const Instruction& instruction, int64_t* slots);

    std::vector<ExtentRead> reads_;  // each number once, whatever the conditions that use it
    std::vector<Instruction> instructions_;
    std::vector<Condition> conditions_;
    std::vector<int64_t> slots_;  // numbers read, constants and results
    size_t failed_ = 0;
};

}  // namespace jit
