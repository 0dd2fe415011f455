// Random numbers of CPUs: ATen's, bit for bit, by several words of its generator at once.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

namespace codegen {

// Does what an operation does to its arguments on the stack. False if it is the operation's own turn: nothing has happened yet.
using Drawing = bool (*)(torch::jit::Stack& stack);

// Null for an operation that draws nothing, or what is not drawn here.
Drawing drawing_of(const c10::FunctionSchema& schema);

}  // namespace codegen
