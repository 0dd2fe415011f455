// Ownership of Python objects: the types of the floor below.
#pragma once

#include "compat.h"

#include "../../codegen/csrc/refs.h"

namespace jit {

using namespace codegen;

}  // namespace jit
