// Reading private members of torch's classes.
#pragma once

namespace jit {
namespace {

// Reading a member that has no cheap public way to it. An explicit instantiation may name private members; if torch
// renames one, this stops compiling.
template <class Tag, auto pointer>
struct Expose {
    friend constexpr auto exposed(Tag) { return pointer; }
};
#define EXPOSE(tag, pointer)            \
    struct tag {                        \
        friend constexpr auto exposed(tag); \
    };                                  \
    template struct Expose<tag, pointer>

}  // namespace
}  // namespace jit
