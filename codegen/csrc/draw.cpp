// ATen draws one number after the other; here the Mersenne twister advances by all its words, in SIMD, and numbers are made
// of these in blocks. What comes out and the generator's state afterwards are the same.
#include "draw.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/rand.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>

#if defined(__x86_64__) && defined(__ELF__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_CPU __attribute__((target_clones("arch=skylake-avx512", "avx2", "default")))
#else
#define FOR_EACH_CPU
#endif

namespace codegen {
namespace {

constexpr int N = at::MERSENNE_STATE_N, M = at::MERSENNE_STATE_M;
constexpr int64_t BLOCK = 1024;  // numbers made at once

// --- words ------------------------------------------------------------------------------------------------------------
inline uint32_t twisted(uint32_t first, uint32_t second) {
    return (((first & at::UMASK) | (second & at::LMASK)) >> 1) ^ (-(second & 1) & at::MATRIX_A);
}

// Words that are read lie ahead of those that are written, or `N - M` behind.
FOR_EACH_CPU void advance(uint32_t* state) {
#pragma omp simd safelen(16)
    for (int at = 0; at < N - M; ++at) state[at] = state[at + M] ^ twisted(state[at], state[at + 1]);
#pragma omp simd safelen(16)
    for (int at = N - M; at < N - 1; ++at) state[at] = state[at + M - N] ^ twisted(state[at], state[at + 1]);
    state[N - 1] = state[M - 1] ^ twisted(state[N - 1], state[0]);
}

FOR_EACH_CPU void temper(const uint32_t* state, uint32_t* words, int64_t count) {
#pragma omp simd
    for (int64_t at = 0; at < count; ++at) {
        uint32_t word = state[at];
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c5680;
        word ^= (word << 15) & 0xefc60000;
        words[at] = word ^ (word >> 18);
    }
}

// The words that a generator gives from here on. It has to be locked, and takes the state back in the end.
class Words {
public:
    explicit Words(at::CPUGeneratorImpl& generator) : generator_(generator), data_(generator.engine().data()) {}
    ~Words() {
        at::mt19937 engine;
        engine.set_data(data_);
        generator_.set_engine(engine);
    }
    Words(const Words&) = delete;
    Words& operator=(const Words&) = delete;

    // Some states that a program has made itself have words behind their end.
    bool is_sound() const { return data_.left_ >= 1 && (int64_t)data_.next_ + data_.left_ - 1 <= N; }

    void next(uint32_t* words, int64_t count) {
        while (count) {
            if (data_.left_ == 1) {
                advance(data_.state_.data());
                data_.left_ = N + 1;  // less one for each word
                data_.next_ = 0;
            }
            const int64_t some = std::min<int64_t>(count, data_.left_ - 1);
            temper(data_.state_.data() + data_.next_, words, some);
            data_.left_ -= some;
            data_.next_ += some;
            words += some;
            count -= some;
        }
    }

private:
    at::CPUGeneratorImpl& generator_;
    at::mt19937_data_pod data_;
};

// --- numbers ----------------------------------------------------------------------------------------------------------
// 53 bits of two words.
inline uint64_t long_bits(const uint32_t* words) {
    return ((uint64_t)(words[0] & ((1u << 21) - 1)) << 32) | words[1];
}

// `one` where the bits are below `bound`, or 0. `Bits` are those of any dtype of that size.
template <typename Bits>
[[gnu::always_inline]] inline void choose_any(const uint32_t* words, Bits* out, int64_t count, uint64_t bound, Bits one) {
#pragma omp simd
    for (int64_t at = 0; at < count; ++at) out[at] = long_bits(words + 2 * at) < bound ? one : Bits(0);
}
FOR_EACH_CPU void choose(const uint32_t* words, uint8_t* out, int64_t count, uint64_t bound, uint8_t one) { choose_any(words, out, count, bound, one); }
FOR_EACH_CPU void choose(const uint32_t* words, uint16_t* out, int64_t count, uint64_t bound, uint16_t one) { choose_any(words, out, count, bound, one); }
FOR_EACH_CPU void choose(const uint32_t* words, uint32_t* out, int64_t count, uint64_t bound, uint32_t one) { choose_any(words, out, count, bound, one); }
FOR_EACH_CPU void choose(const uint32_t* words, uint64_t* out, int64_t count, uint64_t bound, uint64_t one) { choose_any(words, out, count, bound, one); }

FOR_EACH_CPU void spread(const uint32_t* words, float* out, int64_t count) {
#pragma omp simd
    for (int64_t at = 0; at < count; ++at) out[at] = (float)(int32_t)(words[at] & ((1u << 24) - 1)) * 0x1p-24f;
}
FOR_EACH_CPU void spread(const uint32_t* words, double* out, int64_t count) {
#pragma omp simd
    for (int64_t at = 0; at < count; ++at) out[at] = (double)(int64_t)long_bits(words + 2 * at) * 0x1p-53;
}

// --- tensors ----------------------------------------------------------------------------------------------------------
// Fills memory with what `make(words, out, count)` makes of `per` words for each number. False if the state is none of torch's.
template <typename T, typename Make>
bool fill(const at::Generator& source, const at::Tensor& tensor, int64_t per, const Make& make) {
    auto& generator = *source.get<at::CPUGeneratorImpl>();
    const std::lock_guard<std::mutex> lock(generator.mutex_);
    Words from(generator);
    if (!from.is_sound()) return false;
    alignas(64) uint32_t words[2 * BLOCK];
    T* out = (T*)tensor.mutable_data_ptr();
    for (int64_t left = tensor.numel(); left > 0; left -= BLOCK, out += BLOCK) {
        const int64_t count = std::min(left, BLOCK);
        from.next(words, per * count);
        make(words, out, count);
    }
    return true;
}

template <typename Bits>
bool fill_chosen(const at::Generator& source, const at::Tensor& tensor, double probability, Bits one) {
    const auto bound = (uint64_t)std::ceil(probability * 0x1p53);  // the numbers are whole ones of 2**-53
    return fill<Bits>(source, tensor, 2, [=](const uint32_t* words, Bits* out, int64_t count) { choose(words, out, count, bound, one); });
}

bool fill_bernoulli(const at::Generator& source, const at::Tensor& tensor, double probability) {
    switch (tensor.scalar_type()) {
        case at::kBool:
        case at::kByte: return fill_chosen<uint8_t>(source, tensor, probability, 1);
        case at::kBFloat16: return fill_chosen<uint16_t>(source, tensor, probability, 0x3f80);
        case at::kHalf: return fill_chosen<uint16_t>(source, tensor, probability, 0x3c00);
        case at::kFloat: return fill_chosen<uint32_t>(source, tensor, probability, 0x3f800000);
        case at::kDouble: return fill_chosen<uint64_t>(source, tensor, probability, 0x3ff0000000000000);
        default: return false;
    }
}

template <typename T>
bool fill_spread(const at::Generator& source, const at::Tensor& tensor, int64_t per) {
    return fill<T>(source, tensor, per, [](const uint32_t* words, T* out, int64_t count) { spread(words, out, count); });
}

bool fill_uniform(const at::Generator& source, const at::Tensor& tensor) {
    switch (tensor.scalar_type()) {
        case at::kFloat: return fill_spread<float>(source, tensor, 1);
        case at::kDouble: return fill_spread<double>(source, tensor, 2);
        default: return false;
    }
}

// Whether this torch draws on this machine what is drawn here: for processors of Intel it asks MKL for bernoulli's numbers.
template <typename Theirs, typename Ours>
bool agree(const Theirs& theirs, const Ours& ours) {
    constexpr int64_t COUNT = 701;  // more words than a state has
    const at::Generator a = at::detail::createCPUGenerator(1), b = at::detail::createCPUGenerator(1);
    const at::Tensor expected = theirs(COUNT, a), found = at::empty({COUNT}, at::kFloat);
    return ours(found, b) && expected.equal(found) && a.get_state().equal(b.get_state());
}

bool knows_bernoulli() {
    static const bool known = agree(
        [](int64_t count, const at::Generator& source) { return at::bernoulli(at::empty({count}, at::kFloat), 0.3, source); },
        [](const at::Tensor& out, const at::Generator& source) { return fill_bernoulli(source, out, 0.3); });
    return known;
}

bool knows_uniform() {
    static const bool known = agree([](int64_t count, const at::Generator& source) { return at::rand({count}, source, at::kFloat); },
                                    [](const at::Tensor& out, const at::Generator& source) { return fill_uniform(source, out); });
    return known;
}

// --- operations -------------------------------------------------------------------------------------------------------
using c10::IValue;
using torch::jit::Stack;

bool is_plain(const at::Tensor& tensor) { return tensor.defined() && tensor.is_cpu() && tensor.layout() == at::kStrided; }

std::optional<at::Generator> source_of(const IValue& given) {
    if (given.isNone()) return at::detail::getDefaultCPUGenerator();
    const at::Generator source = given.toGenerator();
    return source.defined() && source.device().is_cpu() ? std::optional(source) : std::nullopt;
}

bool give(Stack& stack, size_t arguments, const at::Tensor& made) {
    torch::jit::drop(stack, arguments);
    stack.emplace_back(made);
    return true;
}

// In the order of memory, as ATen draws for what has no gaps. What `self` may be like: bernoulli.p gives what is contiguous,
// the forms of what writes into a tensor keep its strides.
bool bernoulli(Stack& stack, at::MemoryFormat format) {  // Tensor self, float p, *, Generator? generator
    const auto given = torch::jit::last(stack, 3);
    const at::Tensor& self = given[0].toTensor();
    const double probability = given[1].toDouble();
    const auto source = source_of(given[2]);
    if (!is_plain(self) || !source || !(probability >= 0 && probability <= 1) || !knows_bernoulli()) return false;
    if (format == at::MemoryFormat::Preserve && !self.is_non_overlapping_and_dense()) return false;
    const at::Tensor made = at::empty_like(self, format);
    return fill_bernoulli(*source, made, probability) && give(stack, 3, made);
}

bool bernoulli_new(Stack& stack) { return bernoulli(stack, at::MemoryFormat::Contiguous); }
bool bernoulli_alike(Stack& stack) { return bernoulli(stack, at::MemoryFormat::Preserve); }

bool uniform(Stack& stack) {  // Tensor self, float from, float to, *, Generator? generator
    const auto given = torch::jit::last(stack, 4);
    const at::Tensor& self = given[0].toTensor();
    const auto source = source_of(given[3]);
    if (!is_plain(self) || !source || given[1].toDouble() != 0 || given[2].toDouble() != 1 || !knows_uniform()) return false;
    if (!self.is_non_overlapping_and_dense()) return false;
    const at::Tensor made = at::empty_like(self, at::MemoryFormat::Preserve);
    return fill_uniform(*source, made) && give(stack, 4, made);
}

// Of an operation that `maker` makes the tensor for, of the same arguments but the generator.
template <size_t ARGUMENTS, int SOURCE>
bool rand_by(Stack& stack, const c10::OperatorHandle& maker) {
    if (!knows_uniform()) return false;
    const auto given = torch::jit::last(stack, ARGUMENTS);
    const auto source = source_of(SOURCE < 0 ? IValue() : given[std::max(SOURCE, 0)]);
    if (!source) return false;
    Stack made;
    for (size_t at = 0; at < ARGUMENTS; ++at) {
        if (given[at].isDevice() && !given[at].toDevice().is_cpu()) return false;
        if (given[at].isTensor() && !is_plain(given[at].toTensor())) return false;
        if ((int)at != SOURCE) made.push_back(given[at]);
    }
    made.resize(maker.schema().arguments().size());
    maker.callBoxed(made);
    const at::Tensor result = made[0].toTensor();
    return is_plain(result) && result.is_non_overlapping_and_dense() && fill_uniform(*source, result) && give(stack, ARGUMENTS, result);
}

template <int SOURCE>
bool rand(Stack& stack) {  // SymInt[] size, *, (Generator? generator,) dtype, layout, device, pin_memory
    static const auto maker = c10::Dispatcher::singleton().findSchemaOrThrow("aten::empty", "memory_format");
    return rand_by<SOURCE < 0 ? 5 : 6, SOURCE>(stack, maker);
}

template <int SOURCE>
bool rand_like(Stack& stack) {  // Tensor self, *, (Generator? generator,) dtype, layout, device, pin_memory, memory_format
    static const auto maker = c10::Dispatcher::singleton().findSchemaOrThrow("aten::empty_like", "");
    return rand_by<SOURCE < 0 ? 6 : 7, SOURCE>(stack, maker);
}

struct Row {
    const char *name, *overload;
    Drawing drawing;
};
constexpr Row ROWS[] = {
    {"aten::bernoulli", "p", bernoulli_new},
    {"framejit::aten_bernoulli__float_self", "", bernoulli_alike},
    {"aten::uniform", "", uniform},
    {"framejit::aten_uniform__self", "", uniform},
    {"aten::rand", "", rand<-1>},
    {"aten::rand", "generator", rand<1>},
    {"aten::rand_like", "", rand_like<-1>},
    {"aten::rand_like", "generator", rand_like<1>},
};

}  // namespace

Drawing drawing_of(const c10::FunctionSchema& schema) {
    for (const Row& row : ROWS)
        if (schema.name() == row.name && schema.overload_name() == row.overload) return row.drawing;
    return nullptr;
}

}  // namespace codegen
